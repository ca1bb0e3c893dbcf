"""``cocoax bench``: speed and accuracy, measured on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from cocoax.commands.terminal import console, draw_into_files, print_written


def run_bench(
    quick: Annotated[bool, typer.Option("--quick/--full", help="A few minutes, or all of it.")] = True,
    repeats: Annotated[int | None, typer.Option(help="Repetitions of each timing.", min=1)] = None,
    out: Annotated[Path, typer.Option(help="The JSON to write; a plot goes beside it.", dir_okay=False)] = Path("bench.json"),
) -> None:
    """Measure speed and accuracy against the bare encoder, Captum and the published call pattern."""
    import torch

    from cocoax.commands.measurements import measure_everything, plot_errors, write_json

    draw_into_files()
    measured = measure_everything(quick, repeats, lambda text: console.print(f"[dim]{text}[/]", highlight=False))
    table = Table("figure", "subject", "median", "spread", "goal", "", title=f"{torch.get_num_threads()} threads")
    for figure in measured:
        spread = f"{min(figure.values):.3g} to {max(figure.values):.3g}"
        mark = "[green]reached[/]" if figure.reached else "[red]not reached[/]"
        table.add_row(figure.name, figure.subject, f"{figure.median:.3g}", spread, figure.goal, mark)
    console.print(table)
    print_written((write_json(out, measured), plot_errors(measured, out.with_suffix(".png"))))
