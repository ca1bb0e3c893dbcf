"""The colour of the picture's border in place of removed pixels."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

import cocoax


@dataclass(frozen=True)
class Border(cocoax.Baseline):
    """One colour everywhere: the mean of the outermost pixels.

    Args:
        width: how many rows and columns of pixels count as the border.

    """

    made_for = "images"
    width: int = 1

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ValueError(f"The 'width' parameter must be at least 1. Got {self.width} instead.")

    def __call__(self, explicand: Tensor) -> Tensor:
        """Return the picture ``[C, H, W]`` of that colour."""
        inside = explicand[:, self.width : -self.width, self.width : -self.width]
        pixels = explicand[0].numel() - inside[0].numel()
        colour = (explicand.sum((1, 2)) - inside.sum((1, 2))) / pixels
        return colour[:, None, None].expand_as(explicand).clone()
