"""Banzhaf values (Banzhaf 1965; Wang & Jia 2023): the mean score with a feature minus the mean score without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from cocoax.checks import check_count
from cocoax.masking import grid_segments
from cocoax.methods import Estimate, RemovalMethod
from cocoax.seeding import stream


@dataclass(frozen=True)
class Banzhaf(RemovalMethod):
    """Random halves of the features are kept; a feature's value is the mean score with it minus the mean score without it.

    Args:
        samples: number of random halves.
        grid: cells of a picture, whose pixels are kept or removed together. Words and columns are cells of their own.
        seed: of the halves.

    """

    length_options: ClassVar[tuple[str, ...]] = ("samples", "batch_size")  # a ClassVar is no option

    samples: int = 500
    grid: int = 7
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("samples", self.samples, 4)

    def draw(self, shape: tuple[int, ...], count: int | None = None) -> Halves:
        """Return random halves; number i comes from a random stream of its own, so that a longer run begins the same."""
        count = self.samples if count is None else count
        segments = torch.arange(shape[0]) if len(shape) == 1 else grid_segments(shape[0], shape[1], self.grid)
        bits = torch.zeros(count, int(segments.max()) + 1, dtype=torch.uint8)
        for row in range(count):
            bits[row] = torch.from_numpy(stream(self.seed, row).integers(0, 2, bits.shape[1]))
        return Halves(bits, segments)

    def restore(self, shape: tuple[int, ...], tensors: dict[str, Tensor]) -> Halves:
        """Return halves as saved."""
        return Halves(tensors["bits"], tensors["segments"])

    def estimate(self, masks: Halves, scores: Tensor, ends: Tensor) -> Estimate:
        """Return differences of two means, and their standard errors."""
        kept, y = masks.bits.double(), scores.double()  # [n, cells], [n, k]
        with_it, without_it = kept.sum(0)[:, None], (1 - kept).sum(0)[:, None]  # how often: [cells, 1]
        if min(with_it.min(), without_it.min()) < 2:
            raise ValueError(f"The run has {len(masks)} samples, too few to tell every feature apart; extend it.")
        high, low = kept.T @ y / with_it, (1 - kept).T @ y / without_it  # mean scores: [cells, k]
        high_spread = (kept.T @ y.square() - with_it * high.square()) / (with_it - 1) / with_it
        low_spread = ((1 - kept).T @ y.square() - without_it * low.square()) / (without_it - 1) / without_it
        values, error = (high - low).T, (high_spread + low_spread).clamp(min=0).sqrt().T  # [k, cells]
        return Estimate(values[:, masks.segments], error[:, masks.segments], features=values)


@dataclass(frozen=True, eq=False)
class Halves:
    """Random halves ``bits [n, cells]``, and the cell that each feature belongs to, ``segments [*shape]``."""

    bits: Tensor
    segments: Tensor

    def __len__(self) -> int:
        return len(self.bits)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """What is saved."""
        return {"bits": self.bits, "segments": self.segments}

    def full(self, rows: slice) -> Tensor:
        """Return some masks ``[n, *shape]``."""
        return self.bits[rows].float()[:, self.segments]
