"""How the page draws answers: what a visitor chose, and the curves of a map."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cocoax import Answer, Curve
from cocoax.show import Curves, Line
from cocoax.show.options import PlotOptions
from cocoax.show.palette import COLOURS, QUIET, RED


class _Palette(NamedTuple):
    """A diverging colour map, and what its two ends are called."""

    colours: str
    raises: str
    lowers: str


PALETTES = {
    "Red and blue": _Palette(COLOURS, "Red", "blue"),
    "Orange and purple": _Palette("PuOr_r", "Orange", "purple"),
    "Green and pink": _Palette("PiYG", "Green", "pink"),
}


@dataclass(frozen=True)
class Look:
    """How maps are drawn: what the visitor chose, an opacity from 0 to 1 and one of ``PALETTES``.

    A value that is not among the choices, which a page of ours does not send, is an error.
    """

    opacity: float = 0.6
    palette: str = "Red and blue"
    same_scale: bool = False

    def __post_init__(self) -> None:
        if self.palette not in PALETTES:
            raise ValueError(f"The colours must be one of {', '.join(PALETTES)}. Got {self.palette!r} instead.")
        self.options()  # checks the opacity

    def options(self, limit: float | None = None) -> PlotOptions:
        """Return the options of drawings, with a colour scale that ends at ``limit``."""
        return PlotOptions(limit=limit, opacity=self.opacity, cmap=PALETTES[self.palette].colours)


def curve_views(measured: Sequence[tuple[str, list[dict[str, Curve]]]]) -> list[Curves]:
    """Return the insertion and deletion curves of each answer, beside those of a random order."""
    charts = []
    for name, (own, random) in measured:
        for kind, what in (("insertion", "put back"), ("deletion", "removed")):
            lines = tuple(
                Line(100 * curve.x.numpy(), curve.y.numpy(), f"{label}, area {curve.auc:+.3f}", style)
                for curve, label, style in (
                    (own[kind], "this map", {"color": np.array(RED) / 255, "lw": 2}),
                    (random[kind], "random order", {"color": QUIET, "lw": 1.2, "ls": "--"}),
                )
            )
            title = f"{kind.capitalize()}: {name if len(name) <= 44 else name[:43].rstrip() + '…'}"
            alt = f"{kind} of {name}: {', '.join(line.label for line in lines)}"
            charts.append(Curves(lines, f"% of pixels {what}, strongest first", "score", title=title, alt=alt))
    return charts


def file_of(answer: Answer, kind: str, look: Look, limit: float) -> bytes:
    """Return an answer as the content of a file of a kind: ``"png"``, ``"svg"``, ``"json"`` and the like."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"answer.{kind}"
        options = look.options(limit)
        return answer.save(path, limit=limit, opacity=options.opacity, cmap=options.cmap).read_bytes()
