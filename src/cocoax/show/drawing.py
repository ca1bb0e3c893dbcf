"""Shared parts of drawings by matplotlib: which function draws a view, titles, scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch
from math import floor, log10
from typing import TYPE_CHECKING, Any

from cocoax.show.fonts import families, wrapped
from cocoax.show.options import PlotOptions
from cocoax.show.palette import BAR, BLUE, RED, Style, colour_map
from cocoax.show.views import Effects, View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

DEFAULT = PlotOptions()
LITERAL: dict[str, Any] = {"parse_math": False}  # dollars are dollars, not the beginning of a formula
_WIDTH = 0.55  # of a letter, as a part of its height
_AXES = 0.775  # of the width of a figure: that of axes before a layout


@singledispatch
def size(view: View, options: PlotOptions = DEFAULT) -> tuple[float, float]:
    """Return how many inches a view takes in a figure, across and down."""
    return 4.5, 3.2


@singledispatch
def paint(view: View, figure: FigureBase, options: PlotOptions = DEFAULT) -> None:
    """Draw a view on an empty figure, or on a part of one."""
    draw(view, figure.subplots(), options)


@singledispatch
def draw(view: View, ax: Axes, options: PlotOptions = DEFAULT) -> None:
    """Draw a view on axes."""
    raise TypeError(f"A {type(view).__name__} needs a figure of its own; plot it without ax=.")


# --- words ------------------------------------------------------------------------------------------------------------------


def letters(inches: float, points: float) -> int:
    """Return how many letters of this height fit into a line."""
    return max(6, int(inches * 72 / (points * _WIDTH)))


def line_height(points: float) -> float:
    """Return the inches of a line of letters of this height."""
    return 1.28 * points / 72


def heading(view: View, options: PlotOptions, inches: float) -> tuple[str, str]:
    """Return what stands above a drawing: its title, and in smaller letters what its score is the difference of."""
    look = options.look
    effects = getattr(view, "effects", None)
    title, detail = view.title, ""
    if options.title is not None:
        title = options.title
    elif title is None:
        title = "" if effects is None else f"{effects.words}  {effects.scored}".strip()
        detail = "" if effects is None else effects.difference
    lines = [wrapped(line, letters(inches, look.title), 4) for line in title.split("\n")]
    return "\n".join(lines), wrapped(detail, letters(inches, look.small), 3)


def heading_height(words: tuple[str, str], look: Style) -> float:
    """Return the inches that a heading takes."""
    lines = [text.count("\n") + 1 if text else 0 for text in words]
    return lines[0] * line_height(look.title) + lines[1] * line_height(look.small) + (0.06 if any(lines) else 0.0)


def draw_heading(ax: Axes, words: tuple[str, str], look: Style, across: float = 0.0, room: float = 0.0) -> None:
    """Write a heading above axes, so many inches from their left edge, at the top of the room that the row has for it."""
    title, detail = words
    lines = detail.count("\n") + 1 if detail else 0
    how: dict[str, Any] = {"fontfamily": families(), "linespacing": 1.2, **LITERAL}
    lift = 72 * max(0.0, room - heading_height(words, look))
    ax.set_title(title, loc="left", fontsize=look.title, pad=4 + lift + 72 * lines * line_height(look.small), **how)
    if detail:
        place: Any = {
            "xy": (0, 1),
            "xytext": (72 * across, 3.5 + lift),
            "xycoords": "axes fraction",
            "textcoords": "offset points",
        }
        ax.annotate(detail, **place, va="bottom", ha="left", fontsize=look.small, color=look.quiet, **how)


def draw_title(ax: Axes, view: View, options: PlotOptions, beside: float = 0.0) -> None:
    """Write the heading of a chart above it, in lines that fit its width; names to its left take the inches ``beside`` it."""
    figure: Any = ax.get_figure()
    width = ax.get_position().width * figure.bbox.width / figure.dpi if figure is not None else 4.0
    width = min(width, width / _AXES - beside) if beside else width  # before the layout makes room for names
    draw_heading(ax, heading(view, options, max(width, 1.0)), options.look)


def draw_figure_title(figure: FigureBase, title: str, look: Style) -> None:
    """Write a heading above all drawings of a figure, in lines that fit its width."""
    own: Any = figure
    inches = own.bbox.width / own.figure.dpi
    lines = "\n".join(wrapped(line, letters(inches - 0.3, look.title), 3) for line in title.split("\n"))
    figure.suptitle(lines, x=0.01, ha="left", fontsize=look.title, fontfamily=families(), **LITERAL)


# --- scales -----------------------------------------------------------------------------------------------------------------


def _round_tick(limit: float) -> float:
    """Return the largest of 1, 2, 5, 10, 20, 50, … and their tenths that a scale up to ``limit`` reaches."""
    power = 10.0 ** floor(log10(limit))
    return next(step * power for step in (5, 2, 1) if step * power <= limit * (1 + 1e-9))


def _tick_label(value: float) -> str:
    """Return a number of a scale: ``+0.02``, ``0``, ``−0.02``."""
    return f"{value:+.3g}".replace("-", "−") if value else "0"


def noise_note(effects: Sequence[tuple[Effects, float | None]], options: PlotOptions) -> str:
    """Say how effects within noise are drawn, if there are any on scales that end there."""
    if options.uncertainty == "none" or not any(each.uncertain(limit).any() for each, limit in effects):
        return ""
    how = "Hatched" if options.uncertainty == "hatch" else "Grey"
    return f"{how}: within noise (two standard errors)"


def scale_room(limits: Sequence[float], label: bool, look: Style) -> float:
    """Return the inches to the right of a picture that a colour bar takes with its ticks, and with a label of one line."""
    longest = max((len(_tick_label(-_round_tick(limit))) for limit in limits), default=2)
    return 0.14 + BAR + (0.64 * longest + 0.3 + 1.9 * label) * look.small / 72


def draw_scale(
    ax: Axes,
    limit: float,
    label: str,
    options: PlotOptions,
    place: tuple[float, float, float, float],
    *,
    beyond: bool = False,
) -> None:
    """Draw a thin colour bar with rounded ticks at a place, as fractions of axes; with arrows if values lie ``beyond`` it."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    figure = ax.get_figure()
    assert figure is not None
    beside = ax.inset_axes(place)
    scale = ScalarMappable(Normalize(-limit, limit), colour_map(options.cmap))
    arrow = BAR / max(beside.bbox.height / figure.dpi, 2 * BAR)  # as tall as the bar is wide
    bar = figure.colorbar(scale, cax=beside, extend="both" if beyond else "neither", extendfrac=arrow)
    tick = _round_tick(limit)
    bar.set_ticks([-tick, 0, tick], labels=[_tick_label(value) for value in (-tick, 0, tick)])
    beside.tick_params(length=2, width=0.5, pad=2, labelsize=options.look.small)
    bar.outline.set_visible(False)
    tall = beside.bbox.height / figure.dpi if figure is not None else 2.0
    words = wrapped(label, max(14, letters(tall, options.look.small)))
    bar.set_label(words, fontsize=options.look.small, color=options.look.quiet, labelpad=3)


def draw_scale_beside(ax: Axes, limit: float, label: str, options: PlotOptions, *, beyond: bool = False) -> None:
    """Draw a colour bar to the right of axes, as tall as they are."""
    figure: Any = ax.get_figure()
    width = ax.get_position().width * figure.bbox.width / figure.dpi
    draw_scale(ax, limit, label, options, (1 + 0.08 / width, 0.0, BAR / width, 1.0), beyond=beyond)


def share_rgb(value: float) -> tuple[float, ...]:
    """Return the colour of what raises or lowers a score, in 0..1."""
    return tuple(part / 255 for part in (RED if value > 0 else BLUE))


def without_title(options: PlotOptions) -> PlotOptions:
    """Return the options without a title, for parts of a drawing."""
    return replace(options, title=None)
