"""The page's pictures show the numbers, and what is not known."""

from __future__ import annotations

import base64
import io
from typing import Any

import matplotlib
import numpy as np
import pytest
import torch
from PIL import Image

import cocoax
from cocoax.app.drawing import (
    GRIDS,
    PALETTES,
    Map,
    Reading,
    View,
    card,
    curve_plot,
    draw,
    limit_of,
    read,
)
from cocoax.inputs import Picture
from cocoax.show.palette import colour_map
from cocoax.show.raster import LONGEST, jpeg_uri
from cocoax.show.views import VISIBLE, WHOLE, Box
from tests.app.colours import encoder, flag


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


def pixels(attribution: cocoax.Attribution, view: View | None = None, limit: float = 1.0) -> np.ndarray:
    return np.asarray(draw(attribution, View() if view is None else view, limit)).astype(float)


def middle(image: np.ndarray) -> np.ndarray:
    found: np.ndarray = image[image.shape[0] // 2, image.shape[1] // 2]
    return found


# --- colours ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("palette", PALETTES)
@pytest.mark.parametrize("value", [-1.0, -0.4, 0.0, 0.3, 1.0])
def test_draw__colours_are_those_of_matplotlib(palette: str, value: float) -> None:
    norm = matplotlib.colors.Normalize(-1, 1)
    expected = np.array(colour_map(PALETTES[palette].colours)(norm(value))[:3]) * 255
    shown = middle(pixels(make(np.full((8, 8), value)), View(opacity=1, palette=palette)))
    assert np.abs(shown - expected).max() < 4


def test_draw__red_raises_and_blue_lowers() -> None:
    image = pixels(make(np.array([[1.0, -1.0]] * 2)), View(opacity=1))
    left, right = image[300, 20], image[300, -20]
    assert left[0] > left[2] + 50
    assert right[2] > right[0] + 50


@pytest.mark.parametrize("palette", ["Orange and purple", "Green and pink"])
def test_draw__palettes_are_what_they_are_called(palette: str) -> None:
    high, low = (middle(pixels(make(np.full((4, 4), value)), View(1, palette))) for value in (0.8, -0.8))
    if palette.startswith("Orange"):
        assert high[0] > high[2] + 80  # orange has no blue
        assert low[2] > low[1] + 40  # purple has little green
    else:
        assert high[1] > high[0] > high[2]
        assert low[0] > low[1] + 80


def test_draw__opacity_blends_with_the_grey_picture() -> None:
    attribution = make(np.full((4, 4), 1.0))
    none, half, full = (middle(pixels(attribution, View(opacity=opacity))) for opacity in (0.0, 0.5, 1.0))
    assert np.allclose(none, 100, atol=1)
    assert (full - half).max() > 30  # the photo darkens the colour
    assert np.ptp(none) < 1 < np.ptp(half)


def test_draw__neutral_is_white() -> None:
    assert middle(pixels(make(np.full((4, 4), 0.75), neutral=0.75), View(opacity=1))).min() > 235


def test_draw__what_was_not_seen_is_faded() -> None:
    image = pixels(make(np.full((4, 4), 1.0), box=(0.25, 0.0, 0.75, 1.0)), View(opacity=1))
    assert np.allclose(image[300, 30], 255 * 0.75 + 100 * 0.25, atol=1)
    assert middle(image)[0] > middle(image)[2]


def test_draw__keeps_the_shape_of_the_picture() -> None:
    assert draw(make(np.zeros((4, 4))), View(), 1.0).size == (LONGEST, LONGEST * 60 // 80)


def test_draw__grid_shows_the_means_of_cells() -> None:
    values = np.zeros((28, 28))
    values[:4, :4] = np.arange(16).reshape(4, 4) / 15
    image = pixels(make(values), View(opacity=1, grid="7 × 7"))
    expected = middle(pixels(make(np.full((4, 4), 0.5)), View(opacity=1)))
    cell = image[20:50, 20:70].reshape(-1, 3)
    assert np.abs(cell - expected).max() < 4  # the same colour all over the cell
    assert image[20:50, 150:170].min() > 200  # white, but for the outline
    assert image[20, round(LONGEST / 7)].max() < 225  # a line between cells


# --- what is not known ------------------------------------------------------------------------------------------------


def test_uncertain__by_the_definition() -> None:
    generator = torch.Generator().manual_seed(0)
    values, error = torch.randn(9, 7, generator=generator), torch.rand(9, 7, generator=generator)
    found = Map.of(make(values, error)).uncertain(2.0)
    for row in range(9):
        for column in range(7):
            value, doubt = float(values[row, column]), 2 * float(error[row, column])
            low, high = value - doubt, value + doubt
            includes_zero = low < 0 < high
            includes_visible = max(abs(low), abs(high)) > VISIBLE * 2.0
            assert found[row, column] == (includes_zero and includes_visible)


def test_uncertain__regions_look_different_from_zero_ones() -> None:
    values = np.zeros((8, 8))
    zero, unknown = (pixels(make(values, error), View(opacity=1)) for error in (0.01, 0.4))
    assert np.ptp(zero.mean(2)) < 1  # plain
    assert (zero - unknown).min() > 30  # grey
    certain = pixels(make(values + 0.9, 0.4), View(opacity=1))
    assert np.ptp(certain.mean(2)) < 1  # far enough from zero


def test_uncertain__without_errors() -> None:
    assert not Map.of(make(np.zeros((4, 4)), standard_error=None)).uncertain(1.0).any()


# --- readings ---------------------------------------------------------------------------------------------------------


def test_read__value_and_error_of_a_place() -> None:
    values = torch.arange(12.0).reshape(3, 4)
    attribution = make(values, values / 10, neutral=2.0)
    assert read(attribution, (0.6, 0.4), View(), 9.0) == Reading(pytest.approx(6.0 - 2.0), pytest.approx(0.6), False)
    assert read(attribution, (0.99, 0.99), View(), 9.0).value == pytest.approx(9.0)


def test_read__says_what_is_not_known() -> None:
    attribution = make([[0.0, 0.0]], [[0.001, 0.5]])
    assert not read(attribution, (0.1, 0.5), View(), 1.0).uncertain
    assert read(attribution, (0.9, 0.5), View(), 1.0).uncertain


def test_read__follows_the_box() -> None:
    attribution = make([[1.0, 2.0]], box=(0.5, 0.0, 1.0, 1.0))
    assert read(attribution, (0.6, 0.5), View(), 1.0).value == 1.0
    assert read(attribution, (0.8, 0.5), View(), 1.0).value == 2.0
    assert read(attribution, (0.4, 0.5), View(), 1.0) == Reading()


def test_read__cells_have_the_mean_and_at_most_the_mean_error() -> None:
    values = torch.rand(14, 14, generator=torch.Generator().manual_seed(0))
    reading = read(make(values, values), (0.05, 0.05), View(grid="7 × 7"), 1.0)
    assert reading.value == pytest.approx(float(values[:2, :2].mean()))
    assert reading.error == pytest.approx(float(values[:2, :2].mean()))


def test_limit__of_the_map_that_is_shown() -> None:
    values = torch.zeros(28, 28)
    values[:4, :4] = 1.0
    values[0, 0] = -2.0
    assert limit_of(make(values)) == (2.0, False)
    assert limit_of(make(values), 7)[0] == pytest.approx(13 / 16)
    assert limit_of(make(values * 0)) == (1.0, False)


# --- choices ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"opacity": 1.5}, "The opacity must lie between 0 and 1"),
        ({"opacity": "1"}, "The opacity must lie between 0 and 1"),
        ({"opacity": float("nan")}, "The opacity must lie between 0 and 1"),
        ({"palette": "jet"}, "The colours must be one of Red and blue"),
        ({"grid": "9"}, "The grid must be one of Smooth"),
    ],
)
def test_view__bad_choice(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        View(**options)


def test_view__cells() -> None:
    assert [View(grid=grid).cells for grid in GRIDS] == [0, 7, 14, 28]


def test_jpeg_uri__is_a_picture() -> None:
    start, data = jpeg_uri(Image.new("RGBA", (30, 20), "red")).split(",")
    assert start == "data:image/jpeg;base64"
    assert Image.open(io.BytesIO(base64.b64decode(data))).size == (30, 20)


# --- files and curves -------------------------------------------------------------------------------------------------


def test_card__is_a_png() -> None:
    (answer,) = cocoax.ask(encoder(), flag(), cocoax.Question("red", "blue"), cocoax.Rise(samples=48, grid=4))
    image = Image.open(io.BytesIO(card(answer, View(), 0.1)))
    assert image.format == "PNG"
    assert min(image.size) > 500


def test_curve_plot__is_a_picture() -> None:
    curve = cocoax.Curve(torch.linspace(0, 1, 5), torch.rand(5, generator=torch.Generator().manual_seed(0)))
    both = [{"insertion": curve, "deletion": curve}] * 2
    assert curve_plot([("a $1 question " * 9, both)]).startswith("data:image/jpeg;base64,")
