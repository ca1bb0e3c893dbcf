"""Integrated Gradients (Sundararajan et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from cocoax.checks import check_count
from cocoax.inputs import Explicand
from cocoax.methods.gradient import GradientMethod, Points, along, noisy_gradients

MOST_STEPS = 1000  # finding the points takes the cube of their number, and a hundred are enough for anything smooth


@lru_cache
def _quadrature(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points and weights of the Gauss-Legendre quadrature on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    return (1 + nodes) / 2, weights / 2


@dataclass(frozen=True)
class IntegratedGradients(GradientMethod):
    """(x - b) times the mean gradient on the straight line from the baseline b to the explicand x.

    Complete: the values per channel (``raw``) sum to γ(x) - γ(b). The integral is taken by Gauss-Legendre quadrature.

    Args:
        steps: points of the quadrature.
        baseline: where the line begins.
        batch_size: points differentiated at a time; automatic if not given.

    """

    steps: int = 50

    def __post_init__(self) -> None:
        check_count("steps", self.steps, 1, MOST_STEPS)

    def weights(self) -> Tensor:
        """Return the weights of the quadrature on [0, 1]."""
        return torch.from_numpy(_quadrature(self.steps)[1])

    def points(self, explicand: Explicand, baseline: Tensor, rows: slice) -> Points:
        """Return points on the line."""
        nodes = _quadrature(self.steps)[0]
        difference = explicand.tensor - baseline
        return Points(baseline + along(torch.from_numpy(nodes[rows]), explicand.tensor) * difference, difference)

    def chance(self, explicand: Explicand, baseline: Tensor, seed: int = 0) -> Tensor:
        """Return the map of gradients that are noise."""
        return noisy_gradients(explicand, baseline, seed)
