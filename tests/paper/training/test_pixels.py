"""Pixels of arrays and of files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cocoax.data.labelled import LabelledImages
from cocoax.inputs.image import ImagePreprocess
from cocoax.paper.training.trainer import Pixels
from tests.paper.training.tiny import noise


def test_pixels__arrays_come_as_they_are() -> None:
    data = noise(5)
    chosen = np.array([3, 0, 3])
    expected = np.asarray(data.images)[chosen].transpose(0, 3, 1, 2)
    assert np.array_equal(Pixels(data, 8)(chosen).numpy(), expected)


def test_pixels__read_only_and_grey_arrays() -> None:
    data = noise(5)
    data.images.setflags(write=False)  # type: ignore[attr-defined]
    assert Pixels(data, 8)(np.arange(2)).shape == (2, 3, 8, 8)
    grey = LabelledImages(np.asarray(data.images)[..., 0], data.labels, data.classes)  # type: ignore[arg-type]
    pixels = Pixels(grey, 8)(np.arange(5)).numpy()
    assert all(np.array_equal(pixels[:, channel], np.asarray(grey.images)) for channel in range(3))


@pytest.mark.parametrize(("side", "resize"), [(8, 8), (70, 80)])
def test_pixels__files_are_resized_and_cropped(tmp_path: Path, side: int, resize: int) -> None:
    files = []
    for number, mode in enumerate(("RGB", "L", "RGBA")):
        picture = np.random.default_rng(number).integers(0, 256, (100, 130, 4), dtype=np.uint8)
        files.append(tmp_path / f"{number}.png")
        Image.fromarray(picture).convert(mode).save(files[-1])
    data = LabelledImages(files, np.zeros(3, int), ["a"])
    pixels = Pixels(data, side)(np.array([2, 0]))
    assert pixels.dtype == torch.uint8
    expected = ImagePreprocess(resize, side)(Image.open(files[0]))
    assert torch.equal(pixels[1], (expected * 255).round().to(torch.uint8))
    assert pixels.shape == (2, 3, side, side)
