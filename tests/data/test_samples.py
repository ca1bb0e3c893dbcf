"""The sample photos and their collage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from cocoax.data import COLLAGE, collage, photo, samples

NAMES = ("astronaut", "cat", "coffee", "rocket", "motorbike")


@pytest.mark.parametrize("name", NAMES)
def test_photo__is_an_rgb_picture_in_memory(name: str) -> None:
    image = photo(name)
    assert image.mode == "RGB"
    assert min(image.size) >= 300
    pixels = np.asarray(image)  # the file it came from is closed
    assert pixels.std() > 20


def test_photo__is_the_one_of_scikit_image() -> None:
    data = pytest.importorskip("skimage.data")
    assert np.array_equal(np.asarray(photo("cat")), data.chelsea())
    assert np.array_equal(np.asarray(photo("astronaut")), data.astronaut())


def test_photo__unknown_name_lists_the_known() -> None:
    with pytest.raises(ValueError, match=r"No sample photo is called 'dog'; there are ") as caught:
        photo("dog")
    assert all(name in str(caught.value) for name in NAMES)


def test_photo__missing_package_names_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(package: str) -> Any:
        raise ModuleNotFoundError(f"No module named {package!r}")

    monkeypatch.setattr(samples, "files", missing)
    with pytest.raises(ImportError, match=r"scikit-image; install it with: pip install 'cocoax\[starter\]'"):
        photo("cat")


@pytest.mark.parametrize("side", [512, 100])
def test_collage__a_quadrant_each(side: int) -> None:
    assert COLLAGE == ("cat", "coffee", "rocket", "motorbike")
    canvas = collage(side)
    assert canvas.size == (side, side)
    assert canvas.mode == "RGB"
    half = side // 2
    for name, (left, top) in zip(COLLAGE, ((0, 0), (half, 0), (0, half), (half, half)), strict=True):
        pixels = np.asarray(photo(name))
        height, width = pixels.shape[:2]
        short = min(height, width)
        row, column = (height - short) // 2, (width - short) // 2
        square = Image.fromarray(np.ascontiguousarray(pixels[row : row + short, column : column + short]))
        expected = np.asarray(square.resize((half, half), Image.Resampling.BICUBIC))
        assert np.array_equal(np.asarray(canvas)[top : top + half, left : left + half], expected), name


@pytest.mark.parametrize("side", [0, 1, -4])
def test_collage__too_small(side: int) -> None:
    with pytest.raises(ValueError, match=rf"'side' parameter must be .*Got {side} instead"):
        collage(side)
