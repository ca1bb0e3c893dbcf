"""The terminal: how commands print, and the options that several of them take."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

EncoderName = Annotated[str, typer.Option("--encoder", help="What 'cocoax encoders' lists, such as clip:NAME_OR_FOLDER.")]
Samples = Annotated[int, typer.Option(help="Masked copies of each picture to encode.")]
Grid = Annotated[int, typer.Option(help="Cells of a mask in each direction.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]

console = Console(emoji=False)  # or else a file's name:cat:.png would become a picture of a cat


def print_plain(text: str) -> None:
    """Print a text as it is: brackets are no styles, numbers get no colours, and long lines stay in one piece."""
    console.print(text, highlight=False, soft_wrap=True, markup=False)


def print_written(files: Iterable[Path]) -> None:
    """Say which files were written."""
    for file in files:
        print_plain(f"wrote {file}")


def draw_into_files() -> None:
    """Make matplotlib draw into files only, since a terminal may have no screen."""
    import matplotlib

    matplotlib.use("Agg")
