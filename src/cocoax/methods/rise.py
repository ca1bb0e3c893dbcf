"""RISE: its paper's estimator, the efficient one, their standard errors, and the method."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from cocoax.checks import check_count, check_number, check_positive, shown
from cocoax.encoders import Encoder
from cocoax.inputs import Explicand
from cocoax.inputs.segmentation import check_grid, check_sides
from cocoax.masking import BitMasks, Blur, GridMasks
from cocoax.masking.control_variates import FOLDS, Fit
from cocoax.masking.masks import PooledMasks, mask_geometry
from cocoax.methods.estimate import Estimate, SampledEffects, widening
from cocoax.methods.run import RemovalMethod, Run
from cocoax.results.attribution import Attribution
from cocoax.seeding import check_seed, stream
from cocoax.targets import Target, representation_similarity

# Contributions are so uneven that their variance is known as well as that of n/3 normal ones (measured). Errors are made
# wider by what Student's t is wider than the normal distribution there, 1 + (1.96² + 1) / (4 n/3): a tenth at 40 samples.
FEW_SAMPLES_FACTOR = 3.6
GRID = 7  # cells of a mask over pixels where nothing says how many
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
        sums = _cross_fitted(_kept(masks, fit), fit.residuals, fit.fold, models.flatten(2))
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
    error = _standard_error(squares, n, len(s)) * (1 + FEW_SAMPLES_FACTOR / len(s))
    return Estimate(relative + neutral[:, None, None], error, neutral)


def _effects_of(masks: BitMasks | PooledMasks, y: Tensor) -> SampledEffects:
    """Return Cov(y, m) / p(1-p) for scores ``y [n, k]``, ``[k, *cells]``, with factors of its error.

    As the efficient estimate: what a linear model of the masks explains is known exactly, and each sample corrects a model
    that has not seen it. The factors are m - p, scaled, and what the models leave over, of independent samples. Where the
    masks are all subsets nothing is left to chance, and the plain mean is exact: there are no factors.
    """
    shape = (y.shape[1], *masks.cells.shape[1:])
    if isinstance(masks, BitMasks) and masks.complete:
        centred = _centred(masks)
        return SampledEffects((y.T @ centred / len(y)).view(shape), centred[:0], y[:0])
    fit, p = masks.controls.fit(y), masks.keep
    x, differences = _less_own(_centred(masks.firsts), fit) / len(y), masks.units.differences(fit.residuals)
    # The mean of all models is that of their mean coefficients.
    coefficients = torch.einsum("f,f...->...", torch.bincount(fit.fold).double() / len(y), fit.coefficients)
    model = masks.coarse_covariance(coefficients).flatten(1) / (p * (1 - p))
    return SampledEffects((model + differences.T @ x).view(shape), x.view(-1, *shape[1:]), differences, few=True)


def _paper_deviations(masks: AnyMasks, y: Tensor, signs: Callable[[int], Tensor]) -> Tensor:
    """Return random sums of the samples' contributions to the published map, minus their mean."""
    n, p = len(y), masks.keep
    mean = masks.weighted_sum(y) / (n * p)
    sums = [masks.weighted_sum(y * sign[:, None]) / p - sign.sum() * mean for sign in signs(n).T]
    deviations: Tensor = torch.stack(sums) / (n * (n - 1)) ** 0.5
    return deviations


def _efficient_deviations(masks: AnyMasks, y: Tensor, signs: Callable[[int], Tensor]) -> Tensor:
    """Return random sums of what units contribute to the efficient map, minus their mean."""
    fit = masks.controls.fit(y)
    models, units, p = _models(masks, fit), masks.units, masks.keep
    fold, differences = fit.fold[units.rows], units.differences(fit.residuals)
    count = len(differences)
    # One widening for all targets, since they are not known yet: that of a typical direction.
    if isinstance(masks, BitMasks):
        x = _kept(masks, fit)
        wider = float(_cross_fitted(x, differences, fold, models.flatten(2)).wider.mean())

        def summed(weights: Tensor) -> Tensor:
            return (weights.T @ x)[:, None]
    else:
        firsts, wider = masks.firsts, 1 + FEW_SAMPLES_FACTOR / count

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
class _CrossFitted:
    """Means ``values [k, m]`` of contributions, and their errors: ``plain`` ones, times ``wider [k, 1]`` for few samples."""

    values: Tensor
    plain: Tensor
    wider: Tensor

    @property
    def standard_error(self) -> Tensor:
        """The errors, widened."""
        return self.plain * self.wider


def _cross_fitted(x: Tensor, residuals: Tensor, fold: Tensor, models: Tensor) -> _CrossFitted:
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
    return _CrossFitted(values, _standard_error(squares, n, n), widening(squares, fourths, n))


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


# --- rise -------------------------------------------------------------------------------------------------------------------


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
        grid: cells of a smooth mask over pixels, a number or (rows, columns), in place of a picture's segments. Segments,
            words and columns are cells of their own; where they have no more subsets than samples and ``keep`` is one half,
            each subset is encoded once, and the map is exact.
        keep: probability p of keeping a cell.
        estimator: ``"efficient"`` or ``"paper"``.
        complements: follow 128 masks over pixels by their complements, and so on, so that what two (or four) cells do only
            together cancels out of a map; where ``keep`` is one half, since only there a complement is as likely as a mask.
            By default with the efficient estimator; the published masks are all drawn anew.
        baseline: what replaces removed pixels.
        seed: of the masks.
        tolerance: keep sampling until the error of the map is at most this fraction of the map: root mean square of the
            standard errors against that of the values, both relative to ``neutral``. ``samples`` is then the least number.
        max_samples: where that stops in any case.
        batch_size: masked inputs encoded at a time; automatic if not given.

    """

    length_options: ClassVar[tuple[str, ...]] = ("samples", "tolerance", "max_samples", "batch_size")
    estimator_options: ClassVar[tuple[str, ...]] = ("estimator",)

    samples: int = 1000
    grid: int | tuple[int, int] | None = None
    keep: float = 0.5
    estimator: Literal["efficient", "paper"] = "efficient"
    seed: int = 0
    tolerance: float | None = None
    max_samples: int = 20_000
    complements: bool | None = None

    @classmethod
    def paper(cls, samples: int = 20_000, **options: Any) -> Self:
        """Return RISE as the paper has it: a 7 x 7 grid, the plain mean, a weak blur; the paper's encoders see the crop."""
        return cls(samples, **{"grid": GRID, "estimator": "paper", "baseline": Blur(), **options})

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
        if self.grid is not None:
            check_sides(self.grid)
        check_seed(self.seed)
        check_number("keep", self.keep)
        if not 0 < self.keep < 1:
            raise ValueError(f"The 'keep' parameter must lie between 0 and 1. Got {self.keep!r} instead.")
        # Settled here, since the masks of a run stay what they are when it is read by the other estimator.
        if self.complements is None:
            object.__setattr__(self, "complements", self.estimator == "efficient" and self.keep == 0.5)
        if self.complements is True and self.estimator == "paper":
            raise ValueError(
                "The published estimator has masks that are all drawn anew; for both estimators on one run, make it with "
                "complements=False."
            )
        if not isinstance(self.complements, bool):
            raise ValueError(f"The 'complements' parameter must be True or False. Got {shown(self.complements)} instead.")

    def choose_features(self, encoder: Encoder, explicand: Explicand) -> tuple[Self, Explicand]:
        """Return the method with the cells that an explicand asks for; without any, pixels become parts by default."""
        if explicand.grid is not None:
            return replace(self, grid=explicand.grid), replace(explicand, grid=None)
        if len(explicand.shape) == 2 and self.grid is None and encoder.inputs.default_features is not None:
            return self, encoder.divided(explicand, encoder.inputs.default_features)
        return self, explicand

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
        return GridMasks.draw(shape[0], shape[1], self.grid or GRID, self.keep, count, self.seed, self._paired)

    def options_of(self, shape: tuple[int, ...]) -> set[str]:
        """Return the options that decide the masks: a list of features has no grid, and no complements."""
        return super().options_of(shape) - ({"grid", "complements"} if len(shape) == 1 else set())

    @property
    def _paired(self) -> bool:
        """Whether masks over pixels have complements."""
        return self.complements is True and self.keep == 0.5

    def _enumerates(self, shape: tuple[int, ...]) -> bool:
        """Whether there are no more subsets than samples; for p = 1/2 only, where subsets are equally likely."""
        return len(shape) == 1 and self.keep == 0.5 and 2 ** shape[0] <= self.samples

    def restore(self, shape: tuple[int, ...], tensors: dict[str, Tensor]) -> GridMasks | BitMasks:
        """Return masks as saved."""
        bits = tensors["bits"]
        cells = shape if len(shape) == 1 else check_grid(shape[0], shape[1], self.grid or GRID)
        if bits.dtype != torch.uint8 or tuple(bits.shape[1:]) != tuple(cells):
            raise ValueError(f"Masks of {list(bits.shape[1:])} cells do not fit an input of {list(shape)}.")
        if len(shape) == 1:
            return BitMasks(bits, self.keep)
        geometry, shifts = mask_geometry(shape[0], shape[1], *cells), tensors["shifts"]
        inside = (shifts >= 0) & (shifts < torch.tensor(geometry.cell))
        if tuple(shifts.shape) != (len(bits), 2) or not bool(inside.all()):
            raise ValueError("The shifts of the masks lie outside of a cell.")
        masks = GridMasks(geometry, bits, shifts, self.keep, torch.arange(len(bits)) if self._paired else None)
        # Masks of an earlier version are all drawn anew.
        return masks if masks.as_drawn else GridMasks(geometry, bits, shifts, self.keep)

    def resized(self, run: Run, at_least: bool) -> tuple[Run, int]:
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

    def effects(self, masks: BitMasks | PooledMasks, scores: Tensor, ends: Tensor) -> SampledEffects:
        """Return Cov(y, m) / p(1-p) of each feature, E[y | kept] - E[y | removed] of words, by the efficient estimator."""
        self._check_length(masks, 2 * FOLDS)
        return _effects_of(masks, scores.double())

    def deviations(self, masks: AnyMasks, scores: Tensor, ends: Tensor, signs: Callable[[int], Tensor]) -> Tensor | None:
        """Return random sums of the samples' contributions, minus their mean."""
        y = scores.double()
        if isinstance(masks, BitMasks) and masks.complete:
            return torch.zeros(1, y.shape[1], 1, masks.bits.shape[1], dtype=torch.float64)
        return _paper_deviations(masks, y, signs) if self.estimator == "paper" else _efficient_deviations(masks, y, signs)

    def samples_needed(self, run: Run, targets: Sequence[Target]) -> int:
        """Return enough, by the error so far, to come within the tolerance; the run says why it stopped."""
        if self.tolerance is None:
            return 0
        answers = run.explain(targets or [representation_similarity()])
        error = max(relative_error(answer) for answer in answers)
        if error == 0 and all(answer.is_nothing for answer in answers):
            run.stopped = f"nothing to see after {len(run)} samples, but rounding"
            return 0
        run.stopped = f"relative error {error:.3f} after {len(run)} samples"
        if error <= self.tolerance:
            run.stopped += f", within the tolerance of {self.tolerance:g}"
            return 0
        if len(run) >= self.max_samples:
            run.stopped += f", the maximum; the tolerance of {self.tolerance:g} was not reached"
            return 0
        run.expected = self.expected(len(run), error)
        # A little at a time, since the error is itself uncertain.
        wanted = min(run.expected, 2 * len(run))
        return min(max(wanted, len(run) + self.samples // 4 + 1), self.max_samples) - len(run)

    def expected(self, samples: int, error: float) -> int:
        """Return how many samples it takes to come within the tolerance, by the relative error after so many, or the most."""
        if self.tolerance is None:
            return self.samples
        wanted = samples * (error / self.tolerance) ** 2  # errors fall with the root of the number of samples
        return math.ceil(min(max(wanted, self.samples, samples + 1), self.max_samples))

    def estimate(self, masks: AnyMasks, scores: Tensor, ends: Tensor) -> Estimate:
        """Return the map, its standard error, and the mean score: the value of a pixel that makes no difference."""
        self._check_length(masks, 2 * FOLDS if self.estimator == "efficient" else 2)
        y = scores.double()
        if isinstance(masks, BitMasks) and masks.complete:
            values = masks.weighted_sum(y) / (len(y) * masks.keep)
            found = Estimate(values, torch.zeros_like(values), y.mean(0))
        else:
            found = paper_estimate(masks, y) if self.estimator == "paper" else efficient_estimate(masks, y)
        return replace(found, unit=1 / (1 - masks.keep))  # E[y m] / p - E[y] is (1 - p) (E[y | kept] - E[y | removed])

    @staticmethod
    def _check_length(masks: AnyMasks, least: int) -> None:
        if len(masks) < least and not (isinstance(masks, BitMasks) and masks.complete):
            raise ValueError(f"The run has {len(masks)} samples, too few for a map; extend it to at least {least} samples.")


def relative_error(attribution: Attribution) -> float:
    """Return the root mean square of the standard errors, as a fraction of that of the map (relative to neutral)."""
    if attribution.standard_error is None:
        raise ValueError("The attribution has no standard error.")
    error = float(attribution.standard_error.double().square().mean()) ** 0.5
    size = float(attribution.relative.square().mean()) ** 0.5
    # More samples do not help below the rounding of the scores.
    return 0.0 if error <= attribution.floor else error / size if size > 0 else math.inf
