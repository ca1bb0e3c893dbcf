"""The page's pictures, in the colours of :mod:`cocoax.plots`.

Maps are drawn with NumPy and Pillow, in a few milliseconds; curves and what is downloaded with Matplotlib.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from cocoax import Answer, Attribution, Curve
from cocoax.show.figure import plot, png
from cocoax.show.options import PlotOptions
from cocoax.show.palette import COLOURS
from cocoax.show.raster import heat_image, jpeg_uri
from cocoax.show.views import Gallery, HeatMap, colour_scale, uncertain


@dataclass(frozen=True)
class _Palette:
    """A diverging colour map, and what its two ends are called."""

    colours: str
    raises: str
    lowers: str


PALETTES = {
    "Red and blue": _Palette(COLOURS, "Red", "blue"),
    "Orange and purple": _Palette("PuOr_r", "Orange", "purple"),
    "Green and pink": _Palette("PiYG", "Green", "pink"),
}
GRIDS = {"Smooth": 0, "7 × 7": 7, "14 × 14": 14, "28 × 28": 28}


@dataclass(frozen=True)
class View:
    """How maps are drawn: what the visitor chose among ``PALETTES`` and ``GRIDS``, and how strong.

    A value that is not among the choices, which a page of ours does not send, is an error.
    """

    opacity: float = 0.65
    palette: str = "Red and blue"
    grid: str = "Smooth"
    same_scale: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.opacity, bool) or not isinstance(self.opacity, int | float) or not 0 <= self.opacity <= 1:
            raise ValueError(f"The opacity must lie between 0 and 1. Got {self.opacity!r} instead.")
        for option, value, known in (("colours", self.palette, PALETTES), ("grid", self.grid, GRIDS)):
            if value not in known:
                raise ValueError(f"The {option} must be one of {', '.join(known)}. Got {value!r} instead.")

    @property
    def cells(self) -> int:
        """Cells across and down, 0 for none."""
        return GRIDS[self.grid]


@dataclass(frozen=True, eq=False)
class Map:
    """An attribution as the page shows it: values relative to neutral and their errors, by pixel or by cell.

    The error of a cell is the mean of those of its pixels, which is the most it can be.
    """

    shown: np.ndarray
    error: np.ndarray | None

    @classmethod
    def of(cls, attribution: Attribution, cells: int = 0) -> Map:
        """Return the map of an attribution, averaged over cells if there are any."""

        def pooled(values: Tensor) -> np.ndarray:
            size = (min(cells, values.shape[0]), min(cells, values.shape[1]))
            averages: np.ndarray = (F.adaptive_avg_pool2d(values[None], size)[0] if cells else values).double().numpy()
            return averages

        error = attribution.standard_error
        return cls(pooled(attribution.relative), None if error is None else pooled(error))

    def uncertain(self, limit: float) -> np.ndarray:
        """Return where it is not known whether there is anything, on a scale that ends at ``limit``."""
        return uncertain(self.shown, self.error, limit)


def limit_of(attribution: Attribution, cells: int = 0) -> tuple[float, bool]:
    """Return where the colour scale ends, and whether that cuts off a few extreme values."""
    return colour_scale(Map.of(attribution, cells).shown)


def _heat_map(attribution: Attribution, view: View) -> HeatMap:
    """Return the map as the page draws it: over cells, or as it is."""
    found = attribution.view()
    assert isinstance(found, HeatMap)
    if not view.cells:
        return found
    map_ = Map.of(attribution, view.cells)
    effects = replace(found.effects, values=map_.shown, error=map_.error)
    return replace(found, effects=effects, smooth=False, regions=None, names=())


def draw(attribution: Attribution, view: View, limit: float) -> Image.Image:
    """Draw the map over its picture: colours for values, grey where they are within noise, a veil over what was not seen."""
    options = PlotOptions(limit=limit, opacity=view.opacity, cmap=PALETTES[view.palette].colours)
    return heat_image(_heat_map(attribution, view), options)


@dataclass(frozen=True)
class Reading:
    """The value of a map at one place; None where the encoder did not look."""

    value: float | None = None
    error: float | None = None
    uncertain: bool = False


def read(attribution: Attribution, place: tuple[float, float], view: View, limit: float) -> Reading:
    """Return the value and standard error at a place of the picture (fractions from left and top)."""
    left, top, right, bottom = attribution.box
    x, y = (place[0] - left) / (right - left), (place[1] - top) / (bottom - top)
    if not (0 <= x < 1 and 0 <= y < 1):
        return Reading()
    map_ = Map.of(attribution, view.cells)
    rows, columns = map_.shown.shape
    at = int(y * rows), int(x * columns)
    error = None if map_.error is None else float(map_.error[at])
    return Reading(float(map_.shown[at]), error, bool(map_.uncertain(limit)[at]))


def curve_plot(measured: Sequence[tuple[str, list[dict[str, Curve]]]]) -> str:
    """Return the insertion and deletion curves of each answer, beside those of a random order, as part of the page."""
    from matplotlib.figure import Figure  # not pyplot, which keeps figures in a place that threads share

    kinds = ("insertion", "deletion")
    plot = Figure(figsize=(8.4, 2.9 * len(measured)), layout="constrained")
    axes = plot.subplots(len(measured), 2, squeeze=False, sharey="row")
    for row, (name, (own, random)) in zip(axes, measured, strict=True):
        for ax, kind in zip(row, kinds, strict=True):
            for curve, how, label in (
                (own[kind], {"color": "#b2182b", "lw": 2}, "this map"),
                (random[kind], {"color": "#888", "lw": 1.2, "ls": "--"}, "random order"),
            ):
                ax.plot(100 * curve.x.numpy(), curve.y.numpy(), label=f"{label}, area {curve.auc:+.3f}", **how)
            ax.set_title(f"{kind.capitalize()}: {_shortened(name, 44)}", fontsize=9, loc="left", parse_math=False)
            ax.set_xlabel(
                "% of pixels " + ("put back, hottest first" if kind == "insertion" else "removed, hottest first"), fontsize=8
            )
            ax.tick_params(labelsize=8)
            ax.spines[["top", "right"]].set_visible(False)
            ax.legend(fontsize=8, frameon=False)
        row[0].set_ylabel("score", fontsize=8)
    return jpeg_uri(Image.open(io.BytesIO(png(plot, dpi=130))), 92)


def card(answer: Answer, view: View, limit: float) -> bytes:
    """Return an answer as a PNG to keep: the photo, and the map as the page shows it with question, score and scale."""
    shown = answer.view()
    assert isinstance(shown, HeatMap)
    own = replace(_heat_map(answer.attribution, view), title=None)
    own = replace(own, effects=replace(own.effects, parts=shown.effects.parts))
    options = PlotOptions(limit=limit, opacity=view.opacity, cmap=PALETTES[view.palette].colours)
    panel = Gallery((own,), 1, answer.attribution.display.input_view(), colour_bars=True, inches=4.0)
    return png(plot([panel], options, interactive=False), dpi=150)


def _shortened(text: str, most: int) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
