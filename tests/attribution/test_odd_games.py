"""Pairs beyond those whose covariance is inverted as it is: they add to what is known, and are never in its place."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import cocoax
from cocoax.attribution import odd_games


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
    scores, ends, shapley = cubic(players, seed, masks.bits)
    found = method.estimate(masks, scores, ends)
    assert found.features is not None
    assert found.standard_error is not None
    np.testing.assert_allclose(found.features.sum().item(), (ends[0] - ends[1]).item(), atol=1e-4)
    return found.features[0].numpy(), found.standard_error[0].numpy(), shapley


@pytest.mark.parametrize("players", [14, 20, 30])
def test_values__more_pairs_are_never_worse(players: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(odd_games, "_DENSE", 300)
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


def test_surprises__what_each_is_beyond_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the covariance of all pairs, written down, with single players of a very large variance."""
    monkeypatch.setattr(odd_games, "_DENSE", 40)
    monkeypatch.setattr(odd_games, "_ROWS", 16)
    bits = cocoax.KernelShap(samples=200, seed=1).draw((9,)).bits[::2]
    game = odd_games.odd_game(bits)
    signs, near = game.inverse.signs, [*range(40), 100]
    covariance = odd_games.between(signs, signs, game.inverse.by_distance)
    across = covariance[40:100][:, near]
    full = torch.zeros(101, 101, dtype=torch.float64)
    known = torch.linalg.inv(game.inverse.inverse)
    full[np.ix_(near, near)] = known
    full[np.ix_(range(40, 100), near)] = across
    full[np.ix_(near, range(40, 100))] = across.T
    full[40:100, 40:100] = across @ game.inverse.inverse @ across.T + game.inverse.own.diag()
    inverse = torch.linalg.inv(full + 1e6 * signs @ signs.T)
    odd = torch.from_numpy(np.random.default_rng(0).standard_normal((101, 2)))

    found = game.surprises(odd)

    expected = (inverse @ odd) / inverse.diagonal()[:, None]
    np.testing.assert_allclose(found, expected[:-1], rtol=1e-3, atol=1e-3)
