"""Attributions: how much each part of an input counts for a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from cocoax.checks import check_count, import_optional
from cocoax.inputs import Display, Picture
from cocoax.inputs.explicand import Displayed, load_display, save_display
from cocoax.inputs.segmentation import check_grid
from cocoax.masking.masks import averaging
from cocoax.results.remarks import LITTLE_REMOVED, NOTHING, about_crop, about_noise, about_removal, removed_of
from cocoax.results.result import Result, data_frame
from cocoax.show import Box, Effects, HeatMap, PlotOptions, Table, View
from cocoax.show.views import place_of, places_of
from cocoax.store import Layout, corrupt_file_errors, read_safetensors, write_safetensors

_TENSORS = ("values", "raw", "standard_error", "features", "feature_ids")
_LAYOUT = Layout(
    "attribution",
    {"values": "*shape", "raw?": "*", "standard_error?": "*shape", "features?": "*", "feature_ids?": "int * *"},
    {"score": float | int, "baseline_score": float | int, "neutral": float | int, "metadata": dict},
)


@dataclass(frozen=True, eq=False)
class Attribution(Displayed, Result):
    """The effect of each part of an input on a target.

    Attributes:
        values: one signed value per pixel ``[H, W]`` (the mean over channels), or per word, token, sentence, column or
            segment ``[m]`` (the sum over its elements).
        score: the target's value for the explicand.
        baseline_score: the target's value for the baseline; NaN where there is none.
        standard_error: of each effect (``relative``), where the method samples.
        raw: values of all elements, ``[C, H, W]`` or per embedding dimension and token ``[d, L]``, where the method has them.
        features: one value per removed feature (patch, segment), where the method works on those.
        neutral: the value of a feature that makes no difference: 0, or for RISE the mean score of masked inputs.
        metadata: method and options, target, encoder, versions.
        display: how the input is shown. What it knows can be read here too: ``picture``, ``box``, ``names`` (also as
            ``tokens``), ``text``, ``offsets``.
        feature_ids: of a picture whose features are parts of it, the part that each pixel belongs to, ``[H, W]``, or -1.
        floor: how far rounding alone may move an effect: what lies within it of 0 is nothing.
        unit: the effect for each unit that a value lies above ``neutral``: 1, or for RISE, whose published values are
            E[score · mask] / p, 1 / (1 - p).

    """

    file: ClassVar[str] = "attribution"
    values: Tensor
    score: float
    baseline_score: float
    standard_error: Tensor | None = None
    raw: Tensor | None = None
    features: Tensor | None = None
    neutral: float = 0.0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    display: Display = Picture()  # noqa: RUF009 (it is immutable)
    floor: float = 0.0
    feature_ids: Tensor | None = None
    unit: float = 1.0

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.values.shape))
        how = f"by {self.metadata.get('method', 'unknown')}{', nothing but rounding' * self.is_nothing}"
        if self.removed < LITTLE_REMOVED:
            how += f", {self.removed:.0%} of the score removed"
        return f"Attribution({self.name!r}, {shape}, score {self.score:+.3f}, {how})"

    @property
    def name(self) -> str:
        """The question that was asked."""
        return str(self.metadata.get("target", "attribution"))

    @property
    def relative(self) -> Tensor:
        """The effect of each feature in units of the score, E[score | kept] - E[score | removed], in double precision.

        That is what is shown, listed and exported. Above 0 it raises the target, below 0 it lowers it. What is below the
        ``floor`` may be rounding alone, and is 0; ``values`` are as the method's formula has them.
        """
        relative = (self.values.double() - self.neutral) * self.unit
        return torch.where(relative.abs() > self.floor, relative, 0.0)

    @property
    def segments(self) -> np.ndarray | None:
        """Of a picture whose features are parts of it, the part at each pixel ``[H, W]``, -1 for none; else None."""
        return None if self.feature_ids is None or self.values.ndim != 2 else self.feature_ids.numpy()

    @property
    def is_nothing(self) -> bool:
        """Whether no part of the input makes a difference that is more than rounding."""
        return not bool(self.relative.any())

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings for the reader, in sentences; usually none."""
        empty = NOTHING if self.is_nothing else ""
        removal = about_removal(self.score, self.baseline_score, self.floor, self.is_nothing)
        noise = "" if self.is_nothing else about_noise(self.relative, self.standard_error)
        crop = about_crop(self.box)
        return (*filter(None, (empty, removal, noise, crop)), *self.display.remarks)

    @property
    def removed(self) -> float:
        """The fraction of the score that disappears when every part of the input is removed; NaN without a baseline.

        It is the difference of the two scores, as a fraction of the larger one. A map explains that difference only: where a
        blurred cat is still a cat to the encoder, what makes it a cat is not on the map. NaN also where both scores are 0.
        """
        return removed_of(self.score, self.baseline_score)

    def numpy(self) -> np.ndarray:
        """Return the values as an array."""
        return self.values.numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values.numpy(), dtype=dtype, copy=True if copy is None else copy)

    # --- what every result has ------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """The question, the score and how it was explained."""
        how = " on ".join(str(self.metadata[key]) for key in ("method", "encoder") if key in self.metadata)
        return f"{self.name}: score {self.score:+.3f}{f', by {how}' if how else ''}"

    @property
    def summary(self) -> str:
        """The question, the score and what raises it most."""
        return f"{self.name}: score {self.score:+.3f}, raised most by {'; '.join(self.most(1)) or 'nothing'}"

    def most(self, count: int = 3) -> list[str]:
        """Return what raises the score most in words: regions of a picture, or features with their values."""
        if self.values.ndim == 2:
            return [str(region) for region in top_regions(self, count)]
        names = self.names or tuple(f"feature {number + 1}" for number in range(len(self.values)))
        order = torch.argsort(self.relative, descending=True, stable=True)[:count].tolist()
        return [f"{names[index]} {float(self.relative[index]):+.3f}" for index in order if self.relative[index] > 0]

    @property
    def effects(self) -> Effects:
        """The effects, as views show them."""
        error = None if self.standard_error is None else self.standard_error.numpy()
        return Effects(self.relative.numpy(), error, self.name, self.score)

    def view(self) -> View:
        """Return what there is to see: a heat map, a coloured text, bars, or what its kind of input has."""
        effects = self.effects
        legend = "Red raises the score, blue lowers it; white: no visible effect."
        if effects.uncertain().any():
            legend += f" {self.display.doubt}: within noise (the interval of two standard errors includes zero)."
        alt = "\n".join(self.most()) or "no part raises the score"
        view = replace(self.display.view(effects), note=legend, alt=alt)
        if isinstance(view, HeatMap) and self.segments is not None:
            return replace(view, smooth=False, regions=self.segments, names=self.region_names)
        return view

    @property
    def region_names(self) -> tuple[str, ...]:
        """Where each segment of a picture is, and how much of it that is: ``top left, 6 %``."""
        return tuple(f"{name}, {100 * share:.2g} %" for name, share, _ in self.places)

    @cached_property
    def places(self) -> list[tuple[str, float, Box]]:
        """The place in words, the share of the picture and the box of each segment of a picture; no two have one name."""
        assert self.segments is not None
        return places_of(self.segments, self.box)

    def views(self) -> list[View]:
        """Return the one view there is."""
        return [self.view()]

    def table(self, grid: int | None = None) -> Table:
        """Return one row per word, column or segment; of other maps one per cell of a ``grid``, 7 x 7 if they are as large.

        ``value`` is the effect (:attr:`relative`); texts have ``begin`` and ``end``, cells their place as fractions of the
        picture.
        """
        columns = _columns(self, grid)
        return Table(tuple(columns), tuple(zip(*columns.values(), strict=True)))

    def to_dataframe(self, grid: int | None = None) -> Any:
        """Return :meth:`table` as a pandas data frame."""
        return data_frame(self.table(grid))

    def facts(self) -> Mapping[str, Any]:
        """Return question, scores, remarks, where it comes from, and the table."""
        scores = {"score": self.score, "baseline_score": self.baseline_score}
        rest = {"remarks": self.remarks, "metadata": dict(self.metadata), "rows": self.table().records()}
        return {"question": self.name, **scores, **rest}

    def _repr_html_(self) -> str:
        from cocoax.show import html

        return html.fragment([replace(self.view(), title="")], heading=self.title, sentences=self.remarks)

    def to_shap(self) -> Any:
        """Return it as a ``shap.Explanation``, which SHAP's plots take (text, bar, waterfall, image).

        Its base value is what the values leave of the score: of KernelShap's values of words and columns, the score of an
        empty input; of others, whose values do not add up to the score, simply the rest.
        """
        return _to_shap(self)

    def _writers(self) -> dict[str, Callable[[Path, PlotOptions], object]]:
        return {**super()._writers(), ".safetensors": lambda path, options: self._write_tensors(path)}

    def _write_tensors(self, path: Path) -> Path:
        """Write it as safetensors with a JSON header."""
        tensors = {name: tensor for name in _TENSORS if (tensor := getattr(self, name)) is not None}
        shown, display = save_display(self.display)
        header = {
            "score": self.score,
            "baseline_score": self.baseline_score,
            "neutral": self.neutral,
            "floor": self.floor,
            "unit": self.unit,
            "metadata": dict(self.metadata),
            "display": display,
        }
        return write_safetensors(path, {**tensors, **shown}, "attribution", header)

    @classmethod
    def load(cls, path: str | Path) -> Attribution:
        """Read an attribution written by :meth:`save`."""
        tensors, header = read_safetensors(path, _LAYOUT)
        with corrupt_file_errors(path):
            display = load_display(tensors, header.pop("display", None))
            parts = {name: tensors[name] for name in _TENSORS if name in tensors}
            display.check_names(parts["values"].shape)
            return cls(**parts, **header, display=display)

    def top(self, count: int = 5, sign: Literal["positive", "negative"] | None = None) -> list[tuple[str, float]]:
        """Return the features that count most, with their effects: the largest first, by size.

        With ``sign`` only those that raise the target (``"positive"``) or only those that lower it (``"negative"``).
        """
        if self.names is None:
            raise ValueError("The attribution is of an image, whose pixels have no names; look at 'values'.")
        check_count("count", count, 0)
        sizes = {None: self.relative.abs(), "positive": self.relative, "negative": -self.relative}
        if sign is not None and (not isinstance(sign, str) or sign not in sizes):
            raise ValueError(f"The 'sign' parameter must be 'positive', 'negative' or None. Got {sign!r} instead.")
        order = torch.argsort(sizes[sign], descending=True, stable=True)[:count].tolist()
        return [(self.names[index], float(self.relative[index])) for index in order if sign is None or sizes[sign][index] > 0]


def at_least_rounding(error: Tensor, floor: float) -> Tensor:
    """Return standard errors of which two are at least the rounding floor; 0 stays 0, the error of an exact value."""
    return torch.where(error > 0, error.clamp(min=floor / 2), error).float()


# --- exports ----------------------------------------------------------------------------------------------------------------


def _columns(attribution: Attribution, grid: int | None) -> dict[str, list[Any]]:
    """Return the columns of :meth:`Attribution.table`."""
    values = attribution.relative
    errors = attribution.standard_error
    columns: dict[str, list[Any]]
    if values.ndim == 1:
        names = attribution.names or tuple(str(index) for index in range(len(values)))
        columns = {"feature": list(names)}
        if attribution.offsets is not None:
            columns |= {"begin": [begin for begin, _ in attribution.offsets], "end": [end for _, end in attribution.offsets]}
    elif attribution.segments is not None and grid is None:
        found, at = np.unique(attribution.segments, return_index=True)
        first = torch.from_numpy(at[found >= 0])
        values = values.flatten()[first]
        errors = None if errors is None else errors.flatten()[first]
        places = attribution.places
        columns = {"feature": list(attribution.region_names)}
        columns |= {side: [box[at] for _, _, box in places] for at, side in enumerate(("left", "top", "right", "bottom"))}
        columns["share"] = [share for _, share, _ in places]
    else:
        rows, across = check_grid(values.shape[0], values.shape[1], min(7, *values.shape) if grid is None else grid)
        down, right = averaging(values.shape[0], rows), averaging(values.shape[1], across)
        values = down @ values @ right.T
        errors = None if errors is None else down @ errors.double() @ right.T  # at most: as if all pixels erred together
        left, top, end, bottom = attribution.box
        cells = [(row, column) for row in range(rows) for column in range(across)]
        columns = {
            "feature": [f"row {row + 1}, column {column + 1}" for row, column in cells],
            "left": [left + (end - left) * column / across for _, column in cells],
            "top": [top + (bottom - top) * row / rows for row, _ in cells],
            "right": [left + (end - left) * (column + 1) / across for _, column in cells],
            "bottom": [top + (bottom - top) * (row + 1) / rows for row, _ in cells],
        }
    columns["value"] = values.flatten().tolist()
    if errors is not None:
        columns["standard_error"] = errors.double().flatten().tolist()
    return columns


def _to_shap(attribution: Attribution) -> Any:
    """Return a ``shap.Explanation``; see :meth:`cocoax.Attribution.to_shap`."""
    shap = import_optional("shap", "An explanation for SHAP needs")
    values = attribution.relative.float().numpy()
    # What the values leave of the score, so that SHAP's sums end at it: of Shapley values that is the score of nothing.
    base = attribution.score - float(values.sum(dtype=np.float64))
    if values.ndim == 1:
        names = attribution.names or tuple(str(index) for index in range(len(values)))
        given = getattr(attribution.display, "given", None)
        own = np.array(names, dtype=object) if given is None else np.array(given)
        return shap.Explanation(values=values, base_values=base, data=own, feature_names=list(names))
    data = None
    if attribution.picture is not None:
        left, top, right, bottom = attribution.box
        height, width = attribution.picture.shape[:2]
        seen = attribution.picture[round(top * height) : round(bottom * height), round(left * width) : round(right * width)]
        pixels = F.interpolate(seen.permute(2, 0, 1)[None].float(), size=values.shape, mode="bilinear", antialias=True)
        data = pixels[0].permute(1, 2, 0).round().to(torch.uint8).numpy()[None]
    question = [attribution.name]
    # SHAP drops the last dimension, that of the outputs, and looks at what is left: pictures of one channel.
    return shap.Explanation(values[None, ..., None, None], base_values=np.array([[base]]), data=data, output_names=question)


# --- regions --------------------------------------------------------------------------------------------------------------


_LEAST_SHARE = 0.005  # of the map: smaller spots are not worth a sentence


@dataclass(frozen=True)
class Region:
    """A connected part of a picture where a map is high (or low).

    Attributes:
        place: where it is, in words.
        share: of the picture's area.
        box: left, top, right, bottom of it, as fractions of the picture.
        value: the mean of the map over it, relative to ``neutral``: the mean change in score.
        standard_error: of the value, at most: the mean of the errors of its pixels, as if all erred together. None where the
            method has none.

    """

    place: str
    share: float
    box: Box
    value: float
    standard_error: float | None

    @property
    def within_noise(self) -> bool:
        """Whether the value lies within two standard errors of zero."""
        return self.standard_error is not None and abs(self.value) <= 2 * self.standard_error

    @property
    def percent(self) -> str:
        """The share in words."""
        return f"{self.share:.0%}" if self.share >= 0.005 else "<1%"

    @property
    def change(self) -> str:
        """The value in words, with its standard error: ``+0.2 ± 0.01``."""
        return f"{self.value:+.3g}" + ("" if self.standard_error is None else f" ± {self.standard_error:.2g}")

    def __str__(self) -> str:
        doubt = ", within noise" if self.within_noise else ""
        return f"{self.place}, {self.percent} of the picture: {self.change}{doubt}"


def top_regions(attribution: Attribution, count: int = 3, *, lowering: bool = False) -> list[Region]:
    """Return the parts of the picture that raise the target most (or lower it most), strongest first.

    Where features are regions themselves, such as segments, those are returned. Otherwise a region is a connected set of
    pixels above half of the map's peak; which pixels those are is decided on a slightly smoothed map, so that a method that
    speckles has regions too, and the values are those of the map itself.
    """
    if count < 1:
        raise ValueError(f"The 'count' parameter must be at least 1. Got {count} instead.")
    if attribution.values.ndim != 2:
        raise ValueError(f"Regions are parts of a picture's map [H, W]. Got shape {list(attribution.values.shape)} instead.")
    own = attribution.segments
    if own is not None:
        named = enumerate(attribution.places)
        segments = [replace(_region(attribution, own == number), place=place) for number, (place, _, _) in named]
        chosen = [each for each in segments if (each.value < 0 if lowering else each.value > 0)]
        return sorted(chosen, key=lambda each: -abs(each.value))[:count]
    from scipy import ndimage

    shown = attribution.relative.numpy()
    signed = ndimage.gaussian_filter(-shown if lowering else shown, [side / 32 for side in shown.shape])
    peak = float(signed.max())
    if not peak > 0:
        return []
    labels, number = ndimage.label(signed >= peak / 2, structure=np.ones((3, 3)))
    spots = [labels == index for index in range(1, number + 1)]
    spots = [inside for inside in spots if inside.mean() >= _LEAST_SHARE] or [max(spots, key=np.sum)]
    spots.sort(key=lambda inside: float(signed[inside].sum()), reverse=True)
    return [_region(attribution, inside) for inside in spots[:count]]


def _region(attribution: Attribution, inside: np.ndarray) -> Region:
    """Return the region of the pixels that are ``inside`` of it."""
    place, share, box = place_of(inside, attribution.box)
    error = attribution.standard_error
    return Region(
        place=place,
        share=share,
        box=box,
        value=float(attribution.relative.numpy()[inside].mean()),
        standard_error=None if error is None else float(error.double().numpy()[inside].mean()),
    )
