"""One explicand of a study: every method, target and measure from one pass over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from cocoax.attribution import Attribution, Method, RandomAttribution, Rise, Run
from cocoax.encoders import Encoder, Explicand
from cocoax.evaluation import Measure, chance_map, curves, gini
from cocoax.features import Blur
from cocoax.targets import Target

Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class Case:
    """What attributions are judged by: measures, and the fields that tell this case from others."""

    key: Mapping[str, Any]
    measures: Sequence[Measure]


@dataclass(frozen=True, eq=False)
class Ask:
    """What to explain, with which encoder, and the case it belongs to; ``key`` tells it from others of that case."""

    case: Case
    key: Mapping[str, Any]
    encoder: Encoder
    target: Target


@dataclass(frozen=True, eq=False)
class Judged:
    """Curves of one explicand: ``insertion`` and ``deletion`` ``[rows, measures, steps + 1]``, and what each row is."""

    rows: list[dict[str, Any]]
    insertion: Tensor
    deletion: Tensor


def judge(
    image: Any,
    asks: Sequence[Ask],
    methods: Mapping[str, Method],
    evaluator: Encoder,
    *,
    steps: int = 50,
    seed: int = 0,
) -> Judged:
    """Explain every ask by every method, and judge each by the measures of its case (the same number for all).

    Each method runs once per encoder for all targets, two estimators of RISE share one run, and each distinct image
    of the curves is encoded once. Beside the methods there are, for each case, pixel noise (``random``) and every method's
    chance level.

    Args:
        image: the explicand.
        asks: what to explain.
        methods: by name.
        evaluator: whose representations the measures see; not necessarily the encoder that is explained.
        steps: of the curves.
        seed: of the random references.

    """
    one = evaluator.explicand(image)
    cases = _distinct([ask.case for ask in asks])
    rows: list[dict[str, Any]] = []
    judged_by: list[tuple[int, Case]] = []  # the place of each row's map, and its case
    maps: list[Tensor] = []
    for encoder in _distinct([ask.encoder for ask in asks]):
        own = [ask for ask in asks if ask.encoder is encoder]
        targets, which = _distinct_targets([ask.target for ask in own])
        for name, answers in _explain(encoder, one, methods, targets):
            for ask, place in zip(own, which, strict=True):
                rows.append({**ask.case.key, **ask.key, "method": name, "gini": gini(answers[place])})
                judged_by.append((len(maps) + place, ask.case))
            maps += [answer.values for answer in answers]
    baseline = Blur()(one.tensor)
    references = {"random": chance_map(RandomAttribution(), one.tensor, baseline, seed)} | {
        f"chance of {name}": chance_map(method, one.tensor, baseline, seed) for name, method in methods.items()
    }
    for name, values in references.items():
        place = next((place for place, known in enumerate(maps) if torch.equal(known, values)), len(maps))
        maps += [values] if place == len(maps) else []
        for case in cases:
            rows.append({**case.key, "method": name, "gini": gini(values - values.mean())})
            judged_by.append((place, case))
    measures = [measure for case in cases for measure in case.measures]
    first = {id(case): sum(len(before.measures) for before in cases[:place]) for place, case in enumerate(cases)}
    found = curves(evaluator, one, maps, measures, steps, progress=False)

    def stacked(kind: str) -> Tensor:
        picked = [
            torch.stack([curve.y for curve in found[place][kind][first[id(case)] :][: len(case.measures)]])
            for place, case in judged_by
        ]
        return torch.stack(picked).float()

    return Judged(rows, stacked("insertion"), stacked("deletion"))


def _explain(
    encoder: Encoder, one: Explicand, methods: Mapping[str, Method], targets: list[Target]
) -> list[tuple[str, list[Attribution]]]:
    """All targets by each method; variants of RISE that need the same masks share a run."""
    runs: dict[Rise, Run] = {}
    answers = []
    for name, method in methods.items():
        if isinstance(method, Rise):
            alike = replace(method, estimator="paper")
            if alike not in runs:
                runs[alike] = method.run(encoder, one, progress=False)
            run = replace(runs[alike], method=replace(method, baseline=runs[alike].method.baseline))
            answers.append((name, run.explain(targets)))
        else:
            answers.append((name, method.explain(encoder, [one], targets, progress=False)[0]))
    return answers


def _distinct(items: Sequence[Item]) -> list[Item]:
    return list({id(item): item for item in items}.values())


def _distinct_targets(targets: Sequence[Target]) -> tuple[list[Target], list[int]]:
    """Targets without repetitions, and for each of the given ones its place among those."""
    keys = [
        (str(target.similarity), frozenset((id(key), weight) for key, weight in target.weights.items())) for target in targets
    ]
    first = dict(zip(keys, targets, strict=True))
    order = list(first)
    return [first[key] for key in order], [order.index(key) for key in keys]
