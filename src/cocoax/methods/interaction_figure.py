"""Drawings of interactions: words joined by arcs, matrices, maps for words, linked regions of two pictures."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from cocoax.inputs.drawing import BLUE, COLOURS, RED, WHOLE, colour_scale
from cocoax.inputs.fonts import columns, lettered

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from cocoax.methods.interactions import Interactions, Matched

UNIT = "change in score when both are kept, beyond what each does alone"
NOTHING = "No two parts make a difference together: all there is to see is rounding."
INCHES = 0.095  # of a character
WIDEST = 130  # characters; of longer texts only the words of the pairs are drawn
DISTINCT = ("#d95f02", "#1b9e77", "#7570b3", "#e7298a", "#66a61e", "#e6ab02", "#a6761d", "#666666")


def draw(interactions: Interactions, kind: str | None, most: int | None) -> Figure:
    """Return a drawing of one kind, or of the one that suits the two inputs; see :meth:`cocoax.Interactions.plot`."""
    grids = [side.is_picture for side in (interactions.a, interactions.b)]
    suits = ("arcs", "maps", "links")[sum(grids)]
    if kind is None:
        kind = suits
    if kind not in ("matrix", suits):
        raise ValueError(f"The 'kind' parameter must be {suits!r} or 'matrix' for these two inputs. Got {kind!r} instead.")
    if most is not None and most < 1:
        raise ValueError(f"The 'most' parameter must be at least 1. Got {most!r} instead.")
    kinds = {"arcs": (draw_arcs, 12), "matrix": (draw_matrix, 30), "maps": (draw_maps, 5), "links": (draw_links, 5)}
    function, default = kinds[kind]
    return function(interactions, default if most is None else most)


def _title(interactions: Interactions, told: str) -> str:
    """Return what stands above a drawing: the similarity and what is drawn, or that there is nothing."""
    similarity = f"similarity {interactions.score:+.3f}"
    return f"{similarity}\n{NOTHING}" if interactions.is_nothing else "; ".join(filter(None, (similarity, told)))


def draw_arcs(interactions: Interactions, most: int) -> Figure:
    """Draw two lines of text; the pairs of the largest sizes are joined, red where they raise the score."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    from cocoax.inputs.figures import new_figure

    matrix = interactions.shown.double().numpy()
    order = np.argsort(-np.abs(matrix).flatten(), kind="stable")[:most]
    pairs = [divmod(int(index), matrix.shape[1]) for index in order if matrix.flat[index]]
    lines = [
        _line(side.names, {pair[which] for pair in pairs}) for which, side in enumerate((interactions.a, interactions.b))
    ]
    length = max(map(_length, lines))
    figure = new_figure(max(5.0, INCHES * (length + 4)), 3.0)
    ax = figure.subplots()
    places: list[dict[int, float]] = []
    for line, height, anchor in zip(lines, (1.0, 0.0), ("bottom", "top"), strict=True):
        at = (length - _length(line)) / 2  # lines are centred
        places.append({})
        words, family = lettered([word for _, word in line])
        for (number, _), word in zip(line, words, strict=True):
            middle = at + columns(word) / 2
            font: dict[str, Any] = {"family": ["monospace", *family], "fontsize": 11}
            ax.text(middle, height, word, ha="center", va=anchor, parse_math=False, **font)
            places[-1][number] = middle
            at += columns(word) + 1
    size = float(np.abs(matrix).max()) or 1.0
    for i, j in reversed(pairs):  # the strongest lie on top
        value = matrix[i, j]
        start, end = places[0][i], places[1][j]
        curve = Path(
            [(start, 0.97), (start, 0.5), (end, 0.5), (end, 0.03)], [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
        )
        strength = abs(value) / size
        colour = [part / 255 for part in (RED if value > 0 else BLUE)]
        ax.add_patch(PathPatch(curve, fc="none", ec=colour, lw=0.5 + 4 * strength, alpha=0.25 + 0.7 * strength))
    ax.set_xlim(-1, length + 1)
    ax.set_ylim(-0.35, 1.35)
    ax.set_axis_off()
    drawn = f"{len(pairs)} largest of {matrix.size} pairs" if len(pairs) < matrix.size else "all pairs"
    ax.set_title(_title(interactions, f"{drawn}, the thickest {size:.3g}:\n{UNIT}"), fontsize=9)
    return figure


def _length(line: list[tuple[int, str]]) -> int:
    """Return how wide a line is, counted in Latin letters."""
    return sum(columns(word) + 1 for _, word in line)


def _line(names: tuple[str, ...], wanted: set[int]) -> list[tuple[int, str]]:
    """Return the words of a line with their numbers; of a long one those that are wanted, with … for what is left out."""
    words = [(number, " ".join(name.split())) for number, name in enumerate(names)]
    if _length(words) <= WIDEST:
        return words
    kept = sorted(wanted)
    line = [] if 0 in wanted else [(-1, "…")]
    for number, following in pairwise([*kept, len(names)]):
        line.append(words[number])
        if following > number + 1:
            line.append((-1, "…"))
    return line


def draw_matrix(interactions: Interactions, most: int) -> Figure:
    """Draw a matrix in colour: one row per feature of a, one column per feature of b, at most ``most`` of each."""
    from cocoax.inputs.figures import new_figure

    matrix = interactions.shown.double().numpy()
    down, across = (np.sort(np.argsort(-np.abs(matrix).max(axis), kind="stable")[:most]) for axis in (1, 0))
    rows, family = lettered([interactions.a.names[at] for at in down])
    headings, other_family = lettered([interactions.b.names[at] for at in across])
    limit, _ = colour_scale(matrix)
    figure = new_figure(2.4 + 0.3 * len(headings), 1.8 + 0.3 * len(rows))
    ax = figure.subplots()
    image = ax.imshow(matrix[np.ix_(down, across)], cmap=COLOURS, vmin=-limit, vmax=limit, aspect="auto")
    size: dict[str, Any] = {"fontsize": 8, "parse_math": False}
    ax.set_xticks(range(len(headings)), headings, rotation=60, ha="right", fontfamily=other_family, **size)
    ax.set_yticks(range(len(rows)), rows, fontfamily=family, **size)
    bar = figure.colorbar(image, ax=ax, fraction=0.05)
    bar.ax.tick_params(labelsize=8)
    bar.set_label("\nbeyond ".join(UNIT.split(" beyond ")), fontsize=8)
    left_out = matrix.size - len(rows) * len(headings)
    also = f"{left_out} pairs of weaker ones are not shown" if left_out else ""
    ax.set_title(_title(interactions, also), fontsize=9)
    return figure


def draw_maps(interactions: Interactions, most: int) -> Figure:
    """Draw the picture with the map of each of the words that have the strongest regions, on one scale."""
    from cocoax.inputs.figures import new_figure

    side = "b" if interactions.a.is_picture else "a"
    listed = interactions.b if side == "b" else interactions.a
    peaks = interactions.shown.double().numpy().max(0 if side == "b" else 1)
    words = np.sort(np.argsort(-peaks, kind="stable")[:most]).tolist()
    maps = [interactions.given(word, side) for word in words]
    limit = max(float(each.relative.abs().max()) for each in maps) or 1.0
    figure = new_figure(3.1 * len(maps) + 0.6, 3.4)
    axes = figure.subplots(1, len(maps), squeeze=False)
    for ax, word, each in zip(axes[0], words, maps, strict=True):
        each.plot(ax, title=listed.names[word], limit=limit, colour_bar=word == words[-1])
    figure.suptitle(_title(interactions, UNIT), fontsize=9)
    return figure


def draw_links(interactions: Interactions, most: int) -> Figure:
    """Draw two pictures beside each other, the pairs of regions that are most alike numbered on both and joined by lines."""
    from matplotlib.patches import ConnectionPatch, Rectangle

    from cocoax.inputs.figures import new_figure

    figure = new_figure(9.5, 4.8)
    axes = figure.subplots(1, 2)
    sides = (interactions.a, interactions.b)
    sizes = [_picture(ax, side) for ax, side in zip(axes, sides, strict=True)]
    taken: dict[tuple[int, int], int] = {}  # numbers that stand in one cell already
    pairs = interactions.strongest(most)
    for number, (i, j) in enumerate(pairs):
        colour = DISTINCT[number % len(DISTINCT)]
        ends = []
        for which, (ax, side, size, cell) in enumerate(zip(axes, sides, sizes, (i, j), strict=True)):
            left, top, width, height = cell_box(side, cell, size)
            ax.add_patch(Rectangle((left, top), width, height, fill=False, ec=colour, lw=2.5))
            place = taken.get((which, cell), 0)
            taken[which, cell] = place + 1
            at = (left + width * (0.2 + 0.3 * (place % 3)), top + height * (0.22 + 0.3 * (place // 3)))
            label = {"boxstyle": "circle,pad=.15", "fc": colour, "ec": "white", "lw": 0.6}
            ax.text(*at, str(number + 1), color="white", fontsize=8, ha="center", va="center", bbox=label)
            ends.append((left + width / 2, top + height / 2))
        line = ConnectionPatch(
            ends[0], ends[1], "data", "data", axesA=axes[0], axesB=axes[1], color=colour, lw=1.2, alpha=0.8
        )
        figure.add_artist(line)
    figure.suptitle(_title(interactions, f"the {len(pairs)} pairs of regions that are most alike"), fontsize=9)
    return figure


def _picture(ax: Axes, side: Matched) -> tuple[float, float]:
    """Draw the picture of a side, or nothing where there is none; return its width and height."""
    picture = getattr(side.display, "picture", None)
    pixels: Any = np.full((*side.places.shape, 3), 230, np.uint8) if picture is None else picture.numpy()
    ax.imshow(pixels)
    ax.set_axis_off()
    return pixels.shape[1], pixels.shape[0]


def cell_box(side: Matched, cell: int, size: tuple[float, float] = (1.0, 1.0)) -> tuple[float, float, float, float]:
    """Return left, top, width and height of a cell or part of a picture, in units in which the picture has this size."""
    left, top, right, bottom = getattr(side.display, "box", WHOLE)
    rows, columns = side.places.shape
    down, across = (bottom - top) / rows * size[1], (right - left) / columns * size[0]
    own = (side.places == cell).nonzero()
    (row, column), (height, width) = own.amin(0).tolist(), (own.amax(0) - own.amin(0) + 1).tolist()
    return left * size[0] + column * across, top * size[1] + row * down, width * across, height * down
