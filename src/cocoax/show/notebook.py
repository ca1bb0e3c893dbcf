"""Figures that notebooks show once; imported when the first one is drawn, since it needs matplotlib."""

from __future__ import annotations

import io

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.figure import Figure


class NotebookFigure(Figure):
    """A figure that pyplot keeps, so that ``plt.show()`` shows it, and that a notebook shows once.

    A figure that pyplot keeps and that is the value of a cell would be shown as both.
    """

    def _ipython_display_(self) -> None:
        if "inline" not in matplotlib.get_backend():
            raise NotImplementedError  # other backends show figures in their own way
        from IPython.display import Image, display

        file = io.BytesIO()
        self.savefig(file, format="png")
        plt.close(self)
        display(Image(file.getvalue()))
