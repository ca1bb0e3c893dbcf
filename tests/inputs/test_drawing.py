"""What the pictures of all kinds of input share: scales, titles, bars."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

import cocoax
from cocoax.inputs import Names
from cocoax.inputs.drawing import BLUE, RED, WHOLE, check_limit, colour_scale, draw_bars, draw_over, meaning, question


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
