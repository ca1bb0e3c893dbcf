"""SmoothGrad (Smilkov et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cocoax.checks import check_count, check_positive
from cocoax.inputs import Explicand
from cocoax.methods.gradient import GradientMethod, Points, noise_at, slope


@dataclass(frozen=True)
class SmoothGrad(GradientMethod):
    """The mean gradient at noisy copies of the explicand: mean of ∇γ(x + ε), ε ~ N(0, noise²).

    Args:
        samples: number of noisy copies.
        noise: standard deviation, in units of the preprocessed input, or of the standard deviation of embeddings.
        seed: of the noise.
        batch_size: points differentiated at a time; automatic if not given.

    """

    samples: int = 50
    noise: float = 0.2
    seed: int = 0
    sampled = True

    def __post_init__(self) -> None:
        check_count("samples", self.samples, 2)
        check_positive("noise", self.noise)

    def points(self, explicand: Explicand, baseline: Tensor, rows: slice) -> Points:
        """Return noisy copies."""
        noise = noise_at(explicand, self.seed, rows)
        return Points(explicand.tensor + self.noise * noise, slope(explicand, baseline))
