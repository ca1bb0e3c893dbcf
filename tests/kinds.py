"""A kind of input of a user's own: recordings of several sensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import cocoax
from cocoax.inputs import Explicand, Inputs, Names

CHANNELS, STEPS = 3, 10


class Recordings(Inputs):
    """Recordings ``[C, T]``; each channel is cut into segments of its own, so that elements, not places, belong to features.

    The first ``fixed`` steps of every channel are never removed.
    """

    noun = "recording"

    def __init__(self, segments: int = 2, fixed: int = 0) -> None:
        self.segments = segments
        self.fixed = fixed

    def is_one(self, inputs: object) -> bool:
        return isinstance(inputs, Explicand) or (isinstance(inputs, Tensor) and inputs.ndim == 2)

    def prepare(self, item: Any) -> Tensor:
        tensor: Tensor = item.tensor if isinstance(item, Explicand) else item
        return tensor

    def explicand(self, item: Any) -> Explicand:
        if isinstance(item, Explicand):
            return item
        channels, steps = item.shape
        members = torch.arange(steps) * self.segments // steps + self.segments * torch.arange(channels)[:, None]
        members[:, : self.fixed] = -1
        names = tuple(f"channel {channel}, part {part}" for channel in range(channels) for part in range(self.segments))
        return Explicand(item, Names(names), members)


class Series(Recordings):
    """Recordings ``[C, T]`` whose features are the steps, all channels together: places, as pixels are."""

    def explicand(self, item: Any) -> Explicand:
        return item if isinstance(item, Explicand) else Explicand(item, Names(tuple(map(str, range(item.shape[1])))))


class RecordingNet(nn.Module):
    """From recordings ``[n, C, T]`` to 4 dimensions, nonlinear; remembers the size of every batch."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(7)
        self.matrix = nn.Parameter(torch.randn(CHANNELS * STEPS, 4, generator=generator) * 0.3)
        self.batches: list[int] = []

    def forward(self, batch: Tensor) -> Tensor:
        self.batches = [*self.batches, len(batch)]  # stored anew: what is only read counts as a setting of the network
        return torch.tanh(batch.flatten(1) @ self.matrix) + 0.1


def recordings(count: int, seed: int = 0) -> Tensor:
    """Random recordings ``[count, C, T]``, seeded."""
    return torch.randn(count, CHANNELS, STEPS, generator=torch.Generator().manual_seed(seed))


def recording_encoder(inputs: Inputs | None = None) -> cocoax.Encoder:
    """Return an encoder of recordings."""
    return cocoax.Encoder(RecordingNet(), inputs=Recordings() if inputs is None else inputs, name="recordings")


class SeveralConstants(cocoax.Baseline):
    """Several baselines for any explicand: constants."""

    def __init__(self, *values: float) -> None:
        self.values = values

    def __call__(self, explicand: Tensor) -> Tensor:
        return torch.stack([torch.full_like(explicand, value) for value in self.values])
