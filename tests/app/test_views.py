"""Matches, searches and data sets on the page."""

from __future__ import annotations

import html
import re

import pytest

import cocoax
from cocoax.app.service import EncoderService
from cocoax.app.views import MAX_DOCUMENTS, MAX_WORDS, MatchView, SearchView, framed, views_of
from tests.app.colours import Colours, Names, encoder, flag, tokenize

EVIL = "<script>alert(1)</script>"


class Spaces:
    """A tokenizer that says where its tokens are: words between spaces."""

    def __call__(self, text: str) -> list[int]:
        return tokenize(text)

    def places(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        return tokenize(text), [match.span() for match in re.finditer(r"\S+", text)]


@pytest.fixture(scope="module")
def service() -> EncoderService:
    text = cocoax.TextEncoder(Names(), Spaces(), limit=12, name="names")
    return EncoderService(cocoax.Encoder(Colours(), cocoax.ImagePreprocess(resize=32, crop=32), text=text, name="colours"))


def seen(service: EncoderService) -> int:
    return int(service.encoder.module.inputs + service.encoder.text.module.inputs)  # type: ignore[arg-type, operator]


def test_views__are_those_that_the_encoder_serves(service: EncoderService) -> None:
    assert [view.name for view in views_of(service)] == ["Match", "Search"]
    words = MatchView(EncoderService(encoder().text))
    assert words.sides == ()
    assert [example.label for example in words.examples] == ["two texts"]


def test_match__the_same_inputs_are_explained_once(service: EncoderService) -> None:
    view = MatchView(service)
    page = view.shown({"first": "red green", "second": "green blue", "rather": ""}, {})
    assert page.startswith("<!doctype html>")
    assert "green" in page
    before = seen(service)
    assert view.shown({"first": "red green", "second": "green blue", "rather": ""}, {}) == page
    assert seen(service) == before
    crossed = view.shown({"first": "red"}, {"second": flag()})
    assert seen(service) > before
    assert "data:image/jpeg" in crossed


def test_search__ranks_and_explains(service: EncoderService) -> None:
    page = SearchView(service).shown({"query": "red", "documents": f"blue\nred\n\n{EVIL} green\nred"}, {})
    assert "The first 3 of 3" in page  # the same once
    assert "<td>red</td>" in next(row for row in page.split("<tr>") if "<td>" in row)
    assert EVIL not in page
    assert html.escape(EVIL) in page


@pytest.mark.parametrize(
    ("texts", "word"),
    [
        ({"query": "", "documents": "a"}, "empty"),
        ({"query": "red", "documents": " \n "}, "empty"),
        ({"query": "red " * MAX_WORDS, "documents": "a"}, "up to"),
        ({"query": "red", "documents": "\n".join(map(str, range(MAX_DOCUMENTS + 1)))}, "up to 2,000 documents"),
    ],
)
def test_search__wrong_inputs(service: EncoderService, texts: dict[str, str], word: str) -> None:
    before = seen(service)
    with pytest.raises(ValueError, match=word):
        SearchView(service).shown(texts, {})
    assert seen(service) == before


def test_framed__holds_the_page_as_an_attribute() -> None:
    frame = framed('<p title="${x}">{y}</p>', EVIL)
    assert "<p" not in frame
    assert EVIL not in frame
    assert "{y}" not in frame  # Gradio would fill that in
