"""Control variates of RISE: linear models of the scores on the masks, fitted out of sample.

A map is a mean of scores times masks. The part of a score that a model explains has a known expectation, so that only the
residuals are left to sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb

import torch
from torch import Tensor

FOLDS = 5
# Tried as a prior of the effects of cells, and left out: the feature map of the input's own forward pass. At 32 copies of a
# grid it lowered the squared error of the label-free target 1.1, 1.9 and 1.0 times (EfficientNet, AugNet, DINOv2; segments
# 1.2, 1.3, 1.1), of a random direction at most 1.1 times, and a prior by which all cells are alike did about as well.
RIDGE = 0.3
# Prior variance of a score due to products of j features, and its residual variance (REST), relative to that due to single
# features. Chosen on other inputs than docs/evidence/performance.md reports.
ORDERS = {1: 1.0, 2: 0.1, 3: 0.03}
REST = 0.03
_SEEN = 1024  # samples that a kernel regression is fitted to, at most


@dataclass(frozen=True, eq=False)
class SamplingUnits:
    """Samples that were drawn independently of each other: a mask alone, or a mask and its complement.

    Attributes:
        rows: of the masks, or of the first of two, ``[units]``.
        others: rows of the complements; -1 for a mask alone.

    """

    rows: Tensor
    others: Tensor

    @classmethod
    def alone(cls, count: int) -> SamplingUnits:
        """Return masks that were all drawn by themselves."""
        return cls(torch.arange(count), torch.full((count,), -1))

    @cached_property
    def sizes(self) -> Tensor:
        """The number of masks of each unit, ``[units]``."""
        return 1.0 + (self.others >= 0).double()

    @cached_property
    def folds(self) -> Tensor:
        """The fold of every mask: unit i is in fold i mod FOLDS, so a longer run keeps those of a shorter one."""
        own = torch.arange(len(self.rows)) % FOLDS
        paired = self.others >= 0
        folds = torch.empty(len(own) + int(paired.sum()), dtype=torch.int64)
        folds[self.rows], folds[self.others[paired]] = own, own[paired]
        return folds

    def differences(self, scores: Tensor) -> Tensor:
        """Return those of the first masks, less those of their complements, ``[units, k]``."""
        differences, paired = scores[self.rows], self.others >= 0
        differences[paired] -= scores[self.others[paired]]
        return differences


@dataclass(frozen=True, eq=False)
class Fit:
    """Linear models y ≈ c + u·b of scores y on control variates u, one for each fold of samples.

    Attributes:
        fold: the fold of each sample, ``[n]``.
        intercepts: c of each fold's model, ``[folds, k]``.
        coefficients: b of each fold's model, ``[folds, features, k]``.
        residuals: of each sample under a model that was fitted without it, ``[n, k]``.
        own: the leave-one-out change of intercept and coefficients, ``[n, 1 + features]``, for each unit of a sample's
            residual, where the models were fitted to all samples; None where each fold's model was fitted to other folds.

    """

    fold: Tensor
    intercepts: Tensor
    coefficients: Tensor
    residuals: Tensor
    own: Tensor | None = None


class RidgeControls:
    """Ridge regressions on control variates ``u [n, features]`` with a known mean ``variance``, for samples in ``folds [n]``.

    The model of a fold is fitted to all other folds. The penalty is that of a prior under which the linear part has 1/RIDGE
    times the variance of the rest; it does not depend on the scores, so fits are linear in them, and the inverses are
    computed once.
    """

    def __init__(self, u: Tensor, variance: float, folds: Tensor) -> None:
        self._folds = folds
        self._design = torch.cat([torch.ones(len(u), 1, dtype=u.dtype), u], dim=1)
        grams = torch.stack([part.T @ part for part in self._apart(self._design)])
        penalty = torch.full((self._design.shape[1],), RIDGE * variance * u.shape[1], dtype=u.dtype)
        penalty[0] = 0  # the intercept is free
        # Not by torch.linalg.inv, which fails on several matrices of this size with two threads (torch 2.13, MKL).
        self._inverses = torch.cholesky_inverse(torch.linalg.cholesky(grams.sum(0) - grams + penalty.diag()))

    def _apart(self, rows: Tensor) -> list[Tensor]:
        """Return the rows of each fold."""
        return [rows[self._folds == fold] for fold in range(FOLDS)]

    def fit(self, y: Tensor) -> Fit:
        """Return the models of scores ``y [n, k]``."""
        moments = torch.stack([part.T @ mine for part, mine in zip(self._apart(self._design), self._apart(y), strict=True)])
        solutions = self._inverses @ (moments.sum(0) - moments)
        residuals = torch.empty_like(y)
        for fold, part in enumerate(self._apart(self._design)):
            own = self._folds == fold
            residuals[own] = y[own] - part @ solutions[fold]
        return Fit(self._folds, solutions[:, 0], solutions[:, 1:], residuals)


class KernelControls:
    """Kernel regressions of scores on u = m - p, for features that are kept independently with probability p.

    The kernel is that of products of one, two and three features (:func:`product_kernel`). Products of several have no
    covariance with single features, so a map needs the linear part of the model alone; the rest of the model reduces the
    variance of the residuals. Leave-one-out residuals come from the inverse of the kernel matrix, without a second fit. The
    model is fitted to the first ``_SEEN`` samples; later ones are out of sample anyway.
    """

    def __init__(self, u: Tensor, variance: float) -> None:
        self._z = u / variance**0.5
        self._scale = variance**-0.5
        seen = self._z[:_SEEN]
        covariance = product_kernel(seen, seen) + REST * torch.eye(len(seen), dtype=u.dtype)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(covariance))
        ones = inverse.sum(1)
        # From scores to the intercept, which has no penalty, and to the weights of the kernels.
        self._mean = ones / ones.sum()
        self._matrix = inverse.addr_(ones, self._mean, alpha=-1)
        self._linear = ORDERS[1] / u.shape[1] * self._scale * seen
        self._own = torch.zeros(len(u), 1 + u.shape[1], dtype=u.dtype)
        self._own[: len(seen)] = torch.cat([self._mean[:, None], self._matrix @ self._linear], dim=1)

    def fit(self, y: Tensor) -> Fit:
        """Return the models of scores ``y [n, k]``."""
        weights, intercept = self._matrix @ y[:_SEEN], self._mean @ y[:_SEEN]
        residuals = torch.cat([weights / self._matrix.diagonal()[:, None], y[_SEEN:] - intercept])
        for start in range(_SEEN, len(y), _SEEN):
            rows = slice(start, start + _SEEN)
            residuals[rows] -= product_kernel(self._z[rows], self._z[:_SEEN]) @ weights
        fold = torch.zeros(len(y), dtype=torch.int64)
        return Fit(fold, intercept[None], (self._linear.T @ weights)[None], residuals, self._own)


def product_kernel(z: Tensor, others: Tensor) -> Tensor:
    """Return the covariance ``[n, others]`` of scores of rows of independent features ``[n, m]`` with mean 0 and variance 1.

    It is that of a sum of products of one, two and three different features, each order with the variance of ``ORDERS``.
    """
    features = z.shape[1]
    single, double, triple = (share / comb(features, order) if order <= features else 0.0 for order, share in ORDERS.items())
    one, two, three = (z.pow(power) @ others.pow(power).T for power in (1, 2, 3))
    # The elementary symmetric polynomials of z z' are, by Newton's identities, one, (one² - two) / 2 and
    # (one³ - 3 one two + 2 three) / 6. Their sum is made in place: a matrix of its own for each step takes most of the time.
    rest = three.mul_(triple / 3).sub_(two, alpha=double / 2)
    factor = two.mul_(-triple / 2).add_(one, alpha=double / 2).add_(single)
    return factor.addcmul_(one, one, value=triple / 6).mul_(one).add_(rest)
