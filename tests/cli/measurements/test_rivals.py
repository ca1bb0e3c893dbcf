"""Estimators of other packages and ours: each finds the values of a game that leaves nothing to chance."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import numpy as np
import pytest
import torch
from shapiq.approximator import SV_APPROXIMATORS

from cocoax.cli.measurements.games import ExactGame, subsets
from cocoax.cli.measurements.rivals import Estimator, rise_estimators, shapley_estimators

PLAYERS = 6
WORTHS = torch.tensor([[1.0, -2.0, 0.5, 0.0, 3.0, 1.0], [2.0, 1.0, 0.0, 1.0, -1.0, 0.5]], dtype=torch.float64).T


def additive() -> ExactGame:
    return ExactGame("additive", subsets(PLAYERS).double() @ WORTHS)


@pytest.mark.parametrize("estimator", shapley_estimators(), ids=lambda estimator: estimator.title)
def test_shapley_estimators__a_sum_over_features(estimator: Estimator) -> None:
    targets = [0, 1] if estimator.shares else [1]
    if estimator.name == "SPEX":
        with pytest.raises(ValueError, match="Insufficient budget"):  # a curve has no point there
            estimator.estimate(additive(), targets, 60, 0)
        return
    found = estimator.estimate(additive(), targets, 60, 0)
    assert found.shape == (PLAYERS, len(targets))
    # Some leave it to chance even so, and trees see steps.
    noisy = estimator.name in ("OwenSamplingSV", "UnbiasedKernelSHAP", "SVARM", "ProxySPEX")
    close = 0.5 if noisy else 1e-4
    np.testing.assert_allclose(found, WORTHS[:, targets].numpy(), atol=close)


@pytest.mark.parametrize("estimator", rise_estimators(), ids=lambda estimator: estimator.title)
def test_rise_estimators__less_error_with_more_calls(estimator: Estimator) -> None:
    game = ExactGame("random", torch.from_numpy(np.random.default_rng(0).standard_normal((2**9, 2))).cumsum(0))
    errors = [
        np.mean([estimator.squared_error(game, game.rise, [0, 1], calls, seed) for seed in range(5)])
        for calls in (30, 120, 500)
    ]
    assert all(fewer > more for fewer, more in pairwise(errors))


def test_shapley_estimators__all_that_shapiq_has() -> None:
    names = {estimator.name for estimator in shapley_estimators() if estimator.package == "shapiq"}
    optional = {"ProxySPEX"} - names
    assert names | optional == {kind.__name__ for kind in SV_APPROXIMATORS} | {"KernelSHAPIQ"}


def test_shapley_estimators__say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cocoax.cli.measurements.rivals.find_spec", lambda name: None if name == "shapiq" else name)
    with pytest.raises(ImportError, match=r"not there \(shapiq\): pip install 'cocoax\[bench\]'"):
        shapley_estimators()


def test_squared_error__shares_calls_or_divides_them() -> None:
    asked: list[tuple[list[int], int]] = []

    def estimate(_: ExactGame, targets: list[int], calls: int, seed: int) -> np.ndarray:
        asked.append((targets, calls))
        return WORTHS[:, targets].numpy() + 0.5

    game = additive()
    for shares in (True, False):
        error = Estimator("cocoax", "made up", estimate, shares).squared_error(game, game.shapley, [0, 1], 100, 0)
        assert error == pytest.approx(float((0.25 / WORTHS.square().mean(0)).mean()))
    assert asked == [([0, 1], 100), ([0], 50), ([1], 50)]


def test_estimators__leave_random_numbers_alone() -> None:
    before = np.random.get_state()[1].tolist(), torch.random.get_rng_state()
    for estimator in shapley_estimators():
        with suppress(ValueError):  # of too few calls
            estimator.estimate(additive(), [0], 60, 0)
    assert np.random.get_state()[1].tolist() == before[0]
    assert torch.equal(torch.random.get_rng_state(), before[1])
