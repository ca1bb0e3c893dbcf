"""Pairs beyond those whose covariance is inverted as it is: they add to what is known, and are never in its place."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
import torch
from torch import Tensor

import cocoax
from cocoax.methods import kernel_shap
from cocoax.methods import odd_regression as odd_games


def cubic(players: int, seed: int, bits: Tensor) -> tuple[Tensor, Tensor, np.ndarray]:
    """Scores and ends of a game of single players, pairs and many threes, and its Shapley values."""
    random = np.random.default_rng(seed)
    signs = np.concatenate([2.0 * bits.numpy() - 1, np.ones((1, players)), -np.ones((1, players))])
    scores, shapley = np.zeros(len(signs)), np.zeros(players)
    for order in (1, 2, *([3] * 6)):
        for _ in range(players):
            members, height = random.choice(players, order, replace=False), random.standard_normal()
            scores += height * signs[:, members].prod(1)
            shapley[members] += 2 * height / order * (order % 2)
    found = torch.from_numpy(scores)[:, None]
    return found[:-2], found[-2:], shapley


def estimated(players: int, samples: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    method = cocoax.KernelShap(samples=samples, seed=seed)
    masks = method.draw((players,))
    scores, anchors, shapley = cubic(players, seed, masks.bits)
    found = method.estimate(method.adapted(masks, scores, anchors), scores, anchors)
    assert found.features is not None
    assert found.standard_error is not None
    np.testing.assert_allclose(found.features.sum().item(), (anchors[0] - anchors[1]).item(), atol=1e-4)
    return found.features[0].numpy(), found.standard_error[0].numpy(), shapley


@pytest.mark.parametrize("players", [14, 20, 30])
def test_values__more_pairs_are_never_worse(players: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(odd_games, "_DENSE", 300)
    monkeypatch.setattr(kernel_shap, "_CHOSEN", 0)  # the near ones are like the far ones, none of them chosen
    roots = []
    for samples in (600, 602, 1200, 2400):
        values, errors, shapley = (
            np.stack(one) for one in zip(*(estimated(players, samples, s) for s in range(5)), strict=True)
        )
        roots.append(np.square(values - shapley).mean() ** 0.5)
        assert 0.7 * roots[-1] < np.square(errors).mean() ** 0.5 < 2 * roots[-1]
    assert roots[1] < 1.1 * roots[0]
    assert roots[2] < 0.9 * roots[1]
    assert roots[3] < 0.9 * roots[2]


@pytest.mark.parametrize("players", [11, 14])
def test_values__exact_where_all_are_there(players: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(odd_games, "_DENSE", 500)
    values, errors, shapley = estimated(players, 2**players, 0)
    np.testing.assert_allclose(values, shapley, atol=1e-6)
    assert errors.max() == 0


def test_loo_residuals__against_the_inverse_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the covariance of all pairs, written down."""
    monkeypatch.setattr(odd_games, "_DENSE", 40)
    monkeypatch.setattr(odd_games, "_ROWS", 16)
    bits = cocoax.KernelShap(samples=200, seed=1).draw((9,)).bits[::2]
    game = odd_games.odd_regression(bits)
    assert game.inverse is not None
    signs, near = game.inverse.signs, [*range(40), 100]
    covariance = game.inverse.prior.covariance(signs, signs)
    across = covariance[40:100][:, near]
    full = torch.zeros(101, 101, dtype=torch.float64)
    known = torch.linalg.inv(game.inverse.inverse)
    full[np.ix_(near, near)] = known
    full[np.ix_(range(40, 100), near)] = across
    full[np.ix_(near, range(40, 100))] = across.T
    full[40:100, 40:100] = across @ game.inverse.inverse @ across.T + game.inverse.residual.diag()
    inverse = torch.linalg.inv(full + (signs * game.inverse.prior.singles) @ signs.T)
    odd = torch.from_numpy(np.random.default_rng(0).standard_normal((101, 2)))

    found = game.loo_residuals(odd)

    expected = (inverse @ odd) / inverse.diagonal()[:, None]
    np.testing.assert_allclose(found, expected[:-1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("players", "samples"), [(69, 600), (81, 800), (196, 2000)])
def test_values__of_many_players(players: int, samples: int) -> None:
    """There are more coalitions of half of them than 64 bits can count."""
    values, errors, shapley = estimated(players, samples, 0)
    apart = np.square(values - shapley).mean()
    assert apart < np.square(shapley).mean()
    assert 0.25 * apart < np.square(errors).mean() < 4 * apart


@pytest.mark.parametrize("players", [2, 3, 8, 9])
def test_squares__summed_over_all_coalitions(players: int) -> None:
    """A player's value is a sum over coalitions with it, minus one over those without: both weigh an odd part twice."""
    for size in range(1, players // 2 + 1):
        weights = [2 / (players * comb(players - 1, size - (0 in kept))) for kept in combinations(range(players), size)]
        once = 2 if 2 * size == players else 1  # of half the players, each pair is there twice
        assert odd_games._squares(players, size) == pytest.approx(sum(weight**2 for weight in weights) / once)


def test_odd_regression__more_coalitions_than_floats_count() -> None:
    bits = torch.from_numpy(np.random.default_rng(0).integers(0, 2, (20, 1100), dtype=np.uint8))
    game = odd_games.odd_regression(bits)
    assert bool(game.matrix.isfinite().all())
    assert bool(game.variance.isfinite().all())


@pytest.mark.parametrize("players", [2, 5, 9])
def test_most_telling__lowers_the_posterior_variance_the_most(players: int) -> None:
    """Against the posterior variance of each choice, by the inverse of the covariance of what would be known."""
    every = _pairs(players)
    bits = every[torch.randperm(len(every), generator=torch.Generator().manual_seed(0))[:40]]
    prior = odd_games.Prior.of_equals(players)

    def left(chosen: list[int]) -> float:
        signs = 2 * torch.cat([bits[chosen], torch.ones(1, players, dtype=torch.uint8)]).double() - 1
        residual = torch.tensor([prior.residual] * len(chosen) + [prior.anchor_residual])
        covariance = prior.covariance(signs, signs) + (signs * prior.singles) @ signs.T + residual.double().diag()
        towards = prior.value_covariance(signs) + 2 * prior.singles * signs
        return -float((towards * torch.linalg.solve(covariance, towards)).sum())

    found = odd_games.most_telling(bits, min(6, len(bits)))

    assert len(set(found)) == len(found)
    for step, one in enumerate(found):
        before = found[:step]
        best = min(left([*before, other]) for other in range(len(bits)) if other not in before)
        assert left([*before, one]) == pytest.approx(best, rel=1e-6)


def _pairs(players: int) -> Tensor:
    """One coalition of each pair of complements."""
    return ((torch.arange(1, 2 ** (players - 1))[:, None] >> torch.arange(players)) & 1).to(torch.uint8)
