"""Texts in colour: every character is there once, escaped, with the strongest word in the strongest colour."""

from __future__ import annotations

import re
from html import unescape

import pytest
import torch
from rich.console import Console

import cocoax
from cocoax.highlight import BLUE, RED, to_html, to_rich
from cocoax.inputs import Text

TEXT = "Der <b>Bär</b> & 👩‍👧 שלום"


def attribution(values: list[float], **options: object) -> cocoax.Attribution:
    words = ["Bär", "👩‍👧", "שלום"]
    offsets = tuple((TEXT.index(word), TEXT.index(word) + len(word)) for word in words)
    return cocoax.Attribution(
        torch.tensor(values),
        0.5,
        0.1,
        display=Text(TEXT, offsets),
        **options,  # type: ignore[arg-type]
    )


def test_to_html__is_the_text_and_nothing_but_the_text() -> None:
    found = to_html(attribution([1.0, -0.5, 0.0]))
    assert unescape(re.sub(r"<(p|span)[^>]*>|</(p|span)>", "", found)) == TEXT
    assert "<b>" not in found
    assert 'dir="auto"' in found


def test_to_html__colours_and_labels() -> None:
    found = to_html(attribution([1.5, 0.0, 0.5], neutral=0.5, standard_error=torch.tensor([0.1, 0.2, 0.3])))
    styles = re.findall(r'rgba\((\d+), (\d+), (\d+), ([\d.]+)\).*?title="([^"]*)"', found)
    assert [tuple(map(int, style[:3])) for style in styles[:2]] == [RED, BLUE]
    assert [float(style[3]) for style in styles] == [0.7, 0.35, 0.0]
    assert [style[4] for style in styles] == ["+1.000 ± 0.100", "-0.500 ± 0.200", "+0.000 ± 0.300"]


def test_to_html__underlines_what_is_not_known() -> None:
    result = attribution([1.0, -0.5, 0.3], standard_error=torch.tensor([0.1, 0.3, 0.001]))
    styles = re.findall(r'style="(background[^"]*)"', to_html(result))
    assert ["underline dotted" in style for style in styles] == [False, True, False]
    assert "Underlined with dots is not known" in result._repr_html_()
    assert "not known" not in attribution([1.0, -0.5, 0.3])._repr_html_()
    shown = to_rich(result)
    (marked,) = [span for span in shown.spans if span.style.underline]
    assert shown.plain[marked.start : marked.end] == "👩‍👧"


def test_to_rich__is_the_text() -> None:
    shown = to_rich(attribution([1.0, -0.5, 0.0]))
    assert shown.plain == TEXT
    console = Console(force_terminal=True, color_system="truecolor", width=200)
    with console.capture() as capture:
        console.print(shown)
    assert len(re.findall(r"48;2;", capture.get())) == 2  # two words have a background


def test_to_html__tokens_of_the_same_character_are_shown_once() -> None:
    result = cocoax.Attribution(torch.tensor([1.0, 0.5]), 0.0, 0.0, display=Text("a 👍", ((2, 3), (2, 3))))
    assert to_html(result).count("👍") == 1


def test_to_html__all_values_zero() -> None:
    assert "0.00)" in to_html(attribution([0.0, 0.0, 0.0]))


def test_to_html__not_a_text() -> None:
    image = cocoax.Attribution(torch.zeros(2, 2), 0.0, 0.0)
    assert "<img" in image._repr_html_()
    with pytest.raises(ValueError, match=r"Only the attribution of a text can be shown as one"):
        to_html(image)
    assert attribution([1.0, 0.0, 0.0]).html() in attribution([1.0, 0.0, 0.0])._repr_html_()
