"""Estimators of Shapley values and of RISE's map, ours and those of other packages, played on exact games."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.bench.games import Exact, ExactGame
from cocoax.methods import KernelShap, Rise
from cocoax.methods.estimate import Estimate

# Scores [n] or [n, k] of rows of kept features [n, m].
Play = Callable[[np.ndarray], np.ndarray]
OURS = "cocoax"


@dataclass(frozen=True)
class Estimator:
    """An estimator of another package, or ours.

    Attributes:
        package: where it comes from.
        name: what it is called there.
        estimate: from a game, the targets asked for, a number of encoder calls and a seed to values ``[m, targets]``.
        shares: whether one set of calls answers all targets.
        slow: whether it takes seconds by itself, whatever the encoder costs.

    """

    package: str
    name: str
    estimate: Callable[[ExactGame, list[int], int, int], np.ndarray]
    shares: bool = False
    slow: bool = False

    @property
    def title(self) -> str:
        """Package, version and name."""
        return f"{self.package} {version(self.package)} {self.name}"

    def squared_error(self, game: ExactGame, truth: Exact, targets: list[int], calls: int, seed: int) -> float:
        """Return the mean squared error, relative to the mean square of the exact values; ``calls`` are for all targets."""
        if self.shares:
            found = self.estimate(game, targets, calls, seed)
        else:
            each = [self.estimate(game, [target], calls // len(targets), seed) for target in targets]
            found = np.concatenate(each, axis=1)
        values, sizes = truth.values[:, targets].numpy(), truth.sizes[targets].numpy()
        return float((((found - values) ** 2).mean(0) / sizes).mean())


def shapley_estimators() -> list[Estimator]:
    """Return the estimators of Shapley values: ours, SHAP's, Captum's, and all that the installed shapiq has."""
    missing = [package for package in ("shap", "shapiq") if find_spec(package) is None]
    if missing:
        raise ImportError(f"What to compare with is not there ({', '.join(missing)}): pip install 'cocoax[bench]'.")
    from shapiq.approximator import SV_APPROXIMATORS, KernelSHAPIQ

    every: list[Any] = [*SV_APPROXIMATORS, KernelSHAPIQ]  # the last of interactions, but its single features are close
    theirs = [kind for kind in every if kind.__name__ != "ProxySPEX" or find_spec("lightgbm")]  # which it needs
    return [
        Estimator(OURS, "KernelShap", _our_shapley, shares=True),
        Estimator("shap", "KernelExplainer", _shap, shares=True),
        Estimator("captum", "KernelShap", _captum),
        *(Estimator("shapiq", kind.__name__, _shapiq(kind), slow="SPEX" in kind.__name__) for kind in theirs),
    ]


def rise_estimators() -> list[Estimator]:
    """Return the estimators of RISE's map: ours, and the published one."""
    return [
        Estimator(OURS, "Rise", _our_rise("efficient"), shares=True),
        Estimator(OURS, "Rise(estimator='paper')", _our_rise("paper"), shares=True),
    ]


def our_estimate(method: KernelShap | Rise, game: ExactGame, targets: list[int]) -> Estimate:
    """Return what a method of ours makes of a game."""
    masks: Any = method.draw((game.players,))
    return method.estimate(masks, game.play(masks.bits)[:, targets], game.anchors[:, targets])


def _our_shapley(game: ExactGame, targets: list[int], calls: int, seed: int) -> np.ndarray:
    return our_estimate(KernelShap(samples=calls - 2, seed=seed), game, targets).values.T.numpy()  # the ends are calls too


def _our_rise(estimator: Any) -> Callable[[ExactGame, list[int], int, int], np.ndarray]:
    def estimate(game: ExactGame, targets: list[int], calls: int, seed: int) -> np.ndarray:
        method = Rise(samples=calls - 2, seed=seed, estimator=estimator)
        return our_estimate(method, game, targets).values[:, 0].T.numpy()

    return estimate


def _shap(game: ExactGame, targets: list[int], calls: int, seed: int) -> np.ndarray:
    with _seeded(seed):
        import shap  # type: ignore[import-untyped]

        play = _player(game, targets)
        explainer = shap.KernelExplainer(play, np.zeros((1, game.players)))
        found = explainer.shap_values(np.ones((1, game.players)), nsamples=calls - 2, l1_reg=False, silent=True)
    return np.asarray(found).reshape(game.players, len(targets))


def _captum(game: ExactGame, targets: list[int], calls: int, seed: int) -> np.ndarray:
    import captum.attr

    def forward(rows: Tensor) -> Tensor:
        return game.play(rows)[:, targets[0]]

    whole = torch.ones(1, game.players)
    with _seeded(seed):
        method = captum.attr.KernelShap(forward)
        found = method.attribute(whole, torch.zeros_like(whole), n_samples=calls, perturbations_per_eval=calls)
    values: np.ndarray = found.T.double().numpy()
    return values


def _shapiq(kind: type) -> Callable[[ExactGame, list[int], int, int], np.ndarray]:
    """Return an estimator of shapiq's, sampling in pairs where it can, for single features or what tells most of these."""
    known: dict[str, Any] = {"pairing_trick": True}
    if "top_order" in signature(kind).parameters:
        known |= {"index": "SV", "max_order": 1}
    elif kind.__name__ == "KernelSHAPIQ":
        known |= {"index": "SII", "max_order": 2}
    options = {name: value for name, value in known.items() if name in signature(kind).parameters}

    def estimate(game: ExactGame, targets: list[int], calls: int, seed: int) -> np.ndarray:
        play = _player(game, targets)
        with _seeded(seed):
            found = kind(n=game.players, random_state=seed, **options).approximate(calls, lambda rows: play(rows)[:, 0])
        return np.array([[found.dict_values.get((player,), 0.0)] for player in range(game.players)])

    return estimate


def _player(game: ExactGame, targets: list[int]) -> Play:
    def play(rows: np.ndarray) -> np.ndarray:
        return game.play(torch.from_numpy(np.atleast_2d(rows) > 0.5))[:, targets].numpy()

    return play


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the random numbers of NumPy and torch that other packages draw from, quietly, and put them back afterwards."""
    state = np.random.get_state()
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.random.seed(seed)
        torch.manual_seed(seed)
        try:
            yield
        finally:
            np.random.set_state(state)
