"""Means with intervals: as the paper reports them, and as one would today."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Interval:
    """A mean and the half-width of its 95 % interval."""

    mean: float
    half: float
    count: int

    def __str__(self) -> str:
        """As the paper prints it: three decimals, or two and an exponent where the mean is below a hundredth."""
        digits = ".3f" if abs(self.mean) >= 0.01 else ".2e"
        half = f"{self.half:{digits}}" if self.count > 1 else "–"  # one run says nothing about the spread
        return f"{self.mean:{digits}} ({half})"

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of zero."""
        return abs(self.mean) > self.half


def paper_interval(runs: Sequence[float] | np.ndarray) -> Interval:
    """The paper's: over the means of the runs, 1.96 · std / √runs with the standard deviation of a population."""
    values = _values(runs)
    return Interval(float(values.mean()), float(1.96 * values.std() / math.sqrt(len(values))), len(values))


def t_interval(values: Sequence[float] | np.ndarray, confidence: float = 0.95) -> Interval:
    """Student's, which holds for a few runs too; infinite for one value, which says nothing about the spread."""
    from scipy import stats  # slow to import, and few programs need it

    if not 0 < confidence < 1:
        raise ValueError(f"The 'confidence' parameter must lie between 0 and 1. Got {confidence!r} instead.")
    found = _values(values)
    count = len(found)
    if count == 1:
        return Interval(float(found[0]), math.inf, 1)
    quantile = float(stats.t.ppf(0.5 + confidence / 2, count - 1))
    return Interval(float(found.mean()), float(quantile * found.std(ddof=1) / math.sqrt(count)), count)


def paired_difference(first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray) -> Interval:
    """The mean of ``first - second`` over the same explicands, with Student's interval.

    Both see the same explicands, corpora, masks and noise, so the difference is known much better than either.
    """
    a, b = _values(first), _values(second)
    if len(a) != len(b):
        raise ValueError(f"Paired values must be of the same explicands. Got {len(a)} and {len(b)} instead.")
    return t_interval(a - b)


def _values(values: Sequence[float] | np.ndarray) -> np.ndarray:
    found = np.asarray(values, dtype=float)
    if found.ndim != 1 or len(found) == 0:
        raise ValueError(f"An interval needs a list of at least one value. Got shape {list(found.shape)} instead.")
    return found
