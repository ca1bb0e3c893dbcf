"""The visual language: every colour and size of what is drawn, in one place; see docs/explanation/visual-language.md."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.colors import Colormap

Rgb = tuple[int, int, int]

# Effects. Red is darker than blue, so that the two differ in grey print; both differ for every kind of colour blindness.
RED: Rgb = (173, 21, 39)
BLUE: Rgb = (38, 118, 186)
NEUTRAL: Rgb = (248, 247, 245)
UNKNOWN: Rgb = (186, 186, 186)  # effects within noise
_STOPS = ("#2676ba", "#5c9fd3", "#a5cae6", "#d9e7f1", "#f8f7f5", "#fadccb", "#f0a488", "#d6553f", "#ad1527")
COLOURS = "cocoax"  # the colour map of these stops

# Groups, links and marks.
DISTINCT = ("#d95f02", "#1b9e77", "#7570b3", "#e7298a", "#66a61e", "#a6761d", "#1f78b4", "#666666")
HATCH, HATCH_COLOUR = "////", "#55555590"
MARK, MARK_EDGE = "#ffd400", "black"  # bright on a dark edge can be seen on any picture
QUIET = "#5b6470"  # words that say how to read a drawing

# Pictures.
OPACITY = 0.6  # of a map over its photo
PALE = 0.6  # how much of the photo goes where there is no effect
OUTLINE = 1 / 520  # of the longer side: how wide the outline of a region is
LONGEST = 600  # pixels of the longer side of a picture on a page
TILE = 200  # of a small one
STRIPES = 60  # of hatching along the longer side
EXTREME = 8.0  # the longer side over the shorter one: a picture beyond that is drawn with this ratio

# Figures, in inches and points.
WIDTHS = {"single": 3.5, "double": 7.2}  # of one and of two columns of a paper
MAP = 2.15  # of a map in a panel
GAP = 0.12  # between maps
BAR = 0.07  # of a colour bar


@dataclass(frozen=True)
class Style:
    """The style of a figure: font sizes in points, colours of paper and ink."""

    title: float
    small: float
    paper: str
    ink: str
    quiet: str
    dpi: float

    @property
    def settings(self) -> Any:
        """The settings of matplotlib, as a dict."""
        ink = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
        paper = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
        return {
            **dict.fromkeys(ink, self.ink),
            **dict.fromkeys(paper, self.paper),
            "axes.linewidth": 0.6,
            "font.size": self.small,
            "axes.titlesize": self.title,
            "axes.labelsize": self.small,
            "xtick.labelsize": self.small,
            "ytick.labelsize": self.small,
            "legend.fontsize": self.small,
            "legend.frameon": False,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }


STYLES = {
    "screen": Style(10, 8, "white", "#1c1c1c", QUIET, 160),
    "paper": Style(7.5, 6.5, "white", "black", "#444444", 300),
    "dark": Style(10, 8, "#14181f", "#e8ecf2", "#a9b4c2", 160),
}


@lru_cache
def colour_map(name: str) -> Colormap:
    """Return the project's colour map, or one of matplotlib's."""
    import matplotlib
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(COLOURS, _STOPS) if name == COLOURS else matplotlib.colormaps[name]


@lru_cache
def colour_table(name: str) -> np.ndarray:
    """Return the 256 colours of a colour map, ``[256, 3]`` in 0..255."""
    import numpy as np

    return np.asarray(colour_map(name)(np.arange(256)))[:, :3] * 255


@lru_cache
def css_gradient(name: str) -> str:
    """Return the colours of a scale from left to right, for style sheets."""
    table = colour_table(name)[[round(place * 255 / 16) for place in range(17)]]
    return f"linear-gradient(90deg, {', '.join(f'rgb({r:.0f}, {g:.0f}, {b:.0f})' for r, g, b in table)})"
