"""RISE (Petsiuk et al. 2018): how the score depends on whether a pixel is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from cocoax.attribution.method import check_at_least
from cocoax.attribution.removal import Estimate, RemovalMethod
from cocoax.features import GridMasks
from cocoax.features.masks import MaskGeometry
from cocoax.features.segments import check_grid


@dataclass(frozen=True)
class Rise(RemovalMethod):
    """Random masks m, blended with a baseline; with y the score of a masked input and p the probability of keeping:

        map = E[y m] / p

    ``estimator="paper"`` is the mean of y·m over the samples, divided by p. ``"efficient"`` has the same expectation and
    far less variance: it centres both factors and takes out what a linear model of the coarse mask u explains, whose
    covariance with the mask is known exactly:

        map = mean(y) + [ mean((y - ȳ - u·b) (m - p)) + b·Cov(u, m) ] / p

    The means ȳ and ridge coefficients b that correct a sample are fitted to the other samples only, so they add no bias.

    Args:
        samples: number of masks.
        grid: cells of a mask, a number or (rows, columns).
        keep: probability p of keeping a cell.
        estimator: ``"efficient"`` or ``"paper"``.
        baseline: what replaces removed pixels.
        seed: of the masks.
        batch_size: masked inputs encoded at a time; automatic if not given.

    """

    samples: int = 1000
    grid: int | tuple[int, int] = 7
    keep: float = 0.5
    estimator: Literal["efficient", "paper"] = "efficient"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.estimator not in ("efficient", "paper"):
            raise ValueError(f"The 'estimator' parameter must be 'efficient' or 'paper'. Got {self.estimator!r} instead.")
        check_at_least("samples", self.samples, 2 * FOLDS if self.estimator == "efficient" else 2)
        if not 0 < self.keep < 1:
            raise ValueError(f"The 'keep' parameter must lie between 0 and 1. Got {self.keep!r} instead.")

    def draw(self, height: int, width: int, count: int | None = None) -> GridMasks:
        """Random grids and shifts."""
        return GridMasks.draw(height, width, self.grid, self.keep, self.samples if count is None else count, self.seed)

    def restore(self, height: int, width: int, tensors: dict[str, Tensor]) -> GridMasks:
        """Grids and shifts as saved."""
        geometry = MaskGeometry(height, width, *check_grid(height, width, self.grid))
        return GridMasks(geometry, tensors["bits"], tensors["shifts"], self.keep)

    def estimate(self, masks: GridMasks, scores: Tensor, ends: Tensor) -> Estimate:
        """The map, its standard error, and the mean score, which is the value of a pixel that makes no difference."""
        y = scores.double()
        return paper_estimate(masks, y) if self.estimator == "paper" else efficient_estimate(masks, y)


def paper_estimate(masks: GridMasks, y: Tensor) -> Estimate:
    """mean(y m) / p for scores ``y [n, k]``."""
    n, p = len(y), masks.keep
    values = masks.weighted_sum(y) / (n * p)
    squares = masks.weighted_sum_of_squares(y.square()) / p**2
    return Estimate(values, _standard_error(squares - n * values.square(), n), y.mean(0))


FOLDS = 5
RIDGE = 0.3


def efficient_estimate(masks: GridMasks, y: Tensor) -> Estimate:
    """The paper's estimate of what a linear model leaves unexplained, plus the exact map of the model, for ``y [n, k]``."""
    n, p = len(y), masks.keep
    fold = torch.arange(n) % FOLDS
    intercepts, coefficients, residuals = cross_fit(masks.coarse, y, fold)
    s = residuals / p
    total = torch.zeros(y.shape[1], masks.geometry.height, masks.geometry.width, dtype=torch.float64)
    squares = masks.weighted_sum_of_squares(s.square())
    parts = []
    for f, (intercept, b) in enumerate(zip(intercepts, coefficients, strict=True)):
        # Sample i of fold f contributes model + s_i m_i, where the model's map is the same for the whole fold.
        model = intercept[:, None, None] + masks.coarse_covariance(b) / p
        member = fold == f
        rest = masks.weighted_sum(s * member[:, None])
        parts.append((int(member.sum()), model, rest))
        total = total + rest + int(member.sum()) * model
    values = total / n
    for count, model, rest in parts:
        squares = squares + 2 * (model - values) * rest + count * (model - values).square()
    return Estimate(values, _standard_error(squares, n), torch.stack(intercepts).mean(0))


def cross_fit(u: Tensor, y: Tensor, fold: Tensor) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """Ridge regression of y on u for every fold, from the other folds: intercepts, coefficients, residuals ``[n, k]``."""
    folds = int(fold.max()) + 1
    ones = torch.cat([torch.ones(len(u), 1, dtype=u.dtype), u], dim=1)
    grams = [ones[fold == f].T @ ones[fold == f] for f in range(folds)]
    moments = [ones[fold == f].T @ y[fold == f] for f in range(folds)]
    gram_total, moment_total = torch.stack(grams).sum(0), torch.stack(moments).sum(0)
    # A fixed penalty, as if the linear part explained RIDGE^-1 times what it leaves: small against many samples.
    penalty = RIDGE * u.square().mean() * u.shape[1] * torch.ones(ones.shape[1], dtype=u.dtype)
    penalty[0] = 0
    residuals = torch.empty_like(y)
    intercepts, coefficients = [], []
    for f in range(folds):
        solution = torch.linalg.solve(gram_total - grams[f] + penalty.diag(), moment_total - moments[f])
        member = fold == f
        residuals[member] = y[member] - ones[member] @ solution
        intercepts.append(solution[0])
        coefficients.append(solution[1:])
    return intercepts, coefficients, residuals


def _standard_error(squared_deviations: Tensor, n: int) -> Tensor:
    return (squared_deviations.clamp(min=0) / (n - 1) / n).sqrt()
