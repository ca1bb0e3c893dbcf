"""The comparison of two encoders on one data set: scores and maps of the same inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch

from cocoax.questions import Question
from cocoax.results import ResultList
from cocoax.show import Histogram, Table, View
from cocoax.survey.answers import parse_question
from cocoax.survey.index import Index
from cocoax.survey.shortcuts import Classes
from cocoax.survey.storage import USUAL_VIEW
from cocoax.targets import Target, representation_similarity

_SCORES = ("score_a", "score_b")  # of the first and of the second encoder


@dataclass(frozen=True, eq=False)
class _Changed:
    """One input under two encoders.

    Attributes:
        id, label: which one; the label is empty where none was asked about.
        scores: under the first and the second encoder.
        moved: the second score minus the first, each in standard deviations over all inputs, since scores of two encoders
            have no common scale; NaN if the scores of one differ by rounding alone, as cosines of inputs with themselves do.
        correlation: of its two maps, cell by cell; NaN if one of them is flat.

    """

    id: str
    label: str
    scores: tuple[float, float]
    moved: float
    correlation: float


@dataclass(frozen=True, eq=False)
class Comparison(ResultList[_Changed]):
    """The same inputs and questions under two encoders.

    Attributes:
        names: of the encoders.
        question: in words.
        inputs: all, those whose maps differ most first.
        others: number of inputs with one id but different contents in the two indexes; they are left out.

    """

    file: ClassVar[str] = "comparison"
    names: tuple[str, str]
    question: str
    inputs: Sequence[_Changed]
    others: int = 0

    def __repr__(self) -> str:
        return f"Comparison({self.names[0]!r}, {self.names[1]!r}, {len(self.inputs)} inputs, maps agree {self.agreement:.2f})"

    @property
    def agreement(self) -> float:
        """The mean correlation of the two maps of an input."""
        return float(np.nanmean([changed.correlation for changed in self.inputs]))

    @property
    def scores_vary(self) -> bool:
        """Whether scores differ between inputs by more than rounding."""
        return not any(np.isnan(changed.moved) for changed in self.inputs)

    @property
    def score_agreement(self) -> float:
        """The correlation of the two scores over all inputs; NaN where scores do not vary."""
        if not self.scores_vary:
            return float("nan")
        first, second = (torch.tensor([changed.scores[side] for changed in self.inputs]) for side in (0, 1))
        return _correlation(first, second)

    @property
    def moved_most(self) -> list[_Changed]:
        """All inputs, those first whose scores moved most among the others; none where scores do not vary."""
        return [] if not self.scores_vary else sorted(self.inputs, key=lambda changed: -abs(changed.moved))

    def by_label(self) -> dict[str, dict[str, float]]:
        """Return for each label how many inputs it has, how well their maps agree, and the mean scores of both encoders."""
        groups: dict[str, list[_Changed]] = {}
        for changed in self.inputs:
            groups.setdefault(changed.label, []).append(changed)
        return {
            name: {
                "inputs": len(group),
                "agreement": float(np.nanmean([changed.correlation for changed in group])),
                **{score: float(np.mean([changed.scores[side] for changed in group])) for side, score in enumerate(_SCORES)},
            }
            for name, group in sorted(groups.items())
        }

    @property
    def parts(self) -> Sequence[_Changed]:
        """All inputs, those whose maps differ most first."""
        return self.inputs

    @property
    def summary(self) -> str:
        """The agreement of the maps of both encoders."""
        first, second = self.names
        return (
            f"{len(self.inputs)} inputs, asked what makes them like {self.question}: the maps of {first} and {second} "
            f"correlate by {self.agreement:.3f} on average."
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """The agreement of scores, and the number of inputs that were left out."""
        scores = (f"The two scores correlate by {self.score_agreement:.3f} over inputs.",) if self.scores_vary else ()
        left_out = f"{self.others} inputs of the same id but with other contents were left out."
        return (*scores, left_out) if self.others else scores

    def views(self) -> list[View]:
        """Return the correlations of maps, each label, and the inputs that changed most."""
        known = np.array([changed.correlation for changed in self.inputs])
        known, views = known[np.isfinite(known)], list[View]()
        if len(known):
            label = "correlation of the two maps of an input"
            views.append(Histogram({"": known}, label, title="How well maps agree"))
        labels = self.by_label()
        if len(labels) > 1:
            rows = tuple((name, *of.values()) for name, of in labels.items())
            views.append(Table(("label", *next(iter(labels.values()))), rows, title="By label"))
        for title, inputs in (("Maps changed most", self.inputs), ("Scores moved most", self.moved_most)):
            if inputs:  # scores of inputs like themselves are all 1
                views.append(replace(_rows(inputs[:50]), title=title))
        return views

    def table(self) -> Table:
        """Return one row for each input."""
        return _rows(self.inputs)

    def facts(self) -> dict[str, Any]:
        """Return agreements and all inputs."""
        return {
            "encoders": list(self.names),
            "question": self.question,
            "inputs": len(self.inputs),
            "others": self.others,
            "agreement": self.agreement,
            "score_agreement": self.score_agreement,
            "by_label": self.by_label(),
            "changed_most": [{**vars(changed), "scores": list(changed.scores)} for changed in self.inputs],
            "moved_most": [changed.id for changed in self.moved_most],
        }


def _rows(inputs: Sequence[_Changed]) -> Table:
    columns = ("id", "label", *_SCORES, "moved", "correlation")
    return Table(columns, tuple((item.id, item.label, *item.scores, item.moved, item.correlation) for item in inputs))


def compare(first: Index, second: Index, label: str | None = None, question: str | Question | None = None) -> Comparison:
    """Ask the same question of the inputs that two indexes share, and return where scores and maps differ most.

    A ``question`` is encoded by each of the two encoders. Without one every input is asked what makes it like its class
    rather than the others, by a ``label`` of the first index, or without a label what makes it like itself (label-free).
    Inputs are the same where ids and contents are.
    """
    views = [str(index.manifest.recipe.get("view", USUAL_VIEW)) for index in (first, second)]
    if views[0] != views[1]:
        raise ValueError(
            f"The two indexes show different views of their inputs ({views[0]}; {views[1]}), so a cell of one is another "
            "place in the other; build both with one view."
        )
    rows, others = _shared(first, second)
    changed: list[_Changed] = []
    for name, own, targets in _questions(first, second, rows, label, question):
        sides = [(index, targets[side], own[:, side]) for side, index in enumerate((first, second))]
        scores = [index.scores(target, rows) for index, target, rows in sides]
        maps = [index.maps(target, rows) for index, target, rows in sides]
        for number, row in enumerate(own[:, 0]):
            shapes = [list(side[number].shape) for side in maps]
            if shapes[0] != shapes[1]:
                raise ValueError(
                    f"The maps of {first.ids[row]!r} have {shapes[0]} and {shapes[1]} cells; build both with one grid."
                )
            pair = (float(scores[0][number]), float(scores[1][number]))
            changed.append(_Changed(first.ids[row], name, pair, 0.0, _correlation(maps[0][number], maps[1][number])))
    scores_of = np.array([item.scores for item in changed])
    spread, rounding = scores_of.std(0), np.array([index.manifest.rounding for index in (first, second)])
    spread[spread <= rounding * np.abs(scores_of).max(0)] = np.nan
    standard = (scores_of - scores_of.mean(0)) / spread
    moved = [replace(item, moved=float(b - a)) for item, (a, b) in zip(changed, standard, strict=True)]
    moved.sort(key=lambda item: (np.nan_to_num(item.correlation, nan=-2.0), item.id))
    asked_about = "itself" if label is None else f"its {label} rather than the others"
    if question is not None:
        asked_about = question if isinstance(question, str) else question.name
    return Comparison((first.manifest.encoder, second.manifest.encoder), asked_about, moved, others)


def _shared(first: Index, second: Index) -> tuple[np.ndarray, int]:
    """Return the rows of the same inputs in both indexes ``[n, 2]``, and how many have one id but different contents."""
    there = {name: row for row, name in enumerate(second.ids)}
    pairs = [(row, there[name]) for row, name in enumerate(first.ids) if name in there]
    same = [(row, other) for row, other in pairs if first.digests[row] == second.digests[other]]
    if not same:
        what = f"and the {len(pairs)} with the same id differ in content" if pairs else "and no id either"
        raise ValueError(f"The two indexes have no input in common, {what}; they are of different data.")
    return np.array(same), len(pairs) - len(same)


def _questions(
    first: Index, second: Index, rows: np.ndarray, label: str | None, question: str | Question | None
) -> Iterator[tuple[str, np.ndarray, tuple[Target, Target]]]:
    """Yield the name of each class, its rows in both indexes ``[n, 2]``, and the same question to both."""
    if question is not None:
        targets = (parse_question(first, question)[1], parse_question(second, question)[1])
        groups = {"": rows}
        if label is not None:
            known, values = first.labelled(label, rows[:, 0])
            if not len(known):
                raise ValueError(f"The column {label!r} says nothing about the inputs that both have; name another, or none.")
            own = rows[np.isin(rows[:, 0], known)]
            groups = {str(name): own[values == name] for name in np.unique(values)}
        for name, own in groups.items():
            yield name, own, targets
        return
    if label is None:
        yield "", rows, (representation_similarity(first.similarity), representation_similarity(second.similarity))
        return
    classes = Classes.of(first, label, rows[:, 0])
    partner = dict(rows.tolist())
    shared = replace(classes, index=second, rows=np.array([partner[row] for row in classes.rows.tolist()]))
    for name in classes.names:
        own = np.stack([classes.members(name), shared.members(name)], 1)
        yield name, own, (classes.target(name), shared.target(name))


def _correlation(first: torch.Tensor, second: torch.Tensor) -> float:
    a, b = (values.flatten().double() - values.double().mean() for values in (first, second))
    size = float(a.norm() * b.norm())
    return float(a @ b) / size if size > 0 else float("nan")
