"""Stripes: a picture divided into horizontal bands."""

from dataclasses import dataclass, replace

import torch

from cocoax import Explicand
from cocoax.inputs import Features


@dataclass(frozen=True)
class Stripes(Features):
    """Horizontal stripes of about one height.

    Args:
        count: how many.

    """

    made_for = "image"
    count: int = 8

    def apply(self, explicand, encoder):
        """Return the picture with its stripes as features."""
        height, width = explicand.tensor.shape[-2:]
        labels = (torch.arange(height) * self.count // height)[:, None].expand(height, width)
        divided: Explicand = replace(explicand, feature_ids=labels.contiguous(), grid=None, tree=None)
        return divided
