"""Means with intervals: as the paper reports them, Student's, Wilson's of a proportion, and bootstrap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cocoax.checks import check_number, shown
from cocoax.seeding import stream


@dataclass(frozen=True)
class Interval:
    """A mean and the half-width of its 95 % interval."""

    mean: float
    half: float
    count: int

    def __str__(self) -> str:
        """Return it as the paper prints it: three decimals, or two and an exponent where the mean is below a hundredth."""
        digits = ".3f" if abs(self.mean) >= 0.01 else ".2e"
        half = f"{self.half:{digits}}" if self.count > 1 else "–"  # one run says nothing about the spread
        return f"{self.mean:{digits}} ({half})"

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of zero."""
        return abs(self.mean) > self.half


def paper_interval(runs: Sequence[float] | np.ndarray) -> Interval:
    """Return the paper's interval: mean over runs, 1.96 · std / √runs, with the standard deviation of a population."""
    values = _values(runs)
    return Interval(float(values.mean()), float(1.96 * values.std() / math.sqrt(len(values))), len(values))


def t_interval(values: Sequence[float] | np.ndarray, confidence: float = 0.95) -> Interval:
    """Return Student's interval, which holds for a few values too; that of a single value is infinitely wide."""
    from scipy import stats  # slow to import, and few programs need it

    check_number("confidence", confidence)
    if not 0 < confidence < 1:
        raise ValueError(f"The 'confidence' parameter must lie between 0 and 1. Got {confidence!r} instead.")
    sample = _values(values)
    count = len(sample)
    if count == 1:
        return Interval(float(sample[0]), math.inf, 1)
    quantile = float(stats.t.ppf(0.5 + confidence / 2, count - 1))
    return Interval(float(sample.mean()), float(quantile * sample.std(ddof=1) / math.sqrt(count)), count)


def paired_difference(first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray) -> Interval:
    """Return the mean of ``first - second`` over the same explicands, with Student's interval.

    Both see the same explicands, corpora, masks and noise, so the difference is known much better than either.
    """
    a, b = _values(first), _values(second)
    if len(a) != len(b):
        raise ValueError(f"Paired values must be of the same inputs. Got {len(a)} and {len(b)} instead.")
    return t_interval(a - b)


def wilson(successes: float, count: int, z: float = 1.959964) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a proportion, which lies in it whatever rounding does."""
    if count == 0:
        return math.nan, math.nan
    share = successes / count
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * math.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return min(share, max(0.0, middle - half)), max(share, min(1.0, middle + half))


def bootstrap(values: Sequence[float], groups: Sequence[str], draws: int = 2000, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % percentile interval of a mean.

    Whole groups (pictures) are drawn, since the values of one are not independent; a single group gives NaN.
    """
    names, index = np.unique(np.array(groups), return_inverse=True)
    if len(names) < 2:
        return math.nan, math.nan
    sums, counts = np.bincount(index, weights=np.array(values, float)), np.bincount(index)
    drawn = stream(seed).integers(len(names), size=(draws, len(names)))
    means = sums[drawn].sum(1) / counts[drawn].sum(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def _values(values: Sequence[float] | np.ndarray) -> np.ndarray:
    try:
        sample = np.asarray(values, dtype=float)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise TypeError(f"An interval needs a list of numbers. Got {shown(values)} instead.") from None
    if sample.ndim != 1 or len(sample) == 0:
        raise ValueError(f"An interval needs a list of at least one value. Got shape {list(sample.shape)} instead.")
    return sample
