"""Estimates of RISE's map from the scores of masked inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cocoax.masking import BitMasks, GridMasks
from cocoax.masking.control_variates import FOLDS, Fit
from cocoax.masking.pooled import PooledMasks
from cocoax.methods.attribution import Estimate

# Contributions are so uneven that their variance is known as well as that of n/3 normal ones (measured). Errors are made
# wider by what Student's t is wider than the normal distribution there, 1 + (1.96² + 1) / (4 n/3): a tenth at 40 samples.
FEW = 3.6
# Of words and columns some samples are far from all others (a text of which next to nothing is left), in some inputs more
# than in others. The kurtosis of the contributions tells: their variance is known as well as that of 2n / (kurtosis - 1)
# normal ones. Few samples hold few of the rare ones, so it counts twice (chosen on other inputs than docs/pairs.md reports).
HEAVY = 2 * (1.96**2 + 1) / 8
LEAST = 5.0
AnyMasks = GridMasks | BitMasks | PooledMasks


def paper_estimate(masks: AnyMasks, y: Tensor) -> Estimate:
    """Return mean(y m) / p for scores ``y [n, k]`` of masks that were all drawn anew."""
    n, p = len(y), masks.keep
    values = masks.weighted_sum(y) / (n * p)
    squares = masks.weighted_sum_of_squares(y.square()) / p**2
    return Estimate(values, _standard_error(squares - n * values.square(), n, n), y.mean(0))


def efficient_estimate(masks: AnyMasks, y: Tensor) -> Estimate:
    """Return the paper's estimate of what a linear model of ``y [n, k]`` leaves over, plus the model's exact map.

    Standard errors are those of values relative to the mean score, which is what a map shows: the error of the mean score
    itself moves all values and ``neutral`` together.
    """
    n, p = len(y), masks.keep
    fit = masks.controls.fit(y)
    neutral = _mean_score(fit)
    # A mask of fold f contributes model_f + s (m - p), where the model's map is the same for the whole fold; its complement
    # model_f - s' (m - p). What is independent is the sum of the two.
    models = _models(masks, fit)
    if isinstance(masks, BitMasks):
        sums = cross_fitted(_kept(masks, fit), fit.residuals, fit.fold, models.flatten(2))
        return Estimate((sums.values + neutral[:, None])[:, None], sums.standard_error[:, None], neutral)
    units, firsts, fold = masks.units, masks.firsts, fit.fold[masks.units.rows]
    s = units.differences(fit.residuals) / p
    counts, of_squares = (_by_fold(units.sizes.pow(power), fold)[..., None, None] for power in (1, 2))

    def centred(weights: Tensor) -> Tensor:
        return firsts.weighted_sum(weights, fold) - p * _by_fold(weights, fold)[..., None, None]

    relative = ((counts * models).sum(0) + centred(s).sum(0)) / n
    squares = firsts.weighted_sum_of_squares(s.square()) - 2 * p * firsts.weighted_sum(s.square())
    squares += p**2 * s.square().sum(0)[:, None, None]
    apart = models - relative
    squares += (apart * (2 * centred(s * units.sizes[:, None]) + of_squares * apart)).sum(0)
    error = _standard_error(squares, n, len(s)) * (1 + FEW / len(s))
    return Estimate(relative + neutral[:, None, None], error, neutral)


def effects_and_scatter(masks: BitMasks | PooledMasks, y: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Return Cov(y, m) / p(1-p) for scores ``y [n, k]``, ``[k, *cells]``, and factors of its error, of one fit.

    As the efficient estimate: what a linear model of the masks explains is known exactly, and each sample corrects a model
    that has not seen it. The factors are m - p, scaled, and what the models leave over, of independent samples. Where the
    masks are all subsets nothing is left to chance, and the plain mean is exact: there are no factors.
    """
    shape = (y.shape[1], *masks.cells.shape[1:])
    if isinstance(masks, BitMasks) and masks.complete:
        centred = _centred(masks)
        return (y.T @ centred / len(y)).view(shape), (centred[:0], y[:0])
    fit, p = masks.controls.fit(y), masks.keep
    x, differences = _less_own(_centred(masks.firsts), fit) / len(y), masks.units.differences(fit.residuals)
    # The mean of all models is that of their mean coefficients.
    coefficients = torch.einsum("f,f...->...", torch.bincount(fit.fold).double() / len(y), fit.coefficients)
    model = masks.coarse_covariance(coefficients).flatten(1) / (p * (1 - p))
    return (model + differences.T @ x).view(shape), (x, differences)


def paper_deviations(masks: AnyMasks, y: Tensor, signs: Callable[[int], Tensor]) -> Tensor:
    """Return random sums of the samples' contributions to the published map, minus their mean."""
    n, p = len(y), masks.keep
    mean = masks.weighted_sum(y) / (n * p)
    sums = [masks.weighted_sum(y * sign[:, None]) / p - sign.sum() * mean for sign in signs(n).T]
    deviations: Tensor = torch.stack(sums) / (n * (n - 1)) ** 0.5
    return deviations


def efficient_deviations(masks: AnyMasks, y: Tensor, signs: Callable[[int], Tensor]) -> Tensor:
    """Return random sums of what units contribute to the efficient map, minus their mean."""
    fit = masks.controls.fit(y)
    models, units, p = _models(masks, fit), masks.units, masks.keep
    fold, differences = fit.fold[units.rows], units.differences(fit.residuals)
    count = len(differences)
    # One widening for all targets, since they are not known yet: that of a typical direction.
    if isinstance(masks, BitMasks):
        x = _kept(masks, fit)
        wider = float(cross_fitted(x, differences, fold, models.flatten(2)).wider.mean())

        def summed(weights: Tensor) -> Tensor:
            return (weights.T @ x)[:, None]
    else:
        firsts, wider = masks.firsts, 1 + FEW / count

        def summed(weights: Tensor) -> Tensor:
            return firsts.weighted_sum(weights) / p - weights.sum(0)[:, None, None]

    of_folds = torch.bincount(fit.fold).double()
    mean = (torch.einsum("f,f...->...", of_folds, models) + summed(differences)) / len(y)
    sums = []
    for sign in signs(count).T:
        sizes = sign * units.sizes
        weights = torch.zeros(len(models), dtype=torch.float64).index_add_(0, fold, sizes)
        modelled = torch.einsum("f,f...->...", weights, models)
        sums.append(summed(differences * sign[:, None]) + modelled - sizes.sum() * mean)
    deviations: Tensor = torch.stack(sums) * wider * (count / (count - 1)) ** 0.5 / len(y)
    return deviations


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """Means ``values [k, m]`` of contributions, and their errors: ``plain`` ones, times ``wider [k, 1]`` for few samples."""

    values: Tensor
    plain: Tensor
    wider: Tensor

    @property
    def standard_error(self) -> Tensor:
        """The errors, widened."""
        return self.plain * self.wider


def cross_fitted(x: Tensor, residuals: Tensor, fold: Tensor, models: Tensor) -> CrossFitted:
    """Return the means of what samples contribute, model_f + r_i x_i for sample i of fold f.

    ``x [n, m]``, ``residuals [n, k]``, ``models [folds, k, m]``.
    """
    n = len(x)
    members = [fold == number for number in range(len(models))]
    counts = torch.bincount(fold).double()[:, None, None]
    # The powers of a contribution are polynomials in r_i x_i with coefficients that a fold has in common.
    first, second, third, fourth = (
        torch.stack([residuals[own].pow(power).T @ x[own].pow(power) for own in members]) for power in (1, 2, 3, 4)
    )
    values = (counts * models + first).sum(0) / n
    apart = models - values
    squares = (second + apart * (2 * first + counts * apart)).sum(0).clamp(min=0)
    fourths = (fourth + apart * (4 * third + apart * (6 * second + apart * (4 * first + counts * apart)))).sum(0)
    return CrossFitted(values, _standard_error(squares, n, n), _wider(squares, fourths, n))


def widening(x: Tensor, r: Tensor) -> float:
    """Return how much wider errors are than contributions ``x [n, m]`` times ``r [n, k]`` say, on average."""
    squares, fourths = (r.pow(power).T @ x.pow(power) for power in (2, 4))
    return float(_wider(squares, fourths, len(x)).mean()) if len(x) else 1.0


def _wider(squares: Tensor, fourths: Tensor, n: int) -> Tensor:
    """Return how much wider errors are, ``[k, 1]``, from sums of powers of n contributions ``[k, m]``."""
    kurtosis = torch.where(squares > 0, n * fourths / squares.square().clamp(min=1e-300), 1.0).clamp(1, n)
    return 1 + (LEAST + HEAVY * (kurtosis - 1).mean(1, keepdim=True)) / n


def _models(masks: AnyMasks, fit: Fit) -> Tensor:
    """Return the exact maps of the models of all folds, without their intercepts, ``[folds, k, *shape]``."""
    return torch.stack([masks.coarse_covariance(b) for b in fit.coefficients]) / masks.keep


def _mean_score(fit: Fit) -> Tensor:
    """Return the mean score ``[k]``: of the models' intercepts, and of what each leaves over of a sample it has not seen."""
    left = fit.residuals if fit.own is None else fit.residuals * (1 - fit.own[:, :1])
    return fit.intercepts[fit.fold].mean(0) + left.mean(0)


def _kept(masks: BitMasks, fit: Fit) -> Tensor:
    """Return (m - p) / p, ``[n, features]``, less what the map of a fold's model owes to a sample that it has seen."""
    kept = masks.cells / masks.keep - 1
    return kept if fit.own is None else kept - (1 - masks.keep) * fit.own[:, 1:]


def _less_own(centred: Tensor, fit: Fit) -> Tensor:
    """Return (m - p) / p(1-p) less what the coefficients of a fold's model owe to a sample that it has seen."""
    return centred if fit.own is None else centred - fit.own[:, 1:]


def _centred(masks: BitMasks | PooledMasks) -> Tensor:
    """Return (m - p) / p(1-p), ``[n, features]``: its mean product with a score is the effect of a feature."""
    return (masks.cells.flatten(1) - masks.keep) / (masks.keep * (1 - masks.keep))


def _by_fold(weights: Tensor, fold: Tensor) -> Tensor:
    """Return the sums of weights ``[n, k]`` or ``[n]`` over each fold, ``[folds, k]`` or ``[folds, 1]``."""
    columns = weights if weights.ndim == 2 else weights[:, None]
    return torch.zeros(FOLDS, columns.shape[1], dtype=columns.dtype).index_add_(0, fold, columns)


def _standard_error(squared_deviations: Tensor, masks: float, units: int) -> Tensor:
    """Return the error of a mean over masks from the sum of the squared deviations of independent units of them."""
    return (squared_deviations.clamp(min=0) * units / (units - 1)).sqrt() / masks
