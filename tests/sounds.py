"""Small sounds, and a small network that hears them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import cocoax
from cocoax.inputs import Sounds

RATE = 1000


class Ear(nn.Module):
    """Samples ``[n, 1, T]`` of any length to 8 dimensions, smooth; keeps the shape of the last batch and counts inputs."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng():  # modules initialise themselves from the global random state
            self.conv = nn.Conv1d(1, 12, 32, stride=4, bias=False)
            self.fc = nn.Linear(12, 8, bias=False)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            self.fc.weight.copy_(torch.randn(8, 12, generator=generator))
            times = torch.arange(32) / RATE
            for index, kernel in enumerate(self.conv.weight):  # tones from 20 to 460 Hz
                kernel[0] = torch.hann_window(32) * torch.cos(2 * torch.pi * (20 + 40 * index) * times + index)
        self.heard: tuple[int, ...] = ()
        self.inputs = 0

    def forward(self, samples: Tensor) -> Tensor:
        self.heard = tuple(samples.shape)
        self.inputs += len(samples)
        power = torch.tanh(self.conv(samples)).square().mean(2)
        representations: Tensor = self.fc((0.01 + power).log())
        return representations


def listener(features: str = "segments", segments: int = 6, bands: int = 2, **options: Any) -> cocoax.Encoder:
    """A small encoder of sounds at 1000 samples per second."""
    kind = Sounds(RATE, features=features, segments=segments, bands=bands, **options)  # type: ignore[arg-type]
    return cocoax.Encoder(Ear().eval(), inputs=kind, name="ear")


def tone(hertz: float, seconds: float = 1.0, rate: int = RATE, size: float = 0.5) -> np.ndarray:
    """A sine, as float32."""
    times = np.arange(round(seconds * rate)) / rate
    return (size * np.sin(2 * np.pi * hertz * times)).astype(np.float32)


def hum(seconds: float = 1.0, seed: int = 0) -> np.ndarray:
    """A tone that comes and goes in noise, at 1000 samples per second."""
    times = np.arange(round(seconds * RATE)) / RATE
    noise = np.random.default_rng(seed).standard_normal(len(times))
    course = 0.5 + 0.5 * np.sin(2 * np.pi * (1.5 * times + seed))
    return (course * tone(60 + 40 * seed, seconds) + 0.05 * noise).astype(np.float32)


def pitch(samples: Tensor | np.ndarray, rate: int) -> float:
    """The loudest frequency, in hertz."""
    spectrum = np.abs(np.fft.rfft(np.asarray(samples) * np.hanning(len(samples))))
    return float(np.argmax(spectrum) * rate / len(samples))


def question(encoder: cocoax.Encoder) -> cocoax.Target:
    """Low hums rather than high ones."""
    corpus = encoder.reference([hum(seed=1), hum(1.2, seed=2)], name="low")
    foil = encoder.reference([hum(seed=5), hum(0.9, seed=6)], name="high")
    return cocoax.contrastive_corpus_similarity(corpus, foil)
