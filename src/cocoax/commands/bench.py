"""``cocoax bench``: speed and accuracy, measured on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from cocoax.commands.terminal import Cell, Kept, counted, draw_into_files, note, print_table, print_written

EXAMPLES = ("cocoax bench", "cocoax bench --full --repeats 5 --out bench.json")


def run_bench(
    quick: Annotated[bool, typer.Option("--quick/--full", help="A few minutes, or all of it.")] = True,
    repeats: Annotated[int | None, typer.Option(help="Repetitions of each timing.", min=1)] = None,
    out: Annotated[Path, typer.Option(help="The JSON to write; a plot goes beside it.", dir_okay=False)] = Path("bench.json"),
) -> None:
    """Measure speed and accuracy against the bare encoder, Captum and the published call pattern."""
    import torch

    from cocoax.commands.measurements import measure_everything, plot_errors, write_json

    draw_into_files()
    try:
        measured = measure_everything(quick, repeats, note)
    except KeyboardInterrupt as stop:
        raise Kept("nothing was kept: timings of two days cannot be compared, so all of it is measured anew") from stop
    rows: list[list[Cell]] = []
    for figure in measured:
        spread = f"{min(figure.values):.3g} to {max(figure.values):.3g}"
        mark = Text("reached", "green") if figure.reached else Text("not reached", "red")
        rows.append([figure.name, figure.subject, f"{figure.median:.3g}", spread, figure.goal, mark])
    header = ("figure", "subject", "median", "spread", "goal", "")
    print_table(header, rows, title=counted(torch.get_num_threads(), "thread"))
    print_written((write_json(out, measured), plot_errors(measured, out.with_suffix(".png"))))
