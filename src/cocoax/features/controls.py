"""Cross-fitted linear models of the scores, which take most of the noise out of a RISE map."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

FOLDS = 5
RIDGE = 0.3


@dataclass(frozen=True, eq=False)
class Fit:
    """Linear models y ≈ c + u·b, one for each fold, fitted to the samples outside it.

    Attributes:
        fold: the fold of each sample, ``[n]``.
        intercepts: c of each fold's model, ``[folds, k]``.
        coefficients: b of each fold's model, ``[folds, features, k]``.
        residuals: what each sample's model leaves over, ``[n, k]``; the model has not seen the sample.

    """

    fold: Tensor
    intercepts: Tensor
    coefficients: Tensor
    residuals: Tensor


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
