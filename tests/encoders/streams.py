"""What tests of streamed references share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

import cocoax
from cocoax.references import Reference
from tests.conftest import SmallNet


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def assert_same(found: Reference, expected: Reference) -> None:
    """Equal, bit for bit, in everything but the name."""
    assert found.count == expected.count
    assert torch.equal(found.mean, expected.mean)
    assert torch.equal(found.mean_unit, expected.mean_unit)
    assert (found.samples is None) == (expected.samples is None)
    if found.samples is not None and expected.samples is not None:
        assert torch.equal(found.samples, expected.samples)
    assert found.space == expected.space
    assert found.skipped == expected.skipped


def slow_means(representations: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the raw and of the unit vectors, one vector after the other."""
    rows = representations.double().numpy()
    raw, unit = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for row in rows:
        raw += row / len(rows)
        unit += row / np.sqrt((row**2).sum()) / len(rows)
    return raw, unit


def encoded_by(net: SmallNet, work: Callable[[], object]) -> int:
    """How many inputs the network sees while ``work`` is done."""
    before = net.inputs
    work()
    return net.inputs - before


def checked(encoder: cocoax.Encoder) -> cocoax.Encoder:
    """The encoder with its one-time check behind it (one input encoded twice), so that inputs can be counted exactly."""
    encoder.represent(torch.zeros(2, 3, 16, 16))
    return encoder


def flat_encoder(name: str | None = "flat") -> cocoax.Encoder:
    """Its representations are the input's values, so tests decide what they are."""
    return cocoax.Encoder(lambda batch: batch.flatten(1), name=name)


def write_pictures(folder: Path, names: list[str]) -> list[Path]:
    """Pictures that differ from each other, one for each name."""
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
    return [folder / name for name in names]
