"""Sets of parts of an input: words, columns, segments, or cells of a grid over pixels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cocoax.inputs import Display
from cocoax.masking import Masks, grid_segments
from cocoax.methods import Run
from cocoax.methods.field import default_grid

_AT_ONCE = 256  # masks that are looked at in full size at a time


@dataclass(frozen=True, eq=False)
class Subsets:
    """Masks that keep whole parts: ``labels [*shape]`` say which part a feature is in, ``bits [n, parts]`` which are kept."""

    labels: Tensor
    bits: Tensor

    def __len__(self) -> int:
        return len(self.bits)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Both."""
        return {"labels": self.labels, "bits": self.bits}

    def full(self, rows: slice) -> Tensor:
        """Return masks ``[n, *shape]``."""
        return self.bits[rows].float()[:, self.labels]


def parts_of(run: Run) -> Tensor:
    """Return which part each feature of a run's explicand is in, ``[*shape]``.

    Parts are the segments of its masks where they have some; else words, columns and the like are parts of their own, and
    pixels belong to the cells of the masks' grid.
    """
    segments: Tensor | None = getattr(run.masks, "segments", None)
    shape = run.explicand.shape
    if segments is not None:
        return segments
    return labels_of(shape, default_grid(run.method, shape, 1) if len(shape) == 2 else 1)


def labels_of(shape: tuple[int, ...], grid: int | tuple[int, int]) -> Tensor:
    """Return which part each feature of a shape is in: features of a list are parts, pixels belong to cells of a grid."""
    return torch.arange(shape[0]) if len(shape) == 1 else grid_segments(shape[0], shape[1], grid)


def shares(masks: Masks, labels: Tensor) -> Tensor:
    """Return how much of each part every mask keeps, ``[n, parts]``; exactly 0 or 1 where masks keep whole parts."""
    member = torch.nn.functional.one_hot(labels.flatten()).double()
    rows = (masks.full(slice(start, start + _AT_ONCE)) for start in range(0, len(masks), _AT_ONCE))
    kept = torch.cat([full.flatten(1).double() @ member for full in rows])
    return kept / member.sum(0)  # divided last: a sum of n ones is n, but one of n times 1/n may miss 1


def names_of(labels: Tensor, display: Display) -> tuple[str, ...]:
    """Return what to call each part: its words or columns, the row and column of a cell, or a number."""
    parts = int(labels.max()) + 1
    if display.names is not None and labels.ndim == 1:
        own = labels.tolist()
        return tuple(
            " ".join(name for name, label in zip(display.names, own, strict=True) if label == part) for part in range(parts)
        )
    columns = len(torch.unique(labels[0])) if labels.ndim == 2 else parts
    if labels.ndim == 2 and torch.equal(labels, labels_of(tuple(labels.shape), (parts // columns, columns))):
        return tuple(f"row {part // columns + 1}, column {part % columns + 1}" for part in range(parts))
    return tuple(f"part {part + 1}" for part in range(parts))
