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
from typing import Any

import numpy as np

from cocoax.data.captions import caption
from cocoax.encoders import Encoder
from cocoax.evaluation.localisation import MaskScores, mask_scores
from cocoax.evaluation.statistics import bootstrap, wilson
from cocoax.methods.removal import RemovalMethod
from cocoax.methods.run_cache import cached_run
from cocoax.methods.serialise import to_json_value
from cocoax.paper.annotations import Example
from cocoax.progress import bar
from cocoax.questions import Question
from cocoax.store import Layout, Results, digest

_LAYOUT = Layout("localisation", {}, {"records": list})
WAYS_TO_ASK = ("contrastive", "corpus", "label-free")


@dataclass(frozen=True)
class LocalisationOptions:
    """How classes are asked about, and how maps are compared with masks.

    Args:
        template: makes a caption of a class name.
        foil: names that a class is contrasted with, itself left out; by default the other classes of the same picture.
        tolerance: of the pointing game, in pixels of the picture.
        fraction: of the peak, where the fixed threshold of the IoU lies.

    """

    template: str = "a {}"
    foil: Sequence[str] | None = None
    tolerance: float = 0.0
    fraction: float = 0.5

    def __post_init__(self) -> None:
        caption("name", self.template)  # complain now rather than after the first run

    @property
    def contrast(self) -> list[str] | None:
        """The names of the foil, each once."""
        return None if self.foil is None else list(dict.fromkeys(self.foil))

    def questions(self, classes: Sequence[str]) -> dict[tuple[str, str], Question]:
        """Return the questions about the classes in a picture, by class and way to ask; no contrast without others."""
        questions: dict[tuple[str, str], Question] = {}
        for name in classes:
            others = [other for other in (classes if self.contrast is None else self.contrast) if other != name]
            like, unlike = caption(name, self.template), [caption(other, self.template) for other in others]
            asked = (Question(like, unlike) if unlike else None, Question(like), Question())
            questions |= {(name, way): each for way, each in zip(WAYS_TO_ASK, asked, strict=True) if each is not None}
        return questions


def localise(
    encoder: Encoder,
    examples: Sequence[Example],
    method: RemovalMethod,
    asking: LocalisationOptions | None = None,
    *,
    folder: str | Path | None = None,
    keep_runs: bool = False,
    progress: bool | None = None,
    tell: Callable[[str], None] | None = None,
) -> list[MaskScores]:
    """Ask about every class in every picture, and compare the maps with the masks.

    Args:
        encoder: an image-and-text encoder.
        examples: pictures with masks.
        method: a removal-based method; one run answers everything about a picture.
        asking: how to ask and compare; ``LocalisationOptions()`` by default.
        folder: where results are kept, picture by picture; what is there is not computed again.
        keep_runs: keep the runs too (some megabytes each), so that other questions need no encoder.
        progress: show a progress bar (``None``: when it takes long).
        tell: is told about pictures with nothing to ask.

    """
    if not examples:
        raise ValueError("There are 0 pictures; pass at least one.")
    asking = LocalisationOptions() if asking is None else asking
    results = None if folder is None else Results(folder, {}, _LAYOUT)
    runs = Path(folder) / "runs" if folder is not None and keep_runs else None
    tensors: dict[str, Any] = {}  # of baselines, which count with their content
    kept_as = tuple(item.name for item in fields(MaskScores))
    how = (kept_as, to_json_value(method, tensors), asking.template, asking.contrast, asking.tolerance, asking.fraction)
    options = digest("localise", encoder.fingerprint, *how, *tensors.values(), *encoder.inputs.view_settings)
    records = []
    with bar(len(examples), f"pictures with {encoder.name}", progress) as shown:
        for example in examples:
            key = digest(options, example.name, example.version)
            kept = None if results is None else results.get(key)
            if kept is not None:
                scores = [MaskScores(**record) for record in kept[1]["records"]]
            else:
                scores = _ask(encoder, example, method, asking, runs)
                if results is not None:
                    results.write(key, {}, {"records": [asdict(record) for record in scores]})
            if not scores and tell is not None:
                tell(f"{example.name}: nothing that is annotated lies in the part that the encoder sees")
            records += scores
            shown.update()
    return records


def _ask(
    encoder: Encoder, example: Example, method: RemovalMethod, asking: LocalisationOptions, runs: Path | None
) -> list[MaskScores]:
    """Ask about every class in a picture; its run is kept in the folder ``runs``, if there is one."""
    picture, masks = example.load()
    questions = asking.questions(list(masks))
    targets = [question.target(encoder) for question in questions.values()]
    explicand = encoder.explicand(picture)
    if runs is None:
        run = method.run(encoder, explicand, targets, progress=False)
    else:
        run = cached_run(encoder, explicand, method, targets, folder=runs, progress=False)
    scores = [
        mask_scores(
            attribution,
            masks,
            name,
            picture=example.name,
            target=way,
            tolerance=asking.tolerance,
            fraction=asking.fraction,
        )
        for (name, way), attribution in zip(questions, run.explain(targets), strict=True)
    ]
    return [each for each in scores if each is not None]


# --- statistics -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rate:
    """A mean over questions of values between 0 and 1, with a 95 % interval."""

    mean: float
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        if not self.count:
            return "–"
        interval = "" if math.isnan(self.low) else f" [{self.low:.1%}, {self.high:.1%}]"
        return f"{self.mean:.1%}{interval}"


@dataclass(frozen=True)
class Summary:
    """How one way to ask did on one class, or on all of them (``name`` is then empty)."""

    target: str
    name: str
    questions: int
    found: Rate
    pointing: Rate
    energy: Rate
    iou: Rate
    best_iou: Rate
    area: float


def summarise(records: Sequence[MaskScores], *, per_class: bool = True) -> list[Summary]:
    """Return summaries over all classes and then per class, for each way to ask.

    Proportions (found, pointing) have Wilson intervals, means (energy, IoU) bootstrap intervals over pictures.
    """
    if not records:
        raise ValueError("There are 0 results; nothing that is annotated was seen by the encoder.")
    summaries = []
    names = ["", *sorted({record.name for record in records})] if per_class else [""]
    for name in names:
        for target in WAYS_TO_ASK:
            chosen = [record for record in records if record.target == target and name in ("", record.name)]
            if chosen:
                summaries.append(_summary(target, name, chosen))
    return summaries


def _summary(target: str, name: str, records: Sequence[MaskScores]) -> Summary:
    def proportion(values: list[float]) -> Rate:
        mean = float(np.mean(values)) if values else math.nan
        return Rate(mean, *wilson(sum(values), len(values)), len(values))

    def mean(values: list[float]) -> Rate:
        return Rate(float(np.mean(values)), *bootstrap(values, [record.picture for record in records]), len(values))

    return Summary(
        target=target,
        name=name,
        questions=len(records),
        found=proportion([float(record.found) for record in records if record.found is not None]),
        pointing=proportion([record.pointing for record in records]),
        energy=mean([record.energy for record in records]),
        iou=mean([record.iou for record in records]),
        best_iou=mean([record.best_iou for record in records]),
        area=float(np.mean([record.area for record in records])),
    )


def describe(summaries: Sequence[Summary]) -> list[dict[str, Any]]:
    """Return summaries as plain values, ready for JSON; what is not a number is null."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return None if isinstance(value, float) and math.isnan(value) else value

    return [plain(asdict(summary)) for summary in summaries]
