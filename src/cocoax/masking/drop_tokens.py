"""Dropped tokens: of a vision transformer, removed patches are left out of the sequence."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cocoax.encoders import Encoder
from cocoax.encoders.patches import Shortened, patches_of, without_patches
from cocoax.inputs import Explicand
from cocoax.masking.removals import Removal
from cocoax.masking.segments import check_sides, grid_segments


@dataclass(frozen=True)
class DropTokens(Removal):
    """Removed patches are left out of the tokens of a vision transformer; the others keep their places.

    There is nothing to put in place, so no baseline to choose, and half the tokens take half the time. Class tokens and
    registers stay. With all patches dropped they are all there is; of an encoder without any (SigLIP, or the mean over
    patches) the emptied input is a picture of zeros, which is the mean colour of most.

    Features are cells of whole patches, as equal as their number allows. Maps show the value of its cell at every pixel, and
    ``features`` has one for each cell, row by row.

    Args:
        grid: cells, a number or (rows, columns); by default those of the method (``Rise(grid=7)``), and where it has none,
            as curves and ``Occlusion``, one for each patch.

    """

    made_for = "pictures and vision transformers"
    grid: int | tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.grid is not None:
            check_sides(self.grid)

    def divided(self, explicand: Explicand, encoder: Encoder, grid: int | tuple[int, int] | None = None) -> Explicand:
        """Return the picture with cells of whole patches as its features; one that has features of its own is checked."""
        patches = patches_of(encoder, explicand.tensor)
        (height, width), (rows, columns) = patches.size, patches.grid
        if explicand.members is not None:
            _check_whole(explicand.members, height, width, rows, columns)
            return explicand
        asked = self.grid or grid or (rows, columns)
        across = check_sides(asked)
        if across[0] > rows or across[1] > columns:
            raise ValueError(
                f"A grid of {across[0]} x {across[1]} is finer than the {rows} x {columns} patches that {encoder.name!r} "
                "cuts a picture into; use a smaller grid."
            )
        cells = grid_segments(rows, columns, across)
        members = torch.full(tuple(explicand.tensor.shape[1:]), -1)  # an incomplete patch at the border is never seen
        members[: rows * height, : columns * width] = cells.repeat_interleave(height, 0).repeat_interleave(width, 1)
        return replace(explicand, members=members)

    def through(self, encoder: Encoder, explicand: Explicand) -> Encoder:
        """Return the encoder that leaves tokens out."""
        if isinstance(encoder.module, Shortened):
            return encoder
        return without_patches(encoder, patches_of(encoder, explicand.tensor))

    def emptied(self, explicand: Explicand) -> Tensor:
        """Return the picture over a mask that keeps nothing, ``[C + 1, H, W]``."""
        return torch.cat([explicand.tensor, torch.zeros_like(explicand.tensor[:1])])

    def masked(self, explicand: Explicand, emptied: Tensor, kept: Tensor) -> Tensor:
        """Return the picture over masks, ``[n, C + 1, H, W]``."""
        pictures = explicand.tensor.expand(len(kept), *explicand.tensor.shape)
        return torch.cat([pictures, explicand.elements_kept(kept).to(pictures)], dim=1)

    def in_order(self, explicand: Explicand, kept: Tensor) -> Tensor:
        """Return those with as many patches left together."""
        return torch.argsort(explicand.elements_kept(kept).flatten(1).sum(1), stable=True)


def _check_whole(members: Tensor, height: int, width: int, rows: int, columns: int) -> None:
    """Raise unless features are made of whole patches."""
    fits = members.ndim == 2
    if fits:
        inside = members[: rows * height, : columns * width].reshape(rows, height, columns, width)
        fits = bool((inside == inside[:, :1, :, :1]).all())
    if not fits:
        raise ValueError(
            f"DropTokens removes whole patches of {height} x {width} pixels, and features of this explicand cut through "
            "them; leave out its 'members', or make them of whole patches."
        )
