"""Error per encoder call: estimators, ours and those of other packages, on games whose exact values are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.bench.estimators import OURS, Estimator, our_estimate, rise_estimators, shapley_estimators
from benchmarks.bench.games import ExactGame, exact_games
from benchmarks.bench.measurement import Measurement, at_least
from cocoax.methods import KernelShap, Rise
from cocoax.store import write_figure

CALLS = (50, 100, 200, 500, 1000, 2000)
SHAPLEY, RISE = "Shapley values", "RISE's map"


@dataclass(frozen=True)
class Curve:
    """The error of an estimator on a game by the number of encoder calls for all targets together.

    Errors are medians over seeds of the mean squared error relative to the mean square of the exact values; NaN where an
    estimator cannot do with so few calls.
    """

    values: str
    game: str
    package: str
    version: str
    estimator: str
    targets: int
    errors: dict[int, float]

    @property
    def ours(self) -> bool:
        """Whether it is the estimator that Cocoax has by default."""
        return self.package == OURS and "paper" not in self.estimator

    def calls_for(self, error: float) -> float:
        """Return how many calls it takes to come down to an error, between those measured; infinite if more than those."""
        points = [(calls, found) for calls, found in self.errors.items() if not math.isnan(found)]
        before: tuple[int, float] | None = None
        for calls, found in points:
            if found <= error:
                if before is None or found <= 0:
                    return float(calls)
                share = math.log(before[1] / error) / math.log(before[1] / found)
                return float(before[0] * (calls / before[0]) ** share)
            before = calls, found
        return math.inf


def curve(
    estimator: Estimator, game: ExactGame, values: str, targets: list[int], seeds: int, sizes: Sequence[int] = CALLS
) -> Curve:
    """Measure an estimator on a game, for these targets."""
    truth = game.shapley if values == SHAPLEY else game.rise
    errors = {}
    for calls in sizes:
        if calls >= len(game.scores):
            continue  # everything is known then
        try:
            found = [estimator.squared_error(game, truth, targets, calls, seed) for seed in range(seeds)]
        except Exception:  # every package has errors of its own for too few calls
            errors[calls] = math.nan
            continue
        errors[calls] = median(found)
    package = estimator.package
    return Curve(values, game.name, package, version(package), estimator.name, len(targets), errors)


def error_per_call(
    quick: bool = True, say: Callable[[str], None] = print, games: Iterable[ExactGame] | None = None
) -> list[Measurement]:
    """Measure all estimators on all games; the first measurement of each game has all curves in its details."""
    seeds = 10 if quick else 50
    measurements = []
    for game in exact_games(quick, say) if games is None else games:
        curves = []
        for values, estimators in ((SHAPLEY, shapley_estimators()), (RISE, rise_estimators())):
            for estimator in estimators:
                say(f"{game.name}: {values}, {estimator.title}")
                number = max(seeds // 10, 2) if estimator.slow else seeds
                curves.append(curve(estimator, game, values, [0], number))
                # Eight targets take eight times the work of an estimator that answers one at a time.
                if not estimator.slow:
                    curves.append(curve(estimator, game, values, list(range(8)), max(seeds // 5, 2), CALLS[2:]))
        measurements += compared(game.name, curves)
        measurements += covered(game, seeds)
    return measurements


def covered(game: ExactGame, seeds: int, sizes: Sequence[int] = (40, 100, 300, 1000)) -> list[Measurement]:
    """Measure how often exact values lie within 1.96 standard errors of ours, for each target: those that maps show."""
    exact = {SHAPLEY: game.shapley.values, RISE: game.rise.values - game.scores.mean(0)}
    every = list(range(game.scores.shape[1]))
    measurements = []
    for (values, truth), calls in product(exact.items(), sizes):
        if calls >= len(game.scores):
            continue
        shares = torch.zeros(len(every), dtype=torch.float64)
        for seed in range(seeds):
            method = KernelShap(samples=calls - 2, seed=seed) if values == SHAPLEY else Rise(samples=calls - 2, seed=seed)
            found = our_estimate(method, game, every)
            assert found.standard_error is not None
            shown = found.values.flatten(1).T - (0 if found.neutral is None else found.neutral)
            within = (shown - truth).abs() <= 1.96 * found.standard_error.flatten(1).T
            shares += 100 * within.double().mean(0) / seeds
        name = f"{values}: coverage of 95 % intervals at {calls} calls (%)"
        reached = 93 <= float(shares.mean()) <= 97
        measurements.append(Measurement(name, game.name, shares.tolist(), "93 to 97", reached, {"seeds": seeds}))
    return measurements


def compared(game: str, curves: Sequence[Curve]) -> list[Measurement]:
    """Return how many times larger the error of the best other estimator is than ours, at 200 and 1000 calls."""
    measurements = []
    for values in (SHAPLEY, RISE):
        for targets in (1, 8):
            same = [found for found in curves if (found.values, found.targets) == (values, targets)]
            (own,) = (found for found in same if found.ours)
            others = [found for found in same if not found.ours]
            for calls in (200, 1000):
                if calls not in own.errors:
                    continue
                best = min(others, key=lambda found: _or_infinite(found.errors[calls]))
                ratio = best.errors[calls] / max(own.errors[calls], 1e-30)
                of = "one target" if targets == 1 else "eight targets"
                name = f"{values}: squared error at {calls} calls for {of}, best other / ours"
                equal = best.calls_for(own.errors[calls])
                details: dict[str, Any] = {"best": f"{best.package} {best.version} {best.estimator}", "calls_at_equal": equal}
                measurements.append(at_least(name, game, [ratio], 1.0, **details))
    measurements[0].details["curves"] = [asdict(found) for found in curves]
    return measurements


def _or_infinite(error: float) -> float:
    return math.inf if math.isnan(error) else error


def curves_of(measurements: Sequence[Measurement]) -> list[Curve]:
    """Return all curves that measurements hold."""
    return [Curve(**found) for measurement in measurements for found in measurement.details.get("curves", ())]


def plot_curves(measurements: Sequence[Measurement], path: Path) -> Path:
    """Draw error against calls, one panel for each game; return the file."""
    import matplotlib.pyplot as plt

    every = curves_of(measurements)
    names = list(dict.fromkeys(found.game for found in every))
    columns, rows = min(len(names), 3), -(-len(names) // 3)
    figure, axes = plt.subplots(rows, columns, figsize=(4 * columns, 1.4 + 3 * rows), layout="constrained", squeeze=False)
    for ax in axes.flat[len(names) :]:
        ax.remove()
    colours: dict[str, Any] = {}
    for ax, name in zip(axes.flat, names, strict=False):
        for found in every:
            if found.game != name or found.values != SHAPLEY or found.targets != 1:
                continue
            label = f"{found.package} {found.estimator}"
            colour = colours.setdefault(label, "black" if found.ours else plt.get_cmap("tab20")(len(colours)))
            points = [(int(calls), error) for calls, error in found.errors.items() if not math.isnan(error)]
            ax.plot(*zip(*points, strict=True), color=colour, linewidth=2.5 if found.ours else 1.2, label=label)
        ax.set(title=name, xscale="log", yscale="log", xlabel="encoder calls")
        ax.set_xticks(CALLS, [str(calls) for calls in CALLS], minor=False)
        ax.minorticks_off()
        ax.grid(alpha=0.3)
    figure.supylabel("squared error of Shapley values, relative", fontsize="medium")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize="small")
    write_figure(path, figure, dpi=110)
    plt.close(figure)
    return path
