"""Baselines: what replaces a removed pixel or column. They act on the preprocessed explicand ``[C, H, W]`` or ``[1, m]``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cocoax.seeding import stream


class Baseline(ABC):
    """Gives the image whose pixels stand for "nothing here"."""

    @abstractmethod
    def __call__(self, explicand: Tensor) -> Tensor:
        """The baseline ``[C, H, W]`` of an explicand ``[C, H, W]``."""


@dataclass(frozen=True)
class Blur(Baseline):
    """Gaussian blur of the explicand with reflected borders (the paper's baseline)."""

    kernel_size: int = 21
    sigma: float = 5.0

    def __post_init__(self) -> None:
        if self.kernel_size < 1 or self.kernel_size % 2 == 0:
            raise ValueError(f"The 'kernel_size' parameter must be odd and positive. Got {self.kernel_size} instead.")
        if not self.sigma > 0:
            raise ValueError(f"The 'sigma' parameter must be above 0. Got {self.sigma} instead.")

    def __call__(self, explicand: Tensor) -> Tensor:
        """The blurred explicand."""
        rows, columns = (self._matrix(side).to(explicand) for side in explicand.shape[-2:])
        return rows @ explicand @ columns.T

    def _matrix(self, side: int) -> Tensor:
        """The blur along one side as a matrix ``[side, side]``, so that images smaller than the kernel work too."""
        radius = self.kernel_size // 2
        offsets = torch.arange(-radius, radius + 1)
        weights = torch.exp(-0.5 * (offsets.double() / self.sigma) ** 2)
        weights /= weights.sum()
        period = max(1, 2 * (side - 1))  # reflecting without repeating the border has this period
        at = (torch.arange(side)[:, None] + offsets) % period
        at = torch.where(at < side, at, period - at)
        return torch.zeros(side, side, dtype=torch.float64).scatter_add_(1, at, weights.expand(side, -1))


@dataclass(frozen=True)
class Constant(Baseline):
    """One value everywhere, or one per channel, in units of the preprocessed input (0 is the mean colour of most)."""

    value: float | tuple[float, ...] = 0.0

    def __call__(self, explicand: Tensor) -> Tensor:
        """The constant image."""
        values = torch.as_tensor(self.value).reshape(-1, *[1] * (explicand.ndim - 1))
        if len(values) not in (1, len(explicand)):
            raise ValueError(
                f"Constant needs 1 value or one for each of the {len(explicand)} channels. Got {len(values)} instead."
            )
        return values.to(explicand).expand_as(explicand).clone()


@dataclass(frozen=True)
class Mean(Baseline):
    """The mean colour of the explicand."""

    def __call__(self, explicand: Tensor) -> Tensor:
        """The image of that colour."""
        return explicand.mean((1, 2), keepdim=True).expand_as(explicand).clone()


@dataclass(frozen=True)
class Noise(Baseline):
    """Gaussian noise with the mean and the standard deviation of each channel of the explicand, or a given one."""

    std: float | None = None
    seed: int = 0

    def __call__(self, explicand: Tensor) -> Tensor:
        """The noise image; the same for the same seed."""
        noise = stream(self.seed).standard_normal(tuple(explicand.shape), dtype=np.float32)
        std = explicand.std((1, 2), keepdim=True) if self.std is None else self.std
        return explicand.mean((1, 2), keepdim=True) + torch.from_numpy(noise).to(explicand) * std


@dataclass(frozen=True, eq=False)
class Fixed(Baseline):
    """A given image ``[C, H, W]``, preprocessed like the explicand."""

    image: Tensor

    def __call__(self, explicand: Tensor) -> Tensor:
        """The image, if it has the explicand's shape."""
        if self.image.shape != explicand.shape:
            raise ValueError(
                f"The baseline image has shape {list(self.image.shape)} but the explicand has {list(explicand.shape)}; "
                "they must be preprocessed alike."
            )
        return self.image.to(explicand)


@dataclass(frozen=True, eq=False)
class Background(Baseline):
    """Rows of a table that stand for what a column usually holds.

    Args:
        rows: background samples ``[n, m]``, preprocessed like the explicand.
        draws: average every score over this many of the rows, drawn once (all of them if there are no more): removed columns
            take their values from each in turn, as in SHAP. Costs that many times the encoder work. By default one row is
            put in, their mean.
        seed: of the draws.

    """

    rows: Tensor
    draws: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        rows = torch.as_tensor(self.rows)
        if rows.ndim != 2 or len(rows) == 0:
            raise ValueError(f"The background must have shape [n, m] with n >= 1. Got {list(rows.shape)} instead.")
        object.__setattr__(self, "rows", rows.to("cpu", torch.float32))
        if not bool(torch.isfinite(self.rows).all()):
            raise ValueError("The background has values that are not finite; leave those rows out or fill them in.")
        if self.draws is not None and self.draws < 1:
            raise ValueError(f"The 'draws' parameter must be at least 1. Got {self.draws} instead.")

    def __call__(self, explicand: Tensor) -> Tensor:
        """The mean row ``[1, m]``, or the drawn ones ``[draws, 1, m]``."""
        if explicand.ndim != 2 or self.rows.shape[1] != explicand.shape[-1]:
            raise ValueError(
                f"The background has {self.rows.shape[1]} columns but the explicand has shape {list(explicand.shape)}; they "
                "must be rows of the same table."
            )
        if self.draws is None:
            return self.rows.mean(0, keepdim=True)
        if self.draws >= len(self.rows):
            return self.rows[:, None]
        chosen = np.sort(stream(self.seed).choice(len(self.rows), self.draws, replace=False))
        return self.rows[torch.from_numpy(chosen)][:, None]
