"""RISE masks against upsampling and cropping at full size, and against enumeration of all masks."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from cocoax.masking import GridMasks
from cocoax.masking.masks import MaskGeometry

Grid = int | tuple[int, int]

SIZES = [
    (16, 16, 4),  # the grid divides the image
    (32, 32, 7),
    (15, 17, 4),
    (12, 30, 4),
    (10, 7, (3, 2)),
    (5, 9, (1, 4)),
    (8, 8, 8),  # cells of one pixel
    (9, 9, 1),  # one cell
]


def slow_mask(bits: Tensor, shift: tuple[int, int], height: int, width: int) -> Tensor:
    """One mask by the paper's recipe: upsample the grid to (g + 1)·cell pixels, crop at the shift; double precision."""
    rows, columns = bits.shape
    cell = (-(-height // rows), -(-width // columns))
    size = ((rows + 1) * cell[0], (columns + 1) * cell[1])
    whole = F.interpolate(bits[None, None].double(), size=size, mode="bilinear", align_corners=False)[0, 0]
    return whole[shift[0] : shift[0] + height, shift[1] : shift[1] + width]


def slow_masks(masks: GridMasks) -> Tensor:
    geometry = masks.geometry
    return torch.stack(
        [
            slow_mask(bits, (int(shift[0]), int(shift[1])), geometry.height, geometry.width)
            for bits, shift in zip(masks.bits, masks.shifts, strict=True)
        ]
    )


def every_mask(height: int, width: int, rows: int, columns: int, keep: float) -> tuple[Tensor, Tensor]:
    """All masks that can be drawn, ``[n, H, W]``, and the probability of each ``[n]``."""
    cell = (-(-height // rows), -(-width // columns))
    masks, chances = [], []
    for bits in product([0, 1], repeat=rows * columns):
        for down, right in product(range(cell[0]), range(cell[1])):
            masks.append(slow_mask(torch.tensor(bits).view(rows, columns), (down, right), height, width))
            chances.append(keep ** sum(bits) * (1 - keep) ** (rows * columns - sum(bits)) / (cell[0] * cell[1]))
    return torch.stack(masks), torch.tensor(chances, dtype=torch.float64)


def slow_pool(mask: Tensor, rows: int, columns: int) -> Tensor:
    """A mask averaged over ``rows`` x ``columns`` stretches of the image, flattened."""
    height, width = mask.shape
    pooled = []
    for row in range(rows):
        for column in range(columns):
            inside = [
                float(mask[y, x])
                for y in range(height)
                for x in range(width)
                if y * rows // height == row and x * columns // width == column
            ]
            pooled.append(sum(inside) / len(inside))
    return torch.tensor(pooled, dtype=torch.float64)


def coarse_shape(height: int, width: int, rows: int, columns: int) -> tuple[int, int]:
    """Twice the cells of the grid (of grids of 8 and more 16, or one more), but no more than there are pixels."""
    rows, columns = (2 * cells if cells <= 8 else max(16, cells + 1) for cells in (rows, columns))
    return min(rows, height), min(columns, width)


# --- masks at full size -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("height", "width", "grid"), SIZES)
@pytest.mark.parametrize("keep", [0.5, 0.2])
def test_full__equals_upsampling_and_cropping(height: int, width: int, grid: Grid, keep: float) -> None:
    masks = GridMasks.draw(height, width, grid, keep, 40, seed=0)

    full = masks.full(slice(0, 40))

    assert full.shape == (40, height, width)
    assert float(full.min()) >= 0
    assert float(full.max()) <= 1 + 1e-6
    torch.testing.assert_close(full.double(), slow_masks(masks), atol=1e-6, rtol=0)


def test_full__some_of_them() -> None:
    masks = GridMasks.draw(12, 10, 3, 0.5, 20, seed=0)

    torch.testing.assert_close(masks.full(slice(5, 9)), masks.full(slice(0, 20))[5:9], atol=1e-7, rtol=0)


def test_full__every_shift_is_covered() -> None:
    """No shift leaves a pixel without cells: with every cell kept, every mask is one everywhere."""
    geometry = MaskGeometry(15, 10, 4, 3)
    shifts = torch.tensor(list(product(range(4), range(4))), dtype=torch.int16)
    masks = GridMasks(geometry, torch.ones(16, 4, 3, dtype=torch.uint8), shifts, 0.5)

    torch.testing.assert_close(masks.full(slice(0, 16)), torch.ones(16, 15, 10), atol=1e-6, rtol=0)


# --- sums over masks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("height", "width", "grid"), SIZES)
def test_weighted_sum__brute_force(height: int, width: int, grid: Grid) -> None:
    masks = GridMasks.draw(height, width, grid, 0.5, 60, seed=1)
    weights = torch.from_numpy(np.random.default_rng(0).standard_normal((60, 3)))
    full = slow_masks(masks)

    expected = torch.zeros(3, height, width, dtype=torch.float64)
    for i in range(60):
        for k in range(3):
            expected[k] += weights[i, k] * full[i]

    torch.testing.assert_close(masks.weighted_sum(weights), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("height", "width", "grid"), SIZES)
def test_weighted_sum__in_groups(height: int, width: int, grid: Grid) -> None:
    masks = GridMasks.draw(height, width, grid, 0.5, 60, seed=1)
    random = np.random.default_rng(0)
    weights = torch.from_numpy(random.standard_normal((60, 2)))
    groups = torch.from_numpy(random.integers(0, 4, 60))
    full = slow_masks(masks)

    expected = torch.zeros(4, 2, height, width, dtype=torch.float64)
    for i in range(60):
        for k in range(2):
            expected[groups[i], k] += weights[i, k] * full[i]

    torch.testing.assert_close(masks.weighted_sum(weights, groups), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("height", "width", "grid"), SIZES)
def test_weighted_sum_of_squares__brute_force(height: int, width: int, grid: Grid) -> None:
    masks = GridMasks.draw(height, width, grid, 0.5, 60, seed=1)
    weights = torch.from_numpy(np.random.default_rng(0).standard_normal((60, 3)))
    full = slow_masks(masks)

    expected = torch.zeros(3, height, width, dtype=torch.float64)
    for i in range(60):
        for k in range(3):
            expected[k] += weights[i, k] * full[i] ** 2

    torch.testing.assert_close(masks.weighted_sum_of_squares(weights), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("grid", [4, 16])
def test_weighted_sum__many_masks(grid: int) -> None:
    """Rounding errors do not add up over many masks, not even where all have the same shift (cells of one pixel)."""
    count = 20_000
    masks = GridMasks.draw(16, 16, grid, 0.5, count, seed=1)
    weights = 0.8 + 0.1 * torch.from_numpy(np.random.default_rng(0).standard_normal((count, 1)))

    expected = torch.zeros(16, 16, dtype=torch.float64)
    for start in range(0, count, 1000):
        rows = slice(start, start + 1000)
        expected += torch.einsum("n,nhw->hw", weights[rows, 0], masks.full(rows).double())

    torch.testing.assert_close(masks.weighted_sum(weights)[0] / count, expected / count, atol=1e-6, rtol=0)


# --- control variates -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("height", "width", "grid"), SIZES)
@pytest.mark.parametrize("keep", [0.5, 0.3])
def test_coarse__pooled_masks_minus_keep(height: int, width: int, grid: Grid, keep: float) -> None:
    rows, columns = (grid, grid) if isinstance(grid, int) else grid
    masks = GridMasks.draw(height, width, grid, keep, 12, seed=2)
    shape = coarse_shape(height, width, rows, columns)

    expected = torch.stack([slow_pool(mask, *shape) - keep for mask in slow_masks(masks)])

    torch.testing.assert_close(masks.coarse, expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize(("height", "width", "rows", "columns"), [(4, 4, 2, 2), (5, 3, 2, 1), (2, 3, 2, 3), (7, 5, 3, 2)])
@pytest.mark.parametrize("keep", [0.5, 0.3])
def test_coarse_covariance__enumeration_of_all_masks(height: int, width: int, rows: int, columns: int, keep: float) -> None:
    full, chances = every_mask(height, width, rows, columns, keep)
    shape = coarse_shape(height, width, rows, columns)
    u = torch.stack([slow_pool(mask, *shape) for mask in full])
    b = torch.from_numpy(np.random.default_rng(0).standard_normal((u.shape[1], 2)))
    assert float(chances.sum()) == pytest.approx(1)
    mean_u, mean_m = (chances[:, None] * u).sum(0), (chances[:, None, None] * full).sum(0)
    expected = torch.zeros(2, height, width, dtype=torch.float64)
    for chance, coarse, mask in zip(chances, u, full, strict=True):
        for k in range(2):
            expected[k] += chance * ((coarse - mean_u) @ b[:, k]) * (mask - mean_m)

    found = GridMasks.draw(height, width, (rows, columns), keep, 10, seed=0).coarse_covariance(b)

    torch.testing.assert_close(found, expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("keep", [0.5, 0.3])
def test_expectation__is_keep_everywhere(keep: float) -> None:
    full, chances = every_mask(7, 5, 3, 2, keep)

    torch.testing.assert_close(
        (chances[:, None, None] * full).sum(0), torch.full((7, 5), keep, dtype=torch.float64), atol=1e-9, rtol=0
    )


# --- drawing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [0.5, 0.3])
def test_draw__mean_of_the_masks_is_keep(keep: float) -> None:
    count = 4000
    full = GridMasks.draw(15, 10, (4, 3), keep, count, seed=3).full(slice(0, count)).double()

    z = (full.mean(0) - keep) / (full.std(0) / count**0.5)

    assert float(z.abs().max()) < 4


@pytest.mark.parametrize("keep", [0.5, 0.3])
def test_draw__cells_are_independent(keep: float) -> None:
    count = 4000
    bits = GridMasks.draw(15, 10, (4, 3), keep, count, seed=3).bits.flatten(1).double()

    correlations = torch.corrcoef(bits.T)
    correlations.fill_diagonal_(0)

    assert float(correlations.abs().max()) * count**0.5 < 4  # z-scores of the 66 pairs


def test_draw__shifts_are_uniform() -> None:
    count = 12_000
    shifts = GridMasks.draw(15, 10, (4, 3), 0.5, count, seed=3).shifts

    for axis, cell in enumerate((4, 4)):
        assert int(shifts[:, axis].min()) >= 0
        counts = torch.bincount(shifts[:, axis].long(), minlength=cell)
        assert len(counts) == cell
        z = (counts / count - 1 / cell) / (1 / cell * (1 - 1 / cell) / count) ** 0.5
        assert float(z.abs().max()) < 4
    pairs = torch.bincount(shifts[:, 0].long() * 4 + shifts[:, 1].long(), minlength=16)
    z = (pairs / count - 1 / 16) / (1 / 16 * (15 / 16) / count) ** 0.5
    assert float(z.abs().max()) < 4  # drawn in each direction by itself


@pytest.mark.parametrize("count", [1, 100, 256, 257, 600])
def test_draw__a_larger_count_begins_with_the_same_masks(count: int) -> None:
    few = GridMasks.draw(15, 10, 3, 0.4, count, seed=5)
    many = GridMasks.draw(15, 10, 3, 0.4, 700, seed=5)

    assert len(few) == count
    assert torch.equal(few.bits, many.bits[:count])
    assert torch.equal(few.shifts, many.shifts[:count])


def test_draw__no_masks() -> None:
    assert len(GridMasks.draw(15, 10, 3, 0.4, 0, seed=5)) == 0


def test_draw__masks_differ_within_a_run_and_between_seeds() -> None:
    masks = GridMasks.draw(32, 32, 7, 0.5, 600, seed=5)
    other = GridMasks.draw(32, 32, 7, 0.5, 600, seed=6)

    assert len(torch.unique(masks.bits.flatten(1), dim=0)) == 600  # blocks do not repeat
    assert not torch.equal(masks.bits, other.bits)


@pytest.mark.parametrize("grid", [9, (9, 2), (2, 7)])
def test_draw__grid_finer_than_the_image(grid: Grid) -> None:
    with pytest.raises(ValueError, match="is finer than the image of 8 x 6 pixels; use a smaller grid"):
        GridMasks.draw(8, 6, grid, 0.5, 10, seed=0)
