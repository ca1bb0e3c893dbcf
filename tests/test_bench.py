"""The benchmark that ``make bench`` runs: exact games, estimators of other packages, timings, and what is written."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import cocoax
from benchmarks.bench import equal_calls, rival_process, speed
from benchmarks.bench.accuracy import coverage
from benchmarks.bench.games import ExactGame, exact_game, rows_game, subsets, tree_game
from benchmarks.bench.measurement import Measurement
from benchmarks.bench.subjects import Subject
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


def photo_of_six(encoder: cocoax.Encoder) -> tuple[Tensor, list[cocoax.Reference]]:
    corpora = [encoder.reference(images(2, 8, 9, seed=seed), progress=False, cache=False) for seed in range(4)]
    return images(1, 8, 9, seed=9)[0], corpora


def test_exact_game__what_the_encoder_says_of_every_subset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCOAX_CACHE", str(tmp_path))
    encoder = cocoax.Encoder(SmallNet().eval())
    explicand, corpora = photo_of_six(encoder)

    game = exact_game("small", encoder, explicand, corpora, (2, 3), say=lambda _: None)

    assert game.players == 6
    baseline = cocoax.Blur.default(encoder.inputs)(explicand)
    segments = cocoax.masking.grid_segments(8, 9, (2, 3))
    target = cocoax.similarity_to(corpora[1])
    apart = target - cocoax.similarity_to(corpora[0].merge(*corpora[2:]))
    for number in (0, 1, 22, 63):
        kept = sum((segments == player) & bool(number >> player & 1) for player in range(6)).bool()
        with torch.no_grad():
            representation = encoder.module(torch.where(kept, explicand, baseline)[None])
        assert float(game.scores[number, 1]) == pytest.approx(float(apart.score(representation)), abs=1e-5)
        assert float(game.scores[number, 5]) == pytest.approx(float(target.score(representation)), abs=1e-5)


def test_rows_game__removed_columns_are_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCOAX_CACHE", str(tmp_path))
    random = np.random.default_rng(0)
    rows = random.standard_normal((40, 4))
    game = rows_game("rows", rows, (rows[:, 0] > 0).astype(int), 3, say=lambda _: None)
    assert game.scores.shape == (16, 8)
    # The column that makes the class matters most for the class rather than the other.
    assert int(game.shapley.values[:, 0].abs().argmax()) == 0


def test_tree_game__against_all_orders() -> None:
    random = np.random.default_rng(0)
    rows = random.standard_normal((60, 5))
    game = tree_game("rows", rows, rows[:, 0] * rows[:, 1] + rows[:, 2], 3)
    table = ExactGame("table", game.play(subsets(5)))
    torch.testing.assert_close(game.shapley.values, table.shapley.values)
    assert float(game.shapley.sizes.min()) > 0


# Another process with an estimator of two lines, which needs no other package.
RIVAL = """
import numpy as np
import sys
sys.path.insert(0, {folder!r})
import rivals
def of_single_players(players, calls, seed, play):
    return play(np.eye(players)) - play(np.zeros((1, players)))
rivals.estimators = lambda: {{"single": of_single_players, "fails": lambda *_: 1 / 0}}
rivals.versions = lambda: {{"python": "3"}}
rivals.main()
"""


def test_measure__against_another_process_and_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "rival.py"
    script.write_text(RIVAL.format(folder=str(Path(rival_process.rivals.__file__).parent)))
    monkeypatch.setattr(rival_process.rivals, "__file__", str(script))
    worths = torch.tensor([[1.0, -2.0, 0.5, 0.0, 3.0, 1.0], [2.0, 1.0, 0.0, 1.0, -1.0, 0.5]], dtype=torch.float64).T
    additive = ExactGame("additive", subsets(6).double() @ worths)
    games = [additive, random_game(6)]
    path = tmp_path / "games" / "trials.jsonl"

    trials = equal_calls.measure(games, Path(sys.executable), path, 3, lambda _: None, (20, 40))
    again = equal_calls.measure(games, Path(sys.executable), path, 3, lambda _: None, (20, 40))

    assert len(trials.trials) == len(again.trials) == 2 * 2 * (3 + 3)
    by_them = [trial for trial in trials.trials if trial.estimator == "single"]
    assert all(max(trial.errors) < 1e-20 for trial in by_them if trial.game == "additive")
    assert all(trial.shared for trial in by_them)
    assert {cell.estimator for cell in equal_calls.cells(trials)} == {"single"}
    path = equal_calls.write_page(trials, tmp_path / "evidence" / "page.md")
    assert "tables/page.csv" in path.read_text(encoding="utf-8")
    assert "random,2," in (tmp_path / "evidence" / "tables" / "page.csv").read_text(encoding="utf-8")
    assert (tmp_path / "images" / "calls-random.png").stat().st_size > 5_000


@pytest.mark.parametrize(
    ("measure", "goals"),
    [
        (speed.overhead, ["≤ 1.1"]),
        (speed.published_pattern, ["≥ 4.5"]),
        (speed.integrated_gradients, ["≤ 2.3"]),
        (speed.captum_gradients, ["≥ 1.8", "≥ 1.8"]),
        (speed.captum_kernel_shap, ["≥ 1.1", "≥ 4"]),
    ],
)
def test_speed__both_sides_run(
    measure: Callable[[Subject, int], list[Measurement]], goals: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ratios(above: Callable[[], object], below: Callable[[], object], repeats: int) -> list[float]:
        below()
        above()
        return [2.0, 5.0, 3.0][:repeats]

    monkeypatch.setattr(speed, "ratios", ratios)
    encoder = cocoax.Encoder(SmallNet().eval(), cocoax.ImagePreprocess(resize=16, crop=16), name="small")
    with torch.random.fork_rng():
        measurements = measure(Subject("small", encoder, 1.1, 4, 40), 3)
    assert [figure.goal for figure in measurements] == goals
    assert all(figure.median == 3.0 for figure in measurements)


def test_coverage__is_near_95_percent() -> None:
    for figure in coverage(seeds=6, sizes=(40, 300)):
        assert 88 <= figure.median <= 99.5
