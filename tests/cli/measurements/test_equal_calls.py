"""Error per encoder call: curves, who is best where, and the plot."""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch

import cocoax
from cocoax.cli.measurements import equal_calls as module
from cocoax.cli.measurements.equal_calls import (
    RISE,
    SHAPLEY,
    Curve,
    compared,
    covered,
    curve,
    curves_of,
    error_per_call,
    plot_curves,
)
from cocoax.cli.measurements.games import ExactGame, subsets
from cocoax.cli.measurements.rivals import Estimator


def made_up(package: str, *errors: float, targets: int = 1, values: str = SHAPLEY) -> Curve:
    sizes = (50, 200, 1000)
    return Curve(values, "game", package, "1", "made up", targets, dict(zip(sizes, errors, strict=True)))


def test_calls_for__between_those_measured() -> None:
    found = made_up("shap", 1.0, 0.1, 0.01)
    assert found.calls_for(0.1) == pytest.approx(200)
    assert found.calls_for(0.1**1.5) == pytest.approx((200 * 1000) ** 0.5)  # half way on both scales
    assert found.calls_for(5.0) == 50
    assert found.calls_for(0.001) == math.inf
    assert made_up("shap", math.nan, 0.1, 0.01).calls_for(0.2) == 200


def test_curve__median_over_seeds_and_nan_where_it_cannot() -> None:
    game = ExactGame("game", torch.arange(2**9, dtype=torch.float64)[:, None])  # a sum: bit i is worth 2^i

    def estimate(_: ExactGame, targets: list[int], calls: int, seed: int) -> np.ndarray:
        if calls < 100:
            raise ValueError("too few")
        return game.shapley.values.numpy() + [0.0, 1.0, 100.0][seed]

    found = curve(Estimator("shap", "made up", estimate, True), game, SHAPLEY, [0], 3)
    assert list(found.errors) == [50, 100, 200, 500]  # with 512 calls all is known
    assert math.isnan(found.errors[50])
    assert found.errors[200] == pytest.approx(1 / float(game.shapley.sizes))


def test_compared__with_the_best_of_the_others() -> None:
    curves = [
        made_up(package, *errors, targets=targets, values=values)
        for targets in (1, 8)
        for values in (SHAPLEY, RISE)
        for package, errors in (("cocoax", (0.5, 0.05, 0.02)), ("shap", (1.0, 0.1, 0.01)), ("captum", (0.1, math.nan, 0.2)))
    ]
    first, second, *rest = compared("game", curves)
    assert (first.median, first.reached, first.details["best"]) == (2.0, True, "shap 1 made up")
    assert first.details["calls_at_equal"] == pytest.approx(200 * 5**0.30103, rel=1e-4)
    assert (second.median, second.reached) == (0.5, False)
    assert len(rest) == 6
    assert len(curves_of([first, second, *rest])) == len(curves)


def test_error_per_call__all_of_a_small_game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib.use("Agg")
    monkeypatch.setattr(module, "CALLS", (50, 100, 200))
    scores = torch.from_numpy(np.random.default_rng(0).standard_normal((2**8, 8))).cumsum(0)
    said: list[str] = []
    few = [estimator for estimator in module.shapley_estimators() if estimator.name in ("KernelShap", "KernelExplainer")]
    monkeypatch.setattr(module, "shapley_estimators", lambda: few)
    monkeypatch.setattr(module, "curve", lambda *arguments: curve(*arguments[:4], 2, (50, 100, 200)))
    measurements = error_per_call(True, said.append, [ExactGame("small", scores)])
    assert [found.subject for found in measurements] == ["small"] * 8
    assert sum("coverage" in found.name for found in measurements) == 4
    assert any("Captum" in line or "captum" in line for line in said)
    assert all(error > 0 for found in curves_of(measurements) for error in found.errors.values())
    assert plot_curves(measurements, tmp_path / "out.png").stat().st_size > 5_000


def test_covered__counts_exact_values_within_intervals() -> None:
    scores = torch.from_numpy(np.random.default_rng(1).standard_normal((2**9, 2))).cumsum(0)
    found = covered(ExactGame("random", scores), 20, (100,))
    assert [one.name.split(":")[0] for one in found] == [SHAPLEY, RISE]
    assert all(80 < value <= 100 for one in found for value in one.values)
    by_hand = []
    game = ExactGame("random", scores)
    for seed in range(20):
        method = cocoax.Rise(samples=98, seed=seed)
        masks = method.draw((9,))
        estimate = method.estimate(masks, game.play(masks.bits), game.ends)
        assert estimate.neutral is not None
        assert estimate.standard_error is not None
        for feature in range(9):
            kept = subsets(9)[:, feature] == 1
            exact = scores[kept].mean(0) - scores.mean(0)
            apart = estimate.values[:, 0, feature] - estimate.neutral - exact
            by_hand.append(apart.abs() < 1.96 * estimate.standard_error[:, 0, feature])
    np.testing.assert_allclose(found[1].values, 100 * torch.stack(by_hand).double().mean(0))
