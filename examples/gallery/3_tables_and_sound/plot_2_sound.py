"""
Moments of a recording
======================

Which seconds of a recording sound like the low voice rather than the high one? The encoder measures the loudness of
32 frequency bands.
"""

import numpy as np
import torch

import cocoax
from cocoax.inputs import Sounds


class Bands(torch.nn.Module):
    """The loudness of a sound in 32 bands of frequency."""

    def forward(self, samples):
        """Return ``[n, 32]`` for samples ``[n, 1, T]``."""
        spectra = torch.stft(samples[:, 0], 512, 256, window=torch.hann_window(512), return_complex=True)
        return 0.01 + spectra[:, :256].abs().square().unflatten(1, (32, 8)).mean((2, 3)).sqrt()


def voice(pitch, seed):
    """Return 1.5 s of a hum at a pitch in Hz."""
    times = np.arange(24_000) / 16_000
    random = np.random.default_rng(seed)
    hum = sum(np.sin(2 * np.pi * k * pitch * random.uniform(0.95, 1.05) * times) / k for k in range(1, 12))
    return (0.1 * hum * (1 + np.sin(2 * np.pi * random.uniform(2, 4) * times))).astype(np.float32)


encoder = cocoax.Encoder(Bands(), inputs=Sounds(16_000), name="bands")
low = encoder.reference([voice(110, seed) for seed in range(10)], name="the low voice")
high = encoder.reference([voice(210, seed) for seed in range(10)], name="the high voice")

# %%
# A recording in which the high voice follows the low one.

sound = np.concatenate([voice(110, seed=10), voice(210, seed=11)])
result = cocoax.Rise(samples=400, baseline="noise").explain(encoder, sound, cocoax.contrastive_corpus_similarity(low, high))
result.plot()
print(result.summary)
