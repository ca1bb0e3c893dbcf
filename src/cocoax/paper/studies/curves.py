"""Studies of insertion and deletion curves: draw, explain, measure, keep, report."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from cocoax.data.labelled import LabelledImages
from cocoax.encoders import Encoder, Explicand
from cocoax.evaluation import Measure, chance_map, corpus_majority_probability, curves, gini
from cocoax.evaluation.curves import logits_of
from cocoax.masking import Blur
from cocoax.methods import Attribution, GradientShap, IntegratedGradients, Method, RandomAttribution, Rise, Run
from cocoax.methods.run import RemovalMethod
from cocoax.paper.studies.published import MEASURES
from cocoax.paper.studies.study import RUN_SEEDS, Draw, DrawnExplicand, LabelledStudy, Library, Options, draw_run, grid_of
from cocoax.paper.studies.tables import Records, StudyPart, StudyReport
from cocoax.progress import bar
from cocoax.references import Reference
from cocoax.seeding import stream
from cocoax.store import Layout, Results, digest
from cocoax.targets import Target, contrastive_corpus_similarity
from cocoax.version import versions

Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class Case:
    """The measures that attributions are judged by, and the fields by which tables find this case."""

    key: Mapping[str, Any]
    measures: Sequence[Measure]


@dataclass(frozen=True, eq=False)
class Task:
    """One explicand to explain, its encoder, and the case it belongs to; ``key`` is unique within the case."""

    case: Case
    key: Mapping[str, Any]
    encoder: Encoder
    target: Target


@dataclass(frozen=True, eq=False)
class _Judged:
    """Curves of an explicand: ``insertion`` and ``deletion`` ``[rows, measures, steps + 1]``, and what each row is."""

    rows: list[dict[str, Any]]
    insertion: Tensor
    deletion: Tensor


def _judge(
    image: Any,
    tasks: Sequence[Task],
    methods: Mapping[str, Method],
    evaluator: Encoder,
    *,
    steps: int = 50,
    seed: int = 0,
) -> _Judged:
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
    return _Judged(rows, *_curves(evaluator, explicand, maps, judged_by, steps))


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
    defaults: dict[str, Any] = {item.name: item.default for item in fields(method) if item.name in method.estimator_options}
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


UNIT = Layout(
    "study unit",
    {"insertion": "rows measures points", "deletion": "rows measures points"},
    {"run": int, "explicand": int, "rows": list, "measures": list},
)


class CurveStudy(LabelledStudy):
    """A study that judges attributions of many explicands by their insertion and deletion curves.

    Each explicand is a unit of work: a function of the encoder, the data, the options and its number alone, kept in a file
    of its own, so that a study that was stopped goes on where it was.
    """

    def __init__(
        self, encoder: Encoder, train: LabelledImages, held_out: LabelledImages, folder: str | Path, options: Options
    ) -> None:
        super().__init__(encoder, train, held_out, folder, options)
        if encoder.head is None:
            raise ValueError(
                f"The encoder {encoder.name!r} has no head, which the corpus majority probability needs; "
                "fit one with `cocoax paper train linear`."
            )
        if train.classes != held_out.classes:
            raise ValueError("The two splits of the data have different classes.")
        self.classes = list(range(len(train.classes))) if options.classes is None else list(options.classes)
        self._check_head(logits_of(encoder.head, encoder.represent([held_out.images[0]], progress=False)).shape[1])
        made_with = {
            "study": self.name,
            "encoder": encoder.name,
            "fingerprint": encoder.fingerprint,
            "head": digest(*encoder.head.state_dict().values()),
            "training data": train.fingerprint,
            "held-out data": held_out.fingerprint,
            **{name: value for name, value in asdict(options).items() if name != "estimator"},  # there are both
        }
        self.results = Results(folder, made_with, UNIT)

    def _check_head(self, outputs: int) -> None:
        """Raise unless the head has the classes of the study: by name, or by number if it has no names.

        A head for all of ImageNet's classes may be used on ten of them; as many classes by other names are other classes.
        """
        known, classes = self.encoder.classes, self.train.classes
        unknown = [name for number, name in enumerate(classes) if number in self.classes and name not in (known or classes)]
        if known is None and outputs != len(classes):
            wrong = f"tells {outputs} classes apart but the data have {len(classes)}"
        elif known is not None and unknown:
            wrong = f"does not know the class {unknown[0]!r} of the data but {', '.join(known[:3])}, …"
        else:
            return
        raise ValueError(f"The head of {self.encoder.name!r} {wrong}; use data or a head with the same classes.")

    # --- what a study must say ----------------------------------------------------------------------------------------

    @abstractmethod
    def tasks(self, repetition: Repetition, explicand: DrawnExplicand) -> list[Task]:
        """Return what to explain of an explicand, and by which measures to judge it."""

    @abstractmethod
    def report(self, records: Records) -> Sequence[StudyPart]:
        """Return the study's tables and figures."""

    def explained(self, seed: int) -> dict[str, Encoder]:
        """Return the encoders that are explained in a run; the study's own encoder always judges."""
        return {"trained": self.encoder}

    @property
    def pairs(self) -> Sequence[tuple[int, int]]:
        """Sizes of corpus and foil that the study uses together."""
        return [(self.options.corpus, self.options.foil)]

    # --- what they share ----------------------------------------------------------------------------------------------

    @cached_property
    def grid(self) -> int:
        """Cells of a mask of RISE."""
        return grid_of(self.encoder, self.held_out.images[0], self.options.grid)

    def methods_of(self, seed: int) -> dict[str, Method]:
        """Return the paper's three methods, RISE by both estimators; ``seed`` is that of an explicand."""
        options = self.options
        return {
            "integrated_gradients": IntegratedGradients(options.steps),
            "gradient_shap": GradientShap(options.steps, seed=seed),
            "rise": Rise(options.samples, self.grid, estimator="paper", seed=seed),
            # With the published masks, so that both read one run.
            "rise_efficient": Rise(options.samples, self.grid, estimator="efficient", seed=seed, complements=False),
        }

    @property
    def seeds(self) -> list[int]:
        """Seeds of the runs: the paper's five, then others."""
        return [*RUN_SEEDS, *range(1000, 1000 + self.options.runs)][: self.options.runs]

    def draw(self, seed: int) -> Draw:
        """Draw the explicands, corpora and foils of a run."""
        return draw_run(
            self.train,
            self.held_out,
            classes=self.classes,
            explicands=self.options.explicands,
            corpus=max(corpus for corpus, _ in self.pairs),
            foil=max(foil for _, foil in self.pairs),
            seed=seed,
        )

    def unit(self, seed: int, index: int) -> str:
        """Return the name of the file of an explicand."""
        return f"{seed}-{index:04d}"

    def run(self, progress: bool | None = None) -> Records:
        """Judge the explicands that were not judged yet; return the records of all of them."""
        draws = {seed: self.draw(seed) for seed in self.seeds}
        units = [(seed, index) for seed, drawn in draws.items() for index in range(len(drawn.explicands))]
        with bar(len(units), f"{self.name} study of {self.encoder.name}", progress) as shown:
            current: Repetition | None = None
            for seed, index in units:
                if self.unit(seed, index) not in self.results:
                    if current is None or current.draw.seed != seed:
                        current = Repetition(self, draws[seed])
                    self.judge_explicand(current, index)
                shown.update()
        return self.records()

    def judge_explicand(self, repetition: Repetition, index: int) -> None:
        """Explain and judge an explicand of a run, and keep the result."""
        explicand, run = repetition.draw.explicands[index], repetition.draw.seed
        seed = int(stream(run, 2, index).integers(2**31))
        judged = _judge(
            self.held_out.images[explicand.number],
            self.tasks(repetition, explicand),
            self.methods_of(seed),
            self.encoder,
            steps=self.options.curve_steps,
            seed=seed,
        )
        header = {
            "run": run,
            "explicand": explicand.number,
            "own": explicand.own,
            "other": explicand.other,
            "rows": judged.rows,
            "measures": list(MEASURES),
            "versions": versions(),
        }
        self.results.write(self.unit(run, index), {"insertion": judged.insertion, "deletion": judged.deletion}, header)

    def records(self) -> Records:
        """Return the records of the explicands that were judged so far."""
        units = [
            self.unit(seed, index) for seed in self.seeds for index in range(self.options.explicands * len(self.classes))
        ]
        return Records([held for unit in units if (held := self.results.get(unit)) is not None])

    def write(self, progress: bool | None = None) -> list[Path]:
        """Run what was not run yet and write all tables, figures and values; return the files."""
        records = self.run(progress)
        return StudyReport(self.name, self.encoder.name, self.results.options, records, self.report(records)).save_all(
            self.folder
        )


class Repetition:
    """One run of a study: what was drawn, and the references made of it."""

    def __init__(self, study: CurveStudy, drawn: Draw) -> None:
        self.study = study
        self.draw = drawn
        self.encoders = study.explained(drawn.seed)
        self.libraries = {
            name: Library(encoder, study.train, study.folder)
            for name, encoder in {**self.encoders, "trained": study.encoder}.items()
        }
        wanted = np.unique(np.concatenate([*drawn.corpora.values(), *drawn.foils.values()]))
        for library in self.libraries.values():
            library.encode(wanted)
        self._references: dict[tuple[str, str, int, int], Reference] = {}

    def corpus(self, label: int, size: int | None = None, model: str = "trained") -> Reference:
        """Return the corpus of a class, or its first ``size`` images."""
        return self._reference(model, "corpus", label, self.draw.corpora[label][:size])

    def foil(self, label: int, size: int | None = None, model: str = "trained") -> Reference:
        """Return the foil of a class, or its first ``size`` images."""
        return self._reference(model, "foil", label, self.draw.foils[label][:size])

    def _reference(self, model: str, kind: str, label: int, numbers: np.ndarray) -> Reference:
        key = (model, kind, label, len(numbers))
        if key not in self._references:
            name = f"{kind} of {self.study.train.classes[label]}"
            self._references[key] = self.libraries[model].reference(numbers, name)
        return self._references[key]

    def measures(self, corpus: Reference, foil: Reference) -> list[Measure]:
        """Return the paper's two measures, of references by the trained encoder; the similarity is always the cosine."""
        head = self.study.encoder.head
        assert head is not None
        return [contrastive_corpus_similarity(corpus, foil), corpus_majority_probability(head, corpus)]
