"""Links between the features of two inputs drawn with matplotlib: arcs, maps and outlined regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from cocoax.show.drawing import (
    DEFAULT,
    LITERAL,
    draw_figure_title,
    letters,
    line_height,
    paint,
    share_rgb,
    size,
)
from cocoax.show.fonts import columns, families, wrapped
from cocoax.show.options import PlotOptions
from cocoax.show.palette import DISTINCT, MAP
from cocoax.show.raster import inner_place, outlined_places
from cocoax.show.views import Gallery, Link, Links, LinkSide, Photo, drawn_ratio

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

Place = tuple[float, float]  # x and y
_CHARACTER = 0.095  # inches
_BADGE = 0.2  # inches from one number of a link to the next
_LONGEST_LINE = 130  # characters; of longer texts only the linked words are drawn
_LINKS = 5  # that are drawn between two pictures
_LIST = 2.6  # inches of the list beside them
_WIDTH = 8.6  # inches of both with the list


@paint.register(Links)
def _(view: Links, figure: FigureBase, options: PlotOptions = DEFAULT) -> None:
    pictures = sum(side.places is not None for side in (view.a, view.b))
    (_paint_arcs, _paint_maps, _paint_regions)[pictures](view, figure, options)


@size.register(Links)
def _(view: Links, options: PlotOptions = DEFAULT) -> tuple[float, float]:
    pictures = sum(side.places is not None for side in (view.a, view.b))
    if pictures == 1:
        return size(_maps(view, options), options)
    if pictures == 2:
        width = options.inches or _WIDTH
        return width, 0.75 + max(_photo_heights(view, width, options))
    return options.inches or max(5.0, _CHARACTER * (max(map(_length, _lines(view, _arcs(view, options)))) + 4)), 3.0


def _title(view: Links, options: PlotOptions, also: str) -> str:
    title = "; ".join(filter(None, (view.title, also if view.values.any() else "")))
    return title if options.title is None else options.title


# --- two lists of words -----------------------------------------------------------------------------------------------------


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
    """Return the words of a line with their numbers; of a long line the wanted words, with … for omissions."""
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
    mono: dict[str, Any] = {"family": ["monospace", *families()], "fontsize": options.look.title + 1, **LITERAL}
    for line, height, anchor in zip(lines, (1.0, 0.0), ("bottom", "top"), strict=True):
        at = (length - _length(line)) / 2  # lines are centred
        places.append({})
        for number, word in line:
            middle = at + columns(word) / 2
            ax.text(middle, height, word, ha="center", va=anchor, **mono)
            places[-1][number] = middle
            at += columns(word) + 1
    largest = float(np.abs(view.values).max(initial=0)) or 1.0
    for i, j in reversed(pairs):  # the strongest lie on top
        value = view.values[i, j]
        start, end = places[0][i], places[1][j]
        steps = [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4]
        curve = Curve([(start, 0.97), (start, 0.5), (end, 0.5), (end, 0.03)], steps)
        strength = abs(value) / largest
        ax.add_patch(PathPatch(curve, fc="none", ec=share_rgb(value), lw=0.5 + 4 * strength, alpha=0.25 + 0.7 * strength))
    ax.set_xlim(-1, length + 1)
    ax.set_ylim(-0.35, 1.35)
    ax.set_axis_off()
    drawn = f"{len(pairs)} largest of {view.values.size} pairs" if len(pairs) < view.values.size else "all pairs"
    draw_figure_title(figure, _title(view, options, f"{drawn}, the thickest {largest:.2g}: {view.unit}"), options.look)


# --- a picture and words ----------------------------------------------------------------------------------------------------


def _maps(view: Links, options: PlotOptions) -> Gallery:
    """Return the picture beside its map for each of some words, on one scale."""
    side = view.a if view.a.places is not None else view.b
    maps = tuple(replace(each, title=each.title) for each in view.maps[: options.most])
    photo = None if side.picture is None else Photo(side.picture, title="the photo")
    title = _title(view, options, view.unit)
    return Gallery(maps, max(len(maps), 1), photo, scale="all", colour_bars=True, inches=MAP, title=title)


def _paint_maps(view: Links, figure: FigureBase, options: PlotOptions) -> None:
    paint(_maps(view, options), figure, replace(options, title=None))


# --- two pictures -----------------------------------------------------------------------------------------------------------


def _pixels(side: LinkSide) -> np.ndarray:
    """Return the picture of a side, or a grey one where there is none."""
    assert side.places is not None
    return np.full((*side.places.shape, 3), 230, np.uint8) if side.picture is None else side.picture


def _photo_width(width: float) -> float:
    """Return the inches of each of two photos beside each other, with a list where there is room for it."""
    return (width - (_LIST if width > 5 else 0.0) - 0.7) / 2


def _photo_heights(view: Links, width: float, options: PlotOptions) -> list[float]:
    below = 0.0 if width > 5 else line_height(options.look.small) * 1.6 * len(_drawn(view, options))
    return [min(_photo_width(width) * drawn_ratio(_pixels(side)), 4.5) + below for side in (view.a, view.b)]


def _drawn(view: Links, options: PlotOptions) -> Sequence[Link]:
    return view.links[: options.most or _LINKS]


def _paint_regions(view: Links, figure: FigureBase, options: PlotOptions) -> None:
    """Draw two photos beside each other; linked regions are outlined and joined, the wider the larger the value."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    own: Any = figure
    room = own.bbox.width / own.figure.dpi, own.bbox.height / own.figure.dpi
    links, look = _drawn(view, options), options.look
    within = min(room[0], options.inches or _WIDTH)  # what is drawn above may be wider
    wide, largest = _photo_width(within), max((abs(link.value) for link in links), default=1.0) or 1.0
    top = 1 - 0.55 / room[1]
    axes: list[Axes] = []
    for number, side in enumerate((view.a, view.b)):
        height = min(wide * drawn_ratio(_pixels(side)), 4.5)
        across = height / drawn_ratio(_pixels(side))
        left = 0.06 + number * (wide + 0.5)
        axes.append(own.add_axes((left / room[0], top - height / room[1], across / room[0], height / room[1])))
    above: Axes = own.add_axes((0, 0, 1, 1), zorder=5)  # in inches
    above.set(xlim=(0, room[0]), ylim=(0, room[1]))
    above.set_axis_off()
    taken: tuple[list[Place], list[Place]] = [], []  # of numbers, as fractions of the pictures
    badges: list[Place] = []
    for number, link in enumerate(links):
        colour = DISTINCT[number % len(DISTINCT)]
        ends = []
        for ax, side, features, own_taken in zip(axes, (view.a, view.b), (link.a, link.b), taken, strict=True):
            place = ax.get_position()
            apart = _BADGE / (room[0] * place.width), _BADGE / (room[1] * place.height)
            x, y = _outlined(ax, side, features, colour, own_taken, apart)
            own_taken.append((x, y))
            ends.append((room[0] * (place.x0 + x * place.width), room[1] * (place.y1 - y * place.height)))
        badges += ends
        (x, y), (u, v) = ends
        curve = Curve([(x, y), (x + (u - x) / 3, y), (u - (u - x) / 3, v), (u, v)], [1, 4, 4, 4])
        how: dict[str, Any] = {"lw": 0.8 + 4.2 * abs(link.value) / largest, "alpha": 0.8, "capstyle": "round"}
        above.add_patch(PathPatch(curve, fc="none", ec=colour, **how))
    for order, end in enumerate(badges):
        label = {"boxstyle": "circle,pad=.22", "fc": DISTINCT[order // 2 % len(DISTINCT)], "ec": "white", "lw": 0.8}
        how = {"color": "white", "fontsize": look.small, "ha": "center", "va": "center_baseline", "bbox": label}
        above.text(*end, str(order // 2 + 1), **how)
    for ax, side in zip(axes, (view.a, view.b), strict=True):
        height, across = _pixels(side).shape[:2]
        ax.imshow(_muted(_pixels(side)), aspect="auto", zorder=-1)
        ax.set_xlim(-0.5, across - 0.5)
        ax.set_ylim(height - 0.5, -0.5)
        ax.set_axis_off()
    _list_links(figure, links, room, wide, top, options)
    draw_figure_title(figure, _title(view, options, ""), look)


def _list_links(
    figure: FigureBase, links: Sequence[Link], room: tuple[float, float], wide: float, top: float, options: PlotOptions
) -> None:
    """Write the links with their values, to the right of the photos or below them."""
    look, beside = options.look, room[0] > 5
    left = 2 * wide + 0.7 if beside else 0.06
    y = top * room[1] - 0.02 if beside else line_height(look.small) * 1.6 * len(links) + 0.05
    inches = room[0] - left - 0.05
    for number, link in enumerate(links):
        colour = DISTINCT[number % len(DISTINCT)]
        words = wrapped(link.label, letters(inches - 0.3, look.small), 3)
        badge = {"boxstyle": "circle,pad=.2", "fc": colour, "ec": "none"}
        how: dict[str, Any] = {"fontsize": look.small, "va": "top"}
        figure.text((left + 0.09) / room[0], y / room[1], str(number + 1), color="white", ha="center", bbox=badge, **how)
        figure.text((left + 0.28) / room[0], y / room[1], words, fontfamily=families(), linespacing=1.3, **how, **LITERAL)
        y -= line_height(look.small) * ((words.count("\n") + 1) * 1.1 + 0.5)


def _muted(picture: np.ndarray) -> np.ndarray:
    """Return a photo in paler colours, so that outlines and links can be seen on it."""
    grey = picture.mean(2, keepdims=True)
    pale: np.ndarray = (0.78 * (0.6 * picture + 0.4 * grey) + 0.22 * 255).clip(0, 255).astype(np.uint8)
    return pale


def _outlined(
    ax: Axes, side: LinkSide, features: Sequence[int], colour: str, taken: Sequence[Place], apart: tuple[float, float]
) -> Place:
    """Outline features on the picture of a side; return a place inside of them, if possible ``apart`` from those taken."""
    height, width = _pixels(side).shape[:2]
    left, top, right, bottom = side.box
    inside = side.mask(features)
    xs, ys, field = outlined_places(inside, side.box, (width, height))
    ax.contour(xs, ys, field, levels=[0.5], colors="white", linewidths=2.4)
    ax.contour(xs, ys, field, levels=[0.5], colors=colour, linewidths=1.4)
    ax.contourf(xs, ys, field, levels=[0.5, 2.0], colors=colour, alpha=0.2)
    down, across = ((np.arange(side) + 0.5) / side for side in inside.shape)
    xs, ys = left + across * (right - left), (top + down * (bottom - top))[:, None]
    free = inside.copy()
    for u, v in taken:
        free &= ((xs - u) / apart[0]) ** 2 + ((ys - v) / apart[1]) ** 2 >= 1
    x, y = inner_place(free if free.any() else inside)
    return left + x * (right - left), top + y * (bottom - top)
