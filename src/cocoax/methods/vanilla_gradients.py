"""Vanilla gradients (Simonyan et al. 2014)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cocoax.inputs import Explicand
from cocoax.methods.gradient import GradientMethod, Points, slope


@dataclass(frozen=True)
class VanillaGradients(GradientMethod):
    """The gradient of the target at the explicand: ∇γ(x). For embeddings of words, ∇γ(x) ⊙ (x - b)."""

    def points(self, explicand: Explicand, baseline: Tensor, rows: slice) -> Points:
        """Return the explicand."""
        return Points(explicand.tensor[None], slope(explicand, baseline))
