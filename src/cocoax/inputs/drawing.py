"""What the pictures of all kinds of input share: titles, colours, scales, hatching, bars.

Maps are signed: red raises the target, blue lowers it, white makes no difference, and what is hatched is not known. Scales
are centred at zero and say what their numbers are; nothing is rescaled behind the reader's back.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from torch import Tensor

from cocoax.inputs.fonts import lettered, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axes._base import _AxesBase
    from matplotlib.backend_bases import RendererBase
    from matplotlib.cm import ScalarMappable
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

COLOURS = "RdBu_r"
RED, BLUE = (178, 24, 43), (33, 102, 172)
VISIBLE = 0.1  # of the colour scale: a value below this can hardly be told from white
HATCH, HATCH_COLOUR = "////", "#55555590"
LINE, LINES = 0.13, 4  # inches of a line of a bar's name, and the most lines there are
Box = tuple[float, float, float, float]
WHOLE: Box = (0.0, 0.0, 1.0, 1.0)
Order = Literal["size", "given"]


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
    return f"{wrapped(shown.name, 34)}\nscore {shown.score:+.3f}"


def draw_title(ax: Axes, shown: Shown, title: str | None) -> None:
    """Write a title above a drawing, by default the question and the score."""
    (words,), family = lettered([question(shown) if title is None else title])
    # Dollars are dollars, not the beginning of a formula.
    ax.set_title(words, fontsize=10, fontfamily=family, parse_math=False)


def meaning(shown: Shown, unknown: np.ndarray | None = None) -> str:
    """Say what the drawn numbers are, and what hatching means where some are unknown."""
    if not bool(shown.relative.any()):
        return "nothing: no part makes a difference"
    unit = getattr(shown, "unit", "attribution")
    numbers = f"change in score if kept (mean {shown.neutral:.3g})" if shown.neutral else unit
    return f"{numbers}\nhatched: not known" if unknown is not None and unknown.any() else numbers


def colour_scale(values: np.ndarray) -> tuple[float, bool]:
    """Return where the colour scale ends, and whether that cuts off a few extreme values."""
    size = np.abs(values)
    largest, most = float(size.max()), float(np.quantile(size, 0.99))
    return (most, True) if 0 < most < largest / 3 else (largest or 1.0, False)


def not_known(values: np.ndarray, errors: np.ndarray | None, limit: float) -> np.ndarray:
    """Return where it is not known whether there is anything: within two standard errors lie zero and a visible value.

    Zero regions are different: there, all that lies within two standard errors is too small to be seen on a scale that ends
    at ``limit``. Where there are no errors, everything is known.
    """
    if errors is None:
        return np.zeros(values.shape, bool)
    size, doubt = np.abs(values), 2 * errors
    unknown: np.ndarray = (size < doubt) & (size + doubt > VISIBLE * limit)
    return unknown


def hidden_in_noise(shown: Shown, limit: float | None = None) -> np.ndarray:
    """Return which of the values are :func:`not_known` on a scale that ends at ``limit``, by default where theirs does."""
    values = shown.relative.numpy()
    errors = None if shown.standard_error is None else shown.standard_error.numpy()
    return not_known(values, errors, colour_scale(values)[0] if limit is None else limit)


def image_element(draw: Callable[[Axes], object], text: str, height: float = 4.0) -> str:
    """Return an HTML image, of this height in inches, of what is drawn on axes; it is inside of the element."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, height), layout="constrained")
    draw(figure.subplots())
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=90)
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{html.escape(text)}" src="data:image/png;base64,{data}">'


def new_axes(width: float, height: float) -> Axes:
    """Return axes on a figure of their own, of this size in inches."""
    from cocoax.inputs.figures import new_figure

    axes: Axes = new_figure(width, height).subplots()
    return axes


def figure_of(ax: Axes) -> Figure:
    """Return the figure that axes stand on."""
    figure = ax.figure
    assert figure is not None
    return figure  # type: ignore[return-value]  # no part of a larger one: it was made for these axes


def check_limit(limit: float | None) -> None:
    """Raise unless the end of a colour scale is above 0, or not given."""
    if limit is not None and not limit > 0:
        raise ValueError(f"The 'limit' parameter must be above 0. Got {limit!r} instead.")


def check_opacity(opacity: float) -> None:
    """Raise unless an opacity lies between 0 and 1."""
    if not 0 <= opacity <= 1:
        raise ValueError(f"The 'opacity' parameter must lie between 0 and 1. Got {opacity!r} instead.")


def draw_over(
    shown: Shown,
    backdrop: tuple[Tensor | None, Box],
    ax: Axes | None = None,
    *,
    opacity: float = 0.65,
    limit: float | None = None,
    title: str | None = None,
    colour_bar: bool = True,
    cmap: str = COLOURS,
) -> Axes:
    """Draw a map ``[H, W]`` over a backdrop, a picture of which it covers a box; see :func:`cocoax.plots.overlay`."""
    picture, box = backdrop
    check_opacity(opacity)
    check_limit(limit)
    values = shown.relative.numpy()
    height, width = values.shape if picture is None else picture.shape[:2]
    if ax is None:  # a tall picture gets a narrow figure, and a very wide one a low figure
        ax = new_axes(1.4 + 3.6 * min(max(width / height, 0.5), 2.0), 0.8 + 3.6 * min(max(2 * height / width, 0.35), 1.0))
    cut = False
    if limit is None:
        limit, cut = colour_scale(values)
    left, top, right, bottom = (part * side for part, side in zip(box, (width, height) * 2, strict=True))
    if picture is not None:
        grey = picture.numpy().astype(float).mean(2) / 255  # colours are the map's; the picture is there to find one's way
        ax.imshow(np.stack([grey] * 3, axis=2))
    if box != WHOLE:  # what the encoder did not see is faded
        veil = np.zeros((height, width, 4))
        veil[..., :3], veil[..., 3] = 1, 0.75
        veil[round(top) : round(bottom), round(left) : round(right), 3] = 0
        ax.imshow(veil)
    place = (left - 0.5, right - 0.5, bottom - 0.5, top - 0.5)
    drawn = ax.imshow(values, cmap=cmap, vmin=-limit, vmax=limit, alpha=opacity, extent=place, interpolation="bilinear")
    unknown = hidden_in_noise(shown, limit)
    _hatch_pixels(ax, unknown, place)
    ax.set_xlim(-0.5, width - 0.5)
    ax.set_ylim(height - 0.5, -0.5)
    ax.set_axis_off()
    draw_title(ax, shown, title)
    if colour_bar:
        beyond = f"\n1 % lie beyond ±{limit:.2g}" if cut else ""
        draw_scale(ax, drawn, meaning(shown, unknown) + beyond, "both" if cut else "neither", height / width)
    return ax


def _hatch_pixels(ax: Axes, unknown: np.ndarray, place: tuple[float, float, float, float]) -> None:
    """Hatch the pixels of a map that are not known, within its place: left, right, bottom, top."""
    if not unknown.any():
        return
    left, right, bottom, top = place
    across = left + (np.arange(unknown.shape[1]) + 0.5) * (right - left) / unknown.shape[1]
    down = top + (np.arange(unknown.shape[0]) + 0.5) * (bottom - top) / unknown.shape[0]
    # Half a pixel more on each side, so that the hatching reaches the edge.
    across, down = np.r_[left, across, right], np.r_[top, down, bottom]
    hatched = ax.contourf(across, down, np.pad(unknown, 1, "edge").astype(float), [0.5, 1.5], colors="none", hatches=[HATCH])
    hatched.set_edgecolor(HATCH_COLOUR)
    hatched.set_linewidth(0)


def hatch_cells(ax: Axes, unknown: np.ndarray, across: np.ndarray, up: np.ndarray) -> None:
    """Hatch the cells ``[rows, columns]`` that are not known, of a grid with these edges."""
    from matplotlib.patches import Rectangle

    for row, column in zip(*np.nonzero(unknown), strict=True):
        corner = (float(across[column]), float(up[row]))
        width, height = float(across[column + 1] - across[column]), float(up[row + 1] - up[row])
        ax.add_patch(Rectangle(corner, width, height, fill=False, lw=0, hatch=HATCH, edgecolor=HATCH_COLOUR, zorder=1.5))


def scale_beside(ax: Axes, drawn: ScalarMappable, ratio: float, extend: Literal["both", "neither"]) -> Colorbar:
    """Return a colour bar beside a map, as tall as the map; ``ratio`` is the map's height, relative to its width."""
    # As thick as a 25th of the longer side, for which there is always room.
    room, long = 0.046 * max(ratio, 1.0), 25 * min(ratio, 1.0)
    bar = figure_of(ax).colorbar(drawn, ax=ax, fraction=room, pad=0.03, aspect=long, extend=extend)
    place = bar.ax.get_axes_locator()
    assert place is not None

    def as_tall(own: _AxesBase, renderer: RendererBase) -> Bbox:
        # A picture that is wider than its place is lower than that, which is known when it is drawn.
        inside, room, map_ = place(own, renderer), own.get_position(original=True), ax.get_position()
        times = map_.height / room.height
        return inside.from_bounds(inside.x0, map_.y0 + times * (inside.y0 - room.y0), inside.width, times * inside.height)

    bar.ax.set_axes_locator(as_tall)
    return bar


def draw_scale(
    ax: Axes, drawn: ScalarMappable, label: str, extend: Literal["both", "neither"] = "neither", ratio: float = 1.0
) -> None:
    """Draw the colour bar of a map beside it, in full colours; it extends where values lie beyond its ends."""
    if ax.figure is None:
        return
    bar = scale_beside(ax, drawn, ratio, extend)
    bar.ax.tick_params(labelsize=8)
    bar.set_label(
        "\n".join(wrapped(line, 26) for line in label.split("\n")), fontsize=8
    )  # it must not be longer than the bar
    if bar.solids is not None:
        bar.solids.set_alpha(1)


def draw_bars(
    shown: Shown,
    names: Sequence[str],
    ax: Axes | None = None,
    *,
    order: Order = "given",
    most: int = 40,
    title: str | None = None,
    limit: float | None = None,
) -> Axes:
    """Draw the values of named features as bars, with two standard errors to both sides where they are known.

    Args:
        shown: what to draw.
        names: of the features.
        ax: matplotlib axes to draw on; new ones if not given.
        order: of the bars: by ``"size"``, the largest first whatever its sign, or as ``"given"``.
        most: how many features are drawn; if there are more, those of the largest values.
        title: by default the question and the score.
        limit: the axis runs from -limit to +limit.

    """
    if order not in ("size", "given"):
        raise ValueError(f"The 'order' parameter must be 'size' or 'given'. Got {order!r} instead.")
    values = shown.relative.numpy()
    drawn = np.argsort(-np.abs(values), kind="stable")[:most]
    drawn = drawn if order == "size" else np.sort(drawn)
    labels, family = lettered([wrapped(names[index], 40, LINES) for index in drawn])
    rooms = np.array([bar_height(label) for label in labels])
    if ax is None:
        ax = new_axes(5, 0.9 + rooms.sum())
    places = rooms.cumsum() - rooms / 2
    unknown = hidden_in_noise(shown, limit)
    errors = None if shown.standard_error is None else 2 * shown.standard_error.numpy()[drawn]
    colours = ["#{:02x}{:02x}{:02x}".format(*(RED if value > 0 else BLUE)) for value in values[drawn]]
    bars = ax.barh(places, values[drawn], 1.6 * LINE, xerr=errors, color=colours, error_kw={"lw": 0.8, "ecolor": "#555555"})
    for bar, index in zip(bars, drawn, strict=True):
        if unknown[index]:  # paler, with stripes in its colour
            bar.set(hatch=HATCH, edgecolor=bar.get_facecolor(), facecolor=(*bar.get_facecolor()[:3], 0.15), linewidth=0)
    # Dollars are dollars, not the beginning of a formula.
    ax.set_yticks(places, labels, fontsize=8, fontfamily=family, parse_math=False)
    ax.set_ylim(rooms.sum(), 0)
    ax.axvline(0, color="#555555", lw=0.8)
    if limit is not None:
        ax.set_xlim(-limit, limit)
    ax.tick_params(axis="x", labelsize=8)
    left = f"; {len(values) - len(drawn)} smaller ones not shown" if len(values) > len(drawn) else ""
    ax.set_xlabel(meaning(shown, unknown[drawn]) + left, fontsize=8)
    draw_title(ax, shown, title)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def bar_height(label: str) -> float:
    """Return how many inches a bar takes whose name has these lines."""
    return LINE * (2 + label.count("\n"))


def bars_height(names: Sequence[str], most: int = 40) -> float:
    """Return how many inches a drawing of bars takes, without its title and axis."""
    heights = sorted((bar_height(wrapped(name, 40, LINES)) for name in names), reverse=True)
    return sum(heights[:most])
