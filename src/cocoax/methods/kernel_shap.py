"""KernelSHAP (Lundberg & Lee 2017): Shapley values from the scores of coalitions of segments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from itertools import count as counting
from math import comb
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from cocoax.checks import check_count
from cocoax.encoders import Encoder
from cocoax.inputs import Explicand
from cocoax.inputs.segmentation import check_sides
from cocoax.masking import grid_segments
from cocoax.methods.estimate import Estimate, SampledEffects
from cocoax.methods.odd_regression import OddRegression, learn_prior, most_telling, odd_regression
from cocoax.methods.run import RemovalMethod
from cocoax.seeding import check_seed, stream

GRID = 7  # rectangles in each direction where nothing says how many
_BLOCK = 256  # draws of one block come from one random stream, so that any number of coalitions starts the same
_COUNTLESS = 10**300
_LISTED = 16  # players up to which all coalitions are listed, and put into a random order
_PROJECTED = 32  # dimensions of representations that the prior of the regression is chosen by
_POOL, _CHOSEN = 1024, 512  # pairs that are drawn first, at most half of all, and how many are put in order by what they tell
_MAX_ORDERED_PLAYERS = 128  # pairs of more players stay as they are drawn: putting them in order takes long and gains little
_DESIGN = 4  # of what is drawn for a seed; earlier ones enumerated more, weighed each coalition, or had all at random


@dataclass(frozen=True, eq=False)
class KernelShap(RemovalMethod):
    """Shapley values of image segments, from one set of coalitions for all targets; no L1 penalty, so linear in them.

    Coalitions come in pairs of complements, drawn as the Shapley kernel weighs them, none twice; of those drawn first, the
    ones that tell most come first. Values are those of the likeliest game that agrees with the scores
    (:mod:`cocoax.methods.odd_regression`), a kernel regression of odd orders up to the seventh; with all 2^m - 2 coalitions
    they are exact. Complete: ``features`` sums to γ(x) - γ(b). Every pixel of ``values`` shows the value of its segment.

    Args:
        samples: number of coalitions.
        grid: rectangles in a grid over pixels, a number or (rows, columns), in place of a picture's segments.
        baseline: what replaces the segments outside a coalition.
        seed: of the drawn coalitions.
        batch_size: coalitions encoded at a time; automatic if not given.

    """

    length_options: ClassVar[tuple[str, ...]] = ("samples", "batch_size")

    samples: int = 1024
    grid: int | tuple[int, int] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("samples", self.samples, 2)
        if self.grid is not None:
            check_sides(self.grid)
        check_seed(self.seed)

    def choose_features(self, encoder: Encoder, explicand: Explicand) -> tuple[Self, Explicand]:
        """Return the method and the explicand, whose pixels become parts unless the method has some."""
        of_pixels = len(explicand.shape) == 2 and explicand.grid is None and encoder.inputs.default_features is not None
        if of_pixels and self.grid is None:
            return self, encoder.divided(explicand, encoder.inputs.default_features)
        return super().choose_features(encoder, explicand)

    def draw(self, shape: tuple[int, ...], count: int | None = None) -> Coalitions:
        """Return coalitions, the same ones first for any number. A single word or column has none: all is due to it."""
        segments = torch.arange(shape[0]) if len(shape) == 1 else grid_segments(shape[0], shape[1], self.grid or GRID)
        if len(shape) == 2 and int(segments.max()) == 0:
            raise ValueError("KernelShap needs at least two segments; use a finer grid.")
        players = int(segments.max()) + 1
        everything = 2**players - 2
        wanted = min(self.samples, everything) if count is None else count
        if wanted > everything:
            raise ValueError(f"All {everything} coalitions are there already; the values are exact.")
        return Coalitions(segments, _drawn(players, wanted, self.seed))

    def restore(self, shape: tuple[int, ...], tensors: dict[str, Tensor]) -> Coalitions:
        """Return coalitions as saved."""
        if int(tensors.get("design", torch.tensor([1]))) != _DESIGN:
            raise ValueError(
                "its coalitions were drawn by an earlier version of Cocoax, or a later one, for another estimate of the "
                "values. Make the run again."
            )
        masks = Coalitions(tensors["segments"], tensors["bits"])
        segments, players = masks.segments, masks.bits.shape[1]
        fits = tuple(segments.shape) == tuple(shape) and 0 <= int(segments.min()) <= int(segments.max()) < players
        if not fits or segments.dtype != torch.int64 or not masks.paired:
            raise ValueError(f"Coalitions of {players} segments do not fit an input of {list(shape)}.")
        return masks

    def adapted(self, masks: Coalitions, representations: Tensor, anchors: Tensor) -> Coalitions:
        """Return the coalitions with what the prior of their regression is chosen by: one for all targets of a run."""
        whole, emptied = anchors[:1], anchors[1:]
        if representations.ndim == 3:  # several baselines, whose scores are averaged
            representations, emptied = representations.mean(1), emptied.mean(0, keepdim=True)
        vectors, width = torch.cat([representations, whole, emptied]).double(), representations.shape[1]
        if width > _PROJECTED:
            vectors = vectors @ torch.from_numpy(stream(0, width).standard_normal((width, _PROJECTED))) / width**0.5
        return replace(masks, guide=masks.odd(vectors[:-2], vectors[-2:]))

    def cells(self, masks: Coalitions, grid: int | tuple[int, int] | None) -> Coalitions:
        """Return coalitions of cells where they are the segments; of another grid's cells there are only means."""
        if grid is None or check_sides(grid) != (own := check_sides(self.grid or GRID)):
            return masks
        return replace(masks, segments=torch.arange(masks.bits.shape[1]).view(own))

    def estimate(self, masks: Coalitions, scores: Tensor, ends: Tensor) -> Estimate:
        """Return the expected Shapley values given the scores, with their standard errors."""
        values = masks.regression.values(masks.odd(scores, ends))
        if masks.complete:
            error = torch.zeros_like(values)
        else:
            weights, residuals = self._errors(masks, scores, ends)
            error = (weights.square().T @ residuals.square()).sqrt()
        return Estimate(values.T[:, masks.segments], error.T[:, masks.segments], features=values.T)

    def deviations(self, masks: Coalitions, scores: Tensor, ends: Tensor, signs: Callable[[int], Tensor]) -> Tensor | None:
        """Return random sums of what the pairs of coalitions contribute to the error."""
        if masks.complete:
            return torch.zeros(1, scores.shape[1], *masks.segments.shape, dtype=torch.float64)
        weights, residuals = self._errors(masks, scores, ends)
        sums = torch.stack([(weights * sign[:, None]).T @ residuals for sign in signs(len(weights)).T])
        return sums.mT[..., masks.segments]

    def effects(self, masks: Coalitions, scores: Tensor, ends: Tensor) -> SampledEffects:
        """Return the values, what each pair of coalitions does to them, and how far it is from what the others say."""
        values = masks.regression.values(masks.odd(scores, ends)).T[:, masks.segments]
        if masks.complete:
            return SampledEffects(values, torch.zeros(0, *masks.segments.shape, dtype=torch.float64), scores[:0].double())
        weights, residuals = self._errors(masks, scores, ends)
        return SampledEffects(values, weights[:, masks.segments], residuals)

    @staticmethod
    def _errors(masks: Coalitions, scores: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        return masks.regression.error_weights, masks.regression.loo_residuals(masks.odd(scores, ends))


@dataclass(frozen=True, eq=False)
class Coalitions:
    """Sets of kept segments, ``bits [n, m]``, in pairs of complements; the complement of the last may be missing."""

    segments: Tensor
    bits: Tensor
    guide: Tensor | None = None  # projected representations of the pairs' odd parts, [pairs + 1, d], if there are any

    def __len__(self) -> int:
        return len(self.bits)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All of it, and which design they are of."""
        return {"segments": self.segments, "bits": self.bits, "design": torch.tensor([_DESIGN])}

    @property
    def complete(self) -> bool:
        """Whether they are all coalitions, so that nothing is left to chance."""
        everything: int = 2 ** self.bits.shape[1] - 2
        return len(self) == everything

    @property
    def paired(self) -> bool:
        """Whether they are coalitions of some players, not all, and complements of each other, which a file may deny."""
        size, (count, players) = self.bits.sum(1), self.bits.shape
        pairs = self.bits[: count // 2 * 2]
        some = self.bits.dtype == torch.uint8 and bool(((size > 0) & (size < players) & (self.bits <= 1).all(1)).all())
        return some and torch.equal(pairs[0::2], 1 - pairs[1::2])

    def full(self, rows: slice) -> Tensor:
        """Return masks ``[n, H, W]``."""
        return self.bits[rows].float()[:, self.segments]

    @cached_property
    def regression(self) -> OddRegression:
        """The posterior of Shapley values given the pairs; a last one without its complement is not used."""
        pairs = self.bits[: len(self) // 2 * 2 : 2]
        return odd_regression(pairs, None if self.guide is None else learn_prior(pairs, self.guide))

    def odd(self, scores: Tensor, ends: Tensor) -> Tensor:
        """Return half the difference of the scores of each pair, and of the ends, ``[pairs + 1, k]``."""
        pairs = scores[: len(scores) // 2 * 2].double()
        return torch.cat([pairs[0::2] - pairs[1::2], (ends[:1] - ends[1:2]).double()]) / 2


def _drawn(players: int, wanted: int, seed: int) -> Tensor:
    """Return distinct coalitions ``[wanted, m]`` in pairs of complements.

    Pairs are drawn with the chances of the Shapley kernel. Of the first ``_POOL`` those that tell most come first. These are
    at most half of all pairs: were all put in order, every seed would have the same order, and intervals be too narrow.
    """
    drawn, pairs = _listed(players, seed) if players <= _LISTED else _at_random(players, seed), -(-wanted // 2)
    if players <= _MAX_ORDERED_PLAYERS:
        pool = np.array(list(islice(drawn, min(_POOL, 2 ** max(players - 2, 0)))), np.uint8).reshape(-1, players)
        telling = most_telling(torch.from_numpy(pool), min(pairs, _CHOSEN, len(pool)))
        drawn = chain(pool[telling], np.delete(pool, telling, 0), drawn)
    sides = [side for row in islice(drawn, pairs) for side in (row, 1 - row)]
    return torch.from_numpy(np.array(sides, np.uint8).reshape(-1, players)[:wanted])


def _listed(players: int, seed: int) -> Iterator[np.ndarray]:
    """Return all coalitions, one of each pair, in a random order in which heavier ones come early."""
    bits = ((np.arange(1, 2 ** (players - 1))[:, None] >> np.arange(players)) & 1).astype(np.uint8)
    sizes = np.minimum(bits.sum(1), players - bits.sum(1))
    # The first of exponential waiting times is one of them with a chance that is proportional to its rate, and so on.
    waiting = stream(seed, 0).exponential(size=len(bits)) / kernel_of_pair(players)[sizes]
    yield from bits[np.argsort(waiting, kind="stable")]


def _at_random(players: int, seed: int) -> Iterator[np.ndarray]:
    """Return coalitions, one of each pair, drawn with the chances of the Shapley kernel, none twice."""
    chances = (pairs_of_size(players) * kernel_of_pair(players))[1:]
    sizes = np.arange(1, players // 2 + 1)
    seen: set[bytes] = set()
    for block in counting():
        random = stream(seed, block)
        chosen = random.choice(sizes, _BLOCK, p=chances / chances.sum())
        for size, order in zip(chosen, random.random((_BLOCK, players)), strict=True):
            row = np.zeros(players, dtype=np.uint8)
            row[np.argsort(order)[:size]] = 1
            key = (row if row[0] else 1 - row).tobytes()
            if key not in seen:
                seen.add(key)
                yield row


def pairs_of_size(players: int) -> np.ndarray:
    """Return how many pairs there are of a coalition of size s, at most half of all, and its complement: ``[m/2 + 1]``.

    Beyond ``_COUNTLESS`` they are not counted: no run has a share of these that matters, and floats end soon after.
    """
    sizes = range(1, players // 2 + 1)
    return np.array([0.0, *(min(comb(players, size), _COUNTLESS) / (1 + (2 * size == players)) for size in sizes)])


def kernel_of_pair(players: int) -> np.ndarray:
    """Return the weight of the Shapley kernel for a pair, by size as in :func:`pairs_of_size`; all of them sum to one."""
    sizes = np.arange(1, players // 2 + 1)
    of_size = 1 / (sizes * (players - sizes) * (1 + (2 * sizes == players)))
    return np.concatenate([[0.0], of_size / of_size.sum() / pairs_of_size(players)[1:]])
