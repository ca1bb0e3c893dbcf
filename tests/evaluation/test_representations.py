from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from cocoax.evaluation.sanity import effective_rank, knn_accuracy


def clouds(number: int, seed: int, classes: int = 4, dimension: int = 6) -> tuple[torch.Tensor, np.ndarray]:
    """Points around one centre for each class, overlapping."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(classes, dimension))
    labels = random.integers(0, classes, number)
    return torch.from_numpy(centres[labels] + random.normal(size=(number, dimension)) * 1.2), labels


@pytest.mark.parametrize("neighbours", [1, 7, 20, 300])
def test_knn_accuracy__equals_scikit_learn(neighbours: int) -> None:
    (known, labels), (asked, truth) = clouds(200, 0), clouds(150, 1)
    slow = KNeighborsClassifier(
        min(neighbours, 200), metric="cosine", algorithm="brute", weights=lambda distances: np.exp((1 - distances) / 0.1)
    )
    expected = slow.fit(known.numpy(), labels).score(asked.numpy(), truth)
    assert 0.4 < expected < 0.95  # neither too easy nor chance
    assert knn_accuracy(known, labels, asked, truth, neighbours) == pytest.approx(expected, abs=1e-6)


def test_knn_accuracy__near_neighbours_outvote_many_far_ones() -> None:
    known = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.6, -0.8], [0.6, 0.8]])
    assert knn_accuracy(known, np.array([1, 0, 0, 0]), torch.tensor([[1.0, 0.05]]), np.array([1])) == 1


def test_knn_accuracy__lengths_do_not_matter_and_labels_may_be_of_any_type() -> None:
    (known, labels), (asked, truth) = clouds(100, 2), clouds(80, 3)
    accuracy = knn_accuracy(known, labels, asked, truth)
    stretched = known * torch.linspace(0.1, 10, 100)[:, None]
    small = truth.astype(np.uint8)
    small.setflags(write=False)
    assert knn_accuracy(stretched, labels.astype(np.int32), 3 * asked, small) == accuracy


def test_knn_accuracy__a_class_that_is_not_known_is_never_right() -> None:
    known, labels = clouds(50, 4, classes=2)
    assert knn_accuracy(known, labels, known, np.full(50, 5)) == 0


@pytest.mark.parametrize("dimension", [1, 2, 7])
def test_effective_rank__is_the_dimension_if_all_directions_vary_alike(dimension: int) -> None:
    corners = torch.cat([torch.eye(dimension), -torch.eye(dimension)])
    assert effective_rank(3 * corners + 5) == pytest.approx(dimension)


def test_effective_rank__of_a_line_is_one() -> None:
    line = torch.linspace(-1, 1, 20)[:, None] * torch.tensor([1.0, 2.0, -3.0]) + torch.tensor([4.0, 0.0, 1.0])
    assert effective_rank(line) == pytest.approx(1, abs=1e-6)


def test_effective_rank__of_a_single_point_is_one() -> None:
    assert effective_rank(torch.full((5, 3), 0.1)) == 1
    assert effective_rank(torch.ones(1, 3)) == 1


def test_effective_rank__of_unequal_variances() -> None:
    corners = torch.diag(torch.tensor([math.sqrt(3.0), 1.0]))  # variances 3 to 1
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert effective_rank(torch.cat([corners, -corners])) == pytest.approx(math.exp(entropy), abs=1e-6)


def test_effective_rank__equals_slow_version_however_the_axes_lie() -> None:
    random = np.random.default_rng(0)
    points = random.normal(size=(50, 5)) * [4, 2, 1, 0.5, 0.1]
    turned = points @ np.linalg.qr(random.normal(size=(5, 5)))[0]
    variances = np.linalg.eigvalsh(np.cov(points.T))
    shares = variances / variances.sum()
    expected = math.exp(-sum(share * math.log(share) for share in shares))
    assert effective_rank(torch.from_numpy(points)) == pytest.approx(expected, abs=1e-9)
    assert effective_rank(torch.from_numpy(turned * 7 + 3)) == pytest.approx(expected, abs=1e-9)


def test_effective_rank__notices_a_collapse_that_standard_deviations_do_not() -> None:
    direction = torch.ones(64)
    points = torch.randn(100, 1, generator=torch.Generator().manual_seed(0)) * direction
    assert points.std(0).min() > 0.5
    assert effective_rank(points) == pytest.approx(1, abs=1e-3)
