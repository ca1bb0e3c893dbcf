"""The terminal: how commands print."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from cocoax.store import to_json

if TYPE_CHECKING:
    from cocoax.results import Result

console = Console(emoji=False)  # or else a file's name:cat:.png would become a picture of a cat
errors = Console(stderr=True, emoji=False)


Cell = str | Text
_SHORT = 20
_WIDE = 2000


class ExplainedInterrupt(KeyboardInterrupt):
    """Ctrl-C, with a sentence for the user: what was kept, and how to go on."""


@contextmanager
def resumable(kept: str | Callable[[], str]) -> Iterator[None]:
    """Say what was kept, and that the same command goes on, if Ctrl-C ends the block."""
    try:
        yield
    except KeyboardInterrupt as stop:
        said = kept if isinstance(kept, str) else kept()
        raise ExplainedInterrupt(f"{said}; the same command goes on from there") from stop


def print_line(text: str | Text, to: Console | None = None) -> None:
    """Print a text with styles; only a terminal breaks long lines, so that whoever reads the output can search them."""
    to = console if to is None else to
    to.print(text, highlight=False, soft_wrap=not to.is_terminal)


def print_plain(text: str) -> None:
    """Print a text as it is: brackets are no styles, numbers get no colours, and long lines stay in one piece."""
    console.print(text, highlight=False, soft_wrap=True, markup=False)


def note(text: str, end: str = "\n") -> None:
    """Tell something beside the results, on standard error."""
    errors.print(text, end=end, highlight=False, soft_wrap=True, markup=False)


def print_written(files: Iterable[Path]) -> None:
    """Say which files were written."""
    for file in files:
        print_plain(f"wrote {file}")


def print_table(header: Sequence[str], rows: Sequence[Sequence[Cell]], title: str = "", to: Console | None = None) -> None:
    """Print a table; where the output is no terminal, as aligned columns without frames, one line for each row."""
    to = console if to is None else to
    if to.is_terminal:
        short = all(len(str(row[0])) <= _SHORT for row in rows)  # what rows are about is not broken, unless it is a long path
        columns = (Column(name, overflow="fold", no_wrap=short and name == header[0]) for name in header)
        table = Table(*columns, title=title or None)
        for row in rows:
            table.add_row(*(cell if isinstance(cell, Text) else escape(cell) for cell in row))
        to.print(table)
        return
    lines = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    to.print("\n".join([*([title] if title else []), *aligned]), highlight=False, soft_wrap=True, markup=False)


def print_shown(renderable: RenderableType) -> None:
    """Print what Rich can show; where the output is no terminal, without breaking lines or filling them up with spaces."""
    if console.is_terminal:
        console.print(renderable, highlight=False)
        return
    wide = Console(file=io.StringIO(), width=_WIDE, emoji=False)
    with wide.capture() as capture:
        wide.print(renderable, highlight=False)
    print_plain("\n".join(line.rstrip() for line in capture.get().splitlines()))


def print_json(value: Any) -> None:
    """Print plain values as JSON."""
    print(to_json(value, indent=1))


def counted(number: int, thing: str, things: str = "") -> str:
    """Return a number of things in words: ``1 picture``, ``2 pictures``."""
    return f"{number} {thing if number == 1 else things or thing + 's'}"


def draw_into_files() -> None:
    """Make matplotlib draw into files only, since a terminal may have no screen."""
    import matplotlib

    matplotlib.use("Agg")


def show_result(
    result: Result, out: Path | None, as_json: bool, files: Sequence[Path] = (), write: Callable[[], None] | None = None
) -> None:
    """Print a result or its JSON and the files that were written, after writing it to ``out`` if that is given.

    ``write`` prints the result where it is not printed as it shows itself.
    """
    files = files if out is None else result.save_all(out)
    if as_json:
        print_json({**result.to_dict(), "files": files})
        return
    print_shown(result) if write is None else write()
    print_written(files)
