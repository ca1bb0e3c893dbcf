"""Localisation over annotated pictures: does the heat lie on the thing that was asked about?

Every class in a picture is asked about three times, from one run: the class rather than the others (contrastive), the class
alone (corpus), and the picture's own representation (label-free), which cannot know what was asked and is what the other two
must beat. Maps are compared with masks by :mod:`cocoax.evaluation.localisation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cocoax.data.captions import caption
from cocoax.encoders import Encoder
from cocoax.evaluation.localisation import MaskScores, mask_scores
from cocoax.evaluation.statistics import bootstrap, wilson
from cocoax.methods.run import RemovalMethod
from cocoax.methods.serialise import to_json_value
from cocoax.paper.annotations import Example
from cocoax.progress import bar
from cocoax.questions import Question
from cocoax.results.result import ResultList
from cocoax.show import Table
from cocoax.store import Layout, Results, digest

_LAYOUT = Layout("localisation", {}, {"records": list})
_TEMPLATE = "a {}"
_WAYS_TO_ASK = ("contrastive", "corpus", "label-free")


def localise(
    encoder: Encoder,
    examples: Sequence[Example],
    method: RemovalMethod,
    foil: Sequence[str] | None = None,
    *,
    folder: str | Path | None = None,
    progress: bool | None = None,
    tell: Callable[[str], None] | None = None,
) -> LocalisationScores:
    """Ask about every class in every picture, and compare the maps with the masks.

    Args:
        encoder: an image-and-text encoder.
        examples: pictures with masks.
        method: a removal-based method; one run answers everything about a picture.
        foil: names that a class is contrasted with, itself left out; by default the other classes of the same picture.
        folder: where results are kept, picture by picture; what is there is not computed again.
        progress: show a progress bar (``None``: when it takes long).
        tell: is told about pictures with nothing to ask.

    """
    if not examples:
        raise ValueError("There are 0 pictures; pass at least one.")
    results = None if folder is None else Results(folder, {}, _LAYOUT)
    tensors: dict[str, Any] = {}  # of baselines, which count with their content
    kept_as = tuple(item.name for item in fields(MaskScores))
    how = (kept_as, to_json_value(method, tensors), None if foil is None else list(foil))
    options = digest("localise", encoder.fingerprint, *how, *tensors.values(), *encoder.inputs.view_settings)
    records: list[MaskScores] = []
    with bar(len(examples), f"pictures with {encoder.name}", progress) as shown:
        for example in examples:
            key = digest(options, example.name, example.version)
            kept = None if results is None else results.get(key)
            if kept is not None:
                scores = [MaskScores(**record) for record in kept[1]["records"]]
            else:
                scores = _ask(encoder, example, method, foil)
                if results is not None:
                    results.write(key, {}, {"records": [asdict(record) for record in scores]})
            if not scores and tell is not None:
                tell(f"{example.name}: nothing that is annotated lies in the part that the encoder sees")
            records += scores
            shown.update()
    return LocalisationScores(tuple(records))


def _ask(encoder: Encoder, example: Example, method: RemovalMethod, foil: Sequence[str] | None) -> list[MaskScores]:
    """Ask about every class in a picture."""
    picture, masks = example.load()
    questions = _questions(list(masks), foil)
    targets = [question.target(encoder) for question in questions.values()]
    run = method.run(encoder, encoder.explicand(picture), targets, progress=False)
    scores = [
        mask_scores(attribution, masks, name, picture=example.name, target=way)
        for (name, way), attribution in zip(questions, run.explain(targets), strict=True)
    ]
    return [each for each in scores if each is not None]


def _questions(classes: Sequence[str], foil: Sequence[str] | None) -> dict[tuple[str, str], Question]:
    """Return the questions about the classes in a picture, by class and way to ask; no contrast without others."""
    questions: dict[tuple[str, str], Question] = {}
    for name in classes:
        others = [other for other in dict.fromkeys(classes if foil is None else foil) if other != name]
        like, unlike = caption(name, _TEMPLATE), [caption(other, _TEMPLATE) for other in others]
        asked = (Question(like, unlike) if unlike else None, Question(like), Question())
        questions |= {(name, way): each for way, each in zip(_WAYS_TO_ASK, asked, strict=True) if each is not None}
    return questions


# --- statistics -------------------------------------------------------------------------------------------------------

_MEASURES = ("found", "pointing", "energy", "iou", "best_iou")
_PROPORTIONS = ("found", "pointing")  # yes or no for each question


@dataclass(frozen=True)
class LocalisationScores(ResultList[MaskScores]):
    """Agreement of maps with masks, for each way to ask.

    Proportions (found, pointing) have Wilson's 95 % intervals, means (energy, IoU) bootstrap intervals over pictures.
    """

    records: tuple[MaskScores, ...]
    file: ClassVar[str] = "summary"

    def __post_init__(self) -> None:
        if not self.records:
            raise ValueError("There are 0 results; nothing that is annotated was seen by the encoder.")

    @property
    def parts(self) -> Sequence[MaskScores]:
        """The scores of each question."""
        return self.records

    @property
    def summary(self) -> str:
        """The share of maps whose largest value lies on the object, for each way to ask."""
        pictures = len({record.picture for record in self.records})
        rates = ", ".join(f"{row['target']} {row['pointing']:.0%}" for row in self.table().records() if not row["class"])
        return f"Of the questions about {pictures} pictures, so many maps peak on the thing: {rates}."

    @property
    def remarks(self) -> tuple[str, ...]:
        """The definition of the intervals."""
        return ("In brackets: 95 % intervals, Wilson's for found and pointing game, bootstrap over pictures for the rest.",)

    def views(self) -> list[Table]:
        """Return the table of all classes, in words."""
        head = ("target", "asked", "found", "pointing game", "energy inside", "IoU", "best IoU", "chance")
        rows = []
        for row in self.table().records():
            if not row["class"]:
                cells = [_rate(*(row[f"{name}{end}"] for end in ("", " low", " high"))) for name in _MEASURES]
                rows.append((row["target"], row["questions"], *cells, f"{row['area']:.1%}"))
        return [Table(head, tuple(rows))]

    def table(self) -> Table:
        """Return a row for each way to ask, over all classes (``class`` is empty) and for each class."""
        rates = (f"{name}{end}" for name in _MEASURES for end in ("", " low", " high"))
        rows = []
        for name in ["", *sorted({record.name for record in self.records})]:
            for target in _WAYS_TO_ASK:
                chosen = [record for record in self.records if record.target == target and name in ("", record.name)]
                if chosen:
                    values = [value for measure in _MEASURES for value in _interval(chosen, measure)]
                    rows.append((name, target, len(chosen), float(np.mean([record.area for record in chosen])), *values))
        return Table(("class", "target", "questions", "area", *rates), tuple(rows))

    def facts(self) -> dict[str, Any]:
        """Return the rows of the table, and the scores of each question."""
        return {"rows": self.table().records(), "questions": [asdict(record) for record in self.records]}


def _interval(records: Sequence[MaskScores], measure: str) -> tuple[float, float, float]:
    """Return the mean of a measure over questions, and its 95 % interval; NaN where no question has it."""
    known = [(float(value), record.picture) for record in records if (value := getattr(record, measure)) is not None]
    if not known:
        return (math.nan,) * 3
    values = [value for value, _ in known]
    interval = wilson(sum(values), len(values)) if measure in _PROPORTIONS else bootstrap(values, [name for _, name in known])
    return (float(np.mean(values)), *interval)


def _rate(mean: float, low: float, high: float) -> str:
    if math.isnan(mean):
        return "–"
    return f"{mean:.1%}" if math.isnan(low) else f"{mean:.1%} [{low:.1%}, {high:.1%}]"
