"""Masks kept compactly: over pixels (``GridMasks``), over a list of features (``BitMasks``), and pixels pooled to cells.

A mask over pixels is a small random grid G of kept (1) and removed (0) cells, upsampled bilinearly and cropped at a random
shift:
m = K_dy G K_dxᵀ, with one small matrix K per shift and direction. Sums over masks therefore need no full-size mask: add
up the grids of equal shift, then apply two matrix products. Second moments follow the same way, since the square of a
bilinear mask is again separable, over pairs of neighbouring cells.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from cocoax.inputs.segmentation import check_grid
from cocoax.masking.control_variates import KernelControls, RidgeControls, SamplingUnits
from cocoax.seeding import stream

_BLOCK = 256  # masks of one block come from one random stream, so that any number of masks starts the same
_HALF = _BLOCK // 2
# Part of the stream, like all that masks depend on: masks of one seed are either the same or independent, never alike.
_DESIGN = 1


@dataclass(frozen=True)
class MaskGeometry:
    """The matrices that turn small grids into masks of one image size."""

    height: int
    width: int
    rows: int
    columns: int

    @cached_property
    def cell(self) -> tuple[int, int]:
        """Height and width of a cell, rounded up so that the grid covers the image at every shift."""
        return -(-self.height // self.rows), -(-self.width // self.columns)

    @cached_property
    def up(self) -> tuple[Tensor, Tensor]:
        """K for every shift: ``[cell, H, rows]`` and ``[cell, W, columns]``."""
        return _upsampling(self.height, self.rows, self.cell[0]), _upsampling(self.width, self.columns, self.cell[1])

    @cached_property
    def up_single(self) -> tuple[Tensor, Tensor]:
        """K in single precision, for masks at full size."""
        return self.up[0].float(), self.up[1].float()

    @cached_property
    def up_squared(self) -> tuple[Tensor, Tensor]:
        """Products of K with itself for every pair of equal or neighbouring cells: ``[cell, H, 2 rows - 1]``, …"""
        rows, columns = (torch.cat([k * k, k[..., :-1] * k[..., 1:]], dim=-1) for k in self.up_single)
        return rows, columns

    @cached_property
    def second_moment(self) -> tuple[Tensor, Tensor]:
        """E[K Kᵀ] over shifts, ``[H, H]`` and ``[W, W]``: their Kronecker product times p(1-p) is the masks' covariance."""
        rows, columns = (torch.einsum("sha,sga->hg", k, k) / len(k) for k in self.up)
        return rows, columns

    @cached_property
    def pooled_moment(self) -> tuple[Tensor, Tensor]:
        """Pooling after E[K Kᵀ], ``[coarse, H]`` and ``[coarse, W]``: the covariance of the coarse mask with the mask."""
        return self.pool[0] @ self.second_moment[0], self.pool[1] @ self.second_moment[1]

    @cached_property
    def pool(self) -> tuple[Tensor, Tensor]:
        """Averages over the cells of a coarse grid, ``[coarse, H]`` and ``[coarse, W]``."""
        return averaging(self.height, _coarse_cells(self.rows)), averaging(self.width, _coarse_cells(self.columns))

    @cached_property
    def coarse_variance(self) -> float:
        """The mean variance of the coarse mask, divided by p(1-p)."""
        down, right = (
            float((pooled @ pool.T).diagonal().mean()) for pooled, pool in zip(self.pooled_moment, self.pool, strict=True)
        )
        return down * right

    @cached_property
    def pooled_up(self) -> tuple[Tensor, Tensor]:
        """Pooling after upsampling, for every shift: ``[cell, coarse, rows]`` and ``[cell, coarse, columns]``."""
        return self.pool[0] @ self.up[0], self.pool[1] @ self.up[1]


def _coarse_cells(cells: int) -> int:
    """Return the side of the control variates' grid for masks with so many cells a side: twice that, up to 16, but one more.

    Masks are shifted, so that they resolve less than a cell. The cost of the models grows with the sixth power of the side.
    """
    return max(cells + 1, min(2 * cells, 16))


@lru_cache(maxsize=8)
def mask_geometry(height: int, width: int, rows: int, columns: int) -> MaskGeometry:
    """Return the geometry of masks; the last eight, with their matrices, are kept."""
    return MaskGeometry(height, width, rows, columns)


class GridMasks:
    """Masks of one geometry: ``bits [n, rows, columns]`` (uint8) and ``shifts [n, 2]`` (down, right).

    Where some are complements of others, ``numbers [n]`` are their places in the sequence that is drawn.
    """

    def __init__(
        self, geometry: MaskGeometry, bits: Tensor, shifts: Tensor, keep: float, numbers: Tensor | None = None
    ) -> None:
        self.geometry = geometry
        self.bits = bits
        self.shifts = shifts
        self.keep = keep
        self.numbers = numbers

    @classmethod
    def draw(
        cls,
        height: int,
        width: int,
        grid: int | tuple[int, int],
        keep: float,
        count: int,
        seed: int,
        complements: bool = False,
    ) -> GridMasks:
        """Return ``count`` random masks; a larger count begins with the same ones.

        With ``complements``, for which ``keep`` must be one half, the second half of every block of masks are the complements
        of the first half.
        """
        rows, columns = check_grid(height, width, grid)
        geometry = mask_geometry(height, width, rows, columns)
        bits, shifts = [np.zeros((0, rows, columns), bool)], [np.zeros((0, 2), int)]
        for block in range(-(-count // _BLOCK)):
            random = stream(seed, block, _DESIGN, int(keep * 2**32), complements)
            kept = random.random((_BLOCK, rows, columns)) < keep
            moved = random.integers(0, geometry.cell, (_BLOCK, 2))
            if complements:
                kept[_HALF:], moved[_HALF:] = ~kept[:_HALF], moved[:_HALF]
            bits.append(kept)
            shifts.append(moved)
        return cls(
            geometry,
            torch.from_numpy(np.concatenate(bits)[:count].astype(np.uint8)),
            torch.from_numpy(np.concatenate(shifts)[:count].astype(np.int16)),
            keep,
            torch.arange(count) if complements else None,
        )

    def __len__(self) -> int:
        return len(self.bits)

    def some(self, rows: Tensor) -> GridMasks:
        """Return the masks of some rows; the complement of a mask may be left out."""
        numbers = None if self.numbers is None else self.numbers[rows]
        return GridMasks(self.geometry, self.bits[rows], self.shifts[rows], self.keep, numbers)

    @cached_property
    def units(self) -> SamplingUnits:
        """Which masks were drawn together: each alone, or a mask and its complement."""
        if self.numbers is None:
            return SamplingUnits.alone(len(self))
        place = torch.full((int(self.numbers.max()) + 1 + _HALF if len(self) else 0,), -1)
        place[self.numbers] = torch.arange(len(self))
        ahead = self.numbers % _BLOCK < _HALF
        others = torch.where(ahead, place[self.numbers + ahead * _HALF], -1)
        follows = torch.zeros(len(self), dtype=torch.bool)
        follows[others[others >= 0]] = True
        rows = (~follows).nonzero()[:, 0]
        return SamplingUnits(rows, others[rows])

    @property
    def firsts(self) -> GridMasks:
        """The first mask of each unit; these masks themselves, not cached (a reference cycle), where none is paired."""
        return self if len(self.units.rows) == len(self) else self._firsts

    @cached_property
    def _firsts(self) -> GridMasks:
        rows = self.units.rows
        return GridMasks(self.geometry, self.bits[rows], self.shifts[rows], self.keep)

    @property
    def as_drawn(self) -> bool:
        """Whether the masks that should be complements of others are."""
        rows, others = (part[self.units.others >= 0] for part in (self.units.rows, self.units.others))
        opposite = bool((self.bits[rows] != self.bits[others]).all())
        return opposite and torch.equal(self.shifts[rows], self.shifts[others])

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Grids and shifts."""
        return {"bits": self.bits, "shifts": self.shifts}

    def full(self, rows: slice) -> Tensor:
        """Return some masks at full size, ``[n, H, W]`` in [0, 1]."""
        shifts = self.shifts[rows].long()
        down, right = (k[shifts[:, axis]] for axis, k in enumerate(self.geometry.up_single))
        return down @ self.bits[rows].float() @ right.mT

    def weighted_sum(self, weights: Tensor, groups: Tensor | None = None) -> Tensor:
        """Return Σᵢ wᵢ mᵢ for every column of ``weights [n, k]``: ``[k, H, W]``.

        With ``groups [n]`` (numbered from 0) the masks of each group are summed apart: ``[groups, k, H, W]``, in single
        precision, which is enough for residuals.
        """
        matrices = self.geometry.up if groups is None else self.geometry.up_single
        return self._contract(weights, self.bits, matrices, groups)

    def weighted_sum_of_squares(self, weights: Tensor) -> Tensor:
        """Return Σᵢ wᵢ mᵢ² for every column of ``weights [n, k]``: ``[k, H, W]``, in single precision."""
        return self._contract(weights, self._squared_bits, self.geometry.up_squared)

    @cached_property
    def _squared_bits(self) -> Tensor:
        """Coefficients of mᵢ² on pairs of rows and pairs of columns, ``[n, 2 rows - 1, 2 columns - 1]``."""
        bits = self.bits
        up, down, left, right = bits[:, :-1], bits[:, 1:], bits[..., :-1], bits[..., 1:]
        crossed = up[..., :-1] * down[..., 1:] + up[..., 1:] * down[..., :-1]
        return torch.cat([torch.cat([bits, 2 * left * right], 2), torch.cat([2 * up * down, 2 * crossed], 2)], 1)

    @cached_property
    def _shift_index(self) -> Tensor:
        shifts = self.shifts.long()
        return shifts[:, 0] * self.geometry.cell[1] + shifts[:, 1]

    def _contract(
        self, weights: Tensor, grids: Tensor, matrices: tuple[Tensor, Tensor], groups: Tensor | None = None
    ) -> Tensor:
        """Add up the weighted grids of equal shift, then upsample the sums: a few small matrix products."""
        (cell_down, cell_right), (down, right) = self.geometry.cell, matrices
        _, rows, columns = grids.shape
        index, number = self._shift_index, 1
        if groups is not None:
            number = int(groups.max()) + 1
            index = index + groups * (cell_down * cell_right)
        flat = grids.reshape(len(grids), -1).float()
        down_flat, right_flat = down.transpose(0, 1).flatten(1), right.mT.flatten(0, 1)
        sums = []
        for weight in weights.float().unbind(1):
            # Few terms go into each entry of the table, so single precision loses nothing; the rest is as precise as K is.
            table = torch.zeros(number * cell_down * cell_right, rows * columns, dtype=torch.float32)
            table.index_add_(0, index, flat * weight[:, None])
            table = table.to(down.dtype).view(number, cell_down, cell_right, rows, columns).transpose(2, 3)
            sums.append(down_flat @ (table.reshape(number, cell_down * rows, -1) @ right_flat))
        total = torch.stack(sums, dim=1).double()
        return total if groups is not None else total[0]

    @cached_property
    def coarse(self) -> Tensor:
        """The masks pooled to a coarse grid, minus their expectation: ``[n, features]``, the control variates u."""
        shifts = self.shifts.long()
        down, right = (k[shifts[:, axis]] for axis, k in enumerate(self.geometry.pooled_up))
        return (down @ self.bits.double() @ right.mT).flatten(1) - self.keep

    @cached_property
    def controls(self) -> RidgeControls:
        """Linear models of scores on the coarse masks."""
        # Their variance is known, so that no fold's penalty depends on samples outside of it.
        return RidgeControls(self.coarse, self.keep * (1 - self.keep) * self.geometry.coarse_variance, self.units.folds)

    def coarse_covariance(self, coefficients: Tensor) -> Tensor:
        """Return Cov(u·b, m), exactly, for every column of ``coefficients [features, k]``: ``[k, H, W]``."""
        down, right = self.geometry.pooled_moment
        b = coefficients.T.reshape(-1, len(down), len(right))
        return self.keep * (1 - self.keep) * (down.T @ b @ right)


def _upsampling(side: int, cells: int, cell: int) -> Tensor:
    """Return bilinear upsampling of ``cells`` to (cells + 1)·cell pixels, cropped to ``side`` at every shift."""
    eye = torch.eye(cells, dtype=torch.float64)[None]
    whole = F.interpolate(eye, size=(cells + 1) * cell, mode="linear", align_corners=False)[0].T
    return torch.stack([whole[shift : shift + side] for shift in range(cell)])


@lru_cache(maxsize=64)
def averaging(side: int, cells: int) -> Tensor:
    """Return averages over ``cells`` stretches of equal length (or ``side`` of them, if that is fewer), ``[cells, side]``."""
    cells = min(cells, side)
    member = (torch.arange(side) * cells // side)[None] == torch.arange(cells)[:, None]
    return member.double() / member.sum(1, keepdim=True)


# --- bits -------------------------------------------------------------------------------------------------------------------

_BITS_DESIGN = 2  # part of the stream; masks over pixels have another


class _CellMasks(ABC):
    """Masks of few cells, whose sums are plain matrix products; the sums have the shape ``map_shape``."""

    map_shape: tuple[int, int]

    @property
    @abstractmethod
    def cells(self) -> Tensor:
        """How much of each cell a mask keeps, ``[n, *shape]``."""

    def weighted_sum(self, weights: Tensor, groups: Tensor | None = None) -> Tensor:
        """Return Σᵢ wᵢ mᵢ for every column of ``weights [n, k]``: ``[k, *map_shape]``; with ``groups [n]`` for each apart."""
        if groups is None:
            return self._summed(weights, self.cells)
        members = [groups == group for group in range(int(groups.max()) + 1)]
        return torch.stack([self._summed(weights[own], self.cells[own]) for own in members])

    def weighted_sum_of_squares(self, weights: Tensor) -> Tensor:
        """Return Σᵢ wᵢ mᵢ² for every column of ``weights [n, k]``: ``[k, *map_shape]``."""
        return self._summed(weights, self.cells.square())

    def _summed(self, weights: Tensor, cells: Tensor) -> Tensor:
        return (weights.double().T @ cells.flatten(1)).view(-1, *self.map_shape)


class BitMasks(_CellMasks):
    """Masks over ``m`` features: ``bits [n, m]`` (uint8), each kept with probability ``keep``."""

    def __init__(self, bits: Tensor, keep: float) -> None:
        self.bits = bits
        self.keep = keep
        self.map_shape = (1, bits.shape[1])

    @classmethod
    def draw(cls, features: int, keep: float, count: int, seed: int) -> BitMasks:
        """Return ``count`` random masks; a larger count begins with the same ones."""
        streams = (stream(seed, block, _BITS_DESIGN, int(keep * 2**32)) for block in range(-(-count // _BLOCK)))
        blocks = [random.random((_BLOCK, features)) < keep for random in streams]
        bits = np.concatenate([np.zeros((0, features), bool), *blocks])[:count]
        return cls(torch.from_numpy(bits.astype(np.uint8)), keep)

    @classmethod
    def enumerate(cls, features: int, count: int | None, seed: int) -> BitMasks:
        """Return all subsets, each once, in a random order, so that the first ``count`` of them are a fair sample."""
        order = stream(seed, 0).permutation(2**features)[:count]
        bits = (order[:, None] >> np.arange(features)) & 1
        return cls(torch.from_numpy(bits.astype(np.uint8)), 0.5)

    def __len__(self) -> int:
        return len(self.bits)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The bits."""
        return {"bits": self.bits}

    def full(self, rows: slice) -> Tensor:
        """Return some masks, ``[n, m]``."""
        return self.bits[rows].float()

    @cached_property
    def complete(self) -> bool:
        """Whether they are all subsets, each once, with equal chances: then sums over them are expectations."""
        features = self.bits.shape[1]
        return self.keep == 0.5 and len(self) == 2**features and len(torch.unique(self.bits, dim=0)) == len(self)

    def places(self, masks: BitMasks) -> Tensor:
        """Return where each of other masks stands among these, which are all subsets: ``[n]``."""
        powers = 2 ** torch.arange(self.bits.shape[1])
        place = torch.empty(len(self), dtype=torch.int64)
        place[self.bits.long() @ powers] = torch.arange(len(self))
        return place[masks.bits.long() @ powers]

    @property
    def units(self) -> SamplingUnits:
        """Each is drawn by itself."""
        return SamplingUnits.alone(len(self))

    @property
    def firsts(self) -> BitMasks:
        """All of them."""
        return self

    @property
    def cells(self) -> Tensor:
        """The bits as numbers, ``[n, m]``."""
        return self.bits.double()

    @cached_property
    def controls(self) -> KernelControls:
        """Models of scores on the masks, minus their expectation."""
        return KernelControls(self.bits.double() - self.keep, self.keep * (1 - self.keep))

    def coarse_covariance(self, coefficients: Tensor) -> Tensor:
        """Return Cov(u·b, m), exactly, for every column of ``coefficients [m, k]``: ``[k, 1, m]``."""
        return self.keep * (1 - self.keep) * coefficients.T[:, None, :]


# --- pooled -----------------------------------------------------------------------------------------------------------------


class PooledMasks(_CellMasks):
    """The means of grid masks over the cells of a grid: ``cells [n, rows, columns]``.

    Since all estimates are linear in the masks, a map estimated from them is the map of the masks pooled to the cells.
    """

    def __init__(self, masks: GridMasks, grid: int | tuple[int, int]) -> None:
        geometry = masks.geometry
        rows, columns = check_grid(geometry.height, geometry.width, grid)
        self.keep = masks.keep
        self._masks = masks
        self._pool = averaging(geometry.height, rows), averaging(geometry.width, columns)
        self.map_shape = len(self._pool[0]), len(self._pool[1])
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
    def controls(self) -> RidgeControls:
        """Linear models of scores on the coarse masks."""
        return self._masks.controls

    @property
    def units(self) -> SamplingUnits:
        """Which masks were drawn together."""
        return self._masks.units

    @property
    def firsts(self) -> PooledMasks:
        """The first mask of each unit."""
        return self if self._masks.firsts is self._masks else self._firsts

    @cached_property
    def _firsts(self) -> PooledMasks:
        return PooledMasks(self._masks.firsts, self.map_shape)

    def __len__(self) -> int:
        return len(self._masks)

    def coarse_covariance(self, coefficients: Tensor) -> Tensor:
        """Return Cov(u·b, m), exactly, for every column of ``coefficients [features, k]``: ``[k, rows, columns]``."""
        down, right = self._moment
        b = coefficients.T.reshape(-1, len(down), len(right))
        return self.keep * (1 - self.keep) * (down.T @ b @ right)
