"""Masks pooled to the cells of a grid: what a field, with hundreds of numbers for each cell, is estimated from."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from cocoax.masking.control_variates import Controls, Units
from cocoax.masking.masks import GridMasks, averaging
from cocoax.masking.segments import check_grid


class PooledMasks:
    """The means of grid masks over the cells of a grid: ``cells [n, rows, columns]``.

    They offer the sums that :class:`cocoax.masking.GridMasks` offers, of means over cells instead of pixels; since all
    estimates are linear in the masks, a map estimated from them is the map of the masks pooled to the cells.
    """

    def __init__(self, masks: GridMasks, grid: int | tuple[int, int]) -> None:
        geometry = masks.geometry
        rows, columns = check_grid(geometry.height, geometry.width, grid)
        self.keep = masks.keep
        self._masks = masks
        self._pool = averaging(geometry.height, rows), averaging(geometry.width, columns)
        self._moment = tuple(moment @ pool.T for moment, pool in zip(geometry.pooled_moment, self._pool, strict=True))

    @cached_property
    def cells(self) -> Tensor:
        """The means ``[n, rows, columns]``."""
        shifts = self._masks.shifts.long()
        down, right = (
            (pool @ up)[shifts[:, axis]]
            for axis, (pool, up) in enumerate(zip(self._pool, self._masks.geometry.up, strict=True))
        )
        return down @ self._masks.bits.double() @ right.mT

    @property
    def controls(self) -> Controls:
        """Linear models of scores on the coarse masks."""
        return self._masks.controls

    @property
    def units(self) -> Units:
        """Which masks were drawn together."""
        return self._masks.units

    @cached_property
    def firsts(self) -> PooledMasks:
        """The first mask of each unit."""
        return self if self._masks.firsts is self._masks else PooledMasks(self._masks.firsts, self.shape)

    def __len__(self) -> int:
        return len(self._masks)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of cells."""
        return len(self._pool[0]), len(self._pool[1])

    @cached_property
    def _flat(self) -> Tensor:
        return self.cells.flatten(1)

    def weighted_sum(self, weights: Tensor, groups: Tensor | None = None) -> Tensor:
        """Return Σᵢ wᵢ mᵢ for every column of ``weights [n, k]``: ``[k, rows, columns]``, or for each group apart."""
        if groups is None:
            return (weights.double().T @ self._flat).view(-1, *self.shape)
        members = [groups == group for group in range(int(groups.max()) + 1)]
        return torch.stack([(weights[own].double().T @ self._flat[own]).view(-1, *self.shape) for own in members])

    def weighted_sum_of_squares(self, weights: Tensor) -> Tensor:
        """Return Σᵢ wᵢ mᵢ² for every column of ``weights [n, k]``: ``[k, rows, columns]``."""
        return (weights.double().T @ self._flat.square()).view(-1, *self.shape)

    def coarse_covariance(self, coefficients: Tensor) -> Tensor:
        """Return Cov(u·b, m), exactly, for every column of ``coefficients [features, k]``: ``[k, rows, columns]``."""
        down, right = self._moment
        b = coefficients.T.reshape(-1, len(down), len(right))
        return self.keep * (1 - self.keep) * (down.T @ b @ right)
