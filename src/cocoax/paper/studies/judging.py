"""Judging an explicand of a study: every method, target and measure from one pass over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from cocoax.encoders import Encoder, Explicand
from cocoax.evaluation import Measure, chance_map, curves, gini
from cocoax.masking import Blur
from cocoax.methods import Attribution, Method, RandomAttribution, Run
from cocoax.methods.removal import RemovalMethod
from cocoax.targets import Target

Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class Case:
    """What attributions are judged by: measures, and the fields that tell this case from others."""

    key: Mapping[str, Any]
    measures: Sequence[Measure]


@dataclass(frozen=True, eq=False)
class Task:
    """What to explain, with which encoder, and the case it belongs to; ``key`` tells it from others of that case."""

    case: Case
    key: Mapping[str, Any]
    encoder: Encoder
    target: Target


@dataclass(frozen=True, eq=False)
class Judged:
    """Curves of an explicand: ``insertion`` and ``deletion`` ``[rows, measures, steps + 1]``, and what each row is."""

    rows: list[dict[str, Any]]
    insertion: Tensor
    deletion: Tensor


def judge(
    image: Any,
    tasks: Sequence[Task],
    methods: Mapping[str, Method],
    evaluator: Encoder,
    *,
    steps: int = 50,
    seed: int = 0,
) -> Judged:
    """Do every task by every method, and judge each map by the measures of its case (the same number for all).

    Each method runs once per encoder for all targets, methods that read the same run differently share it, and each distinct
    image of the curves is encoded once. Beside the methods there are, for each case, pixel noise (``random``) and every
    method's chance level.

    Args:
        image: the explicand.
        tasks: what to explain.
        methods: by name.
        evaluator: whose representations the measures see; not necessarily the encoder that is explained.
        steps: of the curves.
        seed: of the random references.

    """
    explicand = evaluator.explicand(image)
    rows: list[dict[str, Any]] = []
    judged_by: list[tuple[int, Case]] = []  # the place of each row's map, and its case
    maps: list[Tensor] = []
    for encoder in _distinct([task.encoder for task in tasks]):
        own = [task for task in tasks if task.encoder is encoder]
        targets, places = _distinct_targets([task.target for task in own])
        for name, answers in _explain(encoder, explicand, methods, targets):
            for task, place in zip(own, places, strict=True):
                rows.append({**task.case.key, **task.key, "method": name, "gini": gini(answers[place])})
                judged_by.append((len(maps) + place, task.case))
            maps += [answer.values for answer in answers]
    for name, values in _references(explicand.tensor, methods, seed).items():
        place = next((place for place, known in enumerate(maps) if torch.equal(known, values)), len(maps))
        maps += [values] if place == len(maps) else []
        for case in _distinct([task.case for task in tasks]):
            rows.append({**case.key, "method": name, "gini": gini(values - values.mean())})
            judged_by.append((place, case))
    return Judged(rows, *_curves(evaluator, explicand, maps, judged_by, steps))


def _explain(
    encoder: Encoder, explicand: Explicand, methods: Mapping[str, Method], targets: list[Target]
) -> list[tuple[str, list[Attribution]]]:
    """Explain all targets by each method; methods that differ only in how they read a run share it."""
    runs: dict[RemovalMethod, Run] = {}
    answers = []
    for name, method in methods.items():
        if isinstance(method, RemovalMethod):
            alike = _without_reading(method)
            if alike not in runs:
                runs[alike] = method.run(encoder, explicand, targets, progress=False)
            run = replace(runs[alike], method=replace(method, baseline=runs[alike].method.baseline))
            answers.append((name, run.explain(targets)))
        else:
            answers.append((name, method.explain(encoder, [explicand], targets, progress=False)[0]))
    return answers


def _without_reading(method: RemovalMethod) -> RemovalMethod:
    """Return the method with the options that only change how a run is read set to their defaults."""
    defaults: dict[str, Any] = {item.name: item.default for item in fields(method) if item.name in method.reading}
    return replace(method, **defaults)


def _references(explicand: Tensor, methods: Mapping[str, Method], seed: int) -> dict[str, Tensor]:
    """Return the maps that say nothing: pixel noise, and the chance level of each method."""
    baseline = Blur()(explicand)
    chance = {f"chance of {name}": chance_map(method, explicand, baseline, seed) for name, method in methods.items()}
    return {"random": chance_map(RandomAttribution(), explicand, baseline, seed), **chance}


def _curves(
    evaluator: Encoder, explicand: Explicand, maps: list[Tensor], judged_by: list[tuple[int, Case]], steps: int
) -> tuple[Tensor, Tensor]:
    """Return the insertion and the deletion curves ``[rows, measures, steps + 1]`` of each row, by its case's measures."""
    cases = _distinct([case for _, case in judged_by])
    measures = [measure for case in cases for measure in case.measures]
    first = {id(case): sum(len(before.measures) for before in cases[:number]) for number, case in enumerate(cases)}
    curves_of = curves(evaluator, explicand, maps, measures, steps, progress=False)

    def stacked(kind: str) -> Tensor:
        picked = [
            torch.stack([curve.y for curve in curves_of[place][kind][first[id(case)] :][: len(case.measures)]])
            for place, case in judged_by
        ]
        return torch.stack(picked).float()

    return stacked("insertion"), stacked("deletion")


def _distinct(items: Sequence[Item]) -> list[Item]:
    return list({id(item): item for item in items}.values())


def _distinct_targets(targets: Sequence[Target]) -> tuple[list[Target], list[int]]:
    """Return the targets without repetitions, and for each target its place among those."""
    keys = [
        (str(target.similarity), frozenset((id(key), weight) for key, weight in target.weights.items())) for target in targets
    ]
    first = dict(zip(keys, targets, strict=True))
    order = list(first)
    return [first[key] for key in order], [order.index(key) for key in keys]
