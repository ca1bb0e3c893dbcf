"""Occlusion (Zeiler & Fergus 2014): how much the score drops when a window is removed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor

from cocoax.methods.estimate import Estimate
from cocoax.methods.run import RemovalMethod

_MOST_WINDOWS = 1_000_000


@dataclass(frozen=True)
class Occlusion(RemovalMethod):
    """A window slides over the image; a pixel's value is the mean drop of the score over the windows that cover it.

    Words, columns, and what ``features=`` of ``explain`` divides a picture into, such as ``"segments"``, are removed one at a
    time, or ``window`` neighbours together.

    Args:
        window: side of the window in pixels, or (height, width); by default a seventh of the image, rounded up. For words and
            columns how many neighbours are removed together; by default one at a time.
        stride: pixels from one window to the next, or (down, right); by default half a window, rounded up.
        baseline: what replaces the window.
        batch_size: occluded inputs encoded at a time; automatic if not given.

    """

    window: int | tuple[int, int] | None = None
    stride: int | tuple[int, int] | None = None

    def draw(self, shape: tuple[int, ...], count: int | None = None) -> _Windows:
        """Return every window, row by row; the last ones are cut off by the border."""
        if len(shape) == 1:
            return self._over_list(shape[0], count)
        height, width = shape
        window = _pair("window", self.window, (-(-height // 7), -(-width // 7)))
        stride = _pair("stride", self.stride, (-(-window[0] // 2), -(-window[1] // 2)))
        for name, pair in (("window", window), ("stride", stride)):
            if min(pair) < 1:
                raise ValueError(f"The '{name}' parameter must be at least 1. Got {pair} instead.")
        if window[0] > height or window[1] > width:
            raise ValueError(f"A window of {window[0]} x {window[1]} is larger than the image of {height} x {width} pixels.")
        if stride[0] > window[0] or stride[1] > window[1]:
            raise ValueError(
                f"A stride of {stride} leaves gaps between windows of {window}; it must not be larger than the window."
            )
        count_of_all = prod(-(-(side - size) // step) + 1 for side, size, step in zip(shape, window, stride, strict=True))
        if count_of_all > _MOST_WINDOWS:
            raise ValueError(
                f"Windows of {window[0]} x {window[1]} at a stride of {stride[0]} x {stride[1]} are {count_of_all} encoder "
                f"calls on an image of {height} x {width} pixels, more than {_MOST_WINDOWS}; use a larger stride, "
                "or a smaller image."
            )
        tops, lefts = (
            torch.arange(-(-(side - size) // step) + 1) * step
            for side, size, step in zip((height, width), window, stride, strict=True)
        )
        corners = torch.cartesian_prod(tops, lefts).reshape(-1, 2)
        if count is not None and count > len(corners):
            raise ValueError(f"Occlusion has {len(corners)} windows and all of them are there; it cannot be extended.")
        return _Windows(height, width, corners[:count], torch.tensor(window))

    def _over_list(self, features: int, count: int | None) -> _Windows:
        """Return every stretch of ``window`` features."""
        window = 1 if self.window is None else self.window
        stride = -(-window // 2) if self.stride is None and isinstance(window, int) else self.stride
        if not (isinstance(window, int) and isinstance(stride, int)):
            raise ValueError(
                f"A window over words or columns has one side, an integer. Got {window!r} and {stride!r} instead."
            )
        if window > features:
            raise ValueError(f"A window of {window} is larger than the {features} words or columns that there are.")
        return replace(self, window=(1, window), stride=(1, stride)).draw((1, features), count)

    def restore(self, shape: tuple[int, ...], tensors: dict[str, Tensor]) -> _Windows:
        """Return windows as saved."""
        height, width = (1, *shape)[-2:]
        corners, size = tensors["corners"], tensors["size"]
        if corners.shape[1:] != (2,) or size.shape != (2,) or corners.is_floating_point() or size.is_floating_point():
            raise ValueError(
                f"Windows at {list(corners.shape)} of size {list(size.shape)} do not fit an input of {list(shape)}."
            )
        return _Windows(height, width, corners, size)

    def estimate(self, masks: _Windows, scores: Tensor, ends: Tensor) -> Estimate:
        """Return the mean drop over the windows that cover each pixel."""
        drops = (ends[0] - scores).double()
        total = torch.zeros(scores.shape[1], masks.height, masks.width, dtype=torch.float64)
        covered = torch.zeros(masks.height, masks.width, dtype=torch.float64)
        for (top, left), drop in zip(masks.corners.tolist(), drops, strict=True):
            area = (slice(top, top + int(masks.size[0])), slice(left, left + int(masks.size[1])))
            total[:, *area] += drop[:, None, None]
            covered[area] += 1
        if not bool(covered.all()):
            raise ValueError(f"The run has only {len(masks)} windows, which do not cover the image; extend it by the rest.")
        return Estimate(total / covered, features=drops.T)


@dataclass(frozen=True, eq=False)
class _Windows:
    """Windows of one ``size [2]`` at ``corners [n, 2]`` (top, left)."""

    height: int
    width: int
    corners: Tensor
    size: Tensor

    def __len__(self) -> int:
        return len(self.corners)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Corners and size."""
        return {"corners": self.corners, "size": self.size}

    def full(self, rows: slice) -> Tensor:
        """Return masks that remove one window each, ``[n, H, W]``."""
        low = self.corners[rows]
        high = low + self.size
        row, column = torch.arange(self.height), torch.arange(self.width)
        inside_rows = (row >= low[:, :1]) & (row < high[:, :1])
        inside_columns = (column >= low[:, 1:]) & (column < high[:, 1:])
        return (~(inside_rows[:, :, None] & inside_columns[:, None, :])).float()


def _pair(name: str, value: int | tuple[int, int] | None, default: tuple[int, int]) -> tuple[int, int]:
    pair = default if value is None else (value, value) if isinstance(value, int) else value
    if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(side, int) for side in pair)):
        raise ValueError(f"The '{name}' parameter must be an integer, or two: (height, width). Got {value!r} instead.")
    return pair[0], pair[1]
