"""Masks pooled to cells: every sum against the same sum over masks at full size, pooled afterwards."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cocoax.masking import GridMasks
from cocoax.masking.masks import PooledMasks

MASKS = GridMasks.draw(13, 18, (3, 4), 0.4, 60, seed=0)
Y = torch.randn(60, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def pooled(full: Tensor, rows: int, columns: int) -> Tensor:
    """Means over cells, written out."""
    height, width = full.shape[-2:]
    row, column = torch.arange(height) * rows // height, torch.arange(width) * columns // width
    cells = [full[..., row == r, :][..., column == c].mean((-2, -1)) for r in range(rows) for c in range(columns)]
    return torch.stack(cells, dim=-1).unflatten(-1, (rows, columns))


@pytest.mark.parametrize("grid", [(3, 4), (6, 8), (1, 1), 5])
def test_cells__means_of_full_masks(grid: int | tuple[int, int]) -> None:
    rows, columns = (grid, grid) if isinstance(grid, int) else grid
    cells = PooledMasks(MASKS, grid)
    full = MASKS.full(slice(None)).double()
    assert len(cells) == 60
    assert cells.map_shape == (rows, columns)
    torch.testing.assert_close(cells.cells, pooled(full, rows, columns), rtol=0, atol=1e-6)


def test_sums__same_as_of_masks_pooled_afterwards() -> None:
    cells = PooledMasks(MASKS, (6, 8))
    fold = torch.arange(60) % 5
    torch.testing.assert_close(cells.weighted_sum(Y), pooled(MASKS.weighted_sum(Y), 6, 8), rtol=0, atol=1e-5)
    torch.testing.assert_close(cells.weighted_sum(Y, fold), pooled(MASKS.weighted_sum(Y, fold), 6, 8), rtol=0, atol=1e-5)
    b = torch.randn(MASKS.coarse.shape[1], 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    torch.testing.assert_close(cells.coarse_covariance(b), pooled(MASKS.coarse_covariance(b), 6, 8))
    slow = torch.stack([sum(Y[i, k] * cells.cells[i].square() for i in range(60)) for k in range(2)])  # type: ignore[misc]
    torch.testing.assert_close(cells.weighted_sum_of_squares(Y), slow)


def test_grid__finer_than_the_picture() -> None:
    with pytest.raises(ValueError, match=r"finer than the image of 13 x 18 pixels"):
        PooledMasks(MASKS, 14)
