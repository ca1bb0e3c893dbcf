"""GradientSHAP (Lundberg & Lee 2017; as in Captum, with each explicand paired with its own baseline)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cocoax.attribution.gradient import GradientMethod, Points, along
from cocoax.attribution.method import check_at_least, check_count
from cocoax.seeding import stream


@dataclass(frozen=True)
class GradientShap(GradientMethod):
    """The mean of ∇γ(b + α (x̃ - b)) ⊙ (x̃ - b), with x̃ = x + ε a noisy explicand and α uniform in [0, 1].

    Args:
        samples: number of draws of noise and α.
        noise: standard deviation of ε, in units of the preprocessed input, or of the standard deviation of embeddings.
        baseline: b, for each explicand its own.
        seed: of noise and α.
        batch_size: points differentiated at a time; automatic if not given.

    """

    samples: int = 50
    noise: float = 0.2
    seed: int = 0
    sampled = True

    def __post_init__(self) -> None:
        check_count("samples", self.samples, 2)
        check_at_least("noise", self.noise, 0)

    def draws(self, shape: tuple[int, ...], rows: slice) -> tuple[Tensor, Tensor]:
        """The noise ε ``[n, C, H, W]`` and the positions α ``[n]`` of some samples."""
        noise = self.noise_at(self.seed, rows, shape)
        alphas = stream(self.seed).random(self.samples, dtype="float32")
        return self.noise * noise, torch.from_numpy(alphas[rows])

    def points(self, explicand: Tensor, baseline: Tensor, rows: slice) -> Points:
        """Points between the baseline and the noisy explicand."""
        noise, positions = self.draws(tuple(explicand.shape), rows)
        difference = explicand + noise - baseline
        return Points(baseline + along(positions, explicand) * difference, difference)
