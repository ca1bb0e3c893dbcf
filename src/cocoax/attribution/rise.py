"""RISE (Petsiuk et al. 2018): how the score depends on whether a pixel is kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from cocoax.attribution.removal import RemovalMethod
from cocoax.attribution.result import Attribution, Estimate
from cocoax.attribution.run import Run
from cocoax.checks import check_count, check_number, check_positive, shown
from cocoax.features import BitMasks, GridMasks
from cocoax.features.controls import FOLDS, Fit
from cocoax.features.masks import mask_geometry
from cocoax.features.pooled import PooledMasks
from cocoax.features.segments import check_grid, check_sides
from cocoax.inputs import Explicand
from cocoax.seeding import check_seed, stream
from cocoax.targets import Target, representation_similarity

# Contributions are so uneven that their variance is known as well as that of n/3 normal ones (measured). Errors are made
# wider by what Student's t is wider than the normal distribution there, 1 + (1.96² + 1) / (4 n/3): a tenth at 40 samples.
FEW = 3.6
# Of words and columns some samples are far from all others (a text of which next to nothing is left), in some inputs more
# than in others. The kurtosis of the contributions tells: their variance is known as well as that of 2n / (kurtosis - 1)
# normal ones. Few samples hold few of the rare ones, so it counts twice (chosen on other inputs than docs/pairs.md reports).
HEAVY = 2 * (1.96**2 + 1) / 8
LEAST = 5.0
AnyMasks = GridMasks | BitMasks | PooledMasks


@dataclass(frozen=True)
class Rise(RemovalMethod):
    """Random masks m, blended with a baseline; with y the score of a masked input and p the probability of keeping:

        map = E[y m] / p

    ``estimator="paper"`` is the mean of y·m over the samples, divided by p. ``"efficient"`` has the same expectation and
    far less variance: it centres both factors and takes out what a linear model of the coarse mask u explains, whose
    covariance with the mask is known exactly:

        map = c + [ mean((y - c - u·b) m) + b·Cov(u, m) ] / p

    The ridge regression c + u·b that corrects a sample is fitted to other samples only, so it adds no bias. For words and
    columns it is a kernel regression that knows products of two and three of them too, which have no covariance with masks.

    Args:
        samples: number of masks.
        grid: cells of a mask, a number or (rows, columns). Words and columns are cells of their own; where they have no more
            subsets than samples and ``keep`` is one half, each subset is encoded once, and the map is exact.
        keep: probability p of keeping a cell.
        estimator: ``"efficient"`` or ``"paper"``.
        baseline: what replaces removed pixels.
        seed: of the masks.
        tolerance: keep sampling until the error of the map is at most this fraction of the map: root mean square of the
            standard errors against that of the values, both relative to ``neutral``. ``samples`` is then the least number.
        max_samples: where that stops in any case.
        batch_size: masked inputs encoded at a time; automatic if not given.

    """

    lengthening: ClassVar[tuple[str, ...]] = ("samples", "tolerance", "max_samples", "batch_size")
    reading: ClassVar[tuple[str, ...]] = ("estimator",)

    samples: int = 1000
    grid: int | tuple[int, int] = 7
    keep: float = 0.5
    estimator: Literal["efficient", "paper"] = "efficient"
    seed: int = 0
    tolerance: float | None = None
    max_samples: int = 20_000

    def __post_init__(self) -> None:
        if not isinstance(self.estimator, str) or self.estimator not in ("efficient", "paper"):
            raise ValueError(
                f"The 'estimator' parameter must be 'efficient' or 'paper'. Got {shown(self.estimator)} instead."
            )
        check_count("samples", self.samples, 2 * FOLDS if self.estimator == "efficient" else 2)
        check_count("max_samples", self.max_samples, 1)
        if self.tolerance is not None:
            check_positive("tolerance", self.tolerance)
            if self.max_samples < self.samples:
                raise ValueError(
                    f"The 'max_samples' parameter must be at least 'samples', {self.samples}. Got {self.max_samples} instead."
                )
        check_sides(self.grid)
        check_seed(self.seed)
        check_number("keep", self.keep)
        if not 0 < self.keep < 1:
            raise ValueError(f"The 'keep' parameter must lie between 0 and 1. Got {self.keep!r} instead.")

    def draw(self, shape: tuple[int, ...], count: int | None = None) -> GridMasks | BitMasks:
        """Return random grids and shifts over pixels, random subsets of a list of features, or all where they are few."""
        if self._enumerates(shape):
            if count is not None and count > 2 ** shape[0]:
                raise ValueError(
                    f"All {2 ** shape[0]} subsets of the {shape[0]} features are there already; the values are exact, and "
                    "nothing is left to sample."
                )
            return BitMasks.enumerate(shape[0], count, self.seed)
        count = self.samples if count is None else count
        if len(shape) == 1:
            return BitMasks.draw(shape[0], self.keep, count, self.seed)
        return GridMasks.draw(shape[0], shape[1], self.grid, self.keep, count, self.seed)

    def _enumerates(self, shape: tuple[int, ...]) -> bool:
        """Whether there are no more subsets than samples; for p = 1/2 only, where subsets are equally likely."""
        return len(shape) == 1 and self.keep == 0.5 and 2 ** shape[0] <= self.samples

    def restore(self, shape: tuple[int, ...], tensors: dict[str, Tensor]) -> GridMasks | BitMasks:
        """Return masks as saved."""
        bits = tensors["bits"]
        cells = shape if len(shape) == 1 else check_grid(shape[0], shape[1], self.grid)
        if bits.dtype != torch.uint8 or tuple(bits.shape[1:]) != tuple(cells):
            raise ValueError(f"Masks of {list(bits.shape[1:])} cells do not fit an input of {list(shape)}.")
        if len(shape) == 1:
            return BitMasks(bits, self.keep)
        geometry, shifts = mask_geometry(shape[0], shape[1], *cells), tensors["shifts"]
        inside = (shifts >= 0) & (shifts < torch.tensor(geometry.cell))
        if tuple(shifts.shape) != (len(bits), 2) or not bool(inside.all()):
            raise ValueError("The shifts of the masks lie outside of a cell.")
        return GridMasks(geometry, bits, shifts, self.keep)

    def at_length(self, run: Run, at_least: bool) -> tuple[Run, int]:
        """Return the first samples of a run that is longer than asked for, which are what a new one would have drawn."""
        if len(run.explicand.shape) == 1:
            run = self._of_subsets(run)
            if self._enumerates(run.explicand.shape):
                return run, 2 ** run.explicand.shape[0] - len(run)
        if len(run) > self.samples and not at_least and self.tolerance is None:
            return run.first(self.samples), 0
        if len(run) >= self.samples:
            run.stopped = ""
        return run, max(self.samples - len(run), 0)

    def _of_subsets(self, run: Run) -> Run:
        """Return a run of this method from one of another length, which may be of all subsets where this one's are drawn.

        All subsets hold any that are drawn. Where masks are others, nothing of a run can be used, and it begins again.
        """
        masks, shape = run.masks, run.explicand.shape
        assert isinstance(masks, BitMasks)
        enumerates = self._enumerates(shape)
        if torch.equal(masks.bits, self.draw(shape, min(len(run), 2 ** shape[0]) if enumerates else len(run)).bits):
            return run
        drawn, rows = BitMasks(masks.bits[:0], self.keep), torch.zeros(0, dtype=torch.int64)
        if not enumerates and masks.complete:
            drawn = BitMasks.draw(shape[0], self.keep, self.samples, self.seed)
            rows = masks.places(drawn)
        return replace(run, masks=drawn, representations=run.representations[rows], stopped="")

    def chance(self, explicand: Explicand, baseline: Tensor, seed: int = 0) -> Tensor:
        """Return the map of a constant score, or for the efficient estimator, whose map of that is constant, of noise."""
        masks = self.draw(explicand.shape)
        if self.estimator == "paper":
            estimate = paper_estimate(masks, torch.ones(len(masks), 1, dtype=torch.float64))
        else:
            estimate = efficient_estimate(masks, torch.from_numpy(stream(seed, 0).standard_normal((len(masks), 1))))
        return estimate.values[0].reshape(explicand.shape).float()

    def cells(self, masks: GridMasks | BitMasks, grid: int | tuple[int, int] | None) -> GridMasks | BitMasks | PooledMasks:
        """Return masks pooled to the cells of a grid; those over a list of features as they are."""
        return PooledMasks(masks, grid) if isinstance(masks, GridMasks) and grid is not None else masks

    def effects(self, masks: BitMasks | PooledMasks, scores: Tensor, ends: Tensor, errors: bool = True) -> Estimate:
        """Return Cov(y, m) / p(1-p) for each feature, which for words and columns is E[y | kept] - E[y | removed]."""
        self._check_length(masks)
        return mask_effects(masks, scores.double(), errors)

    def scatter(self, masks: BitMasks | PooledMasks, scores: Tensor, ends: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return m - p, scaled, and what the linear models leave over; None where nothing is left to chance."""
        if isinstance(masks, BitMasks) and masks.complete:
            return None
        fit = masks.controls.fit(scores.double())
        return _less_own(_centred(masks), fit) / len(masks), fit.residuals

    def deviations(self, masks: AnyMasks, scores: Tensor, ends: Tensor, signs: Callable[[int], Tensor]) -> Tensor | None:
        """Return random sums of the samples' contributions, minus their mean."""
        y = scores.double()
        n, p = len(y), masks.keep
        if isinstance(masks, BitMasks) and masks.complete:
            return torch.zeros(1, y.shape[1], 1, masks.bits.shape[1], dtype=torch.float64)
        chosen = signs(n)
        if self.estimator == "paper":
            mean = masks.weighted_sum(y) / (n * p)
            sums = [masks.weighted_sum(y * sign[:, None]) / p - sign.sum() * mean for sign in chosen.T]
            paper: Tensor = torch.stack(sums) / (n * (n - 1)) ** 0.5
            return paper
        fit = masks.controls.fit(y)
        models = _models(masks, fit)
        counts = torch.bincount(fit.fold).double()[:, None, None, None]
        # One widening for all targets, since they are not known yet: that of a typical direction.
        if isinstance(masks, BitMasks):
            x = _kept(masks, fit)
            wider = float(cross_fitted(x, fit.residuals, fit.fold, models.flatten(2)).wider.mean())

            def summed(weights: Tensor) -> Tensor:
                return (weights.T @ x)[:, None]
        else:
            wider = 1 + FEW / n

            def summed(weights: Tensor) -> Tensor:
                return masks.weighted_sum(weights) / p - weights.sum(0)[:, None, None]

        mean = ((counts * models).sum(0) + summed(fit.residuals)) / n
        sums = []
        for sign in chosen.T:
            weights = torch.zeros(len(models), dtype=torch.float64).index_add_(0, fit.fold, sign)
            modelled = torch.einsum("f,f...->...", weights, models)
            sums.append(summed(fit.residuals * sign[:, None]) + modelled - sign.sum() * mean)
        efficient: Tensor = torch.stack(sums) * wider / (n * (n - 1)) ** 0.5
        return efficient

    def more(self, run: Run, targets: Sequence[Target]) -> int:
        """Return enough, by the error so far, to come within the tolerance; the run says why it stopped."""
        if self.tolerance is None:
            return 0
        answers = run.explain(targets or [representation_similarity()])
        error = max(relative_error(answer) for answer in answers)
        run.stopped = f"relative error {error:.3f} after {len(run)} samples"
        if error <= self.tolerance:
            run.stopped += f", within the tolerance of {self.tolerance:g}"
            return 0
        if len(run) >= self.max_samples:
            run.stopped += f", the maximum; the tolerance of {self.tolerance:g} was not reached"
            return 0
        # Errors fall with the root of the number of samples; a little at a time, since this one is itself uncertain.
        wanted = min(len(run) * (error / self.tolerance) ** 2, 2 * len(run))
        return min(max(int(wanted), len(run) + self.samples // 4 + 1), self.max_samples) - len(run)

    def estimate(self, masks: AnyMasks, scores: Tensor, ends: Tensor) -> Estimate:
        """Return the map, its standard error, and the mean score: the value of a pixel that makes no difference."""
        self._check_length(masks)
        y = scores.double()
        if isinstance(masks, BitMasks) and masks.complete:
            values = masks.weighted_sum(y) / (len(y) * masks.keep)
            return Estimate(values, torch.zeros_like(values), y.mean(0))
        return paper_estimate(masks, y) if self.estimator == "paper" else efficient_estimate(masks, y)

    def _check_length(self, masks: AnyMasks) -> None:
        least = 2 * FOLDS if self.estimator == "efficient" else 2
        if len(masks) < least and not (isinstance(masks, BitMasks) and masks.complete):
            raise ValueError(f"The run has {len(masks)} samples, too few for a map; extend it to at least {least} samples.")


def paper_estimate(masks: AnyMasks, y: Tensor) -> Estimate:
    """Return mean(y m) / p for scores ``y [n, k]``."""
    n, p = len(y), masks.keep
    values = masks.weighted_sum(y) / (n * p)
    squares = masks.weighted_sum_of_squares(y.square()) / p**2
    return Estimate(values, _standard_error(squares - n * values.square(), n), y.mean(0))


def efficient_estimate(masks: AnyMasks, y: Tensor) -> Estimate:
    """Return the paper's estimate of what a linear model of ``y [n, k]`` leaves over, plus the model's exact map.

    Standard errors are those of values relative to the mean score, which is what a map shows: the error of the mean score
    itself moves all values and ``neutral`` together.
    """
    n, p = len(y), masks.keep
    fit = masks.controls.fit(y)
    neutral = _mean_score(fit)
    # Sample i of fold f contributes model_f + s_i (m_i - p), where the model's map is the same for the whole fold.
    models = _models(masks, fit)
    if isinstance(masks, BitMasks):
        sums = cross_fitted(_kept(masks, fit), fit.residuals, fit.fold, models.flatten(2))
        return Estimate((sums.values + neutral[:, None])[:, None], sums.standard_error[:, None], neutral)
    s = fit.residuals / p
    counts = torch.bincount(fit.fold).double()[:, None, None, None]
    means = torch.stack([s[fit.fold == fold].sum(0) for fold in range(len(models))])[:, :, None, None]
    rests = masks.weighted_sum(s, fit.fold) - p * means
    relative = (counts * models + rests).sum(0) / n
    squares = masks.weighted_sum_of_squares(s.square()) - 2 * p * masks.weighted_sum(s.square())
    squares += p**2 * s.square().sum(0)[:, None, None]
    for count, model, rest in zip(counts, models, rests, strict=True):
        apart = model - relative
        squares += apart * (2 * rest + count * apart)
    return Estimate(relative + neutral[:, None, None], _standard_error(squares, n) * (1 + FEW / n), neutral)


def mask_effects(masks: BitMasks | PooledMasks, y: Tensor, errors: bool = True) -> Estimate:
    """Return Cov(y, m) / p(1-p) for scores ``y [n, k]``, ``[k, *cells]``, with standard errors if asked for.

    As the efficient estimate: what a linear model of the masks explains is known exactly, and each sample corrects a model
    that has not seen it. Where the masks are all subsets nothing is left to chance, and the plain mean is exact.
    """
    x = _centred(masks)
    shape = (y.shape[1], *masks.cells.shape[1:])
    if isinstance(masks, BitMasks) and masks.complete:
        values = (y.T @ x / len(y)).view(shape)
        return Estimate(values, torch.zeros_like(values))
    fit, p = masks.controls.fit(y), masks.keep
    x = _less_own(x, fit)
    if not errors:  # the mean of all models is that of their mean coefficients
        coefficients = torch.einsum("f,f...->...", torch.bincount(fit.fold).double(), fit.coefficients)
        model = masks.coarse_covariance(coefficients).flatten(1) / (p * (1 - p))
        return Estimate(((model + fit.residuals.T @ x) / len(y)).view(shape))
    models = torch.stack([masks.coarse_covariance(b).flatten(1) for b in fit.coefficients]) / (p * (1 - p))
    sums = cross_fitted(x, fit.residuals, fit.fold, models)
    return Estimate(sums.values.view(shape), sums.standard_error.view(shape))


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
    kurtosis = torch.where(squares > 0, n * fourths / squares.square().clamp(min=1e-300), 1.0).clamp(1, n)
    wider = 1 + (LEAST + HEAVY * (kurtosis - 1).mean(1, keepdim=True)) / n
    return CrossFitted(values, _standard_error(squares, n), wider)


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


def relative_error(attribution: Attribution) -> float:
    """Return the root mean square of the standard errors, as a fraction of that of the map (relative to neutral)."""
    if attribution.standard_error is None:
        raise ValueError("The attribution has no standard error.")
    error = float(attribution.standard_error.double().square().mean()) ** 0.5
    size = float(attribution.relative.square().mean()) ** 0.5
    # More samples do not help below the rounding of the scores.
    return 0.0 if error <= attribution.floor else error / size if size > 0 else math.inf


def _standard_error(squared_deviations: Tensor, n: int) -> Tensor:
    return (squared_deviations.clamp(min=0) / (n - 1) / n).sqrt()
