"""GradientSHAP (Lundberg & Lee 2017; as in Captum, with each explicand paired with its own baseline)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cocoax.checks import check_at_least, check_count
from cocoax.inputs import Explicand
from cocoax.methods.gradient import GradientMethod, Points, along, noise_at, noisy_gradients
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

    def draws(self, explicand: Explicand, rows: slice) -> tuple[Tensor, Tensor]:
        """Return the noise ε ``[n, C, ...]`` and the positions α ``[n]`` of some samples."""
        alphas = stream(self.seed).random(self.samples, dtype="float32")
        return self.noise * noise_at(explicand, self.seed, rows), torch.from_numpy(alphas[rows])

    def points(self, explicand: Explicand, baseline: Tensor, rows: slice) -> Points:
        """Return points between the baseline and the noisy explicand."""
        noise, positions = self.draws(explicand, rows)
        difference = explicand.tensor + noise - baseline
        return Points(baseline + along(positions, baseline) * difference, difference)

    def chance(self, explicand: Explicand, baseline: Tensor, seed: int = 0) -> Tensor:
        """Return the map of gradients that are noise."""
        return noisy_gradients(explicand, baseline, seed)
