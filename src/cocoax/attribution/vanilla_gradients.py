"""Vanilla gradients (Simonyan et al. 2014)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cocoax.attribution.gradient import GradientMethod, Points


@dataclass(frozen=True)
class VanillaGradients(GradientMethod):
    """The gradient of the target at the explicand: ∇γ(x). For embeddings of words, ∇γ(x) ⊙ (x - b)."""

    def points(self, explicand: Tensor, baseline: Tensor, rows: slice) -> Points:
        """The explicand."""
        return Points(explicand[None], self.slope(explicand, baseline))
