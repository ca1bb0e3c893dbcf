"""How parts of a sound are removed: by silence, or by noise that has the sound's own spectrum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cocoax.inputs.audio import from_spectra, to_spectra
from cocoax.masking.baselines import Baseline, Constant
from cocoax.seeding import stream


@dataclass(frozen=True)
class Silence(Constant):
    """Nothing at all: zeros in place of samples or spectra."""

    made_for = "sounds"
    called = "silence"


@dataclass(frozen=True)
class SpectralNoise(Baseline):
    """Noise with the spectrum of the whole sound: as loud at every frequency, but without any course in time.

    Every frequency of the whole sound gets a random phase. Spectra are those of that noise: random numbers in place of them
    would not fit together, and half as loud a noise would be heard.

    Args:
        seed: of the noise; the same for the same seed.

    """

    made_for = "sounds"
    called = "noise"
    seed: int = 0

    def __call__(self, explicand: Tensor) -> Tensor:
        """Return noise for samples ``[1, T]``, or for spectra ``[2, F, frames]``."""
        if explicand.ndim == 3:
            return to_spectra(self(from_spectra(explicand[None]))[0])
        spectrum = torch.fft.rfft(explicand)
        phases = stream(self.seed).uniform(0, 2 * np.pi, spectrum.shape[-1])
        phases[0] = 0  # the mean, and the highest frequency of an even number of samples, have a sign, not a phase
        if explicand.shape[-1] % 2 == 0:
            phases[-1] = 0
        turned = torch.from_numpy(phases).to(explicand)
        noise: Tensor = torch.fft.irfft(spectrum * torch.polar(torch.ones_like(turned), turned), explicand.shape[-1])
        return noise
