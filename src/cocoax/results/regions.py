"""Regions: where a map is hottest, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cocoax.show import Box

if TYPE_CHECKING:
    from cocoax.results.attribution import Attribution

_LEAST = 0.005  # of the map: smaller spots are not worth a sentence
_MOST = 0.5  # of the picture: what covers less is not most of it, however far it reaches
_WIDE = 0.7  # of the picture: what reaches further is not on one side of it


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
    def certain(self) -> bool:
        """Whether the value is more than two standard errors away from nothing."""
        return self.standard_error is None or abs(self.value) > 2 * self.standard_error

    @property
    def percent(self) -> str:
        """The share in words."""
        return f"{self.share:.0%}" if self.share >= 0.005 else "<1%"

    @property
    def change(self) -> str:
        """The value in words, with its standard error: ``+0.2 ± 0.01``."""
        return f"{self.value:+.3g}" + ("" if self.standard_error is None else f" ± {self.standard_error:.2g}")

    def __str__(self) -> str:
        doubt = "" if self.certain else ", which may be nothing"
        return f"{self.place}, {self.percent} of the picture: {self.change}{doubt}"


def top_regions(attribution: Attribution, count: int = 3, *, lowering: bool = False) -> list[Region]:
    """Return the parts of the picture that raise the target most (or lower it most), strongest first.

    A region is a connected set of pixels above half of the map's peak. Which pixels those are is decided on a slightly
    smoothed map, so that a method that speckles has regions too; the values are those of the map itself.
    """
    if count < 1:
        raise ValueError(f"The 'count' parameter must be at least 1. Got {count} instead.")
    if attribution.values.ndim != 2:
        raise ValueError(f"Regions are parts of a picture's map [H, W]. Got shape {list(attribution.values.shape)} instead.")
    from scipy import ndimage

    shown = attribution.relative.numpy()
    signed = ndimage.gaussian_filter(-shown if lowering else shown, [side / 32 for side in shown.shape])
    peak = float(signed.max())
    if not peak > 0:
        return []
    labels, number = ndimage.label(signed >= peak / 2, structure=np.ones((3, 3)))
    spots = [labels == index for index in range(1, number + 1)]
    spots = [inside for inside in spots if inside.mean() >= _LEAST] or [max(spots, key=np.sum)]
    spots.sort(key=lambda inside: float(signed[inside].sum()), reverse=True)
    return [_region(attribution, shown, inside) for inside in spots[:count]]


def _region(attribution: Attribution, shown: np.ndarray, inside: np.ndarray) -> Region:
    """Return the region of the pixels that are ``inside`` of it; ``shown`` is the map relative to neutral."""
    left, top, right, bottom = attribution.box
    rows, columns = np.nonzero(inside)
    height, width = inside.shape

    def across(place: float) -> float:
        return float(left + (right - left) * place / width)

    def down(place: float) -> float:
        return float(top + (bottom - top) * place / height)

    box = (across(columns.min()), down(rows.min()), across(columns.max() + 1), down(rows.max() + 1))
    share = float(inside.mean()) * (right - left) * (bottom - top)
    error = attribution.standard_error
    return Region(
        place=_words(across(columns.mean() + 0.5), down(rows.mean() + 0.5), box, share),
        share=share,
        box=box,
        value=float(shown[inside].mean()),
        standard_error=None if error is None else float(error.double().numpy()[inside].mean()),
    )


def _words(x: float, y: float, box: Box, share: float) -> str:
    """Return which ninth of the picture a place lies in; the side does not count in a direction that the box fills."""
    left, top, right, bottom = box
    row = "" if bottom - top > _WIDE else ("upper", "middle", "lower")[min(int(y * 3), 2)]
    column = "" if right - left > _WIDE else ("left", "middle", "right")[min(int(x * 3), 2)]
    if row == column == "":
        return "most of the picture" if share >= _MOST else "across the picture"
    if row == column:
        return "centre"
    if not row or not column:
        return f"{row or column} part"
    return f"{row} {column}"
