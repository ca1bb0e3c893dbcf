"""Outlines: lines where chosen pixels meet others, and nowhere else."""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from cocoax.inputs import Names, Picture, Text
from cocoax.inputs.outlines import _edges


def test_edges__surround_what_is_inside() -> None:
    inside = np.zeros((3, 4), bool)
    inside[1, 1:3] = True
    lines = {tuple(map(tuple, line)) for line in _edges(inside).tolist()}
    across = {((x, y), (x + 1, y)) for x in (1, 2) for y in (1, 2)}
    down = {((x, 1), (x, 2)) for x in (1, 3)}
    assert lines == across | down


def test_draw_parts__of_a_picture_lies_in_its_box() -> None:
    display = Picture(torch.zeros(40, 60, 3, dtype=torch.uint8), (0.25, 0.0, 0.75, 1.0))
    chosen = torch.zeros(8, 8, dtype=torch.bool)
    chosen[:4, :4] = True
    ax = Figure().subplots()
    display.draw_parts(ax, chosen, "title")
    (lines,) = (each for each in ax.collections if isinstance(each, LineCollection))
    points = np.concatenate(lines.get_segments())
    np.testing.assert_allclose([points.min(0), points.max(0)], [[14.5, -0.5], [29.5, 19.5]])
    assert ax.get_title() == "title"


def test_draw_parts__of_names_and_texts() -> None:
    for display, chosen, words in (
        (Names(("age", "height", "weight")), [True, False, True], "age\nweight"),
        (Text("a big red car", ((0, 1), (2, 5), (6, 9), (10, 13))), [False, True, False, False], "… big …"),
    ):
        ax = Figure().subplots()
        display.draw_parts(ax, torch.tensor(chosen), "$5")
        assert ax.texts[0].get_text() == words
        assert display.parts_height < 3
    ax = Figure().subplots()
    Text("a car", ((0, 1), (2, 5))).draw_parts(ax, None, "")
    assert ax.texts[0].get_text() == "a car"
