"""What results of this room have in common: sentences, a drawing, plain values, and files of all three."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cocoax.report import Section, write_report
from cocoax.show.fonts import families, wrapped
from cocoax.show.raster import data_uri
from cocoax.store import to_json, write_as_named, write_figure, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Result(ABC):
    """Something that was found: it says it in sentences, draws it, and writes both with its numbers into a folder.

    Attributes:
        file: the name of its files, without the ending.

    """

    file: ClassVar[str]

    @property
    @abstractmethod
    def title(self) -> str:
        """The heading of a page about it."""

    @property
    @abstractmethod
    def sentences(self) -> tuple[str, ...]:
        """What was found, in words."""

    @property
    @abstractmethod
    def size(self) -> tuple[float, float]:
        """Width and height of its drawing, in inches."""

    @abstractmethod
    def draw(self, figure: Figure) -> None:
        """Draw it on an empty figure."""

    def plot(self) -> Figure:
        """Draw it; return the figure."""
        from cocoax.show.figure import new_figure

        return self._on(new_figure(*self.size))

    def drawn(self) -> Figure:
        """Return the same figure for files, which pyplot need not know."""
        from matplotlib.figure import Figure

        return self._on(Figure(figsize=self.size, layout="constrained"))

    def _on(self, figure: Figure) -> Figure:
        """Draw it on an empty figure; return that, with pictures at the top of their places, right under their titles.

        In the middle of its place a picture seems to leave room for a title, which is gone once the layout moved it.
        """
        self.draw(figure)
        for ax in figure.axes:
            if ax.images:
                ax.set_anchor("N")
        return figure

    def write_title(self, figure: Figure) -> None:
        """Write the heading above all drawings, in two lines that fit the width at most."""
        words = wrapped(self.title, int(10 * self.size[0]), 2)
        figure.suptitle(words, fontsize=10, fontfamily=families(), parse_math=False)

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return it as plain values."""

    @property
    @abstractmethod
    def sections(self) -> list[Section]:
        """The parts of a page about it."""

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def _repr_html_(self) -> str:
        from cocoax.show.figure import png

        words = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.sentences)
        return f'<div>{words}<img alt="{self.file}" src="{data_uri("image/png", png(self.drawn(), 90))}"></div>'

    def save(self, path: str | Path) -> list[Path]:
        """Write a page that loads nothing (.html), the numbers (.json) or a drawing (.png), or all into a folder.

        Return the files.
        """
        kinds = {
            ".html": lambda file: write_report(file, self.title, self.sections),
            ".json": lambda file: write_text(file, to_json(self.describe(), indent=1)),
            ".png": lambda file: write_figure(file, self.drawn()),
        }
        return write_as_named(path, self.file, kinds)
