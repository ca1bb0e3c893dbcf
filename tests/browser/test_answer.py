"""The answer of a data set, one file in a real browser without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cocoax
from cocoax.survey import build
from tests.encoders.words import Pieces
from tests.survey import photos
from tests.tiny import bert_tokenizer

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("answers")
    pictures = build(photos.encoder(), photos.write(folder / "photos", 12), folder / "pictures", photos.METHOD)
    tower = cocoax.TextEncoder(Pieces().eval(), bert_tokenizer(), limit=32, name="pieces")
    words = ["the cat parked", "the dog", "a cat behind a dog parked her car", "cat", "her car", "a dog behind a car"]
    texts = build(tower, words * 3, folder / "texts", cocoax.Rise(samples=30))
    asked = cocoax.similarity_to(texts.reference([3]))
    return {
        "pictures": pictures.ask(photos.dawn_rather_than_dusk(pictures)).save(folder / "pictures.html"),
        "texts": texts.ask(asked).save(folder / "texts.html"),
    }


@pytest.mark.parametrize("kind", ["pictures", "texts"])
@pytest.mark.parametrize("width", [1280, 390])
def test_answer__opens_from_a_file_without_a_network(browser: Any, pages: dict[str, Path], kind: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, offline=True, is_mobile=width < 600)
    page = context.new_page()
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(pages[kind].as_uri())
    assert {url.split(":")[0] for url in asked} <= {"file", "data"}
    assert not complaints
    assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width  # nothing sticks out
    assert page.locator(".tile").count() >= 12
    assert page.locator("h2", has_text="Highest").bounding_box()["height"] < 60
    context.close()
