"""Groups of vectors: what scikit-learn finds, how much it explains, and whether it comes back."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls
from sklearn.cluster import KMeans

from cocoax.knowledge.groups import Density, Factors, Groups, Means, OfCount, curve, elbow, stability


def clouds(count: int = 40, groups: int = 3, spread: float = 0.1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Vectors around the corners of a cube, and the corner of each."""
    random = np.random.default_rng(seed)
    truth = np.repeat(np.arange(groups), count)
    return np.eye(5)[truth] + spread * random.normal(size=(len(truth), 5)), truth


def jaccard(first: np.ndarray, second: np.ndarray) -> float:
    return len(set(first) & set(second)) / len(set(first) | set(second))


def test_means__are_those_of_scikit_learn_and_explain_what_is_left_over() -> None:
    vectors, truth = clouds()
    groups = Means().fit(vectors, 3, 0)
    model = KMeans(3, n_init=10, random_state=0).fit(vectors)
    np.testing.assert_array_equal(groups.labels, model.labels_)
    assert all(len(set(groups.labels[truth == group])) == 1 for group in range(3))
    left = sum(
        float(np.square(vector - groups.centres[label]).sum()) for vector, label in zip(vectors, groups.labels, strict=True)
    )
    total = sum(float(np.square(vector - vectors.mean(0)).sum()) for vector in vectors)
    assert Means().explained(groups, vectors) == pytest.approx(1 - left / total)
    centre = groups.centres[groups.labels[0]]
    cosine = vectors[0] @ centre / np.linalg.norm(vectors[0]) / np.linalg.norm(centre)
    assert groups.strengths[0] == pytest.approx(cosine)


def test_density__leaves_out_what_belongs_nowhere() -> None:
    vectors, truth = clouds(spread=0.03)
    outliers = np.random.default_rng(1).normal(size=(12, 5)) * 3
    groups = Density().fit(np.concatenate([vectors, outliers]), 3, 0)
    assert len(groups.centres) == 3
    assert all(len(set(groups.labels[: len(truth)][truth == group])) == 1 for group in range(3))
    assert (groups.labels[len(truth) :] == -1).mean() > 0.8
    assert 0 < Density().explained(groups, np.concatenate([vectors, outliers])) < 1
    with pytest.raises(ValueError, match="finds no dense groups among 9 vectors; use method='kmeans'"):
        Density().fit(np.random.default_rng(0).normal(size=(9, 5)), 3, 0)


def test_factors__are_signed_directions_with_weights_of_at_least_nothing() -> None:
    random = np.random.default_rng(0)
    directions = np.array([[1.0, 0, 0, -1, 0], [0, 1, 0, 0, 0], [0, 0, -1, 0, 1]])
    codes = random.exponential(size=(200, 3)) * (random.random((200, 3)) < 0.5)
    vectors = codes @ directions
    groups = Factors().fit(vectors, 3, 0)
    cosines = (groups.centres / np.linalg.norm(groups.centres, axis=1, keepdims=True)) @ (
        directions / np.linalg.norm(directions, axis=1, keepdims=True)
    ).T
    assert sorted(cosines.argmax(1)) == [0, 1, 2]
    assert cosines.max(1).min() > 0.98
    assert Factors().explained(groups, vectors) > 0.98
    weights = np.array([nnls(groups.centres.T, vector)[0] for vector in vectors])  # the best that these directions can do
    rebuilt = Factors().rebuilt(groups, vectors)
    np.testing.assert_allclose(rebuilt, weights @ groups.centres, atol=0.1)
    strengths = weights * np.linalg.norm(groups.centres, axis=1)
    clear = np.sort(strengths, axis=1)[:, -1] > 1.2 * np.sort(strengths, axis=1)[:, -2]
    np.testing.assert_array_equal(groups.labels[clear], strengths.argmax(1)[clear])
    assert (groups.labels[(vectors == 0).all(1)] == -1).all()


def test_stability__high_where_groups_are_there_and_low_where_they_are_not() -> None:
    vectors, _ = clouds()
    groups = Means().fit(vectors, 3, 0)
    assert min(stability(Means(), groups, vectors, 3, 0)) > 0.95
    noise = np.random.default_rng(0).normal(size=(120, 30))
    assert np.mean(stability(Means(), Means().fit(noise, 6, 0), noise, 6, 0)) < 0.6


def test_stability__is_the_largest_jaccard_similarity() -> None:
    class Halves(Means):
        """Divides vectors by their first number, whatever is asked."""

        def fit(self, vectors: np.ndarray, count: int, seed: int, starts: int = 10) -> Groups:
            labels = (vectors[:, 0] > 0.5).astype(int)
            return Groups(np.zeros((2, vectors.shape[1])), labels, np.ones(len(vectors)))

    vectors = np.linspace(0, 1, 50)[:, None]
    thirds = Groups(np.zeros((2, 1)), (vectors[:, 0] > 2 / 3).astype(int), np.ones(50))
    first, second = stability(Halves(), thirds, vectors, 2, 0)
    assert first == pytest.approx(jaccard(np.arange(25), np.arange(34)), abs=0.12)
    assert second == pytest.approx(jaccard(np.arange(25, 50), np.arange(34, 50)), abs=0.12)


def test_curve__bends_at_the_true_number() -> None:
    vectors, _ = clouds(groups=5, spread=0.05)
    points = curve(Means(), vectors, 5, 0)
    assert [point.corpora for point in points] == [1, 2, 3, 5, 7, 10]
    assert all(point.held_out <= point.explained + 1e-6 for point in points)
    assert elbow(points) == 5
    assert curve(Density(), vectors, 5, 0) == ()
    assert elbow((OfCount(1, 0.0, 0.0), OfCount(2, 0.5, 0.5))) is None
