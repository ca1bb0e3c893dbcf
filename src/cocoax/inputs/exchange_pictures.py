"""Exchanging cells of a picture with those of others (after Goyal et al. 2019, in pixels)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from cocoax.inputs.drawing import WHOLE
from cocoax.inputs.exchange import Change, Exchange, Importance
from cocoax.inputs.explicand import Explicand
from cocoax.inputs.outlines import draw_outlined

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DONORS = 2  # that take part: those with the lowest scores
_SHIFTS = 2  # ways to lay a donor over the picture, beside cell upon cell


class CellExchange(Exchange):
    """Cells of a grid, each exchanged with a cell of a donor.

    A donor is laid over the picture cell upon cell, and shifted so that what lowers the score in it comes to lie over what
    raises it in the picture, which the importance of the cells of both tells.
    """

    noun = "cell"

    def __init__(
        self, explicand: Explicand, donors: Sequence[Explicand], importance: Importance, grid: tuple[int, int]
    ) -> None:
        if not donors:
            raise ValueError("A counterfactual of a picture needs donors, pictures whose cells it may take; pass donors=.")
        self.explicand, self.donors, self.grid = explicand, list(donors[:_DONORS]), grid
        self.cells = list(product(range(grid[0]), range(grid[1])))
        self.names = tuple(f"row {row + 1}, column {column + 1}" for row, column in self.cells)
        own = importance(explicand).view(grid)
        self.sources = [
            (number, shift)
            for number, donor in enumerate(self.donors)
            for shift in best_shifts(own, importance(donor).view(grid))
        ]
        self.offered = np.array([[self._source(cell, offer) is not None for offer in self.sources] for cell in self.cells])

    def _source(self, cell: tuple[int, int], offer: tuple[int, tuple[int, int]]) -> tuple[int, int] | None:
        """Return the cell of a donor that comes to lie over a cell, if there is one."""
        row, column = cell[0] + offer[1][0], cell[1] + offer[1][1]
        return (row, column) if 0 <= row < self.grid[0] and 0 <= column < self.grid[1] else None

    def _block(self, cell: tuple[int, int], size: tuple[int, ...]) -> tuple[slice, slice]:
        """Return where a cell lies in a picture of this size."""
        starts = [-(-place * side // cells) for place, side, cells in zip(cell, size, self.grid, strict=True)]
        ends = [-(-(place + 1) * side // cells) for place, side, cells in zip(cell, size, self.grid, strict=True)]
        return slice(starts[0], ends[0]), slice(starts[1], ends[1])

    def _exchanged(self, own: Tensor, donors: Sequence[Tensor], choice: np.ndarray) -> Tensor:
        """Return a picture ``[C, H, W]`` with cells of donors."""
        result = own.clone()
        size = tuple(own.shape[1:])
        for part in np.flatnonzero(choice).tolist():
            offer = self.sources[choice[part] - 1]
            source = self._source(self.cells[part], offer)
            assert source is not None
            rows, columns = self._block(self.cells[part], size)
            height, width = rows.stop - rows.start, columns.stop - columns.start
            top, left = (block.start for block in self._block(source, size))
            # Cells of a grid that does not divide the side differ by a pixel.
            top, left = min(top, size[0] - height), min(left, size[1] - width)
            result[:, rows, columns] = donors[offer[0]][:, top : top + height, left : left + width]
        return result

    def made(self, choices: np.ndarray) -> list[Tensor]:
        """Return tensors with some cells from donors."""
        donors = [donor.tensor for donor in self.donors]
        return [self._exchanged(self.explicand.tensor, donors, choice) for choice in choices]

    def outcome(self, choice: np.ndarray) -> Image.Image:
        """Return what the encoder sees of the picture, with the cells exchanged."""
        seen, *donors = (_seen(explicand).permute(2, 0, 1) for explicand in (self.explicand, *self.donors))
        return Image.fromarray(self._exchanged(seen, donors, choice).permute(1, 2, 0).numpy())

    def changes(self, choice: np.ndarray) -> list[Change]:
        """Return which cell comes from where."""
        changes = []
        for part in np.flatnonzero(choice).tolist():
            number, shift = self.sources[choice[part] - 1]
            source = self._source(self.cells[part], (number, shift))
            assert source is not None
            changes.append(
                Change(self.names[part], "its own", f"row {source[0] + 1}, column {source[1] + 1} of donor {number + 1}")
            )
        return changes

    @property
    def height(self) -> float:
        """How many inches a row of drawings should have: as much as the picture's proportions take, and a title."""
        high, wide = self.explicand.tensor.shape[1:]
        return min(0.35 + 3.3 * high / wide, 6.0)

    def draw(self, axes: Sequence[Axes], choice: np.ndarray, titles: Sequence[str]) -> None:
        """Draw picture, donor and result, with lines around what was exchanged."""
        size = tuple(self.explicand.tensor.shape[1:])
        there, here = torch.zeros(size, dtype=torch.bool), torch.zeros(size, dtype=torch.bool)
        offers = [self.sources[number - 1] for number in choice.tolist() if number]
        donor = max({number for number, _ in offers}, key=[number for number, _ in offers].count) if offers else 0
        for part in np.flatnonzero(choice).tolist():
            here[self._block(self.cells[part], size)] = True
            offer = self.sources[choice[part] - 1]
            source = self._source(self.cells[part], offer)
            if source is not None and offer[0] == donor:
                there[self._block(source, size)] = True
        result = torch.from_numpy(np.array(self.outcome(choice)))
        shown = ((_seen(self.explicand), here), (_seen(self.donors[donor]), there), (result, here))
        for ax, title, (picture, mask) in zip(axes, titles, shown, strict=True):
            draw_outlined(ax, picture, WHOLE, mask, fade=False)
            ax.set_title(title, fontsize=10, parse_math=False)


def best_shifts(own: Tensor, theirs: Tensor) -> list[tuple[int, int]]:
    """Return how many rows and columns to go down and right in a donor: none, and the shifts that promise most.

    A shift promises the sum, over the cells that then lie upon each other, of what the picture's raise the score by times
    what the donor's lower it by.
    """
    rows, columns = own.shape
    raised, lowered = own.clamp(min=0), (-theirs).clamp(min=0)
    promise = {}
    for down, right in product(range(1 - rows, rows), range(1 - columns, columns)):
        above = raised[max(0, -down) : rows - max(0, down), max(0, -right) : columns - max(0, right)]
        below = lowered[max(0, down) : rows + min(0, down), max(0, right) : columns + min(0, right)]
        promise[down, right] = float((above * below).sum())
    others = sorted((shift for shift in promise if shift != (0, 0)), key=lambda shift: -promise[shift])
    return [(0, 0), *others[:_SHIFTS]]


def _seen(explicand: Explicand) -> Tensor:
    """Return what the encoder sees of a picture, in its own colours and the size of the tensor, ``[H, W, 3]``."""
    from cocoax.inputs.image import picture_of_tensor

    height, width = explicand.tensor.shape[1:]
    if explicand.picture is None:
        return picture_of_tensor(explicand.tensor)
    image = Image.fromarray(explicand.picture.numpy())
    left, top, right, bottom = explicand.box
    box = (left * image.width, top * image.height, right * image.width, bottom * image.height)
    return torch.from_numpy(np.array(image.resize((width, height), Image.Resampling.BICUBIC, box=box)))
