"""Matches, searches and data sets on the page."""

from __future__ import annotations

import html
from pathlib import Path
from threading import Event

import pytest

import cocoax
from cocoax.app.service import EncoderService
from cocoax.app.sessions import Session
from cocoax.app.views import (
    MAX_DOCUMENTS,
    MAX_WORDS,
    DatasetView,
    MatchView,
    RowView,
    SearchView,
    SoundView,
    framed,
    views_of,
)
from cocoax.survey import build
from tests.app import small
from tests.app.colours import Colours, Names, Spaces, encoder, flag
from tests.survey import photos

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def service() -> EncoderService:
    text = cocoax.TextEncoder(Names(), Spaces(), limit=12, name="names")
    return EncoderService(cocoax.Encoder(Colours(), cocoax.ImagePreprocess(resize=32, crop=32), text=text, name="colours"))


def seen(service: EncoderService) -> int:
    return int(service.encoder.module.inputs + service.encoder.text.module.inputs)  # type: ignore[arg-type, operator]


def test_views__are_those_that_the_encoder_serves(service: EncoderService) -> None:
    assert [view.name for view in views_of(service)] == ["Match", "Search"]
    words = MatchView(EncoderService(encoder().text))
    assert words.sides == {}
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


@pytest.mark.parametrize("documents", ["red", "green\nred", "green\nred\nblue"])
def test_search__of_few_documents(service: EncoderService, documents: str) -> None:
    view = next(view for view in views_of(service) if isinstance(view, SearchView))
    assert f"The first {len(documents.splitlines())} of" in view.shown({"query": "red", "documents": documents}, {})


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


@pytest.mark.parametrize(("name", "content"), [("d.txt", "blue\nred\n"), ("d.csv", "text,n\nblue,1\nred,2\n")])
def test_search__reads_files_of_documents(service: EncoderService, tmp_path: Path, name: str, content: str) -> None:
    view = SearchView(service)
    (tmp_path / name).write_text(content)
    assert view.read(tmp_path / name, {"column": "text" if name.endswith("csv") else ""}).split() == ["blue", "red"]
    (tmp_path / "d.png").write_text(content)
    with pytest.raises(ValueError, match="holds no documents"):
        view.read(tmp_path / "d.png", {})


def test_search__of_the_texts_of_an_index(tmp_path: Path) -> None:
    texts = cocoax.TextEncoder(Names(), Spaces(), limit=12, name="names")
    index = build(texts, ["red", "green blue", "blue"], tmp_path / "index", cocoax.Rise(samples=10), progress=False)
    view = next(view for view in views_of(EncoderService(texts), index) if isinstance(view, SearchView))
    page = view.shown({"query": "green"}, {})
    assert "The first 3 of 3" in page
    assert "<td>green blue</td>" in next(row for row in page.split("<tr>") if "<td>" in row)


def test_sound__examples_and_matches() -> None:
    service = EncoderService(small.sounds(), cocoax.Rise(samples=30))
    sound, match = views_of(service)
    clips = service.samples(())
    assert isinstance(sound, SoundView)
    example = sound.examples[0]
    page = sound.shown({}, {side: clips[name] for side, name in example.samples.items()})
    assert "low hum rather than high hum" in page
    assert page.count('role="img" aria-label=') >= 8
    assert "data:audio/wav" in match.shown({}, {side: clips[name] for side, name in match.examples[0].samples.items()})
    with pytest.raises(ValueError, match="choose one"):
        sound.shown({}, {})
    with pytest.raises(ValueError, match="choose a sound"):
        match.shown({}, {})


def rows_service(background: bool = True) -> EncoderService:
    return EncoderService(small.rows(background), cocoax.Rise(samples=30))


def test_row__says_which_columns_count() -> None:
    service = rows_service()
    (view,) = views_of(service)
    assert isinstance(view, RowView)
    page = view.shown(view.examples[0].texts, {})
    assert "these rows rather than those rows" in page
    assert "<b>width</b>" not in page
    assert html.escape("<b>width</b>") in page
    header = "height,<b>width</b>,age\n1,2,3"
    assert "these rows" in view.shown({"row": header, "like": "1,1,1\n2,0,1"}, {})
    assert views_of(rows_service(background=False)) == []  # there is nothing to put in place of a column


@pytest.mark.parametrize(
    ("row", "word"), [("1,2", "2 values"), ("1,2,three", "numbers only"), ("", "one row"), ("1,2,3\n1,2,3", "one row")]
)
def test_row__wrong_inputs(row: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        RowView(rows_service()).shown({"row": row, "like": "1,1,1"}, {})


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> DatasetView:
    folder = tmp_path_factory.mktemp("dataset")
    index = build(photos.encoder(), photos.write(folder / "photos", 6), folder / "index", photos.METHOD, progress=False)
    return DatasetView(EncoderService(photos.encoder()), index)


def test_dataset__groups_are_corpus_and_foil_and_a_point_is_explained(dataset: DatasetView) -> None:
    ids = dataset.index.ids
    assert dataset.chart.count("<circle") == 12
    asked = {"like": "\n".join(ids[:3]), "unlike": "\n".join(ids[3:6])}
    page = dataset.shown(asked, {})
    assert "3 chosen inputs rather than 3 other inputs" in page
    assert "Highest" in page
    one = dataset.shown({**asked, "input": ids[7]}, {})
    assert ids[7] in one
    assert "Highest" not in one
    assert "itself" in dataset.shown({"input": ids[0]}, {})


@pytest.mark.parametrize(
    ("asked", "word"),
    [({}, "no question"), ({"like": EVIL}, "no input"), ({"question": "a cat", "like": "0"}, "no input|both")],
)
def test_dataset__wrong_inputs(dataset: DatasetView, asked: dict[str, str], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        dataset.shown(asked, {})


def test_prepared__photos_are_answered_at_once(service: EncoderService) -> None:
    service = EncoderService(service.encoder, cocoax.Rise(samples=60))
    photo = flag()
    service.prepare(photo, ("red", "blue"), Event())
    before, session = seen(service), Session()
    service.choose(session, photo, ("red", "blue"))
    assert session.answers[0] is not None
    assert not session.running
    assert int(service.encoder.module.inputs) <= before  # type: ignore[arg-type]


def test_framed__holds_the_page_as_an_attribute() -> None:
    frame = framed('<p title="${x}">{y}</p>', EVIL)
    assert "<p" not in frame
    assert EVIL not in frame
    assert "{y}" not in frame  # Gradio would fill that in
