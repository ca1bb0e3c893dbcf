"""Drawings and pages of interactions: what is drawn, and that a page loads nothing and says what it shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch

from cocoax.inputs import Names, Picture
from cocoax.inputs.text import Text
from cocoax.methods.interactions import Interactions, Matched
from tests.methods.runs import independent


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    yield
    plt.close("all")


def text(words: str) -> Matched:
    spans = tuple(match.span() for match in re.finditer(r"\S+", words))
    return Matched(Text(words, spans), (len(spans),))


def photo(rows: int = 3, columns: int = 4) -> Matched:
    pixels = torch.arange(60 * 80 * 3).reshape(60, 80, 3).to(torch.uint8)
    return Matched(Picture(pixels, (0.1, 0.0, 0.9, 1.0)), (rows, columns))


def pairs(a: Matched, b: Matched, errors: bool = True) -> Interactions:
    values = torch.randn(*a.shape, *b.shape, generator=torch.Generator().manual_seed(0))
    return Interactions(values, a, b, 0.5, (independent(values.reshape(len(a.names), -1) / 10),) if errors else None)


SIDES = {"words": text("a $red$ car"), "photo": photo(), "columns": Matched(Names(("age", "height <b>")), (2,))}


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [("words", "columns", "arcs"), ("photo", "words", "maps"), ("words", "photo", "maps"), ("photo", "photo", "links")],
)
def test_plot__the_kind_that_suits(first: str, second: str, kind: str, tmp_path: Path) -> None:
    interactions = pairs(SIDES[first], SIDES[second])
    for chosen in (None, kind, "matrix"):
        interactions.plot(chosen, most=2).savefig(tmp_path / "figure.png")
    others = {"arcs", "maps", "links"} - {kind}
    for wrong in (*others, "bars"):
        with pytest.raises(ValueError, match=f"must be '{kind}' or 'matrix'"):
            interactions.plot(wrong)
    with pytest.raises(ValueError, match=r"'most' parameter must be at least 1"):
        interactions.plot(most=0)


def test_plot__arcs_join_the_largest_pairs() -> None:
    interactions = pairs(text("one two three"), text("vier fünf"))
    (ax,) = interactions.plot(most=2).axes
    assert len(ax.patches) == 2
    assert [label.get_text() for label in ax.texts] == ["one", "two", "three", "vier", "fünf"]
    size = interactions.matrix.abs()
    strongest = divmod(int(size.argmax()), 2)
    start, *_, end = ax.patches[-1].get_path().vertices  # the last one drawn
    assert start[0] == ax.texts[strongest[0]].get_position()[0]
    assert end[0] == ax.texts[3 + strongest[1]].get_position()[0]


def test_plot__arcs_of_long_texts_leave_out_words_without_a_pair() -> None:
    interactions = pairs(text(" ".join(f"word{number}" for number in range(100))), text("a b"))
    (ax,) = interactions.plot(most=3).axes
    words = [label.get_text() for label in ax.texts]
    assert "…" in words
    assert 3 < len(words) < 12


def test_plot__links_are_numbered_on_both() -> None:
    figure = pairs(photo(), photo(2, 2)).plot()
    for ax in figure.axes:
        assert [label.get_text() for label in ax.texts] == ["1", "2", "3", "4", "5"]
    best = divmod(int(pairs(photo(), photo(2, 2)).matrix.argmax()), 4)
    left, top = figure.axes[1].patches[0].get_xy()
    assert (left, top) == pytest.approx((8 + 32 * (best[1] % 2), 30 * (best[1] // 2)))


def test_plot__maps_are_those_of_the_strongest_words() -> None:
    interactions = pairs(photo(), text("one two three"))
    figure = interactions.plot(most=2)
    peaks = interactions.matrix.amax(0)
    expected = [name for name, peak in zip(interactions.b.names, peaks, strict=True) if peak > peaks.min()]
    assert [ax.get_title() for ax in figure.axes[:2]] == expected


@pytest.mark.parametrize("errors", [True, False])
@pytest.mark.parametrize("second", SIDES)
@pytest.mark.parametrize("first", SIDES)
def test_save_html__holds_everything_and_loads_nothing(first: str, second: str, errors: bool, tmp_path: Path) -> None:
    interactions = pairs(SIDES[first], SIDES[second], errors)
    page = interactions.save_html(tmp_path / "page.html", "Cats & dogs").read_text()
    assert "<h1>Cats &amp; dogs</h1>" in page
    assert not re.search(r"https?:|src=\"(?!data:)|<link", page)
    found = re.search(r'<script type="application/json">(.*?)</script>', page)
    assert found is not None
    data = json.loads(found[1])
    torch.testing.assert_close(torch.tensor(data["values"]), interactions.matrix, rtol=1e-3, atol=0)
    assert (data["errors"] is None) == (not errors)
    assert tuple(data["names"][0]) == interactions.a.names
    for letter, side in (("a", interactions.a), ("b", interactions.b)):
        features = re.findall(f'data-side="{letter}" data-at="(\\d+)" tabindex="(-1|0)"', page)
        assert [int(at) for at, _ in features] == list(range(len(side.names)))
        assert [tab for _, tab in features] == ["0"] + ["-1"] * (len(side.names) - 1)  # one stop of the Tab key


def test_html__nothing_in_a_name_is_markup() -> None:
    interactions = pairs(text("</script><script>alert(1)</script> car"), SIDES["columns"])
    assert "<script>alert" not in interactions.html()
    assert "<b>" not in interactions.html()
    assert interactions._repr_html_() == interactions.html()


def test_save_html__a_picture_that_is_not_known(tmp_path: Path) -> None:
    interactions = pairs(Matched(Picture(), (2, 2)), text("a car"))
    assert "data:image/jpeg" in interactions.html()
    assert len(pairs(Matched(Picture(), (2, 2)), photo()).plot().axes) == 2
