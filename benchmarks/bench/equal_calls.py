"""Error per encoder call: our estimators and those of other packages, on games whose exact values are known."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch

from benchmarks.bench.games import ExactGame, Game
from benchmarks.bench.rival_process import RivalProcess
from cocoax.methods import KernelShap
from cocoax.store import write_figure, write_text
from cocoax.version import __version__

CALLS = (50, 100, 200, 500, 1000)
SCREENED = 2  # seeds by which the best estimators of a cell are found
LEADERS = 3  # of each cell, which are then measured with all seeds
OURS = "cocoax KernelShap"


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
        self._known = {(trial.game, trial.estimator, trial.calls, trial.seed) for trial in self.trials}

    def begin(self, header: dict[str, Any]) -> None:
        """Note the versions that trials are made with; those of other versions are made again."""
        if self.header != header:
            self.header, self.trials, self._known = header, [], set()
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(header) + "\n", encoding="utf-8")

    def has(self, *key: str | int) -> bool:
        """Whether there is a trial of a game by an estimator with calls and a seed."""
        return key in self._known

    def add(self, trial: Trial) -> None:
        """Keep a trial."""
        self.trials.append(trial)
        self._known.add((trial.game, trial.estimator, trial.calls, trial.seed))
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(trial)) + "\n")

    def of(self, game: str, calls: int) -> dict[str, list[Trial]]:
        """Return the trials of a cell, by estimator."""
        cell: dict[str, list[Trial]] = {}
        for trial in self.trials:
            if (trial.game, trial.calls) == (game, calls):
                cell.setdefault(trial.estimator, []).append(trial)
        return cell

    @property
    def games(self) -> list[str]:
        """The names of all games."""
        return list(dict.fromkeys(trial.game for trial in self.trials))


def error_of(trials: Sequence[Trial], targets: int) -> float:
    """Return the median over seeds of the mean error of the first targets; NaN where these do not share calls."""
    if targets > 1 and not all(trial.shared for trial in trials):
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


def measure(
    games: Iterable[Game],
    python: Path,
    path: Path,
    seeds: int,
    say: Callable[[str], None] = print,
    calls: Sequence[int] = CALLS,
) -> Trials:
    """Measure all estimators on all games, and return the trials, which are kept in a file.

    In each cell, a game and a number of calls, all estimators of other packages have ``SCREENED`` seeds, and the ``LEADERS``
    of them, for one target and for all, have all seeds.
    """
    trials = Trials(path)
    with RivalProcess(python) as rivals:
        trials.begin({"cocoax": __version__, **rivals.versions})
        for game in games:
            for number in calls:
                if isinstance(game, ExactGame) and number >= len(game.scores):
                    continue  # everything is known then
                say(f"{game.name}: {number} calls")
                for seed in range(seeds):
                    if not trials.has(game.name, OURS, number, seed):
                        trials.add(our_trial(game, number, seed))
                for estimator in rivals.estimators:
                    _repeat(trials, rivals, estimator, game, number, SCREENED)
                for estimator in _leaders(trials, game.name, number):
                    _repeat(trials, rivals, estimator, game, number, seeds)
    return trials


def _repeat(trials: Trials, rivals: RivalProcess, estimator: str, game: Game, calls: int, seeds: int) -> None:
    """Measure an estimator with several seeds, unless it cannot do with the calls or is known already."""
    truth, targets = game.shapley, len(game.shapley.sizes)
    for seed in range(seeds):
        if trials.has(game.name, estimator, calls, seed):
            continue
        answer = rivals.estimate(estimator, game, targets, calls, seed)
        if answer is None:
            return
        errors = (torch.from_numpy(answer.values) - truth.values).square().mean(0) / truth.sizes
        trials.add(Trial(game.name, estimator, calls, seed, errors.tolist(), answer.seconds, answer.shared))


def _leaders(trials: Trials, game: str, calls: int) -> list[str]:
    cell = {name: found for name, found in trials.of(game, calls).items() if name != OURS}
    leaders: dict[str, None] = {}
    for targets in (1, 8):
        errors = {name: error_of(found, targets) for name, found in cell.items()}
        ranked = sorted((name for name in errors if math.isfinite(errors[name])), key=lambda name: errors[name])
        leaders |= dict.fromkeys(ranked[:LEADERS])
    return list(leaders)


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
            own = cell[OURS]
            covered = mean(share for trial in own for share in trial.covered or ())
            for targets in (1, len(own[0].errors)):
                errors = {name: error_of(found, targets) for name, found in cell.items() if name != OURS}
                known = {name: error for name, error in errors.items() if math.isfinite(error)}
                if known:
                    best = min(known, key=lambda name: known[name])
                    yield Cell(game, calls, targets, error_of(own, targets), known[best], best, covered)


_PAGE = """# Error per encoder call

Written by `python -m benchmarks.bench --calls docs/evidence/error-per-call.md`, which makes an environment with the newest
other packages by itself: {versions}.

A game is an input whose exact Shapley values are known, since all of its subsets were encoded once (20 words: values of
40 000 subsets; trees: by their leaves). **Squared error of the best of {estimators} other estimators and options ÷ that of
`KernelShap`** at equal numbers of encoder calls, the input and the baseline among them; medians over {seeds} seeds. Above 1
ours is better; **bold** is below the goal, 1.2 and from 500 calls on 2. All estimators share calls among targets: their
coalitions depend on the seed alone. All have {screened} seeds in every cell, the best {leaders} of them {seeds}. Below the
ratio: which was the best. Last column: how often our 95 % intervals cover, over values, targets and seeds.

{table}

Cells that fall short: {short}.

Own seconds of ours at {most} calls, median over games: {seconds}.

{figures}
"""


def write_page(trials: Trials, path: Path) -> Path:
    """Write the page of error per call, with one figure for each game beside it; return the file."""
    every = list(cells(trials))
    sizes = sorted({cell.calls for cell in every})
    lines = [
        "| game | targets | " + " | ".join(f"{calls} calls" for calls in sizes) + " | coverage |",
        "|---|---|" + "---|" * (len(sizes) + 1),
    ]
    for game in trials.games:
        for targets in sorted({cell.targets for cell in every}):
            row = {cell.calls: cell for cell in every if (cell.game, cell.targets) == (game, targets)}
            coverage = ", ".join(f"{100 * row[calls].covered:.0f}" for calls in sizes if calls in row) + " %"
            entries = (_entry(row[calls]) if calls in row else "" for calls in sizes)
            lines.append(f"| {game} | {targets} | " + " | ".join(entries) + f" | {coverage} |")
    short = [cell for cell in every if cell.ratio < cell.goal]
    named = "; ".join(f"{cell.game}, {cell.targets} targets, {cell.calls} calls" for cell in short)
    figures = [_figure(trials, game, path.parent / "images") for game in trials.games]
    most = max(trial.calls for trial in trials.trials)
    own = median(trial.seconds for trial in trials.trials if trial.estimator == OURS and trial.calls == most)
    text = _PAGE.format(
        versions=", ".join(f"{name} {number}" for name, number in trials.header.items()),
        estimators=len({trial.estimator for trial in trials.trials}) - 1,
        seeds=1 + max(trial.seed for trial in trials.trials),
        most=most,
        screened=SCREENED,
        leaders=LEADERS,
        table="\n".join(lines),
        short=f"{len(short)} of {len(every)}: {named}" if short else "none",
        seconds=f"{1000 * own:.0f} ms for all targets, in a process beside others",
        figures="\n\n".join(f"![Squared error against calls: {name}](images/{file})" for name, file in figures),
    )
    return write_text(path, text)


def _entry(cell: Cell) -> str:
    ratio = f"{cell.ratio:.2f}" if cell.ratio < 100 else f"{cell.ratio:.0f}" if cell.ratio < 1e4 else "> 10 000"
    name = cell.estimator.removeprefix("shapiq ")
    return f"{ratio if cell.ratio >= cell.goal else f'**{ratio}**'}<br>{name}"


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
