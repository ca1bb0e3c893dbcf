"""Sets of parts of an input (words, columns, segments, cells of a grid), and the search for the smallest one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocoax.inputs import Display
from cocoax.masking import grid_segments
from cocoax.show import WHOLE
from cocoax.show.views import places_of


@dataclass(frozen=True, eq=False)
class Subsets:
    """Masks that keep whole parts: ``labels [*shape]`` say which part a feature is in, ``bits [n, parts]`` which are kept."""

    labels: Tensor
    bits: Tensor

    def __len__(self) -> int:
        return len(self.bits)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The label map and the bits."""
        return {"labels": self.labels, "bits": self.bits}

    def full(self, rows: slice) -> Tensor:
        """Return masks ``[n, *shape]``."""
        return self.bits[rows].float()[:, self.labels]


def labels_of(shape: tuple[int, ...], grid: int | tuple[int, int]) -> Tensor:
    """Return which part each feature of a shape is in: features of a list are parts, pixels belong to cells of a grid."""
    return torch.arange(shape[0]) if len(shape) == 1 else grid_segments(shape[0], shape[1], grid)


def names_of(labels: Tensor, display: Display) -> tuple[str, ...]:
    """Return what to call each part: its words or columns, the place of a segment or a cell, or its number."""
    parts = int(labels.max()) + 1
    if display.names is not None and labels.ndim == 1:
        own = labels.tolist()
        return tuple(
            " ".join(name for name, label in zip(display.names, own, strict=True) if label == part) for part in range(parts)
        )
    if labels.ndim == 2 and display.at_places:
        return tuple(name for name, _, _ in places_of(labels.numpy(), getattr(display, "box", WHOLE)))
    return tuple(f"part {part + 1}" for part in range(parts))


def touching_regions(parts: Sequence[int], labels: Tensor) -> tuple[tuple[int, ...], ...]:
    """Return parts in groups: those of a label map ``[H, W]`` that touch are one region, others are regions of their own."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    if labels.ndim != 2 or not parts:
        return tuple((part,) for part in parts)
    places = np.where(np.isin(labels.numpy(), parts), labels.numpy(), -1)
    pairs = np.concatenate([np.stack([each[:-1].ravel(), each[1:].ravel()]) for each in (places, places.T)], axis=1)
    pairs = pairs[:, (pairs >= 0).all(0)]
    size = max(parts) + 1
    region = connected_components(coo_matrix((np.ones(pairs.shape[1]), pairs), (size, size)), directed=False)[1]
    return tuple(
        tuple(part for part in parts if region[part] == each) for each in dict.fromkeys(region[list(parts)].tolist())
    )


# --- search -----------------------------------------------------------------------------------------------------------------

_MAX_ENUMERATED = 20_000  # sets of one size whose gains are all predicted; of more, those of a beam
_BEAM_WIDTH = 32  # sets that are extended by every part
_MAX_KERNEL_SETS = 300  # sets that the kernel's parameters are fitted to
_MAX_PROCESS_SETS = 1000  # sets that the process is fitted to; memory and time grow with their square and cube
_SETS_PER_PREDICTION = 2000
_MAX_PREDICTED_DEVIATIONS = 256  # sets whose uncertainty is predicted: those with the highest predicted gain
_HOPE = 0.5  # standard deviations above its prediction at which a set of a small size is tried at once
_DOUBT = 2.5  # standard deviations above its prediction at which a set is given up


class SmallestSetSearch:
    """A search for the smallest set of parts that gains at least 0, guided by a Gaussian process over sets.

    Args:
        play: encodes sets of changed parts ``[n, parts]`` and returns what each gains ``[n]``; 0 or more is a success.
        sets: those that are known ``[n, parts]``, with numbers between 0 and 1 where parts are changed in part.
        gains: of those, ``[n]``.
        budget: sets that may be encoded.
        allowed: which parts may be changed ``[parts]``; by default all.

    Attributes:
        calls: sets that were encoded.
        failed: how many sets of each size are known to gain less than 0.

    """

    def __init__(
        self,
        play: Callable[[np.ndarray], np.ndarray],
        sets: np.ndarray,
        gains: np.ndarray,
        budget: int,
        allowed: np.ndarray | None = None,
    ) -> None:
        self.play, self.sets, self.gains, self.budget = play, sets, gains, budget
        self.allowed = np.ones(sets.shape[1], bool) if allowed is None else allowed
        self.calls = 0
        self.failed: dict[int, int] = {}
        self._batch = max(8, budget // 8)  # sets that are encoded at a time, before the process is fitted anew
        self._seen: set[bytes] = set()
        self._kernel: Any = None
        self._given = len(sets)
        whole = ((sets == 0) | (sets == 1)).all(1)
        self._note(sets[whole], gains[whole])

    def _note(self, sets: np.ndarray, gains: np.ndarray) -> None:
        """Take note of sets and of failures among allowed ones; a set that a run has drawn twice counts once."""
        for row, gain in zip(sets, gains, strict=True):
            key = _key(row)
            if key not in self._seen and gain < 0 and not row[~self.allowed].any():
                size = int(row.sum())
                self.failed[size] = self.failed.get(size, 0) + 1
            self._seen.add(key)

    def tried_all(self, size: int) -> bool:
        """Whether every set of this size was encoded, and failed."""
        return size == 0 or self.failed.get(size, 0) >= comb(int(self.allowed.sum()), size)

    def _best(self) -> np.ndarray | None:
        """Return the smallest known success; of several, the one that gains most."""
        whole = ((self.sets == 0) | (self.sets == 1)).all(1) & ~self.sets[:, ~self.allowed].any(1)
        done = np.flatnonzero(whole & (self.gains >= 0))
        if not len(done):
            return None
        order = np.lexsort((-self.gains[done], self.sets[done].sum(1)))
        chosen: np.ndarray = self.sets[done[order[0]]].astype(np.uint8)
        return chosen

    def _encode(self, sets: np.ndarray) -> np.ndarray:
        gains = self.play(sets)
        self.calls += len(sets)
        self.sets, self.gains = np.concatenate([self.sets, sets]), np.concatenate([self.gains, gains])
        self._note(sets, gains)
        return gains

    def smallest(self) -> np.ndarray | None:
        """Return the smallest set that is found within the budget; None if there is none."""
        while self.calls < self.budget:
            best = self._best()
            limit = int(self.allowed.sum()) + 1 if best is None else int(best.sum())
            proposed = self._propose(limit)
            if proposed is None:
                break
            self._encode(proposed[: self.budget - self.calls])
        return self._best()

    def reduced(self, found: np.ndarray, always: bool = False) -> tuple[np.ndarray, bool]:
        """Return a set without parts that it does not need, and whether it was encoded without each of the others.

        Sets that lack one part are encoded as far as the budget goes, or ``always``; a success among them takes the place of
        the set.
        """
        while True:
            parts = np.flatnonzero(found)
            lacking = np.repeat(found[None], len(parts), axis=0)
            lacking[np.arange(len(parts)), parts] = 0
            untried = np.array([row for row in lacking if row.any() and _key(row) not in self._seen], np.uint8)
            if len(untried) > self.budget - self.calls and not always:
                return found, False
            if not len(untried):
                return found, True
            gains = self._encode(untried)
            if not (gains >= 0).any():
                return found, True
            found = untried[int(gains.argmax())]

    def _propose(self, limit: int) -> np.ndarray | None:
        """Return the most promising sets of fewer than ``limit`` parts; None if no success is to be expected.

        They have the smallest size at which a success is predicted; where none is, the largest size.
        """
        if all(self.tried_all(size) for size in range(1, limit)):  # a set may fail where a smaller one succeeds
            return None
        model = self._fitted()
        proposed, hope = None, False
        beam = np.zeros((1, self.sets.shape[1]), np.uint8)
        for size in range(1, limit):
            sets = self._of_size(size, beam)
            gains = [
                model.predict(sets[start : start + _SETS_PER_PREDICTION])
                for start in range(0, len(sets), _SETS_PER_PREDICTION)
            ]
            order = np.argsort(-np.concatenate(gains), kind="stable")
            beam = sets[order[:_BEAM_WIDTH]]
            new = [
                index for index in order[: _MAX_PREDICTED_DEVIATIONS + len(self._seen)] if _key(sets[index]) not in self._seen
            ][:_MAX_PREDICTED_DEVIATIONS]
            if not new:
                continue
            mean, deviation = model.predict(sets[new], return_std=True)
            proposed = sets[new][np.argsort(-(mean + deviation), kind="stable")[: self._batch]]
            hope |= bool((mean + _DOUBT * deviation).max() >= 0)
            if (mean + _HOPE * deviation).max() >= 0:
                break
        return proposed if hope or self.failed.get(limit - 1, 0) < 2 * self._batch else None

    def _of_size(self, size: int, beam: np.ndarray) -> np.ndarray:
        """Return all sets of a size; where those are too many, the sets of a beam with one part more."""
        parts, width = np.flatnonzero(self.allowed), self.sets.shape[1]
        if comb(len(parts), size) <= _MAX_ENUMERATED:
            members = np.array(list(combinations(parts, size)))
            sets = np.zeros((len(members), width), np.uint8)
            np.put_along_axis(sets, members, 1, axis=1)
            return sets
        extended = (beam[:, None] | np.eye(width, dtype=np.uint8)[None, parts]).reshape(-1, width)
        return np.unique(extended[extended.sum(1) == size], axis=0)

    def _fitted(self) -> Any:
        """Return a Gaussian process fitted to known sets; its kernel's parameters are fitted once.

        Of many known sets it takes all that were encoded here and some of those that were given, evenly chosen.
        """
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

        scale = float(np.abs(self.gains).max()) or 1.0
        if self._kernel is None:
            wide = (1e-6, 1e3)
            kernel = ConstantKernel(0.1, wide) * DotProduct(1.0, (1e-2, 1e2)) ** 2
            kernel += ConstantKernel(0.1, wide) * RBF(2.0, (0.5, 20.0)) + WhiteKernel(1e-4, (1e-8, 1e-1))
            first = np.linspace(0, len(self.sets) - 1, min(_MAX_KERNEL_SETS, len(self.sets))).astype(int)
            model = GaussianProcessRegressor(kernel, random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(self.sets[first], self.gains[first] / scale)
            self._kernel = model.kernel_
        fitted = GaussianProcessRegressor(self._kernel, optimizer=None, alpha=1e-8)
        encoded = len(self.sets) - self._given
        few = min(self._given, max(_MAX_KERNEL_SETS, _MAX_PROCESS_SETS - encoded))
        chosen = np.r_[np.linspace(0, self._given - 1, few).astype(int), self._given : len(self.sets)]
        return fitted.fit(self.sets[chosen], self.gains[chosen] / scale)


def _key(row: np.ndarray) -> bytes:
    return row.astype(np.uint8).tobytes()
