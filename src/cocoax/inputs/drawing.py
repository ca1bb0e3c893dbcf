"""What the pictures of all kinds of input share: titles, colours, scales, bars.

Maps are signed: red raises the target, blue lowers it, white makes no difference. Scales are centred at zero and say what
their numbers are; nothing is rescaled behind the reader's back.
"""

from __future__ import annotations

import base64
import html
import io
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = "RdBu_r"
RED, BLUE = (178, 24, 43), (33, 102, 172)
Box = tuple[float, float, float, float]
WHOLE: Box = (0.0, 0.0, 1.0, 1.0)


class Shown(Protocol):
    """What a display draws: the values of features, as an :class:`cocoax.Attribution` has them."""

    @property
    def values(self) -> Tensor:
        """One value per feature."""

    @property
    def relative(self) -> Tensor:
        """The values minus ``neutral``: what is drawn."""

    @property
    def standard_error(self) -> Tensor | None:
        """Of each value, where it is known."""

    @property
    def neutral(self) -> float:
        """The value of a feature that makes no difference."""

    @property
    def score(self) -> float:
        """The target's value."""

    @property
    def name(self) -> str:
        """The question that was asked."""


def question(shown: Shown) -> str:
    """Return the question and the score, as a title."""
    return "\n".join([*textwrap.wrap(shown.name, 34), f"score {shown.score:+.3f}"])


def meaning(shown: Shown) -> str:
    """Say what the drawn numbers are."""
    if not bool(shown.relative.any()):
        return "nothing: no part makes a difference"
    return f"change in score if kept (mean {shown.neutral:.3g})" if shown.neutral else "attribution"


def colour_scale(values: np.ndarray) -> tuple[float, bool]:
    """Return where the colour scale ends, and whether that cuts off a few extreme values."""
    size = np.abs(values)
    largest, most = float(size.max()), float(np.quantile(size, 0.99))
    return (most, True) if 0 < most < largest / 3 else (largest or 1.0, False)


def as_written(habits: dict[str, Any], opacity: float, limit: float | None) -> tuple[str, float, float | None]:
    """Return colours, opacity and limit, also where they are written as matplotlib has them: cmap, alpha, vmax (and vmin)."""
    unknown = set(habits) - {"cmap", "alpha", "vmax", "vmin"}
    if unknown:
        raise TypeError(
            f"A map is drawn with opacity (alpha), limit (vmax), cmap, title and colour_bar. Got {sorted(unknown)[0]!r}."
        )
    limit = habits.get("vmax", limit)
    if "vmin" in habits and habits["vmin"] != (None if limit is None else -limit):
        raise ValueError("Colour scales are centred at zero, so that white makes no difference; give vmax= alone.")
    return habits.get("cmap", COLOURS), habits.get("alpha", opacity), limit


def image_element(draw: Callable[[Axes], object], text: str) -> str:
    """Return an HTML image of what is drawn on axes; it is inside of the element."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 4), layout="constrained")
    draw(figure.subplots())
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=90)
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{html.escape(text)}" src="data:image/png;base64,{data}">'


def check_limit(limit: float | None) -> None:
    """Raise unless the end of a colour scale is above 0, or not given."""
    if limit is not None and not limit > 0:
        raise ValueError(f"The 'limit' parameter must be above 0. Got {limit!r} instead.")


def draw_over(
    shown: Shown,
    backdrop: tuple[Tensor | None, Box],
    ax: Axes | None = None,
    *,
    opacity: float = 0.65,
    limit: float | None = None,
    title: str | None = None,
    colour_bar: bool = True,
    **habits: Any,
) -> Axes:
    """Draw a map ``[H, W]`` over a backdrop, a picture of which it covers a box; see :func:`cocoax.plots.overlay`."""
    import matplotlib.pyplot as plt

    picture, box = backdrop
    colours, opacity, limit = as_written(habits, opacity, limit)
    if not 0 <= opacity <= 1:
        raise ValueError(f"The 'opacity' parameter must lie between 0 and 1. Got {opacity!r} instead.")
    if ax is None:
        seen = shown.values if picture is None else picture
        sides = seen.shape[1] / seen.shape[0]  # a tall picture gets a narrow figure
        ax = plt.subplots(figsize=(1.4 + 3.6 * min(max(sides, 0.5), 2.0), 4.4), layout="constrained")[1]
    check_limit(limit)
    values = shown.relative.numpy()
    cut = False
    if limit is None:
        limit, cut = colour_scale(values)
    height, width = values.shape if picture is None else picture.shape[:2]
    left, top, right, bottom = (part * side for part, side in zip(box, (width, height) * 2, strict=True))
    if picture is not None:
        grey = picture.numpy().astype(float).mean(2) / 255  # colours are the map's; the picture is there to find one's way
        ax.imshow(np.stack([grey] * 3, axis=2))
    if box != WHOLE:  # what the encoder did not see is faded
        veil = np.zeros((height, width, 4))
        veil[..., :3], veil[..., 3] = 1, 0.75
        veil[round(top) : round(bottom), round(left) : round(right), 3] = 0
        ax.imshow(veil)
    drawn = ax.imshow(
        values,
        cmap=colours,
        vmin=-limit,
        vmax=limit,
        alpha=opacity,
        extent=(left - 0.5, right - 0.5, bottom - 0.5, top - 0.5),
        interpolation="bilinear",
    )
    ax.set_xlim(-0.5, width - 0.5)
    ax.set_ylim(height - 0.5, -0.5)
    ax.set_axis_off()
    # Dollars are dollars, not the beginning of a formula.
    ax.set_title(question(shown) if title is None else title, fontsize=10, parse_math=False)
    if colour_bar and ax.figure is not None:
        bar = ax.figure.colorbar(drawn, ax=ax, fraction=0.046, pad=0.03, extend="both" if cut else "neither")
        bar.ax.tick_params(labelsize=8)
        bar.set_label(meaning(shown) + (f"; 1 % lie beyond ±{limit:.2g}" if cut else ""), fontsize=8)
        if bar.solids is not None:
            bar.solids.set_alpha(1)
    return ax


def draw_bars(
    shown: Shown,
    names: Sequence[str],
    ax: Axes | None = None,
    *,
    most: int = 40,
    title: str | None = None,
    limit: float | None = None,
) -> Axes:
    """Draw the values of named features as bars, with two standard errors to both sides where they are known.

    Args:
        shown: what to draw.
        names: of the features.
        ax: matplotlib axes to draw on; new ones if not given.
        most: how many features are drawn, in their own order; if there are more, those of the largest values.
        title: by default the question and the score.
        limit: the axis runs from -limit to +limit.

    """
    import matplotlib.pyplot as plt

    values = shown.relative.numpy()
    drawn = np.sort(np.argsort(-np.abs(values), kind="stable")[:most])
    if ax is None:
        ax = plt.subplots(figsize=(5, 0.9 + 0.26 * len(drawn)), layout="constrained")[1]
    errors = None if shown.standard_error is None else 2 * shown.standard_error.numpy()[drawn]
    colours = ["#{:02x}{:02x}{:02x}".format(*(RED if value > 0 else BLUE)) for value in values[drawn]]
    ax.barh(np.arange(len(drawn)), values[drawn], xerr=errors, color=colours, error_kw={"lw": 0.8, "ecolor": "#555555"})
    # Dollars are dollars, not the beginning of a formula.
    ax.set_yticks(np.arange(len(drawn)), [names[index] for index in drawn], fontsize=8, parse_math=False)
    ax.invert_yaxis()
    ax.axvline(0, color="#555555", lw=0.8)
    if limit is not None:
        ax.set_xlim(-limit, limit)
    ax.tick_params(axis="x", labelsize=8)
    left = f"; {len(values) - len(drawn)} smaller ones not shown" if len(values) > len(drawn) else ""
    ax.set_xlabel(meaning(shown) + left, fontsize=8)
    ax.set_title(question(shown) if title is None else title, fontsize=10, parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
