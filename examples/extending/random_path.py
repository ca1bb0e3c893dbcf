"""Integrated Gradients by chance: the mean gradient at random positions on the line from the baseline to the input."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cocoax.checks import check_count
from cocoax.inputs import Explicand
from cocoax.methods import GradientMethod, Points
from cocoax.methods.gradients import along
from cocoax.seeding import stream


@dataclass(frozen=True)
class RandomPath(GradientMethod):
    """(x - b) times the mean of ∇γ(b + u (x - b)), with u uniform in [0, 1].

    Args:
        samples: number of random positions u.
        seed: of the positions.

    """

    samples: int = 50
    seed: int = 0
    sampled = True  # no annotation: it is not an option but a fact about the class

    def __post_init__(self) -> None:
        check_count("samples", self.samples, 2)

    def points(self, explicand: Explicand, baseline: Tensor, rows: slice) -> Points:
        """Return points on the line, and its direction."""
        positions = torch.tensor([stream(self.seed, row).random() for row in range(rows.start, rows.stop)])
        difference = explicand.tensor - baseline
        return Points(baseline + along(positions, explicand.tensor) * difference, difference)
