"""KernelSHAP against Shapley values by their definition, over all coalitions."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import comb, factorial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

import cocoax
from cocoax.methods import kernel_shap
from cocoax.methods import odd_regression as odd_games
from cocoax.methods.kernel_shap import Coalitions
from tests.conftest import SmallNet, images

PLAYERS = 10
EVERYTHING = 2**PLAYERS - 2


def slow_shapley(values: dict[frozenset[int], float], players: int) -> np.ndarray:
    """Every player's mean contribution over all orders: the sum over coalitions, weighted by factorials."""
    shapley = np.zeros(players)
    for player in range(players):
        others = [other for other in range(players) if other != player]
        for size in range(players):
            weight = factorial(size) * factorial(players - size - 1) / factorial(players)
            for members in combinations(others, size):
                coalition = frozenset(members)
                shapley[player] += weight * (values[coalition | {player}] - values[coalition])
    return shapley


def every_coalition(players: int) -> list[frozenset[int]]:
    return [frozenset(members) for size in range(players + 1) for members in combinations(range(players), size)]


def values_of_coalitions(
    net: SmallNet, explicand: Tensor, baseline: Tensor, segments: Tensor, target: cocoax.Target
) -> dict[frozenset[int], float]:
    """The score with only the segments of a coalition kept, for every coalition."""
    labels = torch.unique(segments).tolist()
    coalitions = every_coalition(len(labels))
    inputs = []
    for coalition in coalitions:
        kept = torch.zeros(segments.shape, dtype=torch.bool)
        for player in coalition:
            kept |= segments == labels[player]
        inputs.append(torch.where(kept, explicand, baseline))
    with torch.no_grad():
        representations, own = net(torch.stack(inputs)), net(explicand[None])[0]
    return dict(zip(coalitions, target.score(representations, own).tolist(), strict=True))


@dataclass(frozen=True)
class Toy:
    """Ten pixels, each a segment of its own; the score of every coalition, and the Shapley values."""

    net: SmallNet
    encoder: cocoax.Encoder
    explicand: Tensor
    target: cocoax.Target
    values: dict[frozenset[int], float]
    shapley: np.ndarray

    def method(self, samples: int, seed: int = 0) -> cocoax.KernelShap:
        return cocoax.KernelShap(samples=samples, grid=(2, 5), seed=seed, baseline=cocoax.Constant(0.0))

    def scores(self, bits: Tensor) -> Tensor:
        rows = [self.values[frozenset(row.nonzero()[:, 0].tolist())] for row in bits]
        return torch.tensor(rows, dtype=torch.float64)[:, None]

    @property
    def anchors(self) -> Tensor:
        return torch.tensor([[self.values[frozenset(range(PLAYERS))]], [self.values[frozenset()]]], dtype=torch.float64)

    def estimate(self, method: cocoax.KernelShap, count: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Values and standard errors ``[players]``, with the scores looked up instead of encoded."""
        coalitions = method.draw((2, 5), count)
        scores = self.scores(coalitions.bits)
        found = method.estimate(method.adapted(coalitions, scores, self.anchors), scores, self.anchors)
        assert found.features is not None
        assert found.standard_error is not None
        return found.features[0].numpy(), found.standard_error[0].flatten().numpy()  # a pixel is a segment here


@cache
def toy() -> Toy:
    net = SmallNet(seed=1).eval()
    encoder = cocoax.Encoder(net)
    explicand = 2 * images(1, 2, 5, seed=3)[0]
    corpus = encoder.reference(images(3, 2, 5, seed=5), cache=False)
    foil = encoder.reference(images(3, 2, 5, seed=6), cache=False)
    target = cocoax.contrastive_corpus_similarity(corpus, foil)
    segments = torch.arange(PLAYERS).view(2, 5)
    values = values_of_coalitions(net, explicand, torch.zeros_like(explicand), segments, target)
    return Toy(net, encoder, explicand, target, values, slow_shapley(values, PLAYERS))


def kernel(size: int, players: int) -> float:
    """The Shapley kernel, for one coalition of this size."""
    return (players - 1) / (comb(players, size) * size * (players - size))


# --- exact ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("samples", [EVERYTHING, EVERYTHING + 1, 5000])
def test_values__exact_with_all_coalitions(samples: int) -> None:
    exact = toy()

    run = exact.method(samples).run(exact.encoder, exact.explicand)
    result = run.explain(exact.target)

    assert len(run) == EVERYTHING
    assert result.features is not None
    np.testing.assert_allclose(result.features.numpy(), exact.shapley, atol=1e-5)
    np.testing.assert_allclose(result.values.flatten().numpy(), exact.shapley, atol=1e-5)
    assert float(np.abs(exact.shapley).max()) > 1e-2  # a thousand times the tolerance
    assert result.standard_error is not None
    assert float(result.standard_error.abs().max()) == 0


@pytest.mark.parametrize("players", [2, 3, 4, 5])
def test_values__exact_with_few_players(players: int) -> None:
    net = SmallNet(seed=1).eval()
    encoder = cocoax.Encoder(net)
    explicand = 2 * images(1, 4, 5, seed=3)[0]
    segments = torch.from_numpy(np.random.default_rng(0).permutation(np.arange(20) % players).reshape(4, 5))
    target = cocoax.representation_similarity()
    baseline = cocoax.Blur(121, 20.0)(explicand)

    result = cocoax.KernelShap().explain(encoder, explicand, target, features=segments)

    expected = slow_shapley(values_of_coalitions(net, explicand, baseline, segments, target), players)
    assert result.features is not None
    np.testing.assert_allclose(result.features.numpy(), expected, atol=1e-5)


def test_values__exact_for_segments_of_your_own(net: SmallNet, encoder: cocoax.Encoder) -> None:
    explicand = images(1, 9, 11, seed=3)[0]
    # Irregular, not connected, and with labels as they come.
    segments = torch.from_numpy(np.random.default_rng(0).choice([0, 4, 7, 20, 21, 100], (9, 11)))
    corpus = encoder.reference(images(3, 9, 11, seed=5))
    target = cocoax.similarity_to(corpus, "dot")

    result = cocoax.KernelShap(samples=62).explain(encoder, explicand, target, features=segments)

    values = values_of_coalitions(net, explicand, cocoax.Blur(121, 20.0)(explicand), segments, target)
    expected = slow_shapley(values, 6)
    assert result.features is not None
    np.testing.assert_allclose(result.features.numpy(), expected, atol=1e-5)
    for row in range(9):
        for column in range(11):
            player = [0, 4, 7, 20, 21, 100].index(int(segments[row, column]))
            assert result.values[row, column] == pytest.approx(expected[player], abs=1e-5)


def test_values__agree_with_shap() -> None:
    exact = toy()
    state = np.random.get_state()

    def scores(bits: np.ndarray) -> np.ndarray:
        return np.array([exact.values[frozenset(np.flatnonzero(row).tolist())] for row in bits])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import shap

        explainer = shap.KernelExplainer(scores, np.zeros((1, PLAYERS)))
        theirs = explainer.shap_values(np.ones((1, PLAYERS)), nsamples=EVERYTHING, l1_reg=False, silent=True)
    np.random.set_state(state)

    ours = exact.method(EVERYTHING).explain(exact.encoder, exact.explicand, exact.target)

    assert ours.features is not None
    np.testing.assert_allclose(ours.features.numpy(), np.asarray(theirs).reshape(PLAYERS), atol=1e-5)


# --- sampled ----------------------------------------------------------------------------------------------------------


def random_prior(players: int, alone: list[int], anchor_residual: float) -> odd_games.Prior:
    """A prior in which ``alone`` have variances for each of their triples, the products of others the rest."""
    random = np.random.default_rng(1)
    singles, relevance = (torch.from_numpy(random.uniform(0.2, 2, players)) for _ in range(2))
    triples = torch.from_numpy(random.uniform(0.2, 2, comb(len(alone), 3)))
    return odd_games.Prior(singles, torch.tensor(alone), triples, relevance, 0.3, {5: 0.2}, 0.05, anchor_residual)


def slow_expectation(bits: np.ndarray, players: int, residual: np.ndarray, prior: odd_games.Prior) -> np.ndarray:
    """From the scores of some coalitions to expected Shapley values: all 2^m scores as one normal distribution, conditioned.

    Products of signs of every order have a variance, the even ones too, which must not matter. Residuals have a variance for
    each pair, in the odd part, by the size of its smaller half; the anchors are the pair of size 0.
    """
    every = (np.arange(2**players)[:, None] >> np.arange(players)) & 1
    signs = 2.0 * every - 1
    relevance, alone = prior.relevance.numpy(), list(combinations(prior.players.tolist(), 3))
    fives = sum(relevance[list(members)].prod() for members in combinations(range(players), 5))

    def variance(members: tuple[int, ...]) -> float:
        if len(members) == 1:
            return float(prior.singles[members[0]])
        if members in alone:
            return float(prior.triples[alone.index(members)])
        weight = float(relevance[list(members)].prod())
        return {3: prior.triple_scale * weight, 5: prior.higher[5] * weight / fives}.get(len(members), 7.0)

    covariance = np.zeros((2**players, 2**players))
    for order in range(players + 1):
        for members in combinations(range(players), order):
            product = signs[:, list(members)].prod(1)
            covariance += variance(members) * np.outer(product, product)
    residual = np.array([prior.anchor_residual, *residual[1:]])
    for number in range(2**players):
        size = int(min(every[number].sum(), players - every[number].sum()))
        covariance[number, number] += residual[size]
        covariance[number, 2**players - 1 - number] -= residual[size]
    seen = [0, 2**players - 1, *(bits @ 2 ** np.arange(players)).tolist()]
    shapley = np.stack(
        [slow_shapley({frozenset(np.flatnonzero(row).tolist()): float(i == n) for i, row in enumerate(every)}, players)
         for n in range(2**players)], axis=1
    )  # fmt: skip
    return shapley @ covariance[:, seen] @ np.linalg.pinv(covariance[np.ix_(seen, seen)])


@pytest.mark.parametrize("alone", [[0, 1, 2, 3, 4, 5], [0, 2, 3, 5], [1, 4]])
@pytest.mark.parametrize("anchor_residual", [1e-9, 0.3])
@pytest.mark.parametrize("samples", [2, 14, 40, 62])
def test_values__posterior_mean_of_a_normal_distribution_over_all_games(
    samples: int, anchor_residual: float, alone: list[int]
) -> None:
    players, random = 6, np.random.default_rng(0)
    bits = cocoax.KernelShap(samples=samples, seed=2).draw((players,)).bits
    prior = random_prior(players, alone, anchor_residual)
    scores = random.standard_normal(2**players).cumsum()
    used = bits.numpy().astype(int)
    residual = np.full(players // 2 + 1, prior.residual)
    numbers = [0, 2**players - 1, *(used @ 2 ** np.arange(players)).tolist()]
    y = torch.from_numpy(scores[numbers])
    odd = torch.cat([y[2::2] - y[3::2], y[1:2] - y[:1]])[:, None] / 2

    found = odd_games.odd_regression(bits[::2], prior).values(odd)[:, 0]

    np.testing.assert_allclose(found, slow_expectation(used, players, residual, prior) @ scores[numbers], atol=1e-6)
    assert float(found.sum()) == pytest.approx(scores[-1] - scores[0])


def sparse_game(players: int, relevant: int, outlying: float) -> tuple[torch.Tensor, np.ndarray]:
    """The scores of all coalitions of a game with products of some players only, and anchors that stand out; its values."""
    random = np.random.default_rng(3)
    every = (np.arange(2**players)[:, None] >> np.arange(players)) & 1
    signs = 2.0 * every - 1
    scores, shapley = np.zeros(2**players), np.zeros(players)
    for order in (1, 3):
        for members in combinations(range(relevant), order):
            height = random.standard_normal()
            scores += height * signs[:, list(members)].prod(1)
            shapley[list(members)] += 2 * height / order
    scores[-1] += outlying
    scores[0] -= outlying
    return torch.from_numpy(scores)[:, None], shapley + 2 * outlying / players


@pytest.mark.parametrize(("samples", "outlying"), [(160, 0.0), (80, 20.0)])
def test_learn_prior__finds_relevant_players_and_outlying_anchors(samples: int, outlying: float) -> None:
    scores, shapley = sparse_game(10, 4, outlying)
    squares, noticed = {"learned": 0.0, "equal": 0.0}, 0
    for seed in range(10):
        bits = cocoax.KernelShap(samples=samples, seed=seed).draw((10,)).bits
        y = scores[bits.long() @ 2 ** torch.arange(10)]
        odd = torch.cat([y[::2] - y[1::2], scores[-1:] - scores[:1]]) / 2
        prior = odd_games.learn_prior(bits[::2], odd)
        for name, tried in (("learned", prior), ("equal", None)):
            values = odd_games.odd_regression(bits[::2], tried).values(odd)[:, 0].numpy()
            squares[name] += np.square(values - shapley).mean()
        if outlying:
            noticed += prior.anchor_residual > 10 * odd_games.Prior.of_equals(10).anchor_residual
        else:
            noticed += float(prior.relevance[:4].min() / prior.relevance[4:].max()) > 1
    assert noticed >= 8
    assert squares["learned"] < 0.6 * squares["equal"]


@pytest.mark.parametrize("odd", [0.0, np.nan, np.inf])
def test_learn_prior__of_nothing_to_learn_from(odd: float) -> None:
    bits = cocoax.KernelShap(samples=40).draw((8,)).bits[::2]
    prior, equal = odd_games.learn_prior(bits, torch.full((21, 2), odd)), odd_games.Prior.of_equals(8)
    assert torch.equal(prior.singles, equal.singles)
    assert prior.anchor_residual == equal.anchor_residual


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize(("players", "samples"), [(2, 2), (3, 4), (12, 16), (30, 40), (20, 300)])
def test_values__of_scores_of_any_size(players: int, samples: int, size: float) -> None:
    """Fewer coalitions than players too: values are complete, and errors say how little is known."""
    method = cocoax.KernelShap(samples=samples)
    masks = method.draw((players,))
    scores, anchors, shapley = cubic_game(players, masks.bits)
    adapted = method.adapted(masks, size * scores, size * anchors)
    found = method.estimate(adapted, size * scores, size * anchors)
    assert found.features is not None
    assert found.standard_error is not None
    assert float(found.features.sum()) == pytest.approx(size * float(anchors[0] - anchors[1]), rel=1e-6)
    if players > 10:  # otherwise there is hardly anything to learn from
        apart = (found.features[0] / size - shapley).square().mean()
        assert float(apart) < float(shapley.square().mean())
        assert 0.1 * apart < (found.standard_error[0] / size).square().mean() < 20 * apart


def cubic_game(players: int, bits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of single players and of products of three, and the Shapley values."""
    random = np.random.default_rng(players)
    signs = torch.cat([2 * bits.double() - 1, torch.ones(1, players), -torch.ones(1, players)])
    weights = torch.from_numpy(random.standard_normal(players))
    scores, values = signs @ weights, 2 * weights
    for _ in range(players if players > 2 else 0):
        members, height = random.choice(players, 3, replace=False), 0.3 * random.standard_normal()
        scores = scores + height * signs[:, members].prod(1)
        values[members] += 2 / 3 * height
    return scores[:-2, None], scores[-2:, None], values


def test_values__of_identical_players_are_the_same_in_the_mean() -> None:
    found = []
    for seed in range(40):
        method = cocoax.KernelShap(samples=30, seed=seed)
        masks = method.draw((10,))
        scores, anchors = ((both > 0).double()[:, None] for both in (masks.bits[:, :2].sum(1), torch.tensor([2, 0])))
        found.append(method.estimate(method.adapted(masks, scores, anchors), scores, anchors).values[0])
    mean, spread = torch.stack(found).mean(0), torch.stack(found).std(0) / 40**0.5
    assert abs(float(mean[0] - mean[1])) < 4 * float((spread[0].square() + spread[1].square()).sqrt())
    assert float(mean[:2].sum()) > 0.9


def test_values__all_is_due_to_a_single_feature() -> None:
    method = cocoax.KernelShap(samples=40)
    masks = method.draw((1,))
    scores, anchors = torch.zeros(0, 1), torch.tensor([[3.0], [1.0]])
    found = method.estimate(method.adapted(masks, scores, anchors), scores, anchors)
    assert found.values.tolist() == [[2.0]]
    assert found.standard_error is not None
    assert found.standard_error.tolist() == [[0.0]]


def test_values__of_a_constant_game_are_zero() -> None:
    method = cocoax.KernelShap(samples=40)
    masks = method.draw((10,))
    scores, anchors = torch.full((40, 1), 3.0), torch.full((2, 1), 3.0)
    found = method.estimate(method.adapted(masks, scores, anchors), scores, anchors)
    assert float(found.values.abs().max()) == 0
    assert found.standard_error is not None
    assert float(found.standard_error.abs().max()) == 0


def test_values__one_huge_interaction() -> None:
    """Errors say that a product of all twelve players is not seen by a few coalitions; values keep to the anchors."""
    method = cocoax.KernelShap(samples=200)
    masks = method.draw((12,))
    scores, anchors = torch.zeros(200, 1), torch.tensor([[1e6], [0.0]])
    found = method.estimate(method.adapted(masks, scores, anchors), scores, anchors)
    torch.testing.assert_close(found.values, torch.full((1, 12), 1e6 / 12, dtype=torch.float64), rtol=1e-3, atol=0)


def test_values__of_very_many_pairs_are_closer_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the covariance of all pairs would be too large, that of the first is kept to, and the others add to it."""
    exact = toy()
    monkeypatch.setattr(odd_games, "_DENSE", 100)
    squares = []
    for samples in (200, 202, 300, 600):
        found = [exact.estimate(exact.method(samples, seed)) for seed in range(20)]
        values, errors = (np.stack([one[i] for one in found]) for i in range(2))
        squares.append(np.square(values - exact.shapley).mean())
        assert 0.9 < (np.abs(values - exact.shapley) < 1.96 * errors).mean() < 0.99
        assert np.square(errors).mean() < 2 * squares[-1]
        np.testing.assert_allclose(values.sum(1), exact.shapley.sum(), atol=1e-5)
    assert squares[1] < 1.1**2 * squares[0]
    assert squares[2] < 0.6 * squares[0]
    assert squares[3] < 0.4 * squares[2]


def test_values__all_of_very_many_pairs_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = toy()
    monkeypatch.setattr(odd_games, "_DENSE", 100)
    values, errors = exact.estimate(exact.method(EVERYTHING))
    np.testing.assert_allclose(values, exact.shapley, atol=1e-6)
    assert float(errors.max()) == 0


def test_draw__pairs_of_complements() -> None:
    drawn = toy().method(200).draw((2, 5)).bits

    assert len(drawn) == 200
    assert torch.equal(drawn[0::2], 1 - drawn[1::2])


@pytest.mark.parametrize("players", [PLAYERS, 20])
def test_draw__sizes_as_the_kernel_has_them(players: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair is drawn first with the chance that the kernel gives it, whether coalitions are listed or drawn one by one."""
    monkeypatch.setattr(kernel_shap, "_CHOSEN", 0)
    seeds = 600
    first = [cocoax.KernelShap(samples=2 * players, seed=seed).draw((players,)).bits[0] for seed in range(seeds)]
    sizes = [int(min(bits.sum(), players - bits.sum())) for bits in first]
    chances = {
        size: (1 if 2 * size == players else 2) * comb(players, size) * kernel(size, players)
        for size in range(1, players // 2 + 1)
    }
    for size, weight in chances.items():
        chance = weight / sum(chances.values())
        z = (sizes.count(size) / seeds - chance) / (chance * (1 - chance) / seeds) ** 0.5
        assert abs(z) < 4


def test_kernel_of_pair__more_pairs_than_floats_count() -> None:
    for players in (7, 8, 1030):
        chances = kernel_shap.pairs_of_size(players) * kernel_shap.kernel_of_pair(players)
        expected = [1 / (size * (players - size)) / (2 if 2 * size == players else 1) for size in range(1, players // 2 + 1)]
        np.testing.assert_allclose(chances[1:], np.array(expected) / sum(expected))


@pytest.mark.parametrize(("players", "samples"), [(12, 48), (12, 100), (12, 400), (30, 100), (30, 400)])
def test_draw__pairs_that_tell_most_come_first(players: int, samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They leave a smaller error than pairs in the order they are drawn in."""
    apart = {}
    for chosen in (0, 256):
        monkeypatch.setattr(kernel_shap, "_CHOSEN", chosen)
        found = []
        for seed in range(6):
            method = cocoax.KernelShap(samples=samples, seed=seed)
            masks = method.draw((players,))
            scores, anchors, shapley = cubic_game(players, masks.bits)
            values = method.estimate(method.adapted(masks, scores, anchors), scores, anchors).values[0]
            found.append(float((values - shapley).square().mean()))
        apart[chosen] = np.mean(found)
    assert apart[0] > 1.2 * apart[256]


def test_values__converge_to_the_shapley_values() -> None:
    """Expected values lean a little towards nothing; that is a small part of an error which falls fast."""
    exact = toy()
    seeds, before = 60, np.inf
    for samples in (40, 100, 300, 900):
        values = np.stack([exact.estimate(exact.method(samples, seed))[0] for seed in range(seeds)])
        error = np.square(values - exact.shapley).mean()
        bias = np.square(values.mean(0) - exact.shapley).mean() - values.var(0, ddof=1).mean() / seeds
        assert bias < 0.4 * error
        assert error < 0.5 * before
        before = error


@pytest.mark.parametrize("samples", [60, 100, 300, 301])
def test_standard_error__calibrated(samples: int) -> None:
    exact = toy()

    found = [exact.estimate(exact.method(samples, seed)) for seed in range(150)]

    values, errors = (np.stack([one[i] for one in found]) for i in range(2))
    inside = np.abs(values - exact.shapley) < 1.96 * errors
    assert 0.93 < inside.mean() < 0.98
    ratio = np.sqrt((errors**2).mean()) / np.sqrt(np.square(values - exact.shapley).mean())
    assert 0.8 < ratio < 1.3


@pytest.mark.parametrize("samples", [20, 31, 60, 100, 500, EVERYTHING])
def test_features__complete(samples: int) -> None:
    exact = toy()
    targets = [exact.target, cocoax.representation_similarity("dot")]

    for result in exact.method(samples).explain(exact.encoder, exact.explicand, targets):
        assert result.features is not None
        assert float(result.features.sum()) == pytest.approx(result.score - result.baseline_score, abs=1e-5)
        assert abs(result.score - result.baseline_score) > 1e-2


@pytest.mark.parametrize("samples", [30, 40, 200])
def test_values__additive_score_is_exact(samples: int) -> None:
    """A score that is a sum over segments leaves nothing to chance, once pairs are half again as many as segments."""

    def pixels(batch: Tensor) -> Tensor:
        return batch.flatten(1)

    explicand = images(1, 2, 5)[0]
    encoder = cocoax.Encoder(pixels)
    expected = explicand.square().sum(0).flatten()  # of the dot product with itself

    for seed in range(5):
        result = toy().method(samples, seed).explain(encoder, explicand, cocoax.representation_similarity("dot"))
        torch.testing.assert_close(result.features, expected, atol=1e-3, rtol=0)


def test_values__linear_in_the_target() -> None:
    exact = toy()
    own = cocoax.representation_similarity()
    run = exact.method(100).run(exact.encoder, exact.explicand)

    of_target, of_own, of_sum = run.explain([exact.target, own, exact.target - 2 * own])

    torch.testing.assert_close(of_sum.values, of_target.values - 2 * of_own.values, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("height", "width", "grid"), [(16, 16, 4), (13, 22, 3), (9, 7, (2, 3))])
def test_values__every_pixel_shows_its_segment(
    encoder: cocoax.Encoder, height: int, width: int, grid: int | tuple[int, int]
) -> None:
    rows, columns = (grid, grid) if isinstance(grid, int) else grid
    method = cocoax.KernelShap(samples=60, grid=grid)

    result = method.explain(encoder, images(1, height, width)[0], cocoax.representation_similarity())

    assert result.features is not None
    assert result.features.shape == (rows * columns,)
    for y in range(height):
        for x in range(width):
            player = (y * rows // height) * columns + x * columns // width
            assert float(result.values[y, x]) == float(result.features[player])


# --- coalitions are encoded once --------------------------------------------------------------------------------------


@pytest.mark.parametrize("samples", [20, 61, 100, 300, 1000, EVERYTHING])
def test_draw__no_coalition_twice(samples: int) -> None:
    bits = toy().method(samples).draw((2, 5)).bits

    assert len(bits) == samples
    assert len(torch.unique(bits, dim=0)) == samples
    assert int(bits.sum(1).min()) >= 1  # the ends are encoded anyway
    assert int(bits.sum(1).max()) <= PLAYERS - 1


def test_run__no_input_twice() -> None:
    exact = toy()
    seen: list[Tensor] = []
    hook = exact.net.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0].flatten(1)))
    width = exact.explicand.numel()

    exact.method(100).run(exact.encoder, exact.explicand).extend(exact.encoder, 55)
    hook.remove()

    inputs = torch.cat([each for each in seen if each.shape[1] == width])  # without probes
    assert len(inputs) == 2 + 100 + 55
    assert len(torch.unique(inputs, dim=0)) == len(inputs)


@pytest.mark.parametrize(("samples", "count"), [(60, 61), (60, 100), (101, 102), (101, 201), (200, 1000), (200, EVERYTHING)])
def test_draw__a_larger_count_begins_with_the_same_coalitions(samples: int, count: int) -> None:
    method = toy().method(samples)

    few, many = method.draw((2, 5)), method.draw((2, 5), count)

    assert len(many) == len(torch.unique(many.bits, dim=0)) == count
    assert torch.equal(few.bits, many.bits[:samples])


def test_extend__the_same_as_a_longer_run() -> None:
    exact = toy()
    extended = exact.method(100).run(exact.encoder, exact.explicand).extend(exact.encoder, 101).explain(exact.target)
    longer = exact.method(201).explain(exact.encoder, exact.explicand, exact.target)
    torch.testing.assert_close(extended.values, longer.values, atol=1e-6, rtol=0)


def test_load__coalitions_of_an_earlier_version(tmp_path: Path) -> None:
    exact = toy()
    run = exact.method(60).run(exact.encoder, exact.explicand)
    masks = run.masks
    object.__setattr__(run, "masks", SimpleNamespace(tensors={name: masks.tensors[name] for name in ("segments", "bits")}))
    path = run.save(tmp_path / "run.safetensors")
    with pytest.raises(ValueError, match=r"drawn by an earlier version of Cocoax.*Make the run again"):
        cocoax.Run.load(path)


def test_extend__what_the_method_draws_for_that_number() -> None:
    exact = toy()
    inputs = exact.net.inputs

    run = exact.method(100).run(exact.encoder, exact.explicand).extend(exact.encoder, 101)

    assert exact.net.inputs - inputs == 2 + 201
    result = run.explain(exact.target)
    assert result.features is not None
    assert result.standard_error is not None
    again = exact.method(201).run(exact.encoder, exact.explicand).explain(exact.target)
    assert torch.equal(result.values, again.values)
    assert again.standard_error is not None
    assert torch.equal(result.standard_error, again.standard_error)
    assert float(result.features.sum()) == pytest.approx(result.score - result.baseline_score, abs=1e-5)


def test_extend__as_good_as_a_longer_run() -> None:
    exact = toy()

    found = [exact.estimate(exact.method(100, seed), 300) for seed in range(150)]

    values, errors = (np.stack([one[i] for one in found]) for i in range(2))
    assert 0.8 < np.sqrt((errors**2).mean() / np.square(values - exact.shapley).mean()) < 1.3
    short = np.stack([exact.estimate(exact.method(100, seed))[0] for seed in range(150)])
    assert values.var(0).mean() < 0.6 * short.var(0).mean()


@pytest.mark.parametrize("samples", [60, 300])
def test_extend__to_all_coalitions_is_exact(samples: int) -> None:
    exact = toy()

    run = exact.method(samples).run(exact.encoder, exact.explicand).extend(exact.encoder, EVERYTHING - samples)

    result = run.explain(exact.target)
    assert result.features is not None
    np.testing.assert_allclose(result.features.numpy(), exact.shapley, atol=1e-5)
    assert result.standard_error is not None
    assert float(result.standard_error.max()) < 1e-6


def test_extend__beyond_all_coalitions() -> None:
    exact = toy()
    run = exact.method(EVERYTHING).run(exact.encoder, exact.explicand)

    with pytest.raises(ValueError, match="All 1022 coalitions are there already; the values are exact"):
        run.extend(exact.encoder, 1)


# --- options ----------------------------------------------------------------------------------------------------------


def test_full__one_where_the_segment_is_kept() -> None:
    segments = torch.tensor([[0, 0, 1], [2, 1, 1]])
    coalitions = Coalitions(segments, torch.tensor([[1, 0, 1], [0, 1, 0]], dtype=torch.uint8))

    assert coalitions.full(slice(0, 1)).tolist() == [[[1, 1, 0], [1, 0, 0]]]
    assert coalitions.full(slice(1, 2)).tolist() == [[[0, 0, 1], [0, 1, 1]]]


@pytest.mark.parametrize("samples", [1, 0, -3])
def test_samples__not_enough_for_anything(samples: int) -> None:
    with pytest.raises(ValueError, match=f"'samples' parameter must be at least 2. Got {samples} instead"):
        cocoax.KernelShap(samples=samples)


def test_segments__only_one(encoder: cocoax.Encoder) -> None:
    with pytest.raises(ValueError, match="at least two segments"):
        cocoax.KernelShap(grid=1).run(encoder, images(1)[0])


def test_grid__finer_than_the_image(encoder: cocoax.Encoder) -> None:
    with pytest.raises(ValueError, match="A grid of 17 x 2 is finer than the image of 16 x 16 pixels"):
        cocoax.KernelShap(grid=(17, 2)).run(encoder, images(1)[0])


def test_standard_error__not_understated_when_coalitions_are_few() -> None:
    """With hardly more coalitions than segments the fit follows its data, and plain residuals would look far too good."""
    encoder = cocoax.Encoder(SmallNet().eval())
    explicand = images(1)[0]
    target = cocoax.representation_similarity()
    answers = [cocoax.KernelShap(samples=150, seed=seed).explain(encoder, explicand, target) for seed in range(40)]
    spread = torch.stack([answer.features for answer in answers]).var(0).mean().sqrt()
    reported = torch.stack([answer.standard_error for answer in answers]).square().mean().sqrt()
    assert 0.8 < float(reported / spread) < 1.5
