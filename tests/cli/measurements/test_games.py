"""Exact games: tables of all subsets, against the encoder asked one subset at a time, and kept where they are."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import cocoax
from cocoax.cli.measurements import games
from cocoax.cli.measurements.games import ExactGame, exact_game, rows_game, subsets
from tests.conftest import SmallNet, images


def random_game(players: int, targets: int = 2, seed: int = 0) -> ExactGame:
    return ExactGame("random", torch.from_numpy(np.random.default_rng(seed).standard_normal((2**players, targets))))


def test_shapley__mean_over_all_orders() -> None:
    game = random_game(5)
    expected = torch.zeros(5, 2, dtype=torch.float64)
    orders = list(permutations(range(5)))
    for order in orders:
        kept = 0
        for player in order:
            expected[player] += (game.scores[kept + 2**player] - game.scores[kept]) / len(orders)
            kept += 2**player

    torch.testing.assert_close(game.shapley.values, expected)
    torch.testing.assert_close(game.shapley.sizes, expected.square().mean(0))


def test_rise__mean_of_the_scores_with_a_feature() -> None:
    game = random_game(4)
    for player in range(4):
        having = [number for number in range(16) if number >> player & 1]
        torch.testing.assert_close(game.rise.values[player], game.scores[having].mean(0))


def test_play__looks_subsets_up() -> None:
    game = random_game(4)
    assert torch.equal(game.play(subsets(4)), game.scores)
    assert torch.equal(game.play(torch.tensor([[1, 0, 1, 0]])), game.scores[[5]])
    assert torch.equal(game.ends, game.scores[[15, 0]])


def photo_of_six(encoder: cocoax.Encoder) -> tuple[Tensor, list[cocoax.Reference]]:
    corpora = [encoder.reference(images(2, 8, 9, seed=seed), progress=False, cache=False) for seed in range(4)]
    return images(1, 8, 9, seed=9)[0], corpora


def test_exact_game__what_the_encoder_says_of_every_subset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCOAX_CACHE", str(tmp_path))
    encoder = cocoax.Encoder(SmallNet().eval())
    explicand, corpora = photo_of_six(encoder)

    game = exact_game("small", encoder, explicand, corpora, (2, 3), say=lambda _: None)

    assert game.players == 6
    baseline = cocoax.Blur()(explicand)
    segments = cocoax.masking.grid_segments(8, 9, (2, 3))
    target = cocoax.similarity_to(corpora[1])
    apart = target - cocoax.similarity_to(corpora[0].merge(*corpora[2:]))
    for number in (0, 1, 22, 63):
        kept = sum((segments == player) & bool(number >> player & 1) for player in range(6)).bool()
        with torch.no_grad():
            representation = encoder.module(torch.where(kept, explicand, baseline)[None])
        assert float(game.scores[number, 1]) == pytest.approx(float(apart.score(representation)), abs=1e-5)
        assert float(game.scores[number, 5]) == pytest.approx(float(target.score(representation)), abs=1e-5)


def test_exact_game__goes_on_where_it_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCOAX_CACHE", str(tmp_path))
    monkeypatch.setattr(games, "_EVERY", 0.0)
    encoder = cocoax.Encoder(SmallNet().eval())
    explicand, corpora = photo_of_six(encoder)
    said: list[str] = []
    encode, parts = cocoax.masking.Game.encode, 0

    def interrupted(*arguments: object, **options: object) -> object:
        nonlocal parts
        arguments = (*arguments, 0, 16) if len(arguments) == 2 else (*arguments, 16)
        for part in encode(*arguments, **options):  # type: ignore[arg-type]
            yield part
            parts += 1
            if parts == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(cocoax.masking.Game, "encode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        exact_game("small", encoder, explicand, corpora, (2, 3), said.append)
    game = exact_game("small", encoder, explicand, corpora, (2, 3), said.append)
    again = exact_game("small", encoder, explicand, corpora, (2, 3), said.append)

    assert said == ["small: encoding 64 subsets, once", "small: encoding 32 subsets, once"]
    assert torch.equal(game.scores, again.scores)
    monkeypatch.undo()
    monkeypatch.setenv("COCOAX_CACHE", str(tmp_path / "other"))
    whole = exact_game("small", encoder, explicand, corpora, (2, 3), said.append)
    torch.testing.assert_close(game.scores, whole.scores, atol=1e-6, rtol=0)


def test_rows_game__removed_columns_are_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCOAX_CACHE", str(tmp_path))
    random = np.random.default_rng(0)
    rows = random.standard_normal((40, 4))
    game = rows_game("rows", rows, (rows[:, 0] > 0).astype(int), 3, say=lambda _: None)
    assert game.scores.shape == (16, 8)
    # The column that makes the class matters most for the class rather than the other.
    assert int(game.shapley.values[:, 0].abs().argmax()) == 0
