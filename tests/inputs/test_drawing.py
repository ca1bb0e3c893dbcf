"""What the pictures of all kinds of input share: scales, titles, bars."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.contour import ContourSet

import cocoax
from cocoax.inputs import Names
from cocoax.inputs.drawing import (
    BLUE,
    LINE,
    LINES,
    RED,
    VISIBLE,
    WHOLE,
    bars_height,
    check_limit,
    colour_scale,
    draw_bars,
    draw_over,
    hidden_in_noise,
    meaning,
    not_known,
    question,
)


def shown(values: torch.Tensor, neutral: float = 0.0, error: torch.Tensor | None = None) -> cocoax.Attribution:
    names = tuple(f"$ {index}" for index in range(len(values)))
    metadata = {"target": "a cat rather than a cup of coffee, or of tea"}
    return cocoax.Attribution(values, -0.25, 0.0, error, neutral=neutral, metadata=metadata, display=Names(names))


@pytest.fixture(autouse=True)
def closed() -> object:
    yield
    plt.close("all")


def test_question__wraps_and_ends_with_the_score() -> None:
    *lines, score = question(shown(torch.ones(2))).split("\n")
    assert " ".join(lines) == "a cat rather than a cup of coffee, or of tea"
    assert max(map(len, lines)) <= 34
    assert score == "score -0.250"


def test_meaning__says_where_numbers_count_from() -> None:
    assert meaning(shown(torch.ones(2))) == "attribution"
    assert meaning(shown(torch.ones(2), neutral=0.125)) == "change in score if kept (mean 0.125)"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([0.5, -2.0, 1.0]), (2.0, False)),
        (np.zeros(4), (1.0, False)),
        (np.r_[np.ones(999), 100.0], (1.0, True)),  # one in a thousand dwarfs the rest
        (np.r_[np.zeros(999), 100.0], (100.0, False)),  # there is no rest
    ],
)
def test_colour_scale__ends_at_the_largest_unless_few_dwarf_the_rest(
    values: np.ndarray, expected: tuple[float, bool]
) -> None:
    limit, cut = colour_scale(values)
    assert (limit, cut) == (pytest.approx(expected[0]), expected[1])


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan")])
def test_check_limit__must_be_above_zero(limit: float) -> None:
    with pytest.raises(ValueError, match=r"The 'limit' parameter must be above 0\. Got"):
        check_limit(limit)
    check_limit(None)
    check_limit(0.1)


def test_draw_bars__counts_from_neutral_with_two_errors() -> None:
    values, error = torch.tensor([1.0, 0.25, 0.5]), torch.tensor([0.1, 0.2, 0.3])
    ax = draw_bars(shown(values, 0.5, error), ("a", "$b", "c"))
    assert [bar.get_width() for bar in ax.patches] == [0.5, -0.25, 0.0]
    colours = [tuple(round(255 * part) for part in bar.get_facecolor()[:3]) for bar in ax.patches]
    assert colours == [RED, BLUE, BLUE]
    (lines,) = [part for part in ax.collections if part.get_segments()]
    ends = np.array([segment[:, 0] for segment in lines.get_segments()])
    np.testing.assert_allclose(ends[:, 1] - ends[:, 0], 4 * error.numpy(), rtol=1e-6)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "$b", "c"]
    ax.figure.canvas.draw()  # a dollar is a dollar


def test_draw_bars__most_and_limit() -> None:
    ax = draw_bars(shown(torch.tensor([3.0, -1.0, 2.0, 0.5])), ("a", "b", "c", "d"), most=2, limit=5.0, title="mine")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "c"]
    assert ax.get_xlim() == (-5.0, 5.0)
    assert ax.get_title() == "mine"
    assert ax.get_xlabel().endswith("; 2 smaller ones not shown")


VALUES = torch.tensor([[1.0, 0.3, -0.2], [0.0, -0.02, -0.5]])
ERRORS = torch.tensor([[0.3, 0.2, 0.05], [0.1, 0.001, 0.3]])
UNKNOWN = [[False, True, False], [True, False, True]]  # the last but one is too small to be seen, and that is known


def test_not_known__by_the_definition() -> None:
    for row, (values, errors) in enumerate(zip(VALUES.tolist(), ERRORS.tolist(), strict=True)):
        for column, (value, error) in enumerate(zip(values, errors, strict=True)):
            low, high = value - 2 * error, value + 2 * error
            assert UNKNOWN[row][column] == (low < 0 < high and max(-low, high) > VISIBLE * 1.0)
    assert not_known(VALUES.numpy(), ERRORS.numpy(), 1.0).tolist() == UNKNOWN
    assert hidden_in_noise(shown(VALUES, error=ERRORS)).tolist() == UNKNOWN
    assert not hidden_in_noise(shown(VALUES)).any()
    assert not hidden_in_noise(shown(VALUES, error=ERRORS), limit=100.0).any()  # all of it is white


def test_draw_over__hatches_what_is_not_known() -> None:
    ax = draw_over(shown(VALUES, error=ERRORS), (None, WHOLE))
    (hatched,) = [part for part in ax.collections if isinstance(part, ContourSet)]
    assert hatched.hatches
    (path,) = hatched.get_paths()
    assert [[path.contains_point((column, row)) for column in range(3)] for row in range(2)] == UNKNOWN
    assert "hatched: not known" in ax.figure.axes[-1].get_ylabel()
    ax.figure.canvas.draw()


@pytest.mark.parametrize("layout", [None, "constrained"])
@pytest.mark.parametrize("size", [(100, 800), (300, 400), (400, 300), (800, 200)], ids=str)
def test_draw_over__the_colour_bar_is_as_tall_as_the_picture(size: tuple[int, int], layout: Any) -> None:
    picture = torch.zeros(*size, 3, dtype=torch.uint8)
    beside, ax = plt.figure(figsize=(9, 4), layout=layout).subplots(1, 2)
    for axes in (beside, ax, None):
        drawn = draw_over(shown(VALUES), (picture, WHOLE), axes)
        drawn.figure.canvas.draw()  # type: ignore[union-attr]
        own, bar = drawn.get_window_extent(), drawn.figure.axes[-1].get_window_extent()  # type: ignore[union-attr]
        assert (bar.y0, bar.y1) == pytest.approx((own.y0, own.y1), abs=1)
        assert bar.width == pytest.approx(max(own.width, own.height) / 25, abs=1)
        assert bar.x0 > own.x1


def test_draw_over__hatches_nothing_where_all_is_known() -> None:
    for known in (shown(VALUES), shown(VALUES, error=0.001 * ERRORS)):
        ax = draw_over(known, (None, WHOLE))
        assert not ax.collections
        assert "hatched" not in ax.figure.axes[-1].get_ylabel()


def test_draw_bars__hatches_what_is_not_known() -> None:
    ax = draw_bars(shown(VALUES.flatten(), error=ERRORS.flatten()), tuple("abcdef"), limit=1.0)
    assert [bar.get_hatch() is not None for bar in ax.patches] == [each for row in UNKNOWN for each in row]
    assert ax.get_xlabel().endswith("hatched: not known")
    pale, full = (ax.patches[index].get_facecolor()[3] for index in (1, 0))
    assert pale < 0.3 < full


def test_draw_bars__long_names_are_wrapped_and_have_room() -> None:
    long = "a sentence that goes on and on, further than a line of the drawing reaches, and then some more words " * 2
    ax = draw_bars(shown(torch.tensor([1.0, -1.0, 0.5])), ("short", long, "another"))
    short, wrapped, another = (label.get_text() for label in ax.get_yticklabels())
    assert (short, another) == ("short", "another")
    assert wrapped.count("\n") == LINES - 1
    assert wrapped.endswith("…")
    ax.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert boxes[0].y0 >= boxes[1].y1  # names do not overlap
    assert boxes[1].y0 >= boxes[2].y1
    assert bars_height(("short", long, "another")) == pytest.approx(LINE * (2 + 2 + LINES + 1))


def test_draw_over__covers_the_box_and_fades_the_rest() -> None:
    picture = torch.full((10, 20, 3), 128, dtype=torch.uint8)
    values = torch.tensor([[1.0, -1.0]])
    ax = draw_over(shown(values), (picture, (0.25, 0.0, 0.75, 1.0)), colour_bar=False)
    grey, veil, drawn = ax.images
    assert grey.get_array().shape == (10, 20, 3)
    assert (veil.get_array()[:, 5:15, 3] == 0).all()
    assert (veil.get_array()[:, :5, 3] == 0.75).all()
    assert tuple(drawn.get_extent()) == (4.5, 14.5, 9.5, -0.5)
    assert len(draw_over(shown(values), (picture, WHOLE), colour_bar=False).images) == 2
    assert len(draw_over(shown(values), (None, WHOLE), colour_bar=False).images) == 1
