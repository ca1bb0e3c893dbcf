"""Grids and label maps: which pixels are removed together, as labels ``[H, W]`` from 0 to n-1."""

from __future__ import annotations

import math
from numbers import Integral

import torch
from torch import Tensor


def grid_segments(height: int, width: int, grid: int | tuple[int, int]) -> Tensor:
    """Return a ``grid`` of rectangles, as equal as the size allows: ``[height, width]``, numbered row by row."""
    rows, columns = check_grid(height, width, grid)
    row = torch.arange(height) * rows // height
    column = torch.arange(width) * columns // width
    return row[:, None] * columns + column


def in_proportion(side: int, height: int, width: int) -> int | tuple[int, int]:
    """Return about ``side`` x ``side`` cells, as square as a picture's proportions allow: (rows, columns), or the side."""
    rows = max(1, round(side * (height / width) ** 0.5))
    columns = max(1, round(side**2 / rows))
    return side if rows == columns else (rows, columns)


def coarsest_grid(labels: Tensor) -> Tensor:
    """Return a label map ``[H, W]`` at the places of the coarsest grid that its parts are made of, ``[rows, columns]``."""
    steps = []
    for axis in (0, 1):
        changes = (labels.diff(dim=axis) != 0).any(1 - axis).nonzero()[:, 0] + 1
        steps.append(math.gcd(labels.shape[axis], *changes.tolist()))
    return labels[:: steps[0], :: steps[1]]


def check_grid(height: int, width: int, grid: int | tuple[int, int]) -> tuple[int, int]:
    """Return the grid as (rows, columns); raise if it is finer than the image."""
    rows, columns = check_sides(grid)
    if rows > height or columns > width:
        raise ValueError(
            f"A grid of {rows} x {columns} is finer than the image of {height} x {width} pixels; use a smaller grid."
        )
    return rows, columns


def check_sides(grid: int | tuple[int, int]) -> tuple[int, int]:
    """Return a grid as (rows, columns); raise if it is none."""
    sides = (grid, grid) if isinstance(grid, Integral) else grid
    if not (isinstance(sides, tuple | list) and len(sides) == 2 and all(isinstance(side, Integral) for side in sides)):
        raise ValueError(f"The 'grid' parameter must be an integer, or two: (rows, columns). Got {grid!r} instead.")
    rows, columns = sides
    if rows < 1 or columns < 1:
        raise ValueError(f"The 'grid' parameter must be at least 1. Got {grid} instead.")
    return rows, columns
