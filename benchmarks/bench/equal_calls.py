"""Error per encoder call: our estimators and those of other packages, on games whose exact values are known."""

from __future__ import annotations

import csv
import io
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import torch

from benchmarks.bench.games import ExactGame, Game, subsets
from benchmarks.bench.rival_process import RivalProcess
from cocoax.masking import BitMasks
from cocoax.methods import KernelShap, Rise
from cocoax.seeding import stream
from cocoax.store import write_figure, write_text
from cocoax.version import __version__

CALLS = (50, 100, 200, 500, 1000)
SCREENED = 2  # seeds, and targets, by which the best estimators of a cell are found
FAR = 2.0  # times the smallest error of the first seed, beyond which there is no second one
SECONDS = 20.0  # that the best one may take for a cell; slower ones have fewer seeds, ``SCREENED`` at least
OURS = "cocoax KernelShap"
_NEEDED = (25, 50, 75, 100, 150, 200, 300, 500, 750, 1000)


@dataclass(frozen=True)
class Trial:
    """One estimate of a game's Shapley values.

    Attributes:
        game, estimator, calls, seed: of what.
        errors: mean squared error of each target, relative to the mean square of its exact values.
        seconds: of the estimator itself, for one target (ours: for all of them).
        shared: whether the same calls answer all targets.
        covered: the share of values within 1.96 standard errors, of each target; only of ours.

    """

    game: str
    estimator: str
    calls: int
    seed: int
    errors: list[float]
    seconds: float
    shared: bool = True
    covered: list[float] | None = None


class Trials:
    """All trials so far, kept in a file of JSON lines, so that an interrupted benchmark goes on where it was."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.header: dict[str, Any] = json.loads(lines[0]) if lines else {}
        self.trials = [Trial(**json.loads(line)) for line in lines[1:]]

    def begin(self, header: dict[str, Any]) -> None:
        """Note what trials are made with: those of other versions are made again, ours where our estimates differ."""
        if self.header == header:
            return
        others = {name: value for name, value in header.items() if name != OURS}
        same = others == {name: value for name, value in self.header.items() if name != OURS}
        self.header = header
        self.trials = [trial for trial in self.trials if same and trial.estimator != OURS]
        lines = [json.dumps(header), *(json.dumps(asdict(trial)) for trial in self.trials)]
        write_text(self._path, "\n".join(lines) + "\n")

    def add(self, trial: Trial) -> None:
        """Keep a trial."""
        self.trials.append(trial)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(trial)) + "\n")

    def of(self, game: str, calls: int) -> dict[str, list[Trial]]:
        """Return the trials of a cell by estimator: those of all targets, or of its screening where there are no others."""
        cell: dict[str, list[Trial]] = {}
        for trial in self.trials:
            if (trial.game, trial.calls) == (game, calls):
                cell.setdefault(trial.estimator, []).append(trial)
        return {name: _of_most_targets(found) for name, found in cell.items()}

    def screening(self, game: str, calls: int, estimator: str) -> list[Trial]:
        """Return the trials by which an estimator was screened for a cell."""
        key = (game, calls, estimator, SCREENED)
        return [trial for trial in self.trials if (trial.game, trial.calls, trial.estimator, len(trial.errors)) == key]

    @property
    def games(self) -> list[str]:
        """The names of all games."""
        return list(dict.fromkeys(trial.game for trial in self.trials))


def _of_most_targets(trials: Sequence[Trial]) -> list[Trial]:
    most = max(len(trial.errors) for trial in trials)
    return [trial for trial in trials if len(trial.errors) == most]


def error_of(trials: Sequence[Trial], targets: int) -> float:
    """Return the median over seeds of the mean error of the first targets; NaN where these do not share calls."""
    if targets > 1 and not all(trial.shared and len(trial.errors) >= targets for trial in trials):
        return math.nan
    return median(mean(trial.errors[:targets]) for trial in trials)


def our_trial(game: Game, calls: int, seed: int) -> Trial:
    """Return our estimate of a game; the ends are calls too."""
    method = KernelShap(samples=calls - 2, seed=seed)
    masks = method.draw((game.players,))
    representations, scores = game.represent(masks.bits), game.play(masks.bits)
    start = time.process_time()
    found = method.estimate(method.adapted(masks, representations, game.represent(game.ends)), scores, game.anchors)
    seconds = time.process_time() - start
    assert found.standard_error is not None
    apart = found.values.flatten(1).T - game.shapley.values
    errors = apart.square().mean(0) / game.shapley.sizes
    # As far as rounding goes an exact value is covered.
    margin = 1.96 * found.standard_error.flatten(1).T + 1e-7 * game.shapley.sizes.sqrt()
    covered = (apart.abs() <= margin).double().mean(0)
    return Trial(game.name, OURS, calls, seed, errors.tolist(), seconds, True, covered.tolist())


def estimates_of_a_known_game() -> list[float]:
    """Return our errors on a small random game: what a page was measured with is what gives the same ones."""
    random = stream(0, 0)
    table = subsets(9).double()
    weights = torch.from_numpy(random.standard_normal((9, 3)))
    game = ExactGame("known", torch.tanh(table @ weights) + 0.1 * table[:, :1] * table[:, 1:2] * table[:, 2:3])
    return [error for calls in (50, 100, 200) for error in our_trial(game, calls, 0).errors]


def calls_needed(games: Iterable[Game], error: float, seeds: int = 3) -> Iterator[tuple[str, int, str, int | None]]:
    """Return for each game how many calls our estimators need for a relative error: (game, features, estimator, calls).

    The error is the median over seeds and targets of the root mean square error of a map, relative to its size; None where
    the most calls are too few.
    """
    for game in games:
        estimators = {"KernelShap": _shapley_error, **({"Rise": _rise_error} if isinstance(game, ExactGame) else {})}
        for name, error_with in estimators.items():
            needed = (calls for calls in _NEEDED if _typical(error_with, game, calls, seeds) <= error)
            yield game.name, game.players, name, next(needed, None)


def _typical(error_with: Callable[[Any, int, int], list[float]], game: Game, calls: int, seeds: int) -> float:
    return median(size**0.5 for seed in range(seeds) for size in error_with(game, calls, seed))


def _shapley_error(game: Game, calls: int, seed: int) -> list[float]:
    return our_trial(game, calls, seed).errors


def _rise_error(game: ExactGame, calls: int, seed: int) -> list[float]:
    method = Rise(samples=calls - 2, seed=seed)
    masks = method.draw((game.players,))
    assert isinstance(masks, BitMasks)
    found = method.estimate(masks, game.play(masks.bits), game.anchors)
    assert found.neutral is not None
    shown = found.values.flatten(1) - found.neutral[:, None]
    apart = shown.T - (game.rise.values - game.scores.mean(0))
    return (apart.square().mean(0) / game.rise.sizes).tolist()


def measure(
    games: Iterable[Game],
    python: Path,
    path: Path,
    seeds: int,
    say: Callable[[str], None] = print,
    calls: Sequence[int] = CALLS,
) -> Trials:
    """Measure all estimators on all games, and return the trials, which are kept in a file.

    In each cell, a game and a number of calls, all estimators of other packages have ``SCREENED`` seeds and targets; the best
    for one target and the best for several have all seeds and targets. A few seeds of all games come first.
    """
    trials, played = Trials(path), list[Game]()
    with RivalProcess(python) as rivals:
        trials.begin({"cocoax": __version__, **rivals.versions, OURS: estimates_of_a_known_game()})
        for some in sorted({min(few, seeds) for few in (4, 12, seeds)}):
            for game in games if not played else list(played):
                if game not in played:
                    played.append(game)
                for number in calls:
                    if not isinstance(game, ExactGame) or number < len(game.scores):  # otherwise everything is known
                        say(f"{game.name}: {number} calls, {some} seeds")
                        _measure_cell(trials, rivals, game, number, some)
    return trials


def _measure_cell(trials: Trials, rivals: RivalProcess, game: Game, calls: int, seeds: int) -> None:
    done = {trial.seed for trial in trials.of(game.name, calls).get(OURS, ())}
    for seed in range(seeds):
        if seed not in done:
            trials.add(our_trial(game, calls, seed))
    few = min(SCREENED, game.shapley.values.shape[1])
    least = math.inf
    for seed in range(SCREENED):
        for estimator in rivals.estimators:
            first = trials.screening(game.name, calls, estimator)
            if seed == 0 or (first and mean(first[0].errors) <= FAR * least):
                _repeat(trials, rivals, estimator, game, calls, few, seed + 1)
        known = (trials.screening(game.name, calls, estimator) for estimator in rivals.estimators)
        least = min((mean(found[0].errors) for found in known if found), default=math.inf)
    for estimator, seconds in _leaders(trials, game.name, calls, rivals.estimators).items():
        targets = game.shapley.values.shape[1]
        affordable = int(SECONDS / max(targets * seconds, 1e-3))
        _repeat(trials, rivals, estimator, game, calls, targets, min(seeds, max(SCREENED, affordable)))


def _repeat(trials: Trials, rivals: RivalProcess, estimator: str, game: Game, calls: int, targets: int, seeds: int) -> None:
    """Measure an estimator with several seeds, unless it cannot do with the calls or is known already."""
    truth = game.shapley
    key = (game.name, estimator, calls, targets)
    done = {trial.seed for trial in trials.trials if (trial.game, trial.estimator, trial.calls, len(trial.errors)) == key}
    for seed in range(seeds):
        if seed in done:
            continue
        answer = rivals.estimate(estimator, game, targets, calls, seed)
        if answer is None:
            return
        apart = torch.from_numpy(answer.values) - truth.values[:, :targets]
        errors = apart.square().mean(0) / truth.sizes[:targets]
        trials.add(Trial(game.name, estimator, calls, seed, errors.tolist(), answer.seconds, answer.shared))


def _leaders(trials: Trials, game: str, calls: int, estimators: Iterable[str]) -> dict[str, float]:
    """Return the best estimators of a screening, for one target and for several, and their seconds for one target."""
    screened = {name: found for name in estimators if (found := trials.screening(game, calls, name))}
    leaders: dict[str, float] = {}
    for targets in (1, SCREENED):
        errors = {name: error_of(found, targets) for name, found in screened.items()}
        ranked = sorted((name for name in errors if math.isfinite(errors[name])), key=lambda name: errors[name])
        leaders |= {name: min(trial.seconds for trial in screened[name]) for name in ranked[:1]}
    return leaders


@dataclass(frozen=True)
class Cell:
    """How our error of a game compares with that of the best other estimator.

    Attributes:
        game, calls, targets: of what.
        ours, best: errors.
        estimator: which other one is best.
        covered: how often our 95 % intervals cover, over values, targets and seeds.

    """

    game: str
    calls: int
    targets: int
    ours: float
    best: float
    estimator: str
    covered: float

    @property
    def ratio(self) -> float:
        """The best other error over ours."""
        return self.best / max(self.ours, 1e-30)

    @property
    def goal(self) -> float:
        """What the ratio should be."""
        return 2.0 if self.calls >= 500 else 1.2


def cells(trials: Trials) -> Iterator[Cell]:
    """Compare our estimator with the best other one in every cell."""
    for game in trials.games:
        for calls in sorted({trial.calls for trial in trials.trials if trial.game == game}):
            cell = trials.of(game, calls)
            own, targets_of_all = cell[OURS], len(cell[OURS][0].errors)
            covered = mean(share for trial in own for share in trial.covered or ())
            leaders = _leaders_of(cell)
            for targets in (1, targets_of_all):
                errors = {name: error_of(found, targets) for name, found in leaders.items()}
                known = {name: error for name, error in errors.items() if math.isfinite(error)}
                if known:
                    best = min(known, key=lambda name: known[name])
                    yield Cell(game, calls, targets, error_of(own, targets), known[best], best, covered)


def _leaders_of(cell: dict[str, list[Trial]]) -> dict[str, list[Trial]]:
    """Return the trials of the other estimators of a cell that were measured for all targets."""
    targets = len(cell[OURS][0].errors)
    return {name: found for name, found in cell.items() if name != OURS and len(found[0].errors) == targets}


_PAGE = """# Error per encoder call

Written by `python -m benchmarks.bench --calls docs/evidence/error-per-call.md`, which makes an environment with the newest
other packages by itself: {versions}.

A game is an input whose exact Shapley values are known, since all of its subsets were encoded once (20 words: values of
40 000 subsets; trees: by their leaves). **Squared error of the best of {estimators} other estimators and options ÷ that of
`KernelShap`** at equal numbers of encoder calls, the input and the baseline among them; medians over seeds. Above 1 ours is
better; **bold** is below the goal, 1.2 and from 500 calls on 2. All estimators share calls among targets: their coalitions
depend on the seed alone. `KernelShap` has {seeds} seeds. The others have {screened} seeds and targets in every cell, but one
if its error is more than {far:g} times the smallest; the best for one target and the best for several have {followed}
seeds of all targets, fewer where these take more than {cell_seconds:g} s. Beside the ratio: which was the best.
Last column: how often our 95 % intervals cover, over values, targets and seeds.

```{{csv-table}}
:file: {table}
:header-rows: 1
```

Cells that fall short: {short}.

Own seconds of ours at {most} calls, median over games: {seconds}.

{figures}

{note}{known}
"""
_NOTE = "`make docs` repeats our errors on a small known game, and fails if this page was measured with other estimates: "


def check_page(path: Path) -> None:
    """Raise unless the page of error per call was measured with estimates that are ours today."""
    noted = path.read_text(encoding="utf-8").partition(_NOTE)[2]
    if not np.allclose([float(number) for number in noted.split(",")], estimates_of_a_known_game(), rtol=1e-3):
        raise ValueError(f"{path} is out of date: run python -m benchmarks.bench --calls {path} again.")


def write_page(trials: Trials, path: Path) -> Path:
    """Write the page of error per call, with one figure for each game beside it; return the file."""
    every = list(cells(trials))
    sizes = sorted({cell.calls for cell in every})
    rows = [["game", "targets", *(f"{calls} calls" for calls in sizes), "coverage"]]
    for game in trials.games:
        for targets in sorted({cell.targets for cell in every}):
            row = {cell.calls: cell for cell in every if (cell.game, cell.targets) == (game, targets)}
            coverage = ", ".join(f"{100 * row[calls].covered:.0f}" for calls in sizes if calls in row) + " %"
            rows.append([game, str(targets), *(_entry(row[calls]) if calls in row else "" for calls in sizes), coverage])
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    table = write_text(path.parent / "tables" / f"{path.stem}.csv", written.getvalue())
    short = [cell for cell in every if cell.ratio < cell.goal]
    named = "; ".join(f"{cell.game}, {cell.targets} target{'s' * (cell.targets > 1)}, {cell.calls} calls" for cell in short)
    figures = [_figure(trials, game, path.parent.parent / "images") for game in trials.games]
    measured = [trials.of(game, calls) for game, calls in dict.fromkeys((cell.game, cell.calls) for cell in every)]
    most = max(trial.calls for trial in trials.trials)
    own = median(trial.seconds for trial in trials.trials if trial.estimator == OURS and trial.calls == most)
    text = _PAGE.format(
        versions=", ".join(f"{name} {number}" for name, number in trials.header.items() if name != OURS),
        estimators=len({trial.estimator for trial in trials.trials}) - 1,
        seeds=_span(len(cell[OURS]) for cell in measured),
        followed=_span(len(found) for cell in measured for found in _leaders_of(cell).values()),
        most=most,
        screened=SCREENED,
        far=FAR,
        cell_seconds=SECONDS,
        known=", ".join(f"{error:.6g}" for error in trials.header[OURS]),
        note=_NOTE,
        table=f"tables/{table.name}",
        short=f"{len(short)} of {len(every)}: {named}" if short else "none",
        seconds=f"{1000 * own:.0f} ms for all targets, in a process beside others",
        figures="\n\n".join(f"![Squared error against calls: {name}](../images/{file})" for name, file in figures),
    )
    return write_text(path, text)


def _span(numbers: Iterable[int]) -> str:
    found = sorted(set(numbers))
    return f"{found[0]} to {found[-1]}" if len(found) > 1 else str(found[0])


def _entry(cell: Cell) -> str:
    ratio = f"{cell.ratio:.2f}" if cell.ratio < 100 else f"{cell.ratio:.0f}" if cell.ratio < 1e4 else "> 10 000"
    name = cell.estimator.removeprefix("shapiq ")
    return f"{ratio if cell.ratio >= cell.goal else f'**{ratio}**'} {name}"


def _figure(trials: Trials, game: str, folder: Path) -> tuple[str, str]:
    """Draw error against calls of the estimators of a game that are best somewhere, and ours; return its name and file."""
    import matplotlib.pyplot as plt

    sizes = sorted({trial.calls for trial in trials.trials if trial.game == game})
    errors: dict[str, list[tuple[int, float]]] = {}
    for calls in sizes:
        for name, found in trials.of(game, calls).items():
            errors.setdefault(name, []).append((calls, error_of(found, 1)))
    best = sorted((name for name in errors if name != OURS), key=lambda name: min(error for _, error in errors[name]))
    leading = {cell.estimator for cell in cells(trials) if cell.game == game}
    figure, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    for name in [OURS, *best]:
        shown = name in leading
        colour = "black" if name == OURS else None if shown else "0.85"
        label = name if shown or name == OURS else None
        width, order = (2.5, 3) if name == OURS else (1.5, 2) if shown else (0.8, 1)
        ax.plot(*zip(*errors[name], strict=True), color=colour, linewidth=width, label=label, zorder=order)
    highest = max(error for name in errors if name in leading or name == OURS for _, error in errors[name])
    ax.set(title=game, xscale="log", yscale="log", xlabel="encoder calls", ylabel="squared error, relative")
    ax.set_ylim(top=3 * highest)
    ax.set_xticks(sizes, [str(calls) for calls in sizes], minor=False)
    ax.minorticks_off()
    ax.grid(alpha=0.3)
    ax.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))
    file = f"calls-{'-'.join(''.join(sign if sign.isalnum() else ' ' for sign in game.lower()).split())}.png"
    write_figure(folder / file, figure, dpi=90)
    plt.close(figure)
    return game, file
