"""KernelSHAP (Lundberg & Lee 2017): Shapley values by weighted least squares over coalitions of segments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocoax.attribution.method import check_count
from cocoax.attribution.removal import RemovalMethod
from cocoax.attribution.result import Estimate
from cocoax.features import grid_segments
from cocoax.features.segments import check_segments
from cocoax.seeding import stream

_BLOCK = 256  # draws of one block come from one random stream, so that any number of coalitions starts the same


@dataclass(frozen=True, eq=False)
class KernelShap(RemovalMethod):
    """Shapley values of image segments, from one set of coalitions for all targets; no L1 penalty, so linear in them.

    Small and large coalitions are enumerated while the budget allows, since they weigh most; the rest are drawn in
    pairs of complements. With a budget of all 2^m - 2 coalitions the values are exact. Complete: ``features`` sums to
    γ(x) - γ(b). Every pixel of ``values`` shows the value of its segment.

    Args:
        samples: number of coalitions.
        grid: segments in a grid, a number or (rows, columns).
        segments: a label map ``[H, W]`` instead of the grid, from a superpixel algorithm, say. Words and columns are segments
            of their own, unless labels ``[m]`` put some together.
        baseline: what replaces the segments outside a coalition.
        seed: of the drawn coalitions.
        batch_size: coalitions encoded at a time; automatic if not given.

    """

    samples: int = 1024
    grid: int | tuple[int, int] = 7
    segments: Tensor | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("samples", self.samples, 2)

    def draw(self, shape: tuple[int, ...], count: int | None = None) -> Coalitions:
        """Return enumerated and drawn coalitions. A single word or column has none: it counts for everything."""
        if self.segments is not None:
            segments = check_segments(self.segments, *shape)
        else:
            segments = torch.arange(shape[0]) if len(shape) == 1 else grid_segments(shape[0], shape[1], self.grid)
        if len(shape) == 2 and int(segments.max()) == 0:
            raise ValueError("KernelShap needs at least two segments; use a finer grid.")
        return self._coalitions(segments, count)

    def _coalitions(self, segments: Tensor, count: int | None) -> Coalitions:
        players = int(segments.max()) + 1
        everything = 2**players - 2
        wanted = min(self.samples, everything) if count is None else count
        if count is None and wanted < min(_fewest(players), everything):
            raise ValueError(
                f"KernelShap needs at least {_fewest(players)} samples for {players} segments. "
                f"Got samples={self.samples} instead."
            )
        if wanted > everything:
            raise ValueError(f"All {everything} coalitions are there already; the values are exact.")
        bits, weights, rest = _enumerated(players, self.samples)
        counts = torch.zeros(len(bits), dtype=torch.int64)
        if wanted > len(bits):
            drawn, often = _drawn(players, len(bits), wanted - len(bits), self.seed)
            bits, counts = torch.cat([bits, drawn]), torch.cat([counts, often])
            weights = torch.cat([weights, rest * often.double() / often.sum()])
        if wanted == everything:  # nothing is left to chance
            masses = torch.tensor(_masses(players), dtype=torch.float64)
            sizes = torch.minimum(bits.sum(1), players - bits.sum(1)) - 1
            weights = masses[sizes] / torch.bincount(sizes)[sizes] if players > 1 else weights
            counts = torch.zeros_like(counts)
        return Coalitions(segments, bits[:wanted], weights[:wanted] / weights[:wanted].sum(), counts[:wanted])

    def restore(self, shape: tuple[int, ...], tensors: dict[str, Tensor]) -> Coalitions:
        """Return coalitions as saved."""
        masks = Coalitions(**tensors)
        segments, (count, players) = masks.segments, masks.bits.shape
        fits = tuple(segments.shape) == tuple(shape) and 0 <= int(segments.min()) <= int(segments.max()) < players
        whole = segments.dtype == torch.int64 and masks.bits.dtype == torch.uint8
        if not fits or not whole or tuple(masks.weights.shape) != (count,) or tuple(masks.counts.shape) != (count,):
            raise ValueError(f"Coalitions of {players} segments do not fit an input of {list(shape)}.")
        return masks

    def estimate(self, masks: Coalitions, scores: Tensor, ends: Tensor) -> Estimate:
        """Return the solution of weighted least squares, constrained to sum to the difference of the ends."""
        fit = _least_squares(masks, scores, ends)
        drawn = _drawn_pairs(masks, fit)
        error = torch.zeros_like(fit.values) if masks.complete else None if drawn is None else drawn.standard_error
        return Estimate(
            fit.values.T[:, masks.segments],
            None if error is None else error.T[:, masks.segments],
            features=fit.values.T,
        )

    def deviations(self, masks: Coalitions, scores: Tensor, ends: Tensor, signs: Callable[[int], Tensor]) -> Tensor | None:
        """Return random sums of what the drawn pairs of coalitions contribute, minus their mean."""
        if masks.complete:
            return torch.zeros(1, scores.shape[1], *masks.segments.shape, dtype=torch.float64)
        drawn = _drawn_pairs(masks, _least_squares(masks, scores, ends))
        if drawn is None:
            return None
        chosen = signs(len(drawn.weights)) * drawn.weights[:, None]
        sums = torch.stack([(drawn.x * sign[:, None]).T @ drawn.r - sign.sum() * drawn.mean for sign in chosen.T])
        return sums.mT[..., masks.segments]

    def scatter(self, masks: Coalitions, scores: Tensor, ends: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return what each drawn pair of coalitions does to every value of the map, and what the fit leaves over of it."""
        drawn = None if masks.complete else _drawn_pairs(masks, _least_squares(masks, scores, ends))
        return None if drawn is None else ((drawn.x * drawn.weights[:, None])[:, masks.segments], drawn.r)


@dataclass(frozen=True, eq=False)
class _Fit:
    """Shapley values ``[segments, k]``, the matrix that solves for them, and what they leave over of scores ``[n, k]``."""

    values: Tensor
    solve: Tensor
    residuals: Tensor


@dataclass(frozen=True, eq=False)
class _DrawnPairs:
    """What the pairs of coalitions that were drawn at random contribute: pair i moves the values by x_i r_i.

    ``x [pairs, segments]``, ``r [pairs, k]``, ``weights [pairs]`` (the share of all draws, so that a sum of squares is a
    variance) and the mean ``[segments, k]``.
    """

    x: Tensor
    r: Tensor
    weights: Tensor
    mean: Tensor

    @property
    def standard_error(self) -> Tensor:
        """The sandwich estimate, ``[segments, k]``."""
        squares = self.weights.square()
        variance = (squares[:, None] * self.x.square()).T @ self.r.square() - squares.sum() * self.mean.square()
        return variance.clamp(min=0).sqrt()


def _least_squares(masks: Coalitions, scores: Tensor, ends: Tensor) -> _Fit:
    """Return the weighted least-squares fit that sums to the difference of the ends."""
    players = masks.bits.shape[1]
    if len(masks) < min(_fewest(players), 2**players - 2):
        raise ValueError(f"The run has {len(masks)} coalitions, too few; extend it to at least {_fewest(players)}.")
    z = masks.bits.double()
    weights = masks.weights[:, None]
    gain = scores.double() - ends[1].double()
    total = (ends[0] - ends[1]).double()
    if players == 1:
        return _Fit(total[None], torch.zeros(1, 1, dtype=torch.float64), gain)
    inverse = torch.linalg.pinv(z.T @ (weights * z), hermitian=True)
    ones = inverse.sum(1, keepdim=True)
    # Projects an unconstrained solution onto those that sum to `total`.
    project = torch.eye(len(inverse), dtype=torch.float64) - ones @ torch.ones(1, len(inverse)).double() / ones.sum()
    values = project @ inverse @ (z.T @ (weights * gain)) + ones / ones.sum() * total
    return _Fit(values, project @ inverse, gain - z @ values)


def _drawn_pairs(masks: Coalitions, fit: _Fit) -> _DrawnPairs | None:
    """Return the contributions of the pairs that were drawn at random; None if those are too few."""
    drawn = masks.counts > 0
    draws = masks.counts[drawn][::2].double()
    if len(draws) < 2:
        return None
    z, residuals = masks.bits[drawn].double(), fit.residuals[drawn]
    leverage = masks.weights[drawn] * ((z @ fit.solve.T) * z).sum(1)
    if len(z) % 2:  # the complement of the last one was not encoded
        residuals, leverage = (torch.cat([part, torch.zeros_like(part[:1])]) for part in (residuals, leverage))
    # Residuals of pairs that pull the fit towards themselves are too small (the HC3 correction).
    pull = leverage[0::2] + leverage[1::2]
    # A coalition and its complement move the values in opposite directions, since all of them together are known.
    r = (residuals[0::2] - residuals[1::2]) / (1 - pull).clamp(min=0.05)[:, None]
    x = z[0::2] @ fit.solve.T
    number = draws.sum()
    per_pair = masks.weights[drawn].sum() / 2  # the weight that all draws have together, for one of each pair
    mean = (draws[:, None] / number * x).T @ r
    return _DrawnPairs(x, r, per_pair * (draws / (number * (number - 1))).sqrt(), mean)


@dataclass(frozen=True, eq=False)
class Coalitions:
    """Sets of kept segments: ``bits [n, m]``, their regression ``weights [n]`` and how often each was drawn ``[n]``."""

    segments: Tensor
    bits: Tensor
    weights: Tensor
    counts: Tensor

    def __len__(self) -> int:
        return len(self.bits)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All of it."""
        return {"segments": self.segments, "bits": self.bits, "weights": self.weights, "counts": self.counts}

    @property
    def complete(self) -> bool:
        """Whether they are all coalitions, so that nothing is left to chance."""
        everything: int = 2 ** self.bits.shape[1] - 2
        return len(self) == everything

    def full(self, rows: slice) -> Tensor:
        """Return masks ``[n, H, W]``."""
        return self.bits[rows].float()[:, self.segments]


def _fewest(players: int) -> int:
    """Return how many coalitions are of one segment or of all but one; fewer do not determine the values."""
    return 2 * players


def _masses(players: int) -> list[float]:
    """Return the kernel weight of all coalitions of sizes s and m - s together, for s = 1 … m/2; they sum to one."""
    masses = [
        (1 if 2 * size == players else 2) * (players - 1) / (size * (players - size)) for size in range(1, players // 2 + 1)
    ]
    return [mass / sum(masses) for mass in masses]


def _enumerated(players: int, budget: int) -> tuple[Tensor, Tensor, float]:
    """Return all coalitions of the sizes that the budget covers in full: bits, weights, and the weight that is left."""
    rows: list[np.ndarray] = []
    weights: list[float] = []
    left = 1.0
    for size, mass in enumerate(_masses(players), start=1):
        both = 2 * size != players
        number = comb(players, size) * (2 if both else 1)
        share = (budget - len(rows)) * mass / left  # what drawing at random would spend on this size
        last = len(rows) + number == 2**players - 2
        if len(rows) + number > budget or (size > 1 and number > share * (1 + 1e-9) and not last):
            break
        for members in combinations(range(players), size):
            row = np.zeros(players, dtype=np.uint8)
            row[list(members)] = 1
            rows += [row, 1 - row] if both else [row]
        weights += [mass / number] * number
        left -= mass
    bits = torch.from_numpy(np.array(rows, dtype=np.uint8).reshape(-1, players))
    return bits, torch.tensor(weights, dtype=torch.float64), max(left, 0.0)


def _drawn(players: int, enumerated: int, wanted: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return distinct coalitions of the sizes that were not enumerated, in pairs of complements, and how often each came."""
    masses = _masses(players)
    covered = 0
    while enumerated > 0:
        covered += 1
        enumerated -= comb(players, covered) * (1 if 2 * covered == players else 2)
    sizes = np.arange(covered + 1, len(masses) + 1)
    chances = np.array(masses[covered:]) / sum(masses[covered:])
    drawn: dict[bytes, list[Any]] = {}  # a pair is known by its first coalition; insertion order is drawing order
    pairs = -(-wanted // 2)
    block = 0
    while len(drawn) < pairs:
        random = stream(seed, block)
        for size, order in zip(random.choice(sizes, _BLOCK, p=chances), random.random((_BLOCK, players)), strict=True):
            row = np.zeros(players, dtype=np.uint8)
            row[np.argsort(order)[:size]] = 1
            key = (row if row[0] else 1 - row).tobytes()
            if key in drawn:
                drawn[key][1] += 1
            else:
                drawn[key] = [row, 1]
            if len(drawn) == pairs:
                break
        block += 1
    bits = np.concatenate([np.stack([row, 1 - row]) for row, _ in drawn.values()])[:wanted]
    counts = np.repeat([count for _, count in drawn.values()], 2)[:wanted]
    return torch.from_numpy(bits), torch.from_numpy(counts)
