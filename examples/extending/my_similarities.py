"""The correlation of two representations, and the Cauchy kernel."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

import cocoax
from cocoax.similarity import SIMILARITIES, LinearSimilarity


@dataclass(frozen=True)
class Correlation(LinearSimilarity):
    """Pearson's correlation of the entries of two representations: the cosine of what is left without their means."""

    def features(self, representations: Tensor) -> Tensor:
        """Return centred unit vectors ``[n, d]``."""
        centred = representations - representations.mean(1, keepdim=True)
        norms: Tensor = torch.linalg.vector_norm(centred, dim=1, keepdim=True)
        constant = (norms[:, 0] == 0).nonzero()[:, 0].tolist()
        if constant:
            raise ValueError(
                f"Representation {constant[0]} of {len(representations)} has the same value everywhere, so its correlation "
                "is undefined; leave that input out, or use similarity='dot'."
            )
        return centred / norms


@dataclass(frozen=True)
class Cauchy(cocoax.Similarity):
    """1 / (1 + γ ‖z - r‖²): like the RBF kernel, but far points still count for something."""

    gamma: float = 1.0

    def __post_init__(self) -> None:
        if not self.gamma > 0:
            raise ValueError(f"The 'gamma' parameter must be above 0. Got {self.gamma!r} instead.")

    def pairwise(self, representations: Tensor, references: Tensor) -> Tensor:
        """Return the kernel matrix ``[n, m]``."""
        squared = (representations[:, None] - references[None]).square().sum(2)
        return 1 / (1 + self.gamma * squared)


SIMILARITIES["correlation"] = Correlation  # now similarity="correlation" works wherever a similarity is asked for
SIMILARITIES["cauchy"] = Cauchy
