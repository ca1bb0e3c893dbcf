"""Cross-fitted models of the scores, which take most of the noise out of a RISE map."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import torch
from torch import Tensor

FOLDS = 5
RIDGE = 0.3
# Variance of a score due to products of j features, and to what is left over, relative to that due to single features. Chosen
# on other inputs than docs/performance.md reports.
ORDERS = {1: 1.0, 2: 0.1, 3: 0.03}
REST = 0.03
_BLOCK = 1024  # samples of one kernel regression


@dataclass(frozen=True, eq=False)
class Fit:
    """Linear models y ≈ c + u·b, one for each fold, fitted to the samples outside it, or to all others in it.

    Attributes:
        fold: the fold of each sample, ``[n]``.
        intercepts: c of each fold's model, ``[folds, k]``.
        coefficients: b of each fold's model, ``[folds, features, k]``.
        residuals: what each sample's model leaves over, ``[n, k]``; the model has not seen the sample.
        own: where a fold's model is fitted to all of its samples: what intercept and coefficients owe to each of them,
            ``[n, 1 + features]``, for a residual of one. Without that it is the model that has not seen the sample.

    """

    fold: Tensor
    intercepts: Tensor
    coefficients: Tensor
    residuals: Tensor
    own: Tensor | None = None


class Controls:
    """Ridge regressions on control variates ``u [n, features]`` with a known mean ``variance``.

    What does not depend on the scores is computed once.

    The penalty is fixed, so fits are linear in the scores. It is that of a prior under which the linear part has 1/RIDGE
    times the variance of the rest, and matters less the more samples there are.
    """

    def __init__(self, u: Tensor, variance: float) -> None:
        self._design = torch.cat([torch.ones(len(u), 1, dtype=u.dtype), u], dim=1)
        grams = torch.stack([part.T @ part for part in self._folds(self._design)])
        penalty = torch.full((self._design.shape[1],), RIDGE * variance * u.shape[1], dtype=u.dtype)
        penalty[0] = 0  # the intercept is free
        self._inverses = torch.linalg.inv(grams.sum(0) - grams + penalty.diag())

    @staticmethod
    def _folds(rows: Tensor) -> list[Tensor]:
        """Return the rows of each fold: sample i is in fold i mod FOLDS, so a longer run keeps those of a shorter one."""
        return [rows[fold::FOLDS] for fold in range(FOLDS)]

    def fit(self, y: Tensor) -> Fit:
        """Return the models of scores ``y [n, k]``."""
        moments = torch.stack([part.T @ mine for part, mine in zip(self._folds(self._design), self._folds(y), strict=True)])
        solutions = self._inverses @ (moments.sum(0) - moments)
        residuals = torch.empty_like(y)
        for fold, part in enumerate(self._folds(self._design)):
            residuals[fold::FOLDS] = y[fold::FOLDS] - part @ solutions[fold]
        return Fit(torch.arange(len(y)) % FOLDS, solutions[:, 0], solutions[:, 1:], residuals)


class KernelControls:
    """Kernel regressions on features that are kept independently, u = m - p of them: of single ones and products of 2 and 3.

    Products have no covariance with the features, so that the linear part of a model is all that a map needs of it, and the
    rest takes noise out of the scores. Each sample is left out of the model that corrects it, which takes no second fit: what
    it changes is known from the inverse of the kernel's matrix. Samples beyond a block are fitted in blocks of equal size.
    """

    def __init__(self, u: Tensor, variance: float) -> None:
        self._z = u / variance**0.5
        self._scale = variance**-0.5
        self._number = -(-len(u) // _BLOCK)
        self._solved = [self._solve(z) for z in self._parts(self._z)]

    def _parts(self, rows: Tensor) -> list[Tensor]:
        """Return the rows of each block: sample i is in block i modulo their number."""
        return [rows[block :: self._number] for block in range(self._number)]

    @staticmethod
    def _solve(z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the matrix from scores to what kernels weigh, with the mean left free, and that from scores to the mean."""
        inverse = torch.linalg.inv(product_kernel(z) + REST * torch.eye(len(z), dtype=z.dtype))
        ones = inverse.sum(1)
        return inverse - torch.outer(ones, ones) / ones.sum(), ones / ones.sum()

    def fit(self, y: Tensor) -> Fit:
        """Return the models of scores ``y [n, k]``."""
        features = self._z.shape[1]
        intercepts, coefficients = [], []
        residuals, own = torch.empty_like(y), self._z.new_empty(len(y), 1 + features)
        for block, (z, scores, (matrix, mean)) in enumerate(
            zip(self._parts(self._z), self._parts(y), self._solved, strict=True)
        ):
            linear = ORDERS[1] / features * self._scale * z
            weights = matrix @ scores
            rows = slice(block, None, self._number)
            residuals[rows] = weights / matrix.diagonal()[:, None]
            own[rows] = torch.cat([mean[:, None], matrix @ linear], dim=1)
            intercepts.append(mean @ scores)
            coefficients.append(linear.T @ weights)
        fold = torch.arange(len(y)) % self._number
        return Fit(fold, torch.stack(intercepts), torch.stack(coefficients), residuals, own)


def product_kernel(z: Tensor) -> Tensor:
    """Return the covariance ``[n, n]`` of scores of rows of independent features ``[n, m]`` with mean 0 and variance 1.

    It is that of a sum of products of one, two and three different features, each order with the variance of ``ORDERS``.
    """
    one, two, three = (z.pow(power) @ z.pow(power).T for power in (1, 2, 3))
    # The elementary symmetric polynomials of z z', by Newton's identities.
    products = {1: one, 2: (one.square() - two) / 2, 3: (one**3 - 3 * one * two + 2 * three) / 6}
    return sum(
        (share / comb(z.shape[1], order) * products[order] for order, share in ORDERS.items() if order <= z.shape[1]),
        torch.zeros_like(one),
    )
