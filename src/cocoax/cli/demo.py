"""``cocoax demo``: the starter encoder finds what is where."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from cocoax.cli.terminal import Cell, Device, Kept, draw_into_files, note, print_table, print_written

EXAMPLES = ("cocoax demo", "cocoax demo --samples 300 --out quick-demo")


def show_demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures and the report.")] = Path("demo"),
    samples: Annotated[int, typer.Option(help="Masked copies of each photo to encode.", min=10)] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the masks.")] = 0,
    device: Device = None,
) -> None:
    """Ask the starter encoder about a collage and a portrait, in words and with pictures."""
    from cocoax.cli.demo_report import run_demo

    draw_into_files()
    note(f"Encoding {samples} masked copies of each of two photos; every question is answered from those.")
    try:
        answers, files = run_demo(out, samples, seed, device=device)
    except KeyboardInterrupt as stop:
        raise Kept("nothing was kept; fewer --samples take less time") from stop
    rows: list[list[Cell]] = []
    for answer in answers:
        right = answer.hottest == answer.expected
        mark = Text("yes", "green") if right else Text(f"no, expected {answer.expected}", "red")
        rows.append([answer.attribution.name, f"{answer.attribution.score:+.3f}", answer.hottest, mark])
    print_table(("What makes the collage similar to …", "score", "hottest quadrant", "as expected"), rows)
    print_written(files)
