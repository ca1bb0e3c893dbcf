"""Views drawn with matplotlib.

Maps are signed: red raises the score, blue lowers it, white makes no difference, and where hatched the interval of two
standard errors includes zero. Scales are centred at zero and say what their numbers are.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cocoax.show.fonts import columns, families, wrapped
from cocoax.show.options import PlotOptions
from cocoax.show.raster import heat_image
from cocoax.show.views import (
    Bars,
    ColouredText,
    Curves,
    Effects,
    Gallery,
    HeatMap,
    Histogram,
    Links,
    LinkSide,
    Matrix,
    Paragraph,
    Photo,
    SoundMap,
    Table,
    View,
    colour_scale,
)
from cocoax.store import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axes._base import _AxesBase
    from matplotlib.backend_bases import RendererBase
    from matplotlib.cm import ScalarMappable
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure, FigureBase
    from matplotlib.transforms import Bbox

RED, BLUE = (178, 24, 43), (33, 102, 172)
HATCH, HATCH_COLOUR = "////", "#55555590"
OUTLINE, EDGE = "#ffd400", "black"  # bright on a dark edge can be seen on any picture
DISTINCT = ("#d95f02", "#1b9e77", "#7570b3", "#e7298a", "#66a61e", "#e6ab02", "#a6761d", "#666666")
_LINE, _LINES = 0.13, 4  # inches of a line of a bar's name, and the most lines it has
_CHARACTER = 0.095  # inches
_LONGEST_LINE = 130  # characters; of longer texts only the linked words are drawn
_STRIPES = 36  # of hatching along the longer side of a map: few enough to be seen in a panel
_WAVEFORM = 4000  # columns of a drawn waveform; no screen shows more, and a line through every sample takes long
_LITERAL: dict[str, Any] = {"parse_math": False}  # dollars are dollars, not the beginning of a formula
DEFAULT = PlotOptions()

# --- figures ---------------------------------------------------------------------------------------------------------------


def plot(views: Sequence[View], options: PlotOptions = DEFAULT, *, interactive: bool = True) -> Figure:
    """Return a figure of views below each other; an ``interactive`` one is kept by pyplot, so that ``plt.show()`` shows it.

    Tables are left out where there is something else to see.
    """
    drawn = [view for view in views if not isinstance(view, Table)] or list(views)
    sizes = [size(view, options) for view in drawn]
    width, height = max(across for across, _ in sizes), sum(down for _, down in sizes)
    if options.inches is not None:
        width, height = options.inches, height * max(options.inches / width, 0.5)
    figure = new_figure(width, height, interactive)
    if len(drawn) == 1:
        paint(drawn[0], figure, options)
        return figure
    parts: Any = figure.subfigures(len(drawn), 1, height_ratios=[down for _, down in sizes])
    for view, part in zip(drawn, parts, strict=True):
        paint(view, part, replace(options, title=None))
    if options.title:
        _heading(figure, options.title)
    return figure


def new_figure(width: float, height: float, interactive: bool = True) -> Figure:
    """Return an empty figure of this size in inches."""
    if interactive:
        import matplotlib.pyplot as plt

        from cocoax.show.notebook import NotebookFigure

        return plt.figure(figsize=(width, height), layout="constrained", FigureClass=NotebookFigure)
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def png(figure: Figure, dpi: float) -> bytes:
    """Return a figure as the content of a PNG file."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=dpi)
    return file.getvalue()


def write(path: Path, figure: Figure, options: PlotOptions = DEFAULT) -> None:
    """Write a figure in the format that the path's ending names, all or nothing.

    Text is text in SVG, fonts are embedded in PDF. It bears no date: the same figure is the same file.
    """
    import matplotlib

    undated: dict[str, Any] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
    ending = path.suffix.lower()
    how: Any = {"svg.fonttype": "none", "svg.hashsalt": "cocoax", "pdf.fonttype": 42}
    with atomic_write(path) as part, matplotlib.rc_context(how):
        figure.savefig(
            part, format=ending[1:], dpi=options.dpi, transparent=options.transparent, metadata=undated.get(ending)
        )


@singledispatch
def size(view: View, options: PlotOptions = DEFAULT) -> tuple[float, float]:
    """Return how many inches a view takes in a figure, across and down."""
    return 4.5, 3.2


@singledispatch
def paint(view: View, figure: FigureBase, options: PlotOptions = DEFAULT) -> None:
    """Draw a view on an empty figure, or on a part of one."""
    ax: Axes = figure.subplots()
    draw(view, ax, options)
    if ax.images:  # in the middle of its place a picture would leave room above it, away from its title
        ax.set_anchor("N")


@singledispatch
def draw(view: View, ax: Axes, options: PlotOptions = DEFAULT) -> None:
    """Draw a view on axes."""
    raise TypeError(f"A {type(view).__name__} needs a figure of its own; plot it without ax=.")


# --- titles and scales ------------------------------------------------------------------------------------------------------


def question(effects: Effects) -> str:
    """Return the question and the score, as a title."""
    score = "" if effects.score is None else f"\nscore {effects.score:+.3f}"
    return f"{wrapped(effects.question, 34)}{score}"


def _draw_title(ax: Axes, view: View, options: PlotOptions, effects: Effects | None = None) -> None:
    """Write a title above a drawing: the one asked for, the view's own, or the question and the score."""
    own = view.title if view.title is not None else "" if effects is None else question(effects)
    ax.set_title(own if options.title is None else options.title, fontsize=10, fontfamily=families(), **_LITERAL)


def _heading(figure: FigureBase, title: str) -> None:
    """Write a heading above all drawings of a figure, in lines that fit its width."""
    own: Any = figure
    width = own.bbox.width / own.figure.dpi
    lines = "\n".join(wrapped(line, int(12 * width), 2) for line in title.split("\n"))
    figure.suptitle(lines, fontsize=10, fontfamily=families(), **_LITERAL)


def _meaning(effects: Effects, unsure: np.ndarray, options: PlotOptions) -> str:
    """Say what numbers of a scale are, and how uncertain ones are drawn where there are any."""
    if not unsure.any() or options.uncertainty == "none" or not effects.values.any():
        return effects.meaning
    how = "hatched" if options.uncertainty == "hatch" else "grey"
    return f"{effects.meaning}\n{how}: ± 2 SE include 0"


def scale_beside(ax: Axes, drawn: ScalarMappable, ratio: float, extend: Literal["both", "neither"]) -> Colorbar:
    """Return a colour bar beside a map, as tall as the map; ``ratio`` is the map's height, relative to its width."""
    # As thick as a 25th of the longer side, for which there is always room.
    room, long = 0.046 * max(ratio, 1.0), 25 * min(ratio, 1.0)
    figure = ax.get_figure()
    assert figure is not None
    bar = figure.colorbar(drawn, ax=ax, fraction=room, pad=0.03, aspect=long, extend=extend)
    place = bar.ax.get_axes_locator()
    assert place is not None

    def as_tall(own: _AxesBase, renderer: RendererBase) -> Bbox:
        # A picture that is wider than its place is lower than that, which is known when it is drawn.
        inside, room, map_ = place(own, renderer), own.get_position(original=True), ax.get_position()
        times = map_.height / room.height
        return inside.from_bounds(inside.x0, map_.y0 + times * (inside.y0 - room.y0), inside.width, times * inside.height)

    bar.ax.set_axes_locator(as_tall)
    return bar


def _draw_scale(ax: Axes, limit: float, label: str, options: PlotOptions, ratio: float = 1.0, *, cut: bool = False) -> None:
    """Draw the colour bar of a map beside it; it extends where values lie beyond its ends."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    colours = ScalarMappable(Normalize(-limit, limit), options.cmap)
    bar = scale_beside(ax, colours, ratio, "both" if cut else "neither")
    bar.ax.tick_params(labelsize=8)
    # It must not be longer than the bar.
    bar.set_label("\n".join(wrapped(line, 26) for line in label.split("\n")), fontsize=8)


def _rgb(value: float) -> tuple[float, ...]:
    return tuple(part / 255 for part in (RED if value > 0 else BLUE))


# --- pictures ---------------------------------------------------------------------------------------------------------------


@draw.register(HeatMap)
def _(view: HeatMap, ax: Axes, options: PlotOptions = DEFAULT) -> None:
    values = view.effects.values
    limit, cut = (options.limit, False) if options.limit is not None else colour_scale(values)
    height, width = values.shape if view.picture is None else view.picture.shape[:2]
    image = np.asarray(heat_image(view, replace(options, limit=limit), stripes=_STRIPES))
    ax.imshow(image, extent=(-0.5, width - 0.5, height - 0.5, -0.5))
    ax.set_axis_off()
    _draw_title(ax, view, options, view.effects)
    if options.colour_bar:
        beyond = f"\n1 % lie beyond ±{limit:.2g}" if cut else ""
        label = _meaning(view.effects, view.effects.uncertain(limit), options) + beyond
        _draw_scale(ax, limit, label, options, height / width, cut=cut)


@size.register(HeatMap)
def _(view: HeatMap, options: PlotOptions = DEFAULT) -> tuple[float, float]:
    height, width = view.effects.values.shape if view.picture is None else view.picture.shape[:2]
    # A tall picture gets a narrow figure, and a very wide one a low figure.
    return 1.4 + 3.6 * min(max(width / height, 0.5), 2.0), 0.8 + 3.6 * min(max(2 * height / width, 0.35), 1.0)


@draw.register(Photo)
def _(view: Photo, ax: Axes, options: PlotOptions = DEFAULT) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.patheffects import Stroke

    height, width = view.picture.shape[:2]
    ax.imshow(view.picture)
    if view.marked is not None:
        left, top, right, bottom = (part * side for part, side in zip(view.box, (width, height) * 2, strict=True))
        inside = view.marked.astype(bool)
        if view.fade:
            veil = np.ones((*inside.shape, 4))
            veil[..., 3] = 0.75 * ~inside
            ax.imshow(veil, extent=(left - 0.5, right - 0.5, bottom - 0.5, top - 0.5), interpolation="nearest")
        scale = np.array([(right - left) / inside.shape[1], (bottom - top) / inside.shape[0]])
        edges = _edges(inside) * scale + np.array([left - 0.5, top - 0.5])
        lines = LineCollection(list(edges), colors=OUTLINE, linewidths=1.6)
        lines.set_path_effects([Stroke(linewidth=3, foreground=EDGE), Stroke(linewidth=1.6, foreground=OUTLINE)])
        ax.add_collection(lines)
        ax.set_xlim(-0.5, width - 0.5)
        ax.set_ylim(height - 0.5, -0.5)
    ax.set_axis_off()
    _draw_title(ax, view, options)


@size.register(Photo)
def _(view: Photo, options: PlotOptions = DEFAULT) -> tuple[float, float]:
    height, width = view.picture.shape[:2]
    return 3.4, min(max(0.5 + 3.2 * height / width, 1.2), 4.8)


def _edges(inside: np.ndarray) -> np.ndarray:
    """Return the lines between pixels that are inside and those that are not, ``[lines, 2, (x, y)]``."""
    padded = np.pad(inside, 1)
    rows, columns = np.nonzero(padded[1:, 1:-1] != padded[:-1, 1:-1])  # a line above pixel (row, column)
    across = np.stack([np.stack([columns, rows], 1), np.stack([columns + 1, rows], 1)], 1)
    rows, columns = np.nonzero(padded[1:-1, 1:] != padded[1:-1, :-1])
    down = np.stack([np.stack([columns, rows], 1), np.stack([columns, rows + 1], 1)], 1)
    return np.concatenate([across, down]).astype(float)


# --- bars and words ---------------------------------------------------------------------------------------------------------


@draw.register(Bars)
def _(view: Bars, ax: Axes, options: PlotOptions = DEFAULT) -> None:
    """Two standard errors stand to both sides of a bar, where they are known."""
    effects, drawn = view.effects, view.chosen(options.order, options.most)
    values = effects.values[drawn]
    labels = [wrapped(view.names[index], 40, _LINES) for index in drawn]
    rooms = np.array([_bar_height(label) for label in labels])
    places = rooms.cumsum() - rooms / 2
    unsure = effects.uncertain(options.limit)[drawn] & (options.uncertainty != "none")
    errors = None if effects.error is None else 2 * effects.error[drawn]
    colours = [_rgb(value) for value in values]
    bars = ax.barh(places, values, 1.6 * _LINE, xerr=errors, color=colours, error_kw={"lw": 0.8, "ecolor": "#555555"})
    for bar, own in zip(bars, unsure, strict=True):
        if own:  # paler, with stripes in its colour
            colour = bar.get_facecolor()
            bar.set(facecolor=(*colour[:3], 0.15), linewidth=0, edgecolor=colour)
            bar.set_hatch(HATCH if options.uncertainty == "hatch" else None)
    ax.set_yticks(places, labels, fontsize=8, fontfamily=families(), **_LITERAL)
    ax.set_ylim(rooms.sum() or 1, 0)
    ax.axvline(0, color="#555555", lw=0.8)
    if options.limit is not None:
        ax.set_xlim(-options.limit, options.limit)
    ax.tick_params(axis="x", labelsize=8)
    left = f"; {len(effects.values) - len(drawn)} smaller ones not shown" if len(effects.values) > len(drawn) else ""
    ax.set_xlabel(_meaning(effects, unsure, options) + left, fontsize=8)
    _draw_title(ax, view, options, effects)
    ax.spines[["top", "right"]].set_visible(False)


@size.register(Bars)
def _(view: Bars, options: PlotOptions = DEFAULT) -> tuple[float, float]:
    heights = [_bar_height(wrapped(view.names[index], 40, _LINES)) for index in view.chosen(options.order, options.most)]
    return 5.0, 1.0 + sum(heights)


def _bar_height(label: str) -> float:
    """Return how many inches a bar takes whose name has these lines."""
    return _LINE * (2 + label.count("\n"))


def _as_bars(view: ColouredText) -> Bars:
    return Bars(view.effects, view.names, "given", title=view.title)


@draw.register(ColouredText)
def _(view: ColouredText, ax: Axes, options: PlotOptions = DEFAULT) -> None:
    draw(_as_bars(view), ax, options)


@size.register(ColouredText)
def _(view: ColouredText, options: PlotOptions = DEFAULT) -> tuple[float, float]:
    return size(_as_bars(view), options)


@draw.register(Paragraph)
def _(view: Paragraph, ax: Axes, options: PlotOptions = DEFAULT) -> None:
    """Of a long text the beginning is drawn."""
    figure: Any = ax.figure
    width = max(12, int(ax.get_position().width * figure.bbox.width / figure.figure.dpi / 0.068))
    words = "\n".join(wrapped(line, width, 18) for line in view.text.split("\n")[:18])
    ax.text(0, 1, words, fontsize=8, fontfamily=families(), va="top", transform=ax.transAxes, **_LITERAL)
    _draw_title(ax, view, options)
    ax.set_axis_off()


@size.register(Paragraph)
def _(view: Paragraph, options: PlotOptions = DEFAULT) -> tuple[float, float]:
    lines = sum(len(line) // 45 + 1 for line in view.text.split("\n"))
    return 3.4, 0.6 + 0.15 * min(lines, 18)


# --- sounds -----------------------------------------------------------------------------------------------------------------


@draw.register(SoundMap)
def _(view: SoundMap, ax: Axes, options: PlotOptions = DEFAULT) -> None:
    """Effects stand behind the waveform, or over the spectrogram."""
    if view.decibels is None:
        heights = np.array([-1.0, 1.0]) * (float(np.abs(view.waveform).max(initial=0)) or 1.0)
        _draw_waveform(view, ax)
    else:
        heights = view.hertz
        extent = (0.0, float(view.seconds[-1]), 0.0, view.rate / 2)
        ax.imshow(view.decibels, cmap="Greys", origin="lower", aspect="auto", extent=extent)
        ax.set_ylabel("Hz", fontsize=8)
    ax.set_xlabel("seconds", fontsize=8)
    ax.tick_params(labelsize=8)
    _draw_title(ax, view, options, view.effects)
    if view.effects is None:
        return
    values = view.effects.values.reshape(view.segments, view.bands).T
    limit = options.limit or float(np.abs(values).max()) or 1.0
    # Behind the waveform, over the spectrogram; no lines between neighbours, which would show twice as dark.
    how: dict[str, Any] = {"cmap": options.cmap, "linewidth": 0, "rasterized": True, "zorder": 0 if view.bands == 1 else 1}
    opacity = 0.55 if options.opacity is None else options.opacity
    ax.pcolormesh(view.seconds, heights, values, vmin=-limit, vmax=limit, alpha=opacity, **how)
    unsure = view.effects.uncertain(limit).reshape(view.segments, view.bands).T
    if options.uncertainty == "hatch":
        _hatch_cells(ax, unsure, view.seconds, heights)
    ax.set_xlim(0, float(view.seconds[-1]))
    if options.colour_bar:
        _draw_scale(ax, limit, _meaning(view.effects, unsure, options), options)


def _draw_waveform(view: SoundMap, ax: Axes) -> None:
    """Draw what lies between the lowest and the highest of some neighbouring samples."""
    step = -(-len(view.waveform) // _WAVEFORM)
    starts = np.arange(0, len(view.waveform), step)
    low, high = np.minimum.reduceat(view.waveform, starts), np.maximum.reduceat(view.waveform, starts)
    if step == 1:
        ax.plot(starts / view.rate, view.waveform, color="black", linewidth=0.5)
    else:
        ax.fill_between((starts + step / 2) / view.rate, low, high, color="black", linewidth=0.3)
    ax.set_yticks([])


def _hatch_cells(ax: Axes, unsure: np.ndarray, across: np.ndarray, up: np.ndarray) -> None:
    """Hatch cells ``[rows, columns]`` of a grid with these edges."""
    from matplotlib.patches import Rectangle

    for row, column in zip(*np.nonzero(unsure), strict=True):
        corner = (float(across[column]), float(up[row]))
        width, height = float(across[column + 1] - across[column]), float(up[row + 1] - up[row])
        ax.add_patch(Rectangle(corner, width, height, fill=False, lw=0, hatch=HATCH, edgecolor=HATCH_COLOUR, zorder=1.5))


@size.register(SoundMap)
def _(view: SoundMap, options: PlotOptions = DEFAULT) -> tuple[float, float]:
    return 8.0, 2.8


# --- charts -----------------------------------------------------------------------------------------------------------------


@draw.register(Curves)
def _(view: Curves, ax: Axes, options: PlotOptions = DEFAULT) -> None:
    for line in view.lines:
        (drawn,) = ax.plot(line.x, line.y, **{"label": line.label, **line.style})
        if line.low is not None and line.high is not None:
            ax.fill_between(line.x, line.low, line.high, color=drawn.get_color(), alpha=0.18, linewidth=0)
    for axis, place, label in view.marks:
        mark = ax.axvline if axis == "x" else ax.axhline
        mark(place, color="#888", linestyle="--", linewidth=1, label=label or None)
    if view.ticks is not None:
        ax.set_xticks(view.ticks)
    ax.set_xlabel(view.x_label, fontsize=8)
    ax.set_ylabel(view.y_label, fontsize=8)
    ax.tick_params(labelsize=8)
    if any(line.label for line in view.lines):
        for text in ax.legend(fontsize=8).get_texts():
            text.set(fontfamily=families(), **_LITERAL)
    _draw_title(ax, view, options)


@draw.register(Histogram)
def _(view: Histogram, ax: Axes, options: PlotOptions = DEFAULT) -> None:
    everything = np.concatenate([np.asarray(values, float) for values in view.groups.values()])
    middle, half = (everything.max() + everything.min()) / 2, max(float(np.ptp(everything)) / 2, 1e-6)  # all may be equal
    edges = np.linspace(middle - half, middle + half, view.bins + 1)
    for number, (name, values) in enumerate(view.groups.items()):
        colour = "#5b7aa5" if len(view.groups) == 1 else DISTINCT[number % len(DISTINCT)]
        ax.hist(values, edges.tolist(), label=name, color=colour, alpha=1 if len(view.groups) == 1 else 0.6)
    ax.set_xlabel(view.label, fontsize=8, fontfamily=families(), **_LITERAL)
    ax.tick_params(labelsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    if len(view.groups) > 1:
        ax.legend(fontsize=8)
    _draw_title(ax, view, options)


@size.register(Histogram)
def _(view: Histogram, options: PlotOptions = DEFAULT) -> tuple[float, float]:
    return 4.0, 2.2


@draw.register(Matrix)
def _(view: Matrix, ax: Axes, options: PlotOptions = DEFAULT) -> None:
    down, across = _strongest(view, options)
    limit = options.limit or colour_scale(view.values)[0]
    ax.imshow(view.values[np.ix_(down, across)], cmap=options.cmap, vmin=-limit, vmax=limit, aspect="auto")
    small: dict[str, Any] = {"fontsize": 8, "fontfamily": families(), **_LITERAL}
    ax.set_xticks(range(len(across)), [view.columns[at] for at in across], rotation=60, ha="right", **small)
    ax.set_yticks(range(len(down)), [view.rows[at] for at in down], **small)
    if options.colour_bar:
        _draw_scale(ax, limit, view.unit, options)
    left_out = view.values.size - len(down) * len(across)
    also = f"{left_out} pairs of weaker ones are not shown" if left_out else ""
    title = options.title if options.title is not None else "\n".join(filter(None, (view.title, also)))
    ax.set_title(title, fontsize=9, fontfamily=families(), **_LITERAL)


@size.register(Matrix)
def _(view: Matrix, options: PlotOptions = DEFAULT) -> tuple[float, float]:
    down, across = _strongest(view, options)
    return 2.6 + 0.3 * len(across), 1.8 + 0.3 * len(down)


def _strongest(view: Matrix, options: PlotOptions) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and columns of the largest values, in their order."""
    most = options.most or 30
    down, across = (np.sort(np.argsort(-np.abs(view.values).max(axis), kind="stable")[:most]) for axis in (1, 0))
    return down, across


@draw.register(Table)
def _(view: Table, ax: Axes, options: PlotOptions = DEFAULT) -> None:
    cells = [[cell_text(value) for value in row] for row in view.rows[:40]]
    if cells:
        table = ax.table(cells, colLabels=list(view.columns), loc="upper left", cellLoc="left", edges="horizontal")
        table.auto_set_font_size(False)
        table.set_fontsize(8)
    ax.set_axis_off()
    _draw_title(ax, view, options)


@size.register(Table)
def _(view: Table, options: PlotOptions = DEFAULT) -> tuple[float, float]:
    return 1.5 + 1.3 * len(view.columns), 0.8 + 0.25 * (1 + min(len(view.rows), 40))


def cell_text(value: object) -> str:
    """Return a value of a table as it is shown."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# --- views beside each other ------------------------------------------------------------------------------------------------


@paint.register(Gallery)
def _(view: Gallery, figure: FigureBase, options: PlotOptions = DEFAULT) -> None:
    rows = view.rows
    own = replace(options, title=None, limit=options.limit or view.limit, colour_bar=options.colour_bar and view.colour_bars)
    grid = figure.subplots(len(rows), view.columns, squeeze=False, height_ratios=_heights(view, options))
    for axes, row in zip(grid, rows, strict=True):
        for ax, tile in zip(axes, row, strict=True):
            if tile is None:
                ax.set_axis_off()
                continue
            draw(tile, ax, own)
            if ax.images and isinstance(tile, HeatMap | Photo):
                ax.set_anchor("N")
    title = options.title if options.title is not None else view.title
    if title:
        _heading(figure, title)


@size.register(Gallery)
def _(view: Gallery, options: PlotOptions = DEFAULT) -> tuple[float, float]:
    return view.inches * view.columns, sum(_heights(view, options)) + (0.4 if view.title or options.title else 0.0)


def _heights(view: Gallery, options: PlotOptions) -> list[float]:
    return [max((_tile_height(tile, view, options) for tile in row if tile is not None), default=1.0) for row in view.rows]


def _tile_height(tile: View, view: Gallery, options: PlotOptions) -> float:
    """Return how many inches a tile takes in its column."""
    lines = 0.3 + 0.16 * (2 if tile.title is None else tile.title.count("\n") + bool(tile.title))
    if isinstance(tile, HeatMap | Photo):
        picture = tile.picture
        if picture is None and isinstance(tile, HeatMap):
            picture = tile.effects.values
        assert picture is not None
        height, width = (float(side) for side in picture.shape[:2])
        room = view.inches * (0.75 if view.colour_bars else 0.95)
        return lines + min(max(room * height / width, 0.25 * view.inches), 1.5 * view.inches)
    own = size(tile, options)
    return max(own[1], 3.3) if isinstance(tile, SoundMap | Bars | ColouredText) and view.inches > 3 else own[1]


# --- links between two inputs -----------------------------------------------------------------------------------------------


@paint.register(Links)
def _(view: Links, figure: FigureBase, options: PlotOptions = DEFAULT) -> None:
    pictures = sum(side.places is not None for side in (view.a, view.b))
    (_paint_arcs, _paint_maps, _paint_regions)[pictures](view, figure, options)


@size.register(Links)
def _(view: Links, options: PlotOptions = DEFAULT) -> tuple[float, float]:
    pictures = sum(side.places is not None for side in (view.a, view.b))
    if pictures == 1:
        return 3.1 * len(view.maps[: options.most]) + 0.6, 3.4
    if pictures == 2:
        return 9.5, 4.8
    return max(5.0, _CHARACTER * (max(map(_length, _lines(view, _arcs(view, options)))) + 4)), 3.0


def _links_title(view: Links, figure: FigureBase, options: PlotOptions, also: str) -> None:
    title = "; ".join(filter(None, (view.title, also if view.values.any() else "")))
    figure.suptitle(title if options.title is None else options.title, fontsize=9, fontfamily=families(), **_LITERAL)


def _arcs(view: Links, options: PlotOptions) -> list[tuple[int, int]]:
    """Return the pairs of the largest sizes."""
    order = np.argsort(-np.abs(view.values).flatten(), kind="stable")[: options.most or 12]
    return [divmod(int(index), view.values.shape[1]) for index in order if view.values.flat[index]]


def _lines(view: Links, pairs: Sequence[tuple[int, int]]) -> list[list[tuple[int, str]]]:
    return [_line(side.names, {pair[which] for pair in pairs}) for which, side in enumerate((view.a, view.b))]


def _length(line: Sequence[tuple[int, str]]) -> int:
    """Return how wide a line is, counted in Latin letters."""
    return sum(columns(word) + 1 for _, word in line)


def _line(names: Sequence[str], wanted: set[int]) -> list[tuple[int, str]]:
    """Return the words of a line with their numbers; of a long one those that are wanted, with … for what is left out."""
    words = [(number, " ".join(name.split())) for number, name in enumerate(names)]
    if _length(words) <= _LONGEST_LINE:
        return words
    kept = sorted(wanted)
    line = [] if 0 in wanted else [(-1, "…")]
    for number, following in pairwise([*kept, len(names)]):
        line.append(words[number])
        if following > number + 1:
            line.append((-1, "…"))
    return line


def _paint_arcs(view: Links, figure: FigureBase, options: PlotOptions) -> None:
    """Draw two lines of text; the pairs of the largest sizes are joined, red where they raise the score."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    pairs = _arcs(view, options)
    lines = _lines(view, pairs)
    length = max(map(_length, lines))
    ax: Axes = figure.subplots()
    places: list[dict[int, float]] = []
    for line, height, anchor in zip(lines, (1.0, 0.0), ("bottom", "top"), strict=True):
        at = (length - _length(line)) / 2  # lines are centred
        places.append({})
        for number, word in line:
            middle = at + columns(word) / 2
            ax.text(middle, height, word, ha="center", va=anchor, family=["monospace", *families()], fontsize=11, **_LITERAL)
            places[-1][number] = middle
            at += columns(word) + 1
    largest = float(np.abs(view.values).max(initial=0)) or 1.0
    for i, j in reversed(pairs):  # the strongest lie on top
        value = view.values[i, j]
        start, end = places[0][i], places[1][j]
        steps = [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4]
        curve = Curve([(start, 0.97), (start, 0.5), (end, 0.5), (end, 0.03)], steps)
        strength = abs(value) / largest
        ax.add_patch(PathPatch(curve, fc="none", ec=_rgb(value), lw=0.5 + 4 * strength, alpha=0.25 + 0.7 * strength))
    ax.set_xlim(-1, length + 1)
    ax.set_ylim(-0.35, 1.35)
    ax.set_axis_off()
    drawn = f"{len(pairs)} largest of {view.values.size} pairs" if len(pairs) < view.values.size else "all pairs"
    _links_title(view, figure, options, f"{drawn}, the thickest {largest:.3g}:\n{view.unit}")


def _paint_maps(view: Links, figure: FigureBase, options: PlotOptions) -> None:
    """Draw the picture with the map of each of some words, on one scale."""
    maps = view.maps[: options.most]
    limit = options.limit or max(float(np.abs(each.effects.values).max()) for each in maps) or 1.0
    axes = figure.subplots(1, len(maps), squeeze=False)
    for ax, each in zip(axes[0], maps, strict=True):
        draw(each, ax, replace(options, title=None, limit=limit, colour_bar=options.colour_bar and each is maps[-1]))
    _links_title(view, figure, options, view.unit)


def _paint_regions(view: Links, figure: FigureBase, options: PlotOptions) -> None:
    """Draw two pictures beside each other, the strongest pairs of regions numbered on both and joined by lines."""
    from matplotlib.patches import ConnectionPatch, Rectangle

    axes = figure.subplots(1, 2)
    sides = (view.a, view.b)
    sizes = [_draw_side(ax, side) for ax, side in zip(axes, sides, strict=True)]
    taken: dict[tuple[int, int], int] = {}  # numbers that stand in one cell already
    pairs = view.pairs[: options.most or 5]
    for number, pair in enumerate(pairs):
        colour = DISTINCT[number % len(DISTINCT)]
        ends = []
        for which, (ax, side, (across, down), cell) in enumerate(zip(axes, sides, sizes, pair, strict=True)):
            left, top, width, height = side.cell_box(cell)
            left, top, width, height = left * across, top * down, width * across, height * down
            ax.add_patch(Rectangle((left, top), width, height, fill=False, ec=colour, lw=2.5))
            place = taken.get((which, cell), 0)
            taken[which, cell] = place + 1
            at = (left + width * (0.2 + 0.3 * (place % 3)), top + height * (0.22 + 0.3 * (place // 3)))
            label = {"boxstyle": "circle,pad=.15", "fc": colour, "ec": "white", "lw": 0.6}
            ax.text(*at, str(number + 1), color="white", fontsize=8, ha="center", va="center", bbox=label)
            ends.append((left + width / 2, top + height / 2))
        how: dict[str, Any] = {"color": colour, "lw": 1.2, "alpha": 0.8}
        figure.add_artist(ConnectionPatch(ends[0], ends[1], "data", "data", axesA=axes[0], axesB=axes[1], **how))
    _links_title(view, figure, options, f"the {len(pairs)} pairs of regions that are most alike")


def _draw_side(ax: Axes, side: LinkSide) -> tuple[float, float]:
    """Draw the picture of a side, or nothing where there is none; return its width and height."""
    assert side.places is not None
    picture = np.full((*side.places.shape, 3), 230, np.uint8) if side.picture is None else side.picture
    ax.imshow(picture)
    ax.set_axis_off()
    return picture.shape[1], picture.shape[0]
