"""Groups of vectors: what scikit-learn finds, how much it explains, and whether it comes back."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from cocoax.insight.clustering import (
    ExplainedVariance,
    Grouping,
    Groups,
    curve,
    elbow,
    hdbscan,
    kmeans,
    nmf,
    stability,
)


def clouds(count: int = 40, groups: int = 3, spread: float = 0.1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Vectors around the corners of a cube, and the corner of each."""
    random = np.random.default_rng(seed)
    truth = np.repeat(np.arange(groups), count)
    return np.eye(5)[truth] + spread * random.normal(size=(len(truth), 5)), truth


def jaccard(first: np.ndarray, second: np.ndarray) -> float:
    return len(set(first) & set(second)) / len(set(first) | set(second))


def stable(grouping: Grouping, groups: Groups, vectors: np.ndarray, asked: int) -> list[float]:
    """The stability of groups of whole inputs, all of which must be known."""
    told = stability(grouping, groups, vectors, np.arange(len(vectors)), asked, 0)
    known = [each for each in told if each is not None]
    assert len(known) == len(told)
    return known


@pytest.mark.parametrize("grouping", [kmeans, hdbscan, nmf])
@pytest.mark.parametrize("seed", range(3))
def test_groups__planted_ones_are_found_and_come_back(grouping: Grouping, seed: int) -> None:
    vectors, truth = clouds(groups=4, spread=0.05, seed=seed)
    order = np.random.default_rng(seed).permutation(len(truth))
    groups = grouping(vectors[order], 4, seed)
    assert adjusted_rand_score(truth[order], groups.labels) > 0.95
    assert min(stable(grouping, groups, vectors[order], 4)) > 0.75
    assert groups.explained(vectors[order]) > 0.9
    for group, centre in enumerate(groups.centres):  # the centre is that of the corner that was planted
        corner = np.bincount(truth[order][groups.labels == group]).argmax()
        assert int(centre.argmax()) == corner


def test_means__are_those_of_scikit_learn_and_explain_what_is_left_over() -> None:
    vectors, truth = clouds()
    groups = kmeans(vectors, 3, 0)
    model = KMeans(3, n_init=10, random_state=0).fit(vectors)
    np.testing.assert_array_equal(groups.labels, model.labels_)
    assert all(len(set(groups.labels[truth == group])) == 1 for group in range(3))
    left = sum(
        float(np.square(vector - groups.centres[label]).sum()) for vector, label in zip(vectors, groups.labels, strict=True)
    )
    total = sum(float(np.square(vector - vectors.mean(0)).sum()) for vector in vectors)
    assert groups.explained(vectors) == pytest.approx(1 - left / total)
    centre = groups.centres[groups.labels[0]]
    cosine = vectors[0] @ centre / np.linalg.norm(vectors[0]) / np.linalg.norm(centre)
    assert groups.strengths[0] == pytest.approx(cosine)


def test_density__leaves_out_what_belongs_nowhere() -> None:
    vectors, truth = clouds(spread=0.03)
    outliers = np.random.default_rng(1).normal(size=(12, 5)) * 3
    groups = hdbscan(np.concatenate([vectors, outliers]), 3, 0)
    assert len(groups.centres) == 3
    assert all(len(set(groups.labels[: len(truth)][truth == group])) == 1 for group in range(3))
    assert (groups.labels[len(truth) :] == -1).mean() > 0.8
    assert 0 < groups.explained(np.concatenate([vectors, outliers])) < 1
    for few in (3, 9):
        with pytest.raises(ValueError, match=f"finds no dense groups among {few} vectors; use method='kmeans'"):
            hdbscan(np.random.default_rng(0).normal(size=(few, 5)), 3, 0)


def test_factors__are_signed_directions_with_weights_of_at_least_nothing() -> None:
    random = np.random.default_rng(0)
    directions = np.array([[1.0, 0, 0, -1, 0], [0, 1, 0, 0, 0], [0, 0, -1, 0, 1]])
    codes = random.exponential(size=(200, 3)) * (random.random((200, 3)) < 0.5)
    vectors = codes @ directions
    groups = nmf(vectors, 3, 0)
    cosines = (groups.centres / np.linalg.norm(groups.centres, axis=1, keepdims=True)) @ (
        directions / np.linalg.norm(directions, axis=1, keepdims=True)
    ).T
    assert sorted(cosines.argmax(1)) == [0, 1, 2]
    assert cosines.max(1).min() > 0.98
    assert groups.explained(vectors) > 0.98
    weights = np.array([nnls(groups.centres.T, vector)[0] for vector in vectors])  # the best that these directions can do
    rebuilt = groups.rebuild(vectors)
    np.testing.assert_allclose(rebuilt, weights @ groups.centres, atol=0.1)
    strengths = weights * np.linalg.norm(groups.centres, axis=1)
    clear = np.sort(strengths, axis=1)[:, -1] > 1.2 * np.sort(strengths, axis=1)[:, -2]
    np.testing.assert_array_equal(groups.labels[clear], strengths.argmax(1)[clear])
    assert (groups.labels[(vectors == 0).all(1)] == -1).all()


def test_factors__more_of_them_than_dimensions() -> None:
    vectors = np.random.default_rng(0).normal(size=(60, 3))
    groups = nmf(vectors, 10, 0)
    assert groups.centres.shape == (10, 3)
    assert groups.explained(vectors) > 0.95
    assert [point.corpora for point in curve(nmf, vectors, np.arange(60), 10, 0)] == [1, 2, 3, 5, 7, 10, 15, 20]


def test_stability__high_where_groups_are_there_and_low_where_they_are_not() -> None:
    vectors, _ = clouds()
    groups = kmeans(vectors, 3, 0)
    assert min(stable(kmeans, groups, vectors, 3)) > 0.95
    noise = np.random.default_rng(0).normal(size=(120, 30))
    assert np.mean(stable(kmeans, kmeans(noise, 6, 0), noise, 6)) < 0.6


def test_stability__is_the_largest_jaccard_similarity() -> None:
    def divided(vectors: np.ndarray, at: float) -> Groups:
        """Vectors below and above a number."""
        return Groups(np.zeros((2, 1)), (vectors[:, 0] > at).astype(int), np.ones(len(vectors)), np.zeros_like)

    vectors = np.linspace(0, 1, 50)[:, None]
    first, second = stable(lambda drawn, *_, **__: divided(drawn, 0.5), divided(vectors, 2 / 3), vectors, 2)
    assert first == pytest.approx(jaccard(np.arange(25), np.arange(34)), abs=0.12)
    assert second == pytest.approx(jaccard(np.arange(25, 50), np.arange(34, 50)), abs=0.12)


def apart(count: int, groups: int) -> np.ndarray:
    """Vectors in groups that cannot be mistaken, as equal in size as may be."""
    centres = 50 * np.random.default_rng(0).normal(size=(groups, 16))
    return centres[np.arange(count) % groups] + 0.01 * np.random.default_rng(1).normal(size=(count, 16))


@pytest.mark.parametrize("grouping", [kmeans, nmf])
def test_stability__too_few_inputs_to_tell(grouping: Grouping) -> None:
    vectors = apart(15, 10)
    groups = grouping(vectors, 10, 0)
    assert stability(grouping, groups, vectors, np.arange(15), 10, 0) == [None] * 10
    many = vectors.repeat(4, axis=0)  # parts of the same inputs are no more inputs
    assert stability(grouping, grouping(many, 10, 0), many, np.arange(15).repeat(4), 10, 0) == [None] * 10


def test_stability__resamples_count_in_which_the_group_can_appear() -> None:
    vectors = np.concatenate([np.linspace(0, 0.1, 11), [9.0]])[:, None]  # a third of all resamples have none of the last
    groups = kmeans(vectors, 2, 0)
    assert stable(kmeans, groups, vectors, 2)[groups.labels[-1]] == 1


def test_stability__other_errors_are_not_taken_for_groups_that_are_gone() -> None:
    def broken(vectors: np.ndarray, count: int, seed: int, starts: int = 10) -> Groups:
        raise ValueError("broken")

    vectors, truth = clouds()
    with pytest.raises(ValueError, match="broken"):
        stable(broken, Groups(np.eye(3, 5), truth, np.ones(len(truth)), np.zeros_like), vectors, 3)
    noise = np.random.default_rng(0).normal(size=(9, 5))  # where nothing is dense nothing comes back
    assert stable(hdbscan, Groups(np.eye(1, 5), np.zeros(9, int), np.ones(9), np.zeros_like), noise, 3) == [0.0]


def own_directions() -> tuple[np.ndarray, np.ndarray]:
    """Forty inputs of 20 cells each; cells share their own input's direction, and inputs have nothing in common."""
    random = np.random.default_rng(0)
    owners = np.repeat(np.arange(40), 20)
    sizes = np.abs(random.normal(1, 0.3, size=(len(owners), 1)))
    cells = random.normal(size=(40, 32))[owners] * sizes + 0.3 * random.normal(size=(len(owners), 32))
    return cells, owners


def test_stability__of_parts_draws_inputs() -> None:
    def watched(vectors: np.ndarray, count: int, seed: int, starts: int = 10) -> Groups:
        given.append(vectors)
        return kmeans(vectors, count, seed, starts)

    given: list[np.ndarray] = []
    cells, owners = own_directions()
    groups = kmeans(cells, 10, 0)
    stability(watched, groups, cells, 7 * owners + 3, 10, 0)  # inputs may have any numbers
    assert len(given) == 10
    for vectors in given:
        drawn = (cells[:, None] == vectors).all(2).any(1).reshape(40, 20)
        assert len(vectors) == drawn.sum()
        assert (drawn.all(1) | ~drawn.any(1)).all()
        assert 18 <= drawn.all(1).sum() <= 33


def test_curve__of_parts_holds_out_inputs() -> None:
    cells, owners = own_directions()
    points = curve(nmf, cells, owners, 10, 0)
    apiece = curve(nmf, cells, np.arange(len(cells)), 10, 0)
    (by_inputs,), (by_cells,) = ([point.held_out for point in each if point.corpora == 10] for each in (points, apiece))
    assert by_inputs < 0.25
    assert by_cells > 0.4
    assert curve(nmf, cells, np.zeros(len(cells), int), 10, 0) == ()


def test_curve__bends_at_the_true_number() -> None:
    vectors, _ = clouds(groups=5, spread=0.05)
    points = curve(kmeans, vectors, np.arange(len(vectors)), 5, 0)
    assert [point.corpora for point in points] == [1, 2, 3, 5, 7, 10]
    assert all(point.held_out <= point.explained + 1e-6 for point in points)
    assert elbow(points) == 5
    assert curve(hdbscan, vectors, np.arange(len(vectors)), 5, 0) == ()
    assert elbow((ExplainedVariance(1, 0.0, 0.0), ExplainedVariance(2, 0.5, 0.5))) is None
