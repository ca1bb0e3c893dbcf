"""Localisation: does the heat lie on the thing that was asked about?

Every class in a picture is asked about three times, from one run: the class rather than the others (contrastive), the class
alone (corpus), and the picture's own representation (label-free), which cannot know what was asked and is what the other two
must beat. Maps are compared with masks:

- **found**: of all classes in the picture, the asked one has the highest mean heat;
- **pointing game** (Zhang et al. 2018): the hottest pixel lies on the class, or within ``tolerance`` pixels of it;
- **energy** (Wang et al. 2020): the share of the positive heat that lies on the class;
- **IoU**: overlap of the class with the pixels above a threshold: the fixed one, a fraction of the map's peak, and the best
  there is for this map and mask, an upper bound that no threshold chosen in advance reaches.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage

from cocoax.attribution import Attribution
from cocoax.attribution.plain import to_plain
from cocoax.attribution.removal import RemovalMethod
from cocoax.attribution.saved import saved_run
from cocoax.data.annotated import Example
from cocoax.data.captions import caption
from cocoax.encoders import Encoder
from cocoax.inputs.images import Box
from cocoax.progress import bar
from cocoax.questions.asking import Question
from cocoax.seeding import stream
from cocoax.storage import digest

TARGETS = ("contrastive", "corpus", "label-free")
TEMPLATE = "a {}"


# --- one map, one mask ------------------------------------------------------------------------------------------------


def heat(attribution: Attribution) -> np.ndarray:
    """The map relative to neutral, ``[H, W]``: positive where a pixel raises the score."""
    shown: np.ndarray = attribution.values.double().numpy() - attribution.neutral
    return shown


def seen_mask(mask: np.ndarray, box: Box, height: int, width: int) -> np.ndarray:
    """What a map ``[height, width]`` over ``box`` of a picture sees of its mask: the mask at the centres of the map's pixels.

    Pixels that lie outside of the picture (padding) are not on anything.
    """
    left, top, right, bottom = box
    rows = np.floor((top + (bottom - top) * (np.arange(height) + 0.5) / height) * mask.shape[0]).astype(int)
    columns = np.floor((left + (right - left) * (np.arange(width) + 0.5) / width) * mask.shape[1]).astype(int)
    inside = ((rows >= 0) & (rows < mask.shape[0]))[:, None] & ((columns >= 0) & (columns < mask.shape[1]))[None]
    rows, columns = rows.clip(0, mask.shape[0] - 1), columns.clip(0, mask.shape[1] - 1)
    seen: np.ndarray = mask[np.ix_(rows, columns)].astype(bool) & inside
    return seen


def pointing_game(
    values: np.ndarray, mask: np.ndarray, tolerance: float = 0.0, pixel: tuple[float, float] = (1.0, 1.0)
) -> float:
    """1 if the highest value lies on the mask or within ``tolerance`` of it, else 0; ties share the hit among them.

    ``pixel`` is the height and width of a value, in the units of the tolerance (Zhang et al. use 15 pixels of the picture).
    """
    _check(values, mask)
    if tolerance < 0:
        raise ValueError(f"The 'tolerance' parameter must be at least 0. Got {tolerance!r} instead.")
    near = mask if tolerance == 0 else ndimage.distance_transform_edt(~mask, sampling=pixel) <= tolerance
    return float(near[values == values.max()].mean())


def energy_inside(values: np.ndarray, mask: np.ndarray) -> float:
    """The share of the positive heat that lies on the mask; 0 where there is none at all."""
    _check(values, mask)
    positive = values.clip(min=0)
    total = float(positive.sum())
    return float(positive[mask].sum()) / total if total > 0 else 0.0


def iou_at(values: np.ndarray, mask: np.ndarray, fraction: float = 0.5) -> float:
    """Intersection over union of the mask and the pixels of at least ``fraction`` of the peak; 0 for a map without heat."""
    _check(values, mask)
    if not 0 < fraction <= 1:
        raise ValueError(f"The 'fraction' parameter must lie between 0 and 1. Got {fraction!r} instead.")
    peak = float(values.max())
    if not peak > 0:
        return 0.0
    hot = values >= fraction * peak
    return float((hot & mask).sum() / (hot | mask).sum())


def best_iou(values: np.ndarray, mask: np.ndarray) -> float:
    """The highest intersection over union that any threshold reaches."""
    _check(values, mask)
    order = np.argsort(-values, axis=None, kind="stable")
    ranked, inside = values.ravel()[order], mask.ravel()[order]
    hits = np.cumsum(inside)
    ious = hits / (np.arange(1, len(hits) + 1) + mask.sum() - hits)
    last_of_ties = np.append(ranked[1:] != ranked[:-1], True)  # a threshold takes all equal values or none
    return float(ious[last_of_ties].max())


def _check(values: np.ndarray, mask: np.ndarray) -> None:
    if values.shape != mask.shape or values.ndim != 2:
        raise ValueError(
            f"The map and its mask must have the same shape [H, W]. Got {values.shape} and {mask.shape} instead."
        )
    if mask.dtype != bool or not mask.any():
        raise ValueError("The mask must be boolean and have at least one pixel set.")


# --- many pictures ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """One class in one picture, asked about in one way.

    ``found`` is None where the picture has no other class. ``area`` is the share of the map that the class covers: what
    pointing and energy would be by chance.
    """

    picture: str
    name: str
    target: str
    found: bool | None
    pointing: float
    energy: float
    iou: float
    best_iou: float
    area: float


def measure(
    attribution: Attribution,
    masks: dict[str, np.ndarray],
    name: str,
    *,
    picture: str = "",
    target: str = "",
    tolerance: float = 0.0,
    fraction: float = 0.5,
) -> Record | None:
    """Compare a map with the masks (of the picture's size) of all classes in it; None if it covers nothing of ``name``."""
    values = heat(attribution)
    height, width = values.shape
    seen = {key: seen_mask(mask, attribution.box, height, width) for key, mask in masks.items()}
    mask = seen[name]
    if not mask.any():
        return None
    means = {key: float(values[one].mean()) for key, one in seen.items() if one.any()}
    left, top, right, bottom = attribution.box
    whole = masks[name].shape
    pixel = (whole[0] * (bottom - top) / height, whole[1] * (right - left) / width)
    return Record(
        picture=picture,
        name=name,
        target=target,
        found=max(means, key=lambda key: means[key]) == name if len(means) > 1 else None,
        pointing=pointing_game(values, mask, tolerance, pixel),
        energy=energy_inside(values, mask),
        iou=iou_at(values, mask, fraction),
        best_iou=best_iou(values, mask),
        area=float(mask.mean()),
    )


def localise(
    encoder: Encoder,
    examples: Sequence[Example],
    method: RemovalMethod,
    *,
    template: str = TEMPLATE,
    foil: Iterable[str] | None = None,
    tolerance: float = 0.0,
    fraction: float = 0.5,
    folder: str | Path | None = None,
    keep_runs: bool = False,
    progress: bool | None = None,
    tell: Callable[[str], None] | None = None,
) -> list[Record]:
    """Ask about every class in every picture.

    Args:
        encoder: an image-and-text encoder.
        examples: pictures with masks.
        method: a removal-based method; one run answers everything about a picture.
        template: makes a caption of a class name.
        foil: names that a class is contrasted with, itself left out; by default the other classes of the same picture.
        tolerance: of the pointing game, in pixels of the picture.
        fraction: of the peak, where the fixed threshold of the IoU lies.
        folder: where results are kept, picture by picture; what is there is not computed again.
        keep_runs: keep the runs too (some megabytes each), so that other questions need no encoder.
        progress: show a progress bar (``None``: when it takes long).
        tell: is told about pictures with nothing to ask.

    """
    if not examples:
        raise ValueError("There are 0 pictures; pass at least one.")
    caption("name", template)  # complain now rather than after the first run
    contrast = None if foil is None else list(dict.fromkeys(foil))
    folder = None if folder is None else Path(folder)
    space = encoder.space
    tensors: dict[str, Any] = {}  # of baselines, which count with their content
    plain = to_plain(method, tensors)
    options = digest("localise", space, plain, template, contrast, tolerance, fraction, *tensors.values())
    done = {} if folder is None else _read(folder / "results.jsonl")
    records = []
    with bar(len(examples), f"pictures with {encoder.name}", progress) as shown:
        for example in examples:
            key = digest(options, example.name, example.version)
            if key not in done:
                picture, masks = example.load()
                runs = folder / "runs" if folder is not None and keep_runs else None
                questions = {
                    (name, kind): question
                    for name in masks
                    for kind, question in zip(TARGETS, _questions(name, masks, contrast, template), strict=True)
                    if question is not None
                }
                targets = [question.target(encoder) for question in questions.values()]
                explicand = encoder.explicand(picture)
                if runs is None:
                    run = method.run(encoder, explicand, targets, progress=False)
                else:
                    run = saved_run(encoder, explicand, method, targets, folder=runs, progress=False)
                attributions = run.explain(targets)
                found = [
                    measure(
                        attribution, masks, name, picture=example.name, target=kind, tolerance=tolerance, fraction=fraction
                    )
                    for (name, kind), attribution in zip(questions, attributions, strict=True)
                ]
                done[key] = [record for record in found if record is not None]
                if folder is not None:
                    _append(folder / "results.jsonl", key, done[key])
            if not done[key] and tell is not None:
                tell(f"{example.name}: nothing that is annotated lies in the part that the encoder sees")
            records += done[key]
            shown.update()
    return records


def _questions(
    name: str, masks: Iterable[str], contrast: list[str] | None, template: str
) -> tuple[Question | None, Question, Question]:
    """The class rather than the others, the class alone, and the picture itself; nothing to contrast with, no contrast."""
    others = [other for other in (masks if contrast is None else contrast) if other != name]
    like = caption(name, template)
    contrastive = Question(like, [caption(other, template) for other in others]) if others else None
    return contrastive, Question(like), Question()


def _append(path: Path, key: str, records: Sequence[Record]) -> None:
    """One line per picture, written at once: an interruption loses at most the picture it fell into.

    What an interruption left of a line is ended first, or else it would spoil the next one as well.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"key": key, "records": [asdict(record) for record in records]}).encode() + b"\n"
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            line = line if file.read() == b"\n" else b"\n" + line
        file.write(line)


def _read(path: Path) -> dict[str, list[Record]]:
    if not path.exists():
        return {}
    done = {}
    names = {item.name for item in fields(Record)}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
            if all(set(one) == names for one in entry["records"]):
                done[entry["key"]] = [Record(**one) for one in entry["records"]]
        except (json.JSONDecodeError, KeyError, TypeError):  # cut off in the middle
            continue
    return done


# --- statistics -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """A mean over questions, with a 95 % interval."""

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
    """How one target did on one class, or on all of them (``name`` is then empty)."""

    target: str
    name: str
    questions: int
    found: Figure
    pointing: Figure
    energy: Figure
    iou: Figure
    best_iou: Figure
    area: float


def wilson(successes: float, count: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's 95 % interval of a proportion."""
    if count == 0:
        return math.nan, math.nan
    share = successes / count
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * math.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def bootstrap(values: Sequence[float], groups: Sequence[str], draws: int = 2000, seed: int = 0) -> tuple[float, float]:
    """The 95 % percentile interval of a mean; whole groups (pictures) are drawn, since what is in one is not independent."""
    names, index = np.unique(np.array(groups), return_inverse=True)
    if len(names) < 2:
        return math.nan, math.nan
    sums, counts = np.bincount(index, weights=np.array(values, float)), np.bincount(index)
    drawn = stream(seed).integers(len(names), size=(draws, len(names)))
    means = sums[drawn].sum(1) / counts[drawn].sum(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def summarise(records: Sequence[Record], *, per_class: bool = True) -> list[Summary]:
    """Overall and then per class, for each target. Proportions (found, pointing) have Wilson intervals, means (energy, IoU)
    bootstrap intervals over pictures.
    """
    if not records:
        raise ValueError("There are 0 results; nothing that is annotated was seen by the encoder.")
    summaries = []
    names = ["", *sorted({record.name for record in records})] if per_class else [""]
    for name in names:
        for target in TARGETS:
            chosen = [record for record in records if record.target == target and name in ("", record.name)]
            if chosen:
                summaries.append(_summary(target, name, chosen))
    return summaries


def _summary(target: str, name: str, records: Sequence[Record]) -> Summary:
    def proportion(values: list[float]) -> Figure:
        mean = float(np.mean(values)) if values else math.nan
        return Figure(mean, *wilson(sum(values), len(values)), len(values))

    def mean(values: list[float]) -> Figure:
        return Figure(float(np.mean(values)), *bootstrap(values, [record.picture for record in records]), len(values))

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
    """Summaries as plain values, ready for JSON; what is not a number is null."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return None if isinstance(value, float) and math.isnan(value) else value

    return [plain(asdict(summary)) for summary in summaries]
