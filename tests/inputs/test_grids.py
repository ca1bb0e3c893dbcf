"""Segments: label maps, and what users get wrong about them."""

from __future__ import annotations

import pytest
import torch

from cocoax.inputs.segmentation import check_grid, in_proportion
from cocoax.masking import grid_segments

SIZES = [(16, 16, 4), (15, 17, 4), (10, 7, (3, 2)), (7, 7, 7), (5, 9, 1), (2, 5, (2, 5)), (224, 224, 7)]


@pytest.mark.parametrize(("height", "width", "grid"), SIZES)
def test_grid_segments__slow_version(height: int, width: int, grid: int | tuple[int, int]) -> None:
    rows, columns = (grid, grid) if isinstance(grid, int) else grid

    segments = grid_segments(height, width, grid)

    assert segments.shape == (height, width)
    for y in range(height):
        for x in range(width):
            # A pixel belongs to the rectangle that its upper left corner lies in.
            assert int(segments[y, x]) == int(y / height * rows + 1e-9) * columns + int(x / width * columns + 1e-9)


@pytest.mark.parametrize(("height", "width", "grid"), SIZES)
def test_grid_segments__as_equal_as_the_size_allows(height: int, width: int, grid: int | tuple[int, int]) -> None:
    rows, columns = (grid, grid) if isinstance(grid, int) else grid

    segments = grid_segments(height, width, grid)

    assert torch.unique(segments).tolist() == list(range(rows * columns))
    for label in range(rows * columns):
        inside = segments == label
        tall, wide = int(inside.any(1).sum()), int(inside.any(0).sum())
        assert int(inside.sum()) == tall * wide  # a rectangle
        assert tall in (height // rows, -(-height // rows))
        assert wide in (width // columns, -(-width // columns))


def test_check_grid__number_or_pair() -> None:
    assert check_grid(16, 20, 4) == (4, 4)
    assert check_grid(16, 20, (2, 5)) == (2, 5)


@pytest.mark.parametrize("grid", [0, -1, (0, 3), (3, 0)])
def test_check_grid__not_positive(grid: int | tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="'grid' parameter must be at least 1"):
        check_grid(16, 16, grid)


@pytest.mark.parametrize("grid", [9, (9, 2), (2, 7)])
def test_check_grid__finer_than_the_image(grid: int | tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="is finer than the image of 8 x 6 pixels; use a smaller grid"):
        check_grid(8, 6, grid)


@pytest.mark.parametrize("grid", [3.5, "7", (3,), (2, 2, 2), None])
def test_check_grid__not_a_grid(grid: object) -> None:
    with pytest.raises((ValueError, TypeError), match="'grid' parameter"):
        check_grid(16, 16, grid)  # type: ignore[arg-type]


def test_in_proportion__cells_are_as_square_as_they_can_be() -> None:
    assert in_proportion(7, 224, 224) == 7
    assert in_proportion(7, 64, 864) == (2, 24)
    assert in_proportion(7, 864, 64) == (26, 2)
    assert in_proportion(7, 1, 5000) == (1, 49)
    for height, width in ((192, 256), (256, 192), (160, 320), (100, 900)):
        fitted = in_proportion(7, height, width)
        assert isinstance(fitted, tuple)
        rows, columns = fitted
        assert 40 < rows * columns < 58
        assert 0.7 < (height / rows) / (width / columns) < 1.4
