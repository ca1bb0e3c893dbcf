"""Maps over pictures: their colours, what is within noise and what was not seen."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pytest
import torch

import cocoax
from cocoax.inputs import Picture
from cocoax.show import HeatMap, PlotOptions
from cocoax.show.palette import COLOURS, LONGEST, colour_map
from cocoax.show.raster import heat_image
from cocoax.show.views import VISIBLE, WHOLE, Box, uncertain


def make(values: Any, error: Any = None, box: Box = WHOLE, **options: Any) -> cocoax.Attribution:
    values = torch.as_tensor(values, dtype=torch.float32)
    error = torch.zeros_like(values) if error is None else torch.as_tensor(error, dtype=torch.float32).expand(values.shape)
    picture = torch.full((60, 80, 3), 100, dtype=torch.uint8)
    return cocoax.Attribution(
        **{
            "values": values,
            "score": 0.5,
            "baseline_score": 0.0,
            "standard_error": error,
            "display": Picture(picture, box),
            **options,
        }
    )


def pixels(attribution: cocoax.Attribution, **options: Any) -> np.ndarray:
    view = attribution.view()
    assert isinstance(view, HeatMap)
    return np.asarray(heat_image(view, PlotOptions(**{"limit": 1.0, "opacity": 1.0, **options}))).astype(float)


def middle(image: np.ndarray) -> np.ndarray:
    found: np.ndarray = image[image.shape[0] // 2, image.shape[1] // 2]
    return found


@pytest.mark.parametrize("palette", [COLOURS, "PuOr_r", "PiYG"])
@pytest.mark.parametrize("value", [-1.0, -0.4, 0.0, 0.3, 1.0])
def test_heat__colours_are_those_of_matplotlib(palette: str, value: float) -> None:
    norm = matplotlib.colors.Normalize(-1, 1)
    expected = np.array(colour_map(palette)(norm(value))[:3]) * 255
    assert np.abs(middle(pixels(make(np.full((8, 8), value)), cmap=palette)) - expected).max() < 4


def test_heat__red_raises_and_blue_lowers() -> None:
    image = pixels(make(np.array([[1.0, -1.0]] * 2)))
    left, right = image[300, 20], image[300, -20]
    assert left[0] > left[2] + 50
    assert right[2] > right[0] + 50


def test_heat__opacity_blends_with_the_grey_picture() -> None:
    attribution = make(np.full((4, 4), 1.0))
    none, half, full = (middle(pixels(attribution, opacity=opacity)) for opacity in (0.0, 0.5, 1.0))
    assert np.allclose(none, 100, atol=1)
    assert (full - half).max() > 30  # the photo darkens the colour
    assert np.ptp(none) < 1 < np.ptp(half)


def test_heat__neutral_is_white() -> None:
    assert middle(pixels(make(np.full((4, 4), 0.75), neutral=0.75))).min() > 235


def test_heat__what_was_not_seen_is_faded() -> None:
    image = pixels(make(np.full((4, 4), 1.0), box=(0.25, 0.0, 0.75, 1.0)))
    assert np.allclose(image[300, 30], 255 * 0.75 + 100 * 0.25, atol=1)
    assert middle(image)[0] > middle(image)[2]


def test_heat__keeps_the_shape_of_the_picture() -> None:
    assert pixels(make(np.zeros((4, 4)))).shape == (LONGEST * 60 // 80, LONGEST, 3)


def test_uncertain__by_the_definition() -> None:
    generator = torch.Generator().manual_seed(0)
    values, error = torch.randn(9, 7, generator=generator).numpy(), torch.rand(9, 7, generator=generator).numpy()
    found = uncertain(values, error, 2.0)
    for row in range(9):
        for column in range(7):
            value, doubt = float(values[row, column]), 2 * float(error[row, column])
            includes_zero = value - doubt < 0 < value + doubt
            includes_visible = abs(value) + doubt > VISIBLE * 2.0
            assert found[row, column] == (includes_zero and includes_visible)
    assert not uncertain(values, None, 2.0).any()


@pytest.mark.parametrize("shade", [0, 100, 255])
def test_noise__is_darker_grey_than_what_has_no_effect(shade: int) -> None:
    """On a photo of any brightness, so that the two cannot be taken for each other."""
    display = Picture(torch.full((60, 80, 3), shade, dtype=torch.uint8))
    none, unknown = (middle(pixels(make(np.zeros((8, 8)), error, display=display), opacity=None)) for error in (0.001, 0.4))
    assert none.min() > unknown.max() + 30
    assert none.min() > 200 > unknown.max()
    assert np.ptp(unknown) < 2  # without a hue
    certain = middle(pixels(make(np.full((8, 8), 0.9), 0.4, display=display), opacity=None))
    assert np.ptp(certain) > 60  # far enough from zero
