"""The handlers of the page's events, called as Gradio calls them; errors are sentences."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import numpy as np
import pytest
from PIL import Image

import cocoax
from cocoax.app import Page
from cocoax.app.events import MAX_PICTURES
from cocoax.app.service import MIN_CHUNK, PHOTO_AREA, EncoderService
from cocoax.app.sessions import Progress, Session, Sessions
from tests.app.colours import Colours, encoder, flag

SAMPLES = 2 * MIN_CHUNK
Updates = dict[Any, Any]


@pytest.fixture(scope="module")
def one_page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    async def make() -> Page:  # inside a loop, since Gradio leaves those lying about that it makes itself
        service = EncoderService(encoder(), cocoax.Rise(samples=SAMPLES, grid=4))
        return Page(service, Sessions(2), tmp_path_factory.mktemp("page"))

    return asyncio.run(make())


@pytest.fixture
def page(one_page: Page, tmp_path: Path) -> Page:
    """The page, with an upload folder of the test's own and without visitors."""
    folder = tmp_path / "uploads"
    folder.mkdir()
    one_page.folder = folder.resolve()
    one_page.sessions = Sessions(2)
    return one_page


def request(key: str = "a") -> Any:
    return SimpleNamespace(session_hash=key)


def event(**data: Any) -> Any:
    return gr.EventData(None, data)


def session_of(page: Page) -> Session:
    return page.sessions.get("a")


def upload(page: Page, image: Image.Image, name: str = "photo.png", **options: Any) -> str:
    path = page.folder / "0a" / name
    path.parent.mkdir(exist_ok=True)
    image.save(path, **options)
    return str(path)


def figure(page: Page, updates: Updates, index: int = 0) -> str:
    return str(updates[page.layout.panels[index].figure])


def notice(page: Page, updates: Updates, index: int | None = None) -> str:
    return str(updates[page.layout.notice if index is None else page.layout.panels[index].notice])


def choose(page: Page, path: Any, key: str = "a", **said: Any) -> Updates:
    return page.on_photo(event(path=path, **said), request(key))


def with_photo(page: Page, **options: Any) -> list[Updates]:
    return [choose(page, upload(page, flag(**options))), *page.on_run(request())]


def drop(page: Page, *paths: str, index: int = 0) -> Updates:
    return page.on_dropped(index, "like", "", "red", event(files=[{"path": path} for path in paths]), request())


# --- photo and run ----------------------------------------------------------------------------------------------------


def test_photo__runs_answers_and_can_be_stopped(page: Page) -> None:
    chosen = choose(page, upload(page, flag()))
    assert "waits for its turn" in figure(page, chosen)
    run = page.on_run(request())
    updates = [next(run), next(run), next(run)]
    assert f"<b>{MIN_CHUNK}</b> of {SAMPLES}" in updates[-1][page.layout.status]
    assert updates[-1][page.layout.stop].visible
    assert "cx-answer" in figure(page, updates[-1])  # an answer while the run goes on
    assert not page.on_stop(request())[page.layout.stop].interactive
    updates += run
    assert "stopped" in updates[-1][page.layout.status]
    assert not updates[-1][page.layout.stop].visible
    assert updates[-1][page.layout.more].visible
    updates += [page.on_more(request()), *page.on_run(request())]
    assert "finished" in updates[-1][page.layout.status]
    assert all(set(one) <= set(page.layout.outputs) for one in updates)


def test_run__without_need_changes_nothing(page: Page) -> None:
    """Gradio would empty all outputs of an event that yields nothing."""
    assert list(page.on_run(request())) == [{page.layout.stop: gr.skip()}]
    with_photo(page)
    assert list(page.on_run(request())) == [{page.layout.stop: gr.skip()}]


def test_run__a_question_answered_while_the_map_is_drawn_is_shown(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run's map arrives after that of the question, and must not be of the question before."""
    choose(page, upload(page, flag()))
    run = page.on_run(request())
    for _ in range(3):  # until there is an answer
        next(run)
    figures, asked = page.figures, []

    def slowly(session: Session, index: int | None = None) -> Updates:
        drawn = figures(session, index)
        if not asked and index is None:
            asked.append("red")
            page.on_ask(0, "red", "blue", request())
        return drawn

    monkeypatch.setattr(page, "figures", slowly)
    shown = next(run)
    assert asked
    assert "<b>red</b>" in figure(page, shown)


def test_sample__brings_its_question_and_takes_pictures_away(page: Page) -> None:
    drop(page, upload(page, flag("blue", "blue"), "sky.png"))
    updates = [page.on_sample(event(name="coffee", choice=3), request()), *page.on_run(request())]
    assert "<b>a cup of coffee</b> <i>rather than</i> <b>a spoon</b>" in figure(page, updates[-1])
    assert 'data-like="a cup of coffee"' in page.layout.chooser.value  # the browser writes the words
    for shown in page.layout.panels[0].pictures.values():
        assert "data-remove" not in updates[0][shown]
    page.on_sample(event(name="cat", choice=2), request())  # which was clicked before, and arrives after
    answer = session_of(page).answers[0]
    assert answer is not None
    assert answer.name == "a cup of coffee rather than a spoon"
    assert session_of(page).progress == Progress(SAMPLES, SAMPLES, running=False)


def sixteen_bits(size: int = 40) -> Image.Image:
    return Image.fromarray((np.arange(size**2).reshape(size, size) * 40).astype(np.uint16))


@pytest.mark.parametrize(("mode", "suffix"), [("CMYK", "jpg"), ("I;16", "png"), ("RGBA", "png"), ("L", "png"), ("P", "gif")])
def test_photo__of_any_kind(page: Page, mode: str, suffix: str) -> None:
    image = sixteen_bits() if mode == "I;16" else flag().convert(mode)
    choose(page, upload(page, image, f"photo.{suffix}"))
    assert "finished" in list(page.on_run(request()))[-1][page.layout.status]


def test_photo__is_reduced_and_turned_as_the_camera_says(page: Page) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    choose(page, upload(page, flag(size=(3000, 2000)), "photo.jpg", exif=exif))
    explicand = session_of(page).explicand
    assert explicand is not None
    height, width, _ = explicand.picture.shape
    assert height / width == pytest.approx(1.5, rel=0.01)
    assert height * width <= 1.01 * PHOTO_AREA


@pytest.mark.parametrize(
    ("image", "word"), [(None, "not an image"), (flag(size=(1, 1)), "1 x 1"), (Image.new("1", (9000, 9000)), "9000 x 9000")]
)
def test_photo__that_is_bad_leaves_the_old_one(page: Page, image: Image.Image | None, word: str) -> None:
    with_photo(page)
    path = page.folder / "story.png"
    path.write_text("Once upon a time")
    if image is not None:
        image.save(path)
    updates = choose(page, str(path))
    assert set(updates) == {page.layout.notice}
    assert notice(page, updates).count(f"story.png {'is' if image is None else 'has'} {word}") == 1
    assert str(page.folder) not in notice(page, updates)
    assert "cx-answer" in figure(page, page.on_ask(0, "red", "blue", request()))
    assert notice(page, with_photo(page)[0]) == ""


def test_files__outside_of_the_folder_are_not_opened(page: Page, tmp_path: Path) -> None:
    private = tmp_path / "private.png"
    flag().save(private)
    link = page.folder / "link.png"
    link.symlink_to(private)
    paths = [private, page.folder / ".." / "private.png", link, page.folder, "/etc/passwd", "http://127.0.0.1/x.png"]
    for path in [*map(str, paths), "", None, 3, ["x"], "a\0b", f"{page.folder}/\0", "x" * 10_000, "/x" * 5000]:
        assert "was not uploaded to this page" in notice(page, choose(page, path))
        assert "was not uploaded to this page" in notice(page, drop(page, path), 0)


@pytest.mark.parametrize("said", [None, [], "x", {"x": "here", "y": []}, {"x": float("nan"), "files": 3, "choice": "x"}])
def test_events__that_no_browser_sends_are_no_tracebacks(page: Page, said: Any) -> None:
    with_photo(page)
    nonsense = gr.EventData(None, said)
    assert "was not uploaded" in notice(page, page.on_photo(nonsense, request()))
    assert "No sample photo" in notice(page, page.on_sample(nonsense, request()))
    assert "could not be uploaded" in notice(page, page.on_refused(nonsense))
    page.on_dropped(0, "like", "red", "", nonsense, request())
    page.on_removed(0, "like", "red", "", nonsense, request())


def test_refused__says_why(page: Page) -> None:
    large = event(name="<b>.png", reason="File(s) exceed the maximum allowed size of 20 MB")
    assert "&lt;b&gt;.png is too large: at most 20 MB" in notice(page, page.on_refused(large))
    assert "too large" in notice(page, page.on_refused_picture(1, large), 1)


def test_places__all_taken_is_told(page: Page) -> None:
    with page.sessions.connected("b"), page.sessions.connected("c"):
        path = upload(page, flag())
        for key in "bc":
            assert notice(page, choose(page, path, key)) == ""
        assert "All 2 places" in notice(page, choose(page, path))
        assert "All 2 places" in notice(page, drop(page, path), 0)
    assert notice(page, choose(page, path)) == ""


def test_run__that_breaks_says_so_and_does_not_go_on_for_ever(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(page, upload(page, flag()))
    monkeypatch.setattr(page.service, "answer", lambda *_: {}["a bug"])
    run = page.on_run(request())
    told = [next(run) for _ in range(3)][-1]
    assert "Something in the page is broken (KeyError: &#x27;a bug&#x27;)" in notice(page, told)
    assert not told[page.layout.stop].visible
    with pytest.raises(KeyError):
        next(run)


def test_baseline__starts_the_run_again(page: Page) -> None:
    with_photo(page)
    page.on_baseline("mean colour", request())
    assert "finished" in list(page.on_run(request()))[-1][page.layout.status]
    run = session_of(page).run
    assert run is not None
    assert run.method.baseline == cocoax.Mean()


# --- questions --------------------------------------------------------------------------------------------------------


def test_ask__without_encoder_work_and_with_its_own_error(page: Page) -> None:
    with_photo(page)
    network = page.service.encoder.module
    assert isinstance(network, Colours)
    before, errors = network.inputs, set()
    for words in (("red", "blue"), ("red green blue", "")):
        updates = page.on_ask(0, *words, request())
        assert f"<b>{words[0]}</b>" in figure(page, updates)
        assert updates[page.layout.curves] == ""
        error = f"error {session_of(page).error:.0%} of the signal"
        assert error in updates[page.layout.status]
        errors.add(error)
    assert len(errors) == 2
    assert network.inputs - before < MIN_CHUNK
    assert "cx-answer" not in figure(page, page.on_ask(0, "red", "blue", request("b")))  # another visitor has no photo


def test_ask__bad_question_is_told_until_there_is_a_better_one(page: Page) -> None:
    choose(page, upload(page, flag()))
    run = page.on_run(request())
    next(run), next(run)
    assert "Both sides" in notice(page, page.on_ask(0, "red", "red", request()), 0)
    assert page.layout.status not in page.on_ask(0, "red", "blue", request())  # the run shows it
    assert all(page.layout.panels[0].notice not in tick for tick in run)
    assert notice(page, page.on_ask(0, "red", "blue", request()), 0) == ""


def test_compare__opens_and_closes_the_second_question(page: Page) -> None:
    with_photo(page)
    assert page.on_compare(True, request())[page.layout.panels[1].column].visible
    assert "cx-answer" in figure(page, page.on_ask(1, "blue", "red", request()), 1)
    assert "data-remove" in drop(page, upload(page, flag()), index=1)[page.layout.panels[1].pictures["like"]]
    closed = page.on_compare(False, request())
    assert not closed[page.layout.panels[1].column].visible
    assert "cx-answer" not in figure(page, closed, 1)
    assert "data-remove" not in closed[page.layout.panels[1].pictures["like"]]


def test_pictures__dropped_outlive_their_files_and_can_be_removed(page: Page) -> None:
    with_photo(page)
    path = upload(page, flag("blue", "blue"), "sky.png")
    updates = drop(page, path, path)
    Path(path).unlink()  # as Gradio does after a minute
    assert "the picture sky / the picture sky" in figure(page, updates)
    page.on_more(request())
    assert "the picture sky" in figure(page, list(page.on_run(request()))[-1])
    updates = page.on_removed(0, "like", "", "red", event(index=0), request())
    assert 'data-remove="0"' in updates[page.layout.panels[0].pictures["like"]]
    assert 'data-remove="1"' not in updates[page.layout.panels[0].pictures["like"]]
    assert "the picture sky / the picture sky" not in figure(page, updates)


def test_pictures__too_many_or_bad(page: Page) -> None:
    text = page.folder / "text.png"
    text.write_text("no picture")
    good = upload(page, flag())
    for paths, word in (([str(text)], "text.png is not an image"), ([good] * (MAX_PICTURES + 1), "At most 12 pictures")):
        assert word in notice(page, drop(page, *paths), 0)
        assert session_of(page).pictures[0]["like"] == []


# --- views ------------------------------------------------------------------------------------------------------------


def test_look__redraws_all(page: Page) -> None:
    with_photo(page)
    page.on_ask(1, "blue", "red", request())
    before = figure(page, page.figures(session_of(page)))
    updates = page.on_look(0.3, "Orange and purple", True, request())
    assert figure(page, updates) != before
    assert "Orange" in updates[page.layout.legend]


def test_curves__on_demand_unless_they_come_too_late(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "There is no run yet" in page.on_curves(request())
    with_photo(page)
    assert "data:image/png" in page.on_curves(request())
    measure = page.service.curves

    def meanwhile(session: Session) -> Any:
        measured = measure(session)
        page.on_ask(0, "red", "blue", request())
        return measured

    monkeypatch.setattr(page.service, "curves", meanwhile)
    assert page.on_curves(request()) == ""


def test_download__png_and_json(page: Page) -> None:
    updates = page.on_download(0, "png", request())
    assert updates[page.layout.file] is None
    assert "nothing to download yet" in notice(page, updates, 0)
    with_photo(page)
    page.on_ask(0, "red", "blue", request())
    files = {kind: page.on_download(0, kind, request())[page.layout.file] for kind in ("png", "json")}
    assert files["png"]["name"] == "red-rather-than-blue.png"
    data = {kind: base64.b64decode(file["data"].split(",")[1]) for kind, file in files.items()}
    assert Image.open(io.BytesIO(data["png"])).format == "PNG"
    told = json.loads(data["json"])
    assert told["question"] == "red rather than blue"
    assert np.shape(told["values"]) == np.shape(told["standard_error"]) == (28, 36)
