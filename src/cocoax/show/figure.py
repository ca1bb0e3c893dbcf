"""Figures: views drawn with matplotlib below each other, and files of them."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cocoax.show import charts, link_drawing, pictures  # noqa: F401  (each says how to draw its views)
from cocoax.show.drawing import DEFAULT, draw, draw_figure_title, line_height, paint, size, without_title
from cocoax.show.options import PlotOptions
from cocoax.show.raster import jpeg_uri
from cocoax.show.views import Table, View
from cocoax.store import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "new_figure", "paint", "plot", "png", "rc_settings", "size", "write"]

FILE_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "cocoax", "pdf.fonttype": 42}  # text is text, fonts are embedded


def plot(views: Sequence[View], options: PlotOptions = DEFAULT, *, interactive: bool = True) -> Figure:
    """Return a figure of views below each other; an ``interactive`` one is kept by pyplot, so that ``plt.show()`` shows it.

    Tables are left out where there is something else to see.
    """

    drawn = [view for view in views if not isinstance(view, Table)] or list(views)
    with rc_settings(options.look.settings):
        sizes = [size(view, options if len(drawn) == 1 else without_title(options)) for view in drawn]
        width = max(across for across, _ in sizes) if options.inches is None else options.inches
        above = 0.15 + line_height(options.look.title) if options.title and len(drawn) > 1 else 0.0
        figure = new_figure(width, above + sum(down for _, down in sizes), interactive)
        if interactive:
            figure.file_dpi = options.resolution  # type: ignore[attr-defined]
        if len(drawn) == 1:
            paint(drawn[0], figure, options)
            if all(ax.get_subplotspec() is None for ax in figure.axes):
                figure.set_layout_engine("none")  # everything has its place
            return figure
        heights = [*([above] if above else []), *(down for _, down in sizes)]
        parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights)
        for view, part in zip(drawn, parts[-len(drawn) :], strict=True):
            paint(view, part, without_title(options))
        if options.title and above:
            draw_figure_title(parts[0], options.title, options.look)
    return figure


@contextmanager
def rc_settings(settings: Any) -> Iterator[None]:
    """Set some of matplotlib's settings for a while.

    ``matplotlib.rc_context`` would give back all of them, also those that a notebook's backend sets when it is first used.
    """
    from matplotlib import rcParams

    before: Any = {name: rcParams[name] for name in settings}
    rcParams.update(settings)
    try:
        yield
    finally:
        rcParams.update(before)


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


def svg(figure: Figure, options: PlotOptions = DEFAULT, dpi: float = 110) -> str:
    """Return a figure as small SVG, for pages that hold it: opaque pictures in it are JPEGs."""
    file = io.StringIO()
    with rc_settings({**FILE_SETTINGS, **options.look.settings}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # text is text: who looks at it has the letters
        figure.savefig(file, format="svg", dpi=dpi, metadata={"Date": None})
    return re.sub(r"data:image/png;base64,([^\"]+)", _as_jpeg, file.getvalue())


def _as_jpeg(address: re.Match[str]) -> str:
    """Return the address of a PNG as that of a JPEG, if it is smaller and nothing shines through."""
    from PIL import Image

    image = Image.open(io.BytesIO(base64.b64decode(address[1])))
    if image.mode == "RGBA" and image.getchannel("A").getextrema() != (255, 255):
        return address[0]
    smaller = jpeg_uri(image, 88)
    return smaller if len(smaller) < len(address[0]) else address[0]


def write(path: Path, figure: Figure, options: PlotOptions = DEFAULT) -> None:
    """Write a figure in the format that the path's ending names, all or nothing.

    Text is text in SVG, fonts are embedded in PDF. It bears no date: the same figure is the same file.
    """

    undated: dict[str, Any] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
    ending = path.suffix.lower()
    with atomic_write(path) as part, rc_settings({**FILE_SETTINGS, **options.look.settings}):
        figure.savefig(
            part,
            format=ending[1:],
            dpi=options.resolution,
            transparent=options.transparent,
            metadata=undated.get(ending),
        )
