"""Speed and accuracy, measured on this machine: ``python -m benchmarks.bench [--full] [--accuracy]``, or ``make bench``.

With ``--accuracy``: the error of Shapley values and of RISE's map at equal numbers of encoder calls, on inputs whose exact
values are known, and how often our intervals cover these. ``--full`` adds a photo, of which 65 536 masked copies are encoded
once and kept in the cache folder.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import torch

from benchmarks.bench import Measurement, error_per_call, measure_everything, plot_curves, plot_errors, write_json
from benchmarks.bench.equal_calls import CALLS, curves_of


def print_measurements(measured: Sequence[Measurement]) -> None:
    """Print every figure with its median, spread and goal."""
    for figure in measured:
        spread = f"{min(figure.values):.3g} to {max(figure.values):.3g}"
        reached = "reached" if figure.reached else "not reached"
        print(f"{figure.subject:24} {figure.name:58} {figure.median:8.3g}  ({spread})  goal {figure.goal}: {reached}")


def print_curves(measured: Sequence[Measurement]) -> None:
    """Print the squared errors of all estimators on all games, relative to the mean square of the exact values."""
    for found in curves_of(measured):
        errors = "  ".join(f"{calls}: {found.errors[calls]:.2g}" for calls in CALLS if calls in found.errors)
        by = f"{found.package} {found.version} {found.estimator}"
        print(f"{found.game:24} {found.values:20} {found.targets} targets  {by:40} {errors}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write a JSON file with a plot beside it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all of it, instead of a few minutes")
    parser.add_argument("--repeats", type=int, help="repetitions of each timing")
    parser.add_argument("--accuracy", action="store_true", help="error per encoder call, against SHAP, Captum and shapiq")
    parser.add_argument("--out", type=Path, default=Path("bench.json"), help="the JSON to write; a plot goes beside it")
    options = parser.parse_args(arguments)
    matplotlib.use("Agg")

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    if options.accuracy:
        measured = error_per_call(not options.full, say)
        print_curves(measured)
    else:
        measured = measure_everything(not options.full, options.repeats, say)
    print(f"{torch.get_num_threads()} threads")
    print_measurements(measured)
    plot = plot_curves if options.accuracy else plot_errors
    for file in (write_json(options.out, measured), plot(measured, options.out.with_suffix(".png"))):
        print(f"wrote {file}")


if __name__ == "__main__":
    main()
