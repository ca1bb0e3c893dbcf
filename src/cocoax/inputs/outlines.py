"""Parts of an input marked: pixels with a line around them, words written out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from cocoax.inputs.drawing import Box
from cocoax.inputs.fonts import lettered, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINE, _EDGE = "#ffd400", "black"  # bright on a dark edge can be seen on any picture


def draw_outlined(
    ax: Axes, picture: Tensor | None, box: Box, chosen: Tensor | None, *, fade: bool = True, within: bool = False
) -> None:
    """Draw a picture with a line around some of the pixels ``chosen [H, W]`` of a box of it; the others are faded.

    ``within`` shows nothing but the box.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.patheffects import Stroke

    height, width = (1, 1) if picture is None else picture.shape[:2]
    left, top, right, bottom = (part * side for part, side in zip(box, (width, height) * 2, strict=True))
    place = (left - 0.5, right - 0.5, bottom - 0.5, top - 0.5)
    if picture is not None:
        ax.imshow(picture.numpy())
    if chosen is not None:
        inside = chosen.numpy().astype(bool)
        if fade:
            veil = np.ones((*inside.shape, 4))
            veil[..., 3] = 0.75 * ~inside
            ax.imshow(veil, extent=place, interpolation="nearest")
        scale = np.array([(right - left) / inside.shape[1], (bottom - top) / inside.shape[0]])
        edges = _edges(inside) * scale + np.array([left - 0.5, top - 0.5])
        lines = LineCollection(list(edges), colors=_LINE, linewidths=1.6)
        lines.set_path_effects([Stroke(linewidth=3, foreground=_EDGE), Stroke(linewidth=1.6, foreground=_LINE)])
        ax.add_collection(lines)
    shown = (left, right, bottom, top) if within else (0, width, height, 0)
    ax.set_xlim(shown[0] - 0.5, shown[1] - 0.5)
    ax.set_ylim(shown[2] - 0.5, shown[3] - 0.5)
    ax.set_axis_off()


def _edges(inside: np.ndarray) -> np.ndarray:
    """Return the lines between pixels that are inside and those that are not, ``[lines, 2, (x, y)]``."""
    padded = np.pad(inside, 1)
    rows, columns = np.nonzero(padded[1:, 1:-1] != padded[:-1, 1:-1])  # a line above pixel (row, column)
    across = np.stack([np.stack([columns, rows], 1), np.stack([columns + 1, rows], 1)], 1)
    rows, columns = np.nonzero(padded[1:-1, 1:] != padded[1:-1, :-1])
    down = np.stack([np.stack([columns, rows], 1), np.stack([columns, rows + 1], 1)], 1)
    return np.concatenate([across, down]).astype(float)


def write_on(ax: Axes, text: str, title: str) -> None:
    """Write a text, or the beginning of a long one, on axes."""
    body, head = ("\n".join(wrapped(line, 40, 18) for line in part.split("\n")[:18]) for part in (text, title))
    (words, heading), family = lettered([body, head])
    ax.text(0, 1, words, fontsize=8, fontfamily=family, parse_math=False, va="top", transform=ax.transAxes)
    ax.set_title(heading, fontsize=10, fontfamily=family, parse_math=False)
    ax.set_axis_off()
