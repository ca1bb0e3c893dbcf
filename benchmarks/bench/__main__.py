"""Speed and accuracy, measured on this machine: ``python -m benchmarks.bench [--full] [--calls PAGE]``, or ``make bench``.

With ``--calls PAGE`` (docs/evidence/error-per-call.md): the error of Shapley values at equal numbers of encoder calls,
against the newest shapiq and shap in an environment of their own, on games whose exact values are known. Takes hours; tables
of games and what has been measured are kept in the cache folder, so that an interrupted benchmark goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import torch

from benchmarks.bench import Measurement, measure_everything, plot_errors, write_json
from benchmarks.bench.equal_calls import calls_needed, measure, write_page
from benchmarks.bench.games import games_folder, quick_games, reported_games, tuning_games
from benchmarks.bench.rival_process import environment


def print_measurements(measured: Sequence[Measurement]) -> None:
    """Print every figure with its median, spread and goal."""
    for figure in measured:
        spread = f"{min(figure.values):.3g} to {max(figure.values):.3g}"
        reached = "reached" if figure.reached else "not reached"
        print(f"{figure.subject:24} {figure.name:58} {figure.median:8.3g}  ({spread})  goal {figure.goal}: {reached}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write a JSON file with a plot beside it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all of it, instead of a few minutes")
    parser.add_argument("--repeats", type=int, help="repetitions of each timing")
    parser.add_argument("--calls", type=Path, metavar="PAGE", help="measure error per encoder call, and write this page")
    parser.add_argument("--needed", type=float, metavar="ERROR", help="list the calls that maps need for a relative error")
    parser.add_argument("--quick", action="store_true", help="with --calls: four games only")
    parser.add_argument("--seeds", type=int, default=50, help="with --calls: seeds of each cell")
    parser.add_argument("--python", help="with --calls: a Python of version 3.12 or newer, which shapiq needs")
    parser.add_argument("--out", type=Path, default=Path("bench.json"), help="the JSON to write; a plot goes beside it")
    options = parser.parse_args(arguments)
    matplotlib.use("Agg")

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    if options.needed:
        print("| game | features | method | calls |\n|---|---|---|---|")
        for game, features, method, calls in calls_needed(tuning_games(say), options.needed):
            print(f"| {game} | {features} | {method} | {calls or 'more than 1000'} |", flush=True)
        return
    if options.calls:
        games = quick_games(say) if options.quick else reported_games(say)
        path = games_folder() / f"trials{'-quick' if options.quick else ''}.jsonl"
        trials = measure(games, environment(options.python), path, options.seeds, say)
        print(f"wrote {write_page(trials, options.calls)}")
        return
    measured = measure_everything(not options.full, options.repeats, say)
    print(f"{torch.get_num_threads()} threads")
    print_measurements(measured)
    for file in (write_json(options.out, measured), plot_errors(measured, options.out.with_suffix(".png"))):
        print(f"wrote {file}")


if __name__ == "__main__":
    main()
