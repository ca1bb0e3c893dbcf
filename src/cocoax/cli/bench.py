"""``cocoax bench``: speed and accuracy, measured on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cocoax.cli.terminal import Cell, Kept, counted, draw_into_files, note, print_table, print_written

if TYPE_CHECKING:
    from cocoax.cli.measurements import Measurement

EXAMPLES = ("cocoax bench", "cocoax bench --full --repeats 5 --out bench.json", "cocoax bench --accuracy --out accuracy.json")


def run_bench(
    quick: Annotated[bool, typer.Option("--quick/--full", help="A few minutes, or all of it.")] = True,
    repeats: Annotated[int | None, typer.Option(help="Repetitions of each timing.", min=1)] = None,
    accuracy: Annotated[
        bool, typer.Option("--accuracy", help="Error per encoder call instead, against SHAP, Captum and shapiq.")
    ] = False,
    out: Annotated[Path, typer.Option(help="The JSON to write; a plot goes beside it.", dir_okay=False)] = Path("bench.json"),
) -> None:
    """Measure speed and accuracy against the bare encoder, Captum and the published call pattern.

    With --accuracy: the error of Shapley values and of RISE's map at equal numbers of encoder calls, on inputs whose exact
    values are known, and how often our intervals cover these. --full adds a photo, of which 65 536 masked copies are encoded
    once and kept in the cache folder.
    """
    import torch

    from cocoax.cli.measurements import (
        error_per_call,
        measure_everything,
        plot_curves,
        plot_errors,
        write_json,
    )

    draw_into_files()
    kept = "nothing was kept: timings of two days cannot be compared, so all of it is measured anew"
    if accuracy:
        kept = "scores of exact games are kept in the cache folder; the same call goes on from there"
    try:
        measured = error_per_call(quick, note) if accuracy else measure_everything(quick, repeats, note)
    except KeyboardInterrupt as stop:
        raise Kept(kept) from stop
    if accuracy:
        _print_curves(measured)
    rows: list[list[Cell]] = []
    for figure in measured:
        spread = f"{min(figure.values):.3g} to {max(figure.values):.3g}"
        mark = Text("reached", "green") if figure.reached else Text("not reached", "red")
        rows.append([figure.name, figure.subject, f"{figure.median:.3g}", spread, figure.goal, mark])
    header = ("figure", "subject", "median", "spread", "goal", "")
    print_table(header, rows, title=counted(torch.get_num_threads(), "thread"))
    plot = plot_curves if accuracy else plot_errors
    print_written((write_json(out, measured), plot(measured, out.with_suffix(".png"))))


def _print_curves(measured: Sequence[Measurement]) -> None:
    """Print the errors of all estimators on all games."""
    from cocoax.cli.measurements.equal_calls import CALLS, curves_of

    rows: list[list[Cell]] = []
    for found in curves_of(measured):
        errors = [f"{found.errors[calls]:.2g}" if calls in found.errors else "" for calls in CALLS]
        by = f"{found.package} {found.version} {found.estimator}"
        rows.append([found.game, found.values, str(found.targets), by, *errors])
    title = "squared error, relative to the mean square of the exact values"
    print_table(("game", "values", "targets", "estimator", *map(str, CALLS)), rows, title=title)
