"""Bars, texts, sounds, curves, histograms, matrices and tables drawn with matplotlib."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cocoax.show.drawing import DEFAULT, LITERAL, draw, draw_scale_beside, draw_title, letters, noise_note, share_rgb, size
from cocoax.show.fonts import families, wrapped
from cocoax.show.options import PlotOptions
from cocoax.show.palette import DISTINCT, HATCH, HATCH_COLOUR, UNKNOWN, colour_map
from cocoax.show.views import (
    Bars,
    ColouredText,
    Curves,
    Histogram,
    Matrix,
    Paragraph,
    SoundMap,
    Table,
    cell_text,
    colour_scale,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINE, _LINES = 0.14, 4  # inches of a line of a bar's name, and the most lines it has
_WAVE: Any = {"color": "#222222", "alpha": 0.6}  # of a waveform, through which the colours behind it can be seen
_WAVEFORM = 4000  # columns of a drawn waveform; no screen shows more, and a line through every sample takes long

# --- bars and words ---------------------------------------------------------------------------------------------------------


@draw.register(Bars)
def _(view: Bars, ax: Axes, options: PlotOptions = DEFAULT) -> None:
    """Two standard errors stand to both sides of a bar, where they are known."""
    effects, drawn = view.effects, view.chosen(options.order, options.most)
    values = effects.values[drawn]
    labels = [wrapped(view.names[index], _name_width(options), _LINES) for index in drawn]
    rooms = np.array([_bar_height(label) for label in labels])
    places = rooms.cumsum() - rooms / 2
    unsure = effects.uncertain(0.0)[drawn] & (options.uncertainty != "none")  # a bar has a length, however short
    errors = None if effects.error is None else 2 * effects.error[drawn]
    colours = [share_rgb(value) for value in values]
    figure: Any = ax.get_figure()
    tall = ax.get_position().height * figure.bbox.height / figure.dpi / max(float(rooms.sum()), _LINE)
    thick = 1.6 * _LINE / min(max(tall, 1.0), 2.0)  # bars with much room are not fat
    bars = ax.barh(places, values, thick, xerr=errors, color=colours, error_kw={"lw": 0.7, "ecolor": "#777777"})
    for bar, own in zip(bars, unsure, strict=True):
        if own and options.uncertainty == "hatch":  # paler, with stripes in its colour
            colour = bar.get_facecolor()
            bar.set(facecolor=(*colour[:3], 0.15), linewidth=0, edgecolor=colour, hatch=HATCH)
        elif own:
            bar.set_facecolor(tuple(part / 255 for part in UNKNOWN))
    ax.set_yticks(places, labels, fontfamily=families(), **LITERAL)
    ax.set_ylim(rooms.sum() or 1, 0)
    ax.axvline(0, color="#777777", lw=0.6)
    if options.limit is not None:
        ax.set_xlim(-options.limit, options.limit)
    left = f"; {len(effects.values) - len(drawn)} smaller ones not shown" if len(effects.values) > len(drawn) else ""
    note = noise_note([(effects, 0.0)], options)
    words = [effects.meaning + left, *([note] if note else [])]
    width = letters(5.0 if options.inches is None else 0.55 * options.inches, options.look.small)  # beside the names
    ax.locator_params(axis="x", nbins=min(6, max(2, width // 8)))  # numbers of five signs do not meet
    ax.set_xlabel("\n".join(wrapped(line, width) for line in words), color=options.look.quiet)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    longest = max((len(line) for label in labels for line in label.split("\n")), default=0)
    draw_title(ax, view, options, 0.2 + longest * options.look.small * 0.6 / 72)


@size.register(Bars)
def _(view: Bars, options: PlotOptions = DEFAULT) -> tuple[float, float]:
    heights = [
        _bar_height(wrapped(view.names[index], _name_width(options), _LINES))
        for index in view.chosen(options.order, options.most)
    ]
    return 5.0, 1.0 + sum(heights)


def _name_width(options: PlotOptions) -> int:
    """Return the letters of a line of a bar's name."""
    return 40 if options.inches is None else max(12, letters(0.45 * options.inches, options.look.small))


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
    ax.text(0, 1, words, fontfamily=families(), va="top", transform=ax.transAxes, **LITERAL)
    draw_title(ax, view, options)
    ax.set_axis_off()


@size.register(Paragraph)
def _(view: Paragraph, options: PlotOptions = DEFAULT) -> tuple[float, float]:
    lines = sum(len(line) // 45 + 1 for line in view.text.split("\n"))
    return 3.4, (0.6 if view.title else 0.25) + 0.15 * min(lines, 18)


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
        ax.set_ylabel("Hz")
    ax.set_xlabel("seconds")
    draw_title(ax, view, options)
    if view.effects is None:
        return
    values = view.effects.values.reshape(view.segments, view.bands).T
    limit = options.limit or float(np.abs(values).max()) or 1.0
    # Behind the waveform, over the spectrogram; no lines between neighbours, which would show twice as dark.
    how: dict[str, Any] = {
        "cmap": colour_map(options.cmap),
        "linewidth": 0,
        "rasterized": True,
        "zorder": 0 if view.bands == 1 else 1,
    }
    opacity = 0.55 if options.opacity is None else options.opacity
    if options.uncertainty == "fade":
        values = np.where(view.effects.uncertain(limit).reshape(view.segments, view.bands).T, np.nan, values)
        ax.set_facecolor("#dcdcdc")
    ax.pcolormesh(view.seconds, heights, values, vmin=-limit, vmax=limit, alpha=opacity, **how)
    unsure = view.effects.uncertain(limit).reshape(view.segments, view.bands).T
    if options.uncertainty == "hatch":
        _hatch_cells(ax, unsure, view.seconds, heights)
    ax.set_xlim(0, float(view.seconds[-1]))
    if options.colorbar:
        draw_scale_beside(ax, limit, view.effects.meaning, options)


def _draw_waveform(view: SoundMap, ax: Axes) -> None:
    """Draw what lies between the lowest and the highest of some neighbouring samples."""
    step = -(-len(view.waveform) // _WAVEFORM)
    starts = np.arange(0, len(view.waveform), step)
    low, high = np.minimum.reduceat(view.waveform, starts), np.maximum.reduceat(view.waveform, starts)
    if step == 1:
        ax.plot(starts / view.rate, view.waveform, linewidth=0.5, **_WAVE)
    else:
        ax.fill_between((starts + step / 2) / view.rate, low, high, linewidth=0, **_WAVE)
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
    if view.logarithmic:
        ax.set_xscale("log")
        ax.minorticks_off()
    if view.ticks is not None:
        ax.set_xticks(view.ticks, [f"{tick:g}" for tick in view.ticks])
    ax.set_xlabel(view.x_label)
    ax.set_ylabel(view.y_label)
    if any(line.label for line in view.lines):
        for text in ax.legend().get_texts():
            text.set(fontfamily=families(), **LITERAL)
    draw_title(ax, view, options)


@draw.register(Histogram)
def _(view: Histogram, ax: Axes, options: PlotOptions = DEFAULT) -> None:
    everything = np.concatenate([np.asarray(values, float) for values in view.groups.values()])
    middle, half = (everything.max() + everything.min()) / 2, max(float(np.ptp(everything)) / 2, 1e-6)  # all may be equal
    edges = np.linspace(middle - half, middle + half, view.bins + 1)
    for number, (name, values) in enumerate(view.groups.items()):
        colour = "#5b7aa5" if len(view.groups) == 1 else DISTINCT[number % len(DISTINCT)]
        ax.hist(values, edges.tolist(), label=name, color=colour, alpha=1 if len(view.groups) == 1 else 0.6)
    ax.set_xlabel(view.label, fontfamily=families(), **LITERAL)
    if len(view.groups) > 1:
        ax.legend()
    draw_title(ax, view, options)


@size.register(Histogram)
def _(view: Histogram, options: PlotOptions = DEFAULT) -> tuple[float, float]:
    return 4.0, 2.2


@draw.register(Matrix)
def _(view: Matrix, ax: Axes, options: PlotOptions = DEFAULT) -> None:
    down, across = _strongest(view, options)
    limit = options.limit or colour_scale(view.values)[0]
    ax.imshow(view.values[np.ix_(down, across)], cmap=colour_map(options.cmap), vmin=-limit, vmax=limit, aspect="auto")
    small: dict[str, Any] = {"fontfamily": families(), **LITERAL}
    ax.set_xticks(range(len(across)), [view.columns[at] for at in across], rotation=60, ha="right", **small)
    ax.set_yticks(range(len(down)), [view.rows[at] for at in down], **small)
    if options.colorbar:
        draw_scale_beside(ax, limit, view.unit, options)
    left_out = view.values.size - len(down) * len(across)
    also = f"{left_out} pairs of weaker ones are not shown" if left_out else ""
    draw_title(ax, replace(view, title="\n".join(filter(None, (view.title, also)))), options)


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
        table.set_fontsize(options.look.small)
    ax.set_axis_off()
    draw_title(ax, view, options)


@size.register(Table)
def _(view: Table, options: PlotOptions = DEFAULT) -> tuple[float, float]:
    return 1.5 + 1.3 * len(view.columns), 0.8 + 0.25 * (1 + min(len(view.rows), 40))
