"""Scales, uncertainty, pieces of texts, lines."""

from __future__ import annotations

import numpy as np
import pytest

from cocoax.show import ColouredText, Effects
from cocoax.show.fonts import columns, wrapped
from cocoax.show.views import VISIBLE, LinkSide, colour_scale, uncertain


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, -3.0], (3.0, False)),
        ([0.0, 0.0], (1.0, False)),
        ([*np.linspace(0, 1, 999), 100.0], (0.99, True)),
        ([*np.linspace(0, 1, 999), 2.0], (2.0, False)),
    ],
)
def test_colour_scale__ends_at_the_largest_unless_few_dwarf_the_rest(
    values: list[float], expected: tuple[float, bool]
) -> None:
    limit, cut = colour_scale(np.array(values))
    assert (limit, cut) == (pytest.approx(expected[0], rel=0.01), expected[1])


def test_uncertain__zero_and_a_visible_value_lie_within_two_errors() -> None:
    values, errors = np.array([1.0, 0.1, 0.1, 0.0, 0.0]), np.array([0.4, 0.04, 0.06, 0.04, 0.06])
    assert uncertain(values, errors, 1.0).tolist() == [False, False, True, False, True]
    assert not uncertain(values, None, 1.0).any()
    assert VISIBLE == 0.1
    assert Effects(values, errors).uncertain(10.0).tolist() == [False] * 5  # too small to be seen on this scale


def test_pieces__are_the_text_with_strengths() -> None:
    view = ColouredText(Effects(np.array([0.5, -1.0, 9.0]), np.array([0.3, 0.1, 1.0])), " a cat!", ((1, 2), (3, 6), (3, 6)))
    pieces = list(view.pieces(1.0))
    assert "".join(piece.text for piece in pieces) == " a cat!"  # a token of the same characters is shown once
    assert [(piece.text, piece.strength) for piece in pieces if piece.label] == [("a", 0.5), ("cat", -1.0)]
    assert [piece.uncertain for piece in pieces if piece.label] == [True, False]
    assert pieces[1].label == "+0.500 ± 0.300"
    assert Effects(np.ones(1), np.array([np.nan])).label(0) == "+1.000"
    flat = ColouredText(Effects(np.zeros(2)), "a b", ((0, 1), (2, 3)))
    assert [piece.strength for piece in flat.pieces()] == [0.0] * 3


def test_wrapped__by_columns_and_never_within_a_letter() -> None:
    assert wrapped("one two three", 7) == "one two\nthree"
    assert wrapped("猫猫猫猫", 4) == "猫猫\n猫猫"
    assert wrapped("e\u0301" * 3, 2) == "e\u0301e\u0301\ne\u0301"
    assert wrapped("a b c d", 1, 2) == "a\nb …"
    assert wrapped("", 5) == ""
    assert columns("猫e\u0301") == 3


def test_cell_box__as_fractions_of_the_picture() -> None:
    side = LinkSide(("a", "b"), box=(0.5, 0.0, 1.0, 1.0), places=np.array([[0, 0], [1, -1]]))
    assert side.cell_box(0) == pytest.approx((0.5, 0.0, 0.5, 0.5))
    assert side.cell_box(1) == pytest.approx((0.5, 0.5, 0.25, 0.5))
