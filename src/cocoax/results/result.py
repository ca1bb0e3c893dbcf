"""Results: a subclass says what it found, what there is to see and what its numbers are; everything else is here."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from cocoax.checks import import_optional
from cocoax.show import PlotOptions, Table, View
from cocoax.store import as_path, atomic_write, free_ending, to_json, write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Group

P = TypeVar("P")


class Result(ABC):
    """An answer. A subclass gives :attr:`summary`, :meth:`views` and :meth:`table`.

    Attributes:
        file: the name of its files in a folder, without the ending.

    """

    file: ClassVar[str] = "result"

    @property
    @abstractmethod
    def summary(self) -> str:
        """The finding, in one sentence."""

    @abstractmethod
    def views(self) -> Sequence[View]:
        """Return what there is to see, as plain data."""

    @abstractmethod
    def table(self) -> Table:
        """Return its numbers as columns and rows of plain values."""

    @property
    def title(self) -> str:
        """The heading of a page about it; by default the summary."""
        return self.summary

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings for the reader, in sentences."""
        return ()

    def facts(self) -> Mapping[str, Any]:
        """Return what :meth:`to_dict` holds beside the summary; by default the rows of the table."""
        return {"rows": self.table().records()}

    def __str__(self) -> str:
        return "\n".join((self.summary, *self.remarks))

    @property
    def _sentences(self) -> tuple[str, ...]:
        """The summary, unless it is the title, and the remarks."""
        return (*(() if self.summary == self.title else (self.summary,)), *self.remarks)

    # --- pictures ---------------------------------------------------------------------------------------------------------

    @overload
    def plot(self, ax: None = None, **options: Any) -> Figure: ...

    @overload
    def plot(self, ax: Axes, **options: Any) -> Axes: ...

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes | Figure:
        """Draw it; return the figure, or the axes that were given. The options are those of ``show.PlotOptions``."""
        from cocoax.show import figure

        if isinstance(ax, str | Path):
            raise TypeError(f"What is drawn is written by .save({str(ax)!r}).")
        if ax is None:
            return figure.plot(self.views(), PlotOptions.of(options))
        if not hasattr(ax, "get_figure"):
            raise TypeError(f"The 'ax' parameter must be matplotlib's axes. Got {type(ax).__name__} instead.")
        figure.draw(self.views()[0], ax, PlotOptions.of(options))
        return ax

    def html(self, **options: Any) -> str:
        """Return what there is to see as an HTML fragment; the options are those of :meth:`plot`."""
        from cocoax.show import html

        return html.fragment(self.views(), options=PlotOptions.of(options))

    def _repr_html_(self) -> str:
        from cocoax.show import html

        return html.fragment(self.views(), heading=self.title, sentences=self._sentences)

    def __rich__(self) -> Group:
        from cocoax.show import terminal

        return terminal.render(self.views(), heading=self.title, sentences=self._sentences)

    # --- numbers ----------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values: strings, numbers, lists and dicts; numbers that are not finite are None."""
        plain: dict[str, Any] = json.loads(self.to_json(None))
        return plain

    def to_json(self, indent: int | None = 1) -> str:
        """Return it as JSON."""
        return to_json({"summary": self.summary, **self.facts()}, indent=indent)

    def to_dataframe(self) -> Any:
        """Return its table as a pandas data frame."""
        return data_frame(self.table())

    # --- files ------------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path, **options: Any) -> Path:
        """Write it as the path's ending says; return the path.

        A figure (.png, .pdf, .svg), a page that loads nothing (.html), numbers (.json), the table (.csv, .parquet), and what
        ``load`` reads (.safetensors) where there is such a function. A file of that name is replaced. A path without an
        ending is a folder, which gets a page, numbers and a figure; their names end in ``-2`` and so on where such files are
        there already. Options are those of :meth:`plot`.
        """
        path, chosen = as_path(path), PlotOptions.of(options)
        self._written(path, chosen)
        return path

    def save_all(self, path: str | Path, **options: Any) -> list[Path]:
        """Do the same as :meth:`save`; return the files, of which a folder gets several."""
        return self._written(as_path(path), PlotOptions.of(options))

    def _written(self, path: Path, options: PlotOptions) -> list[Path]:
        writers = self._writers()
        ending = path.suffix.lower()
        if ending in writers:
            writers[ending](path, options)
            return [path]
        if ending and not path.is_dir():
            raise ValueError(
                f"Files end in {', '.join(writers)}; a path without an ending is a folder for a page, numbers and a figure. "
                f"Got {path.name!r} instead."
            )
        stem = self.file + free_ending(path, self.file)
        files = [path / f"{stem}{own}" for own in (".html", ".json", ".png")]
        for file in files:
            writers[file.suffix](file, options)
        return files

    def _writers(self) -> dict[str, Callable[[Path, PlotOptions], object]]:
        """Return what writes a file, by its ending."""
        return {
            **dict.fromkeys((".png", ".pdf", ".svg"), self._write_figure),
            ".html": self._write_page,
            ".json": lambda path, options: write_text(path, self.to_json()),
            ".csv": lambda path, options: write_text(path, self.table().csv()),
            ".parquet": lambda path, options: _write_parquet(path, self.to_dataframe()),
        }

    def _write_figure(self, path: Path, options: PlotOptions) -> None:
        from cocoax.show import figure

        figure.write(path, figure.plot(self.views(), options, interactive=False), options)

    def _write_page(self, path: Path, options: PlotOptions) -> None:
        write_text(path, self.page(options=options))

    def page(self, above: Sequence[View] = (), options: PlotOptions | None = None) -> str:
        """Return the page that ``save("x.html")`` writes, with some views above its own."""
        from cocoax.show import html

        options = PlotOptions() if options is None else options
        title = self.title if options.title is None else options.title
        return html.page(title, self._sentences, [*above, *self.views()], options, self.table(), self.file)


class ResultList(Result, Collection[P]):
    """A result that has parts, given by :attr:`parts`: it can be counted, indexed and gone through."""

    @property
    @abstractmethod
    def parts(self) -> Sequence[P]:
        """The parts of the result."""

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[P]:
        return iter(self.parts)

    def __contains__(self, part: object) -> bool:
        return part in self.parts

    @overload
    def __getitem__(self, index: int) -> P: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[P]: ...

    def __getitem__(self, index: int | slice) -> P | Sequence[P]:
        return self.parts[index]


def data_frame(table: Table) -> Any:
    """Return a table as a pandas data frame."""
    pandas = import_optional("pandas", "A data frame needs")
    return pandas.DataFrame({name: [row[at] for row in table.rows] for at, name in enumerate(table.columns)})


def _write_parquet(path: Path, frame: Any) -> None:
    with atomic_write(path) as part:
        frame.to_parquet(part)
