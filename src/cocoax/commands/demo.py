"""``cocoax demo``: the starter encoder finds what is where."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from cocoax.commands.terminal import console, draw_into_files, print_written


def show_demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures and the report.")] = Path("demo"),
    samples: Annotated[int, typer.Option(help="Masked copies of each photo to encode.", min=10)] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the masks.")] = 0,
) -> None:
    """Ask the starter encoder about a collage and a portrait, in words and with pictures."""
    from cocoax.commands.demo_report import run_demo

    draw_into_files()
    console.print(f"Encoding {samples} masked copies of each of two photos; every question is answered from those.")
    answers, files = run_demo(out, samples, seed)
    table = Table("What makes the collage similar to …", "score", "hottest quadrant", "as expected")
    for answer in answers:
        mark = "[green]yes[/]" if answer.hottest == answer.expected else f"[red]no, expected {answer.expected}[/]"
        table.add_row(escape(answer.attribution.name), f"{answer.attribution.score:+.3f}", answer.hottest, mark)
    console.print(table)
    print_written(files)
