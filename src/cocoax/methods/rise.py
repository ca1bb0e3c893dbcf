"""RISE (Petsiuk et al. 2018): how the score depends on whether a pixel is kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from cocoax.checks import check_count, check_number, check_positive, shown
from cocoax.inputs import Explicand
from cocoax.masking import BitMasks, GridMasks
from cocoax.masking.control_variates import FOLDS
from cocoax.masking.masks import mask_geometry
from cocoax.masking.pooled import PooledMasks
from cocoax.masking.segments import check_grid, check_sides
from cocoax.methods.attribution import Attribution, Estimate
from cocoax.methods.removal import RemovalMethod
from cocoax.methods.rise_estimates import (
    AnyMasks,
    effects_and_scatter,
    efficient_deviations,
    efficient_estimate,
    paper_deviations,
    paper_estimate,
    widening,
)
from cocoax.methods.run import Run
from cocoax.seeding import check_seed, stream
from cocoax.targets import Target, representation_similarity


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

    lengthening: ClassVar[tuple[str, ...]] = ("samples", "tolerance", "max_samples", "batch_size")
    reading: ClassVar[tuple[str, ...]] = ("estimator",)

    samples: int = 1000
    grid: int | tuple[int, int] = 7
    keep: float = 0.5
    estimator: Literal["efficient", "paper"] = "efficient"
    seed: int = 0
    tolerance: float | None = None
    max_samples: int = 20_000
    complements: bool | None = None

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
        return GridMasks.draw(shape[0], shape[1], self.grid, self.keep, count, self.seed, self._paired)

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
        cells = shape if len(shape) == 1 else check_grid(shape[0], shape[1], self.grid)
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

    def effects(self, masks: BitMasks | PooledMasks, scores: Tensor, ends: Tensor) -> Tensor:
        """Return Cov(y, m) / p(1-p) for each feature, which for words and columns is E[y | kept] - E[y | removed]."""
        return self.effects_and_scatter(masks, scores, ends)[0]

    def scatter(self, masks: BitMasks | PooledMasks, scores: Tensor, ends: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return m - p, scaled, and what the linear models leave over."""
        return self.effects_and_scatter(masks, scores, ends)[1]

    def effects_and_scatter(
        self, masks: BitMasks | PooledMasks, scores: Tensor, ends: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        """Return both, whatever the estimator by the efficient one."""
        self._check_length(masks, 2 * FOLDS)
        return effects_and_scatter(masks, scores.double())

    def widening(self, x: Tensor, r: Tensor) -> float:
        """Return how much wider errors are by the kurtosis of what samples contribute."""
        return widening(x, r)

    def deviations(self, masks: AnyMasks, scores: Tensor, ends: Tensor, signs: Callable[[int], Tensor]) -> Tensor | None:
        """Return random sums of the samples' contributions, minus their mean."""
        y = scores.double()
        if isinstance(masks, BitMasks) and masks.complete:
            return torch.zeros(1, y.shape[1], 1, masks.bits.shape[1], dtype=torch.float64)
        return paper_deviations(masks, y, signs) if self.estimator == "paper" else efficient_deviations(masks, y, signs)

    def more(self, run: Run, targets: Sequence[Target]) -> int:
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
            return Estimate(values, torch.zeros_like(values), y.mean(0))
        return paper_estimate(masks, y) if self.estimator == "paper" else efficient_estimate(masks, y)

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
