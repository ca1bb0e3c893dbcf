"""A recipe, data and a comparison for trainings that take a second."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cocoax.data.labelled import LabelledImages
from cocoax.paper.training.recipes import Augmentation, Recipe
from cocoax.paper.training.trainer import Training

AUGMENTATION = Augmentation(8, mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3))
RECIPE = Recipe("simclr", "tiny", AUGMENTATION, side=8, epochs=3, batch_size=8, learning_rate=0.05, projection=8)
STEPS = 9  # three epochs of 27 // 8 batches


def noise(number: int = 27, side: int = 8, seed: int = 0) -> LabelledImages:
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 256, (number, side, side, 3), dtype=np.uint8)
    return LabelledImages(pixels, random.integers(0, 3, number), ["a", "b", "c"])


def patterns(number: int, seed: int = 0) -> LabelledImages:
    """Rows, columns and checks in every colour, in which an untrained network sees the colours first."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, number)
    rows, columns = np.mgrid[:8, :8] // 2
    shapes = np.stack([rows % 2, columns % 2, (rows + columns) % 2])[labels][..., None]
    pixels = 70 * shapes + random.integers(0, 30, (number, 8, 8, 3)) + random.integers(0, 150, (number, 1, 1, 3))
    return LabelledImages(pixels.astype(np.uint8), labels, ["rows", "columns", "checks"])


def quiet(_line: str) -> None:
    pass


def weights(training: Training) -> dict[str, Tensor]:
    """Everything that the rest of a training depends on."""
    momenta = {
        f"{number} {name}": value
        for number, state in training.optimizer.state_dict()["state"].items()
        for name, value in state.items()
        if isinstance(value, Tensor)
    }
    return {name: tensor.clone() for name, tensor in (training.objective.state_dict() | momenta).items()}


def assert_same(first: Training, second: Training) -> None:
    assert first.step == second.step
    ours, theirs = weights(first), weights(second)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
