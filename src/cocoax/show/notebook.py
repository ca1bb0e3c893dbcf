"""Figures that notebooks show once; imported when the first one is drawn, since it needs matplotlib."""

from __future__ import annotations

import io
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.figure import Figure


class NotebookFigure(Figure):
    """A figure that pyplot keeps, so that ``plt.show()`` shows it, and that a notebook shows once.

    A figure that pyplot keeps and that is the value of a cell would be shown as both.

    Attributes:
        file_dpi: dots per inch of files, if ``savefig`` is not told otherwise.

    """

    file_dpi: float | None = None

    def savefig(self, fname: Any, **options: Any) -> None:
        """Write the figure as :meth:`cocoax.results.Result.save` does: text is text in SVG, fonts are embedded in PDF."""
        from cocoax.show.figure import FILE_SETTINGS, rc_settings

        if self.file_dpi is not None:
            options.setdefault("dpi", self.file_dpi)
        with rc_settings(FILE_SETTINGS):
            super().savefig(fname, **options)

    def _ipython_display_(self) -> None:
        if "inline" not in matplotlib.get_backend():
            raise NotImplementedError  # other backends show figures in their own way
        from IPython.display import Image, display

        file = io.BytesIO()
        self.savefig(file, format="png", dpi="figure")
        plt.close(self)
        display(Image(file.getvalue()))
