"""Letters in drawings: lines of a given width, and fonts that have what is written."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib.font_manager import fontManager

import cocoax
from cocoax.inputs import Names
from cocoax.inputs import fonts as lettering
from cocoax.inputs.fonts import MISSING, columns, lettered, wrapped

CAT, THAI = "猫", "ก"


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Only the fonts that come with matplotlib, and nothing that was found or said before."""
    own = [entry for entry in fontManager.ttflist if str(matplotlib.get_data_path()) in entry.fname]
    monkeypatch.setattr(fontManager, "ttflist", own)
    monkeypatch.setattr(lettering, "_HOLDERS", {})
    monkeypatch.setattr(lettering, "_TOLD", set())
    yield
    plt.close("all")
    fontManager._findfont_cached.cache_clear()


def add_font(folder: Path, name: str, letters: str) -> None:
    """Write a font that draws squares for these letters, and let matplotlib know."""
    pen = TTGlyphPen(None)
    pen.moveTo((100, 0))
    for point in ((100, 700), (800, 700), (800, 0)):
        pen.lineTo(point)
    pen.closePath()
    square = pen.glyph()
    glyphs = [".notdef", *(f"u{ord(letter):X}" for letter in letters)]
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder(glyphs)
    font.setupCharacterMap({ord(letter): f"u{ord(letter):X}" for letter in letters})
    font.setupGlyf(dict.fromkeys(glyphs, square))
    font.setupHorizontalMetrics(dict.fromkeys(glyphs, (1000, 100)))
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": name, "styleName": "Regular"})
    font.setupOS2()
    font.setupPost()
    font.save(folder / f"{name}.ttf")
    fontManager.addfont(folder / f"{name}.ttf")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("one two", "one two"),
        ("one two three", "one two\nthree"),
        ("  one\n two\tthree ", "one two\nthree"),
        ("incomprehensible", "incompre\nhensible"),
        ("an incomprehensible one", "an\nincompre\nhensible\none"),
        ("黒い猫が好き", "黒い猫が\n好き"),  # two columns each
        ("กิกิกิกิกิกิกิกิกิ", "กิกิกิกิกิกิกิกิ\nกิ"),  # an accent takes none, and stays with its letter
    ],
)
def test_wrapped__in_eight_columns(text: str, expected: str) -> None:
    assert wrapped(text, 8) == expected
    assert all(columns(line) <= 8 for line in expected.split("\n"))


def test_wrapped__ends_where_there_are_too_many_lines() -> None:
    assert wrapped("one two three four five", 8, most=2) == "one two\nthree …"
    assert wrapped("one two three", 8, most=2) == "one two\nthree"


def test_lettered__letters_of_the_default_font() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        texts, family = lettered(["Ein Bär & $5\nτέσσερα", "шесть"])
    assert texts == ["Ein Bär & $5\nτέσσερα", "шесть"]
    assert family == matplotlib.rcParams["font.family"]


def test_lettered__finds_the_font_that_has_them(tmp_path: Path) -> None:
    add_font(tmp_path, "One Cat", CAT)
    add_font(tmp_path, "Cat And Thai", CAT + THAI)
    texts, family = lettered([f"a {CAT}", THAI])
    assert texts == [f"a {CAT}", THAI]
    assert family == [*matplotlib.rcParams["font.family"], "Cat And Thai"]  # one font for both, rather than two
    assert lettered([CAT])[1] == family


def test_lettered__letters_are_drawn_with_it(tmp_path: Path) -> None:
    add_font(tmp_path, "Cat And Thai", CAT + THAI)
    shown = cocoax.Attribution(
        torch.tensor([1.0, -0.5]), 0.5, 0.0, display=Names((CAT, THAI)), metadata={"target": f"{THAI}{CAT}"}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns of each letter that it has no glyph for
        shown.plot().figure.canvas.draw()


def test_lettered__says_once_that_no_font_has_them() -> None:
    with pytest.warns(UserWarning, match=rf"No font that matplotlib finds has the letters {CAT} \(Chinese\), .*Install one"):
        texts, family = lettered([f"a {CAT}", f"👩\u200d{CAT}\ufe0f"])
    assert texts[0] == f"a {MISSING}"
    assert texts[1].replace("\u200d", "") in (f"{MISSING}{MISSING}", f"{MISSING}{MISSING}\ufe0f")
    assert family == matplotlib.rcParams["font.family"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lettered(["犬"])[0] == [MISSING]  # of the same script
    with pytest.warns(UserWarning, match=rf"the letters {THAI} \(Thai\)"):
        lettered([THAI + CAT])


def test_lettered__what_is_not_there_draws_without_further_words() -> None:
    shown = cocoax.Attribution(torch.tensor([1.0]), 0.5, 0.0, display=Names((CAT,)))
    with pytest.warns(UserWarning, match="No font that matplotlib finds") as said:
        shown.plot().figure.canvas.draw()
    assert len(said) == 1


def test_lettered__shapes_of_arabic_need_a_new_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.setattr(matplotlib, "__version_info__", (3, 11, 0))
        assert lettered(["قطة"])[0] == ["قطة"]
        monkeypatch.setattr(matplotlib, "__version_info__", (3, 10, 0))
        assert lettered(["a cat"])[0] == ["a cat"]
    with pytest.warns(UserWarning, match=r"draws letters one by one from left to right.*install matplotlib 3\.11"):
        lettered(["قطة"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lettered(["قطة"])
