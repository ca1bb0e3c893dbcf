"""How parts of a sound are removed: by silence, or by noise that has the sound's own spectrum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cocoax.features.baselines import Baseline, Constant
from cocoax.seeding import stream


@dataclass(frozen=True)
class Silence(Constant):
    """Nothing at all: zeros in place of samples or spectra."""

    made_for = "sounds"
    called = "silence"


@dataclass(frozen=True)
class SpectralNoise(Baseline):
    """Noise with the spectrum of the whole sound: as loud at every frequency, but without any course in time.

    Args:
        seed: of the noise; the same for the same seed.

    """

    made_for = "sounds"
    called = "noise"
    seed: int = 0

    def __call__(self, explicand: Tensor) -> Tensor:
        """Return noise for samples ``[1, T]``, or for spectra ``[2, F, frames]``."""
        random = stream(self.seed)
        if explicand.ndim == 3:
            power = explicand.square().sum(0).mean(1, keepdim=True)
            draws = random.standard_normal(tuple(explicand.shape), dtype=np.float32)
            noise: Tensor = torch.from_numpy(draws).to(explicand) * (power / 2).sqrt()
            return noise
        spectrum = torch.fft.rfft(explicand)
        phases = torch.from_numpy(random.uniform(0, 2 * np.pi, spectrum.shape[-1])).to(explicand)
        noise = torch.fft.irfft(torch.polar(spectrum.abs(), phases.expand_as(spectrum.abs())), explicand.shape[-1])
        return noise.to(explicand)
