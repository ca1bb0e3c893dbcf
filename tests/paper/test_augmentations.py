"""Augmentations: each does what its definition says, seeded."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from cocoax.paper.studies.augmentations import AUGMENTATIONS, _augmented, _colour_jitter, _cutout, _resized_crop
from cocoax.seeding import stream
from tests.data.tiny import picture

PICTURE = picture(60, 60, seed=3)


def pixels(image: Image.Image) -> np.ndarray:
    return np.asarray(image).astype(int)


def test_augmented__seven_of_them_seeded_and_apart() -> None:
    first, again, other = _augmented(PICTURE, 0), _augmented(PICTURE, 0), _augmented(PICTURE, 1)
    assert list(first) == list(AUGMENTATIONS)
    assert len(first) == 7
    for name in first:
        assert first[name].size == PICTURE.size
        assert first[name].mode == "RGB"
        assert np.array_equal(pixels(first[name]), pixels(again[name]))
        random = name in ("crop", "crop and flip", "colour jitter", "cutout")
        assert np.array_equal(pixels(first[name]), pixels(other[name])) != random
        assert not np.array_equal(pixels(first[name]), pixels(PICTURE))


def test_augmented__exact_ones() -> None:
    found = _augmented(PICTURE)
    original = pixels(PICTURE)
    assert np.array_equal(pixels(found["flip"]), original[:, ::-1])
    assert np.array_equal(pixels(found["rotation"]), np.rot90(original))
    grey = pixels(found["greyscale"])
    assert (grey == grey[..., :1]).all()
    assert np.abs(grey[..., 0] - original @ [0.299, 0.587, 0.114]).max() <= 1


def test_augmented__input_is_left_alone() -> None:
    before = pixels(PICTURE).copy()
    _augmented(PICTURE)
    assert np.array_equal(pixels(PICTURE), before)


def test_resized_crop__shows_a_fifth_to_a_half() -> None:
    """A picture whose colours say where they come from: red across, green down."""
    ramp = np.zeros((200, 200, 3), np.uint8)
    ramp[..., 0], ramp[..., 1] = np.arange(200)[None], np.arange(200)[:, None]
    areas, ratios, corners = [], [], []
    for seed in range(200):
        part = pixels(_resized_crop(Image.fromarray(ramp), stream(seed)))
        width, height = np.ptp(part[..., 0]) + 1, np.ptp(part[..., 1]) + 1
        areas.append(width * height / 200**2)
        ratios.append(width / height)
        corners.append((part[0, 0, 0], part[0, 0, 1]))
    assert 0.18 < min(areas) < 0.24
    assert 0.46 < max(areas) < 0.52
    assert np.mean(areas) == pytest.approx(0.35, abs=0.02)
    assert 0.7 < min(ratios) < 0.85
    assert 1.2 < max(ratios) < 1.4
    assert len(set(corners)) > 150


def test_resized_crop__of_a_strip_that_no_part_fits() -> None:
    strip = Image.new("RGB", (400, 4))
    assert _resized_crop(strip, stream(0)).size == (400, 4)
    assert _cutout(strip, stream(0)).size == (400, 4)


def test_cutout__a_grey_rectangle_of_the_right_area() -> None:
    white = Image.new("RGB", (100, 80), "white")
    areas = []
    for seed in range(100):
        grey = (pixels(_cutout(white, stream(seed))) == 128).all(2)
        rows, columns = np.nonzero(grey)
        assert grey.sum() == (np.ptp(rows) + 1) * (np.ptp(columns) + 1)  # a rectangle
        assert ((pixels(_cutout(white, stream(seed))) == 255).all(2) | grey).all()
        areas.append(grey.mean())
    assert 0.09 < min(areas) < 0.12
    assert 0.22 < max(areas) < 0.26


def test_colour_jitter__factors_lie_in_their_ranges() -> None:
    """On a grey picture only brightness counts: contrast and saturation leave a uniform grey as it is."""
    grey = Image.new("RGB", (8, 8), (100, 100, 100))
    found = [pixels(_colour_jitter(grey, stream(seed)))[0, 0, 0] for seed in range(200)]
    assert 20 <= min(found) < 35
    assert 165 < max(found) <= 180
    assert np.mean(found) == pytest.approx(100, abs=8)


def test_colour_jitter__hue_turns_by_a_fifth_at_most() -> None:
    import colorsys

    red = Image.new("RGB", (4, 4), (200, 50, 50))
    turns = []
    for seed in range(200):
        image = _colour_jitter(red, stream(seed), strength=0)
        hue = colorsys.rgb_to_hsv(*(pixels(image)[0, 0] / 255))[0]
        turns.append((hue + 0.5) % 1 - 0.5)
    assert -0.21 < min(turns) < -0.17
    assert 0.17 < max(turns) < 0.21
