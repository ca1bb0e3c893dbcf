"""Regions: where a map is strongest, in words and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cocoax.show.views import Box, place_of

if TYPE_CHECKING:
    from cocoax.results.attribution import Attribution

_LEAST = 0.005  # of the map: smaller spots are not worth a sentence


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
    spots = [inside for inside in spots if inside.mean() >= _LEAST] or [max(spots, key=np.sum)]
    spots.sort(key=lambda inside: float(signed[inside].sum()), reverse=True)
    return [_region(attribution, inside) for inside in spots[:count]]


def unique_places(places: Sequence[str]) -> list[str]:
    """Return places of which those with the same words are numbered: ``centre``, ``centre 2``."""
    seen: Counter[str] = Counter()
    names = []
    for place in places:
        seen[place] += 1
        names.append(place if seen[place] == 1 else f"{place} {seen[place]}")
    return names


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
