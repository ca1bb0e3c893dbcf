"""The consistency of rankings with classes, counted one by one."""

from __future__ import annotations

import numpy as np
import pytest

from cocoax.evaluation import t_interval
from cocoax.evaluation.sanity import consistency


def test_consistency__counts_the_first_ones() -> None:
    random = np.random.default_rng(0)
    importance, labels, members = random.normal(size=(7, 30)), random.integers(3, size=7), random.integers(3, size=30)
    found = consistency(importance, labels, members, (0.1, 0.5))
    for share, count in ((0.1, 3), (0.5, 15)):
        slow = []
        for row, label in zip(importance, labels, strict=True):
            first = sorted(range(30), key=lambda index: -row[index])[:count]
            slow.append(sum(members[index] == label for index in first) / count)
        assert found[share].mean == pytest.approx(np.mean(slow))
        assert found[share].half == pytest.approx(t_interval(slow).half)


def test_consistency__random_rankings_are_at_chance_and_perfect_ones_fall() -> None:
    random = np.random.default_rng(1)
    members = np.repeat(np.arange(10), 20)
    labels = random.integers(10, size=200)
    chance = consistency(random.normal(size=(200, 200)), labels, members)
    assert all(abs(each.mean - 0.1) < 4 * each.half / 1.96 + 1e-9 for each in chance.values())
    perfect = consistency((labels[:, None] == members).astype(float), labels, members)
    assert [round(each.mean, 3) for each in perfect.values()] == [1, 1, 1, 0.5, 0.2, 0.1]


def test_consistency__mistakes() -> None:
    with pytest.raises(ValueError, match=r"one row for each of 2 inputs and one column for each of 3 members. Got \[2, 4\]"):
        consistency(np.ones((2, 4)), [0, 1], [0, 1, 2])
    with pytest.raises(ValueError, match="'shares' parameter must hold numbers above 0"):
        consistency(np.ones((1, 2)), [0], [0, 1], [0.0])
