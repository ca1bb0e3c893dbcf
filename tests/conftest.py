"""Shared fixtures: a cache of the test's own, and a small encoder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import cocoax
from cocoax.cautions import forget_cautions

torch.set_num_threads(1)  # the networks here are so small that threads only wait for each other


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCOAX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COCOAX_PROGRESS", "0")


@pytest.fixture(autouse=True)
def as_in_a_new_process() -> None:
    """Cautions are said once in a process: none was said by another test, in whatever order they run."""
    forget_cautions()


@pytest.fixture(autouse=True)
def untouched_random_state() -> Iterator[None]:
    """Nothing in the library may touch the global random state."""
    before = torch.random.get_rng_state()
    yield
    assert torch.equal(before, torch.random.get_rng_state()), "the global random state has changed"


class SmallNet(nn.Module):
    """A small convolutional network, 3 channels to 8 dimensions; counts the inputs and batches it has seen.

    The probe by which encoders are known, ``[3, 64, 64]`` for one without preprocessing, is not counted.
    """

    def __init__(self, channels: int = 3, dimension: int = 8, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng():  # modules initialise themselves from the global random state
            self.conv = nn.Conv2d(channels, 6, 3, padding=1)
            self.act = nn.Tanh()
            self.pool = nn.AdaptiveAvgPool2d(2)
            self.fc = nn.Linear(24, dimension)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
        self.inputs = 0
        self.batches = 0

    def forward(self, images: Tensor) -> Tensor:
        if images.shape[-2:] != (64, 64):
            self.inputs += len(images)
            self.batches += 1
        representations: Tensor = self.fc(self.pool(self.act(self.conv(images))).flatten(1))
        return representations


@pytest.fixture
def net() -> SmallNet:
    return SmallNet().eval()


@pytest.fixture
def encoder(net: SmallNet) -> cocoax.Encoder:
    return cocoax.Encoder(net)


def images(count: int, height: int = 16, width: int = 16, channels: int = 3, seed: int = 0) -> Tensor:
    """Random preprocessed images ``[count, channels, height, width]``, seeded."""
    return torch.randn(count, channels, height, width, generator=torch.Generator().manual_seed(seed))
