from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from cocoax.evaluation import Interval, paired_difference, paper_interval, t_interval
from cocoax.evaluation.statistics import bootstrap, wilson

RUNS = [0.361, 0.402, 0.377, 0.39, 0.355]


def test_paper_interval__formula() -> None:
    found = paper_interval(RUNS)
    mean = sum(RUNS) / 5
    spread = math.sqrt(sum((value - mean) ** 2 for value in RUNS) / 5)
    assert found.mean == pytest.approx(mean)
    assert found.half == pytest.approx(1.96 * spread / math.sqrt(5))
    assert found.count == 5


def test_paper_interval__of_one_run_has_no_width() -> None:
    assert paper_interval([0.4]) == Interval(0.4, 0.0, 1)


@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_t_interval__equals_scipy(confidence: float) -> None:
    low, high = stats.t.interval(confidence, 4, loc=np.mean(RUNS), scale=stats.sem(RUNS))
    found = t_interval(RUNS, confidence)
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((low, high))


def test_t_interval__of_one_value_is_infinite() -> None:
    assert t_interval([0.4]) == Interval(0.4, math.inf, 1)
    assert not t_interval([0.4]).excludes_zero


def test_paired_difference__equals_scipys_paired_test() -> None:
    random = np.random.default_rng(0)
    explicand = random.normal(size=40)  # what both share makes either uncertain, but not their difference
    first, second = explicand + 0.1 + 0.1 * random.normal(size=40), explicand + 0.1 * random.normal(size=40)
    found = paired_difference(first, second)
    low, high = stats.ttest_rel(first, second).confidence_interval()
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((low, high))
    assert found.excludes_zero
    assert found.half < 0.3 * t_interval(first).half


def test_intervals__bad_input() -> None:
    with pytest.raises(ValueError, match=r"same inputs. Got 2 and 3"):
        paired_difference([1, 2], [1, 2, 3])
    for wrong in ([], [[1.0, 2.0]]):
        with pytest.raises(ValueError, match="at least one value"):
            paper_interval(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"'confidence' parameter must lie between 0 and 1. Got 95"):
        t_interval(RUNS, 95)


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        (0.3624, 0.0049, "0.362 (0.005)"),
        (-0.0102, 0.0007, "-0.010 (0.001)"),
        (4.87e-4, 9.5e-5, "4.87e-04 (9.50e-05)"),
        (-0.00977, 0.013, "-9.77e-03 (1.30e-02)"),
    ],
)
def test_interval__is_printed_as_in_the_paper(mean: float, half: float, text: str) -> None:
    assert str(Interval(mean, half, 5)) == text


@pytest.mark.parametrize(("mean", "half", "excludes"), [(1, 0.5, True), (-1, 0.5, True), (0.5, 1, False), (0, 0, False)])
def test_interval__excludes_zero(mean: float, half: float, excludes: bool) -> None:
    assert Interval(mean, half, 5).excludes_zero is excludes


@pytest.mark.parametrize(("successes", "count"), [(0, 5), (3, 7), (170, 200), (4, 4)])
def test_wilson__as_scipy_has_it(successes: int, count: int) -> None:
    expected = stats.binomtest(successes, count).proportion_ci(method="wilson")
    assert wilson(successes, count) == pytest.approx((expected.low, expected.high), abs=1e-6)
    assert all(np.isnan(wilson(0, 0)))


def test_wilson__holds_the_share_whatever_rounding_does() -> None:
    assert all(wilson(count, count)[1] == 1 and wilson(0, count)[0] == 0 for count in range(1, 1000))


def test_bootstrap__covers_as_it_should() -> None:
    """Means of groups of correlated values: the interval covers the truth in about 95 % of repetitions."""
    covered = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        values = random.normal(size=(40, 1)).repeat(4, 1) + 0.3 * random.normal(size=(40, 4))
        low, high = bootstrap(values.ravel().tolist(), [str(group) for group in range(40) for _ in range(4)], draws=500)
        covered += low <= 0 <= high
    assert 0.88 <= covered / 200 <= 0.99


def test_bootstrap__one_group_says_nothing() -> None:
    assert all(np.isnan(bootstrap([0.1, 0.2], ["a", "a"])))
