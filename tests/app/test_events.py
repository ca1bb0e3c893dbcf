"""The page's events, as the browser sends them; errors are sentences."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import numpy as np
import pytest
from PIL import Image

import cocoax
from cocoax.app import Page
from cocoax.app.studio import CHUNK, PICTURES, Studio
from cocoax.app.visitors import Progress, Visitor
from tests.app.colours import Colours, encoder, flag


@pytest.fixture(scope="module")
def one_page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    async def make() -> Page:  # inside a loop, since Gradio leaves those lying about that it makes itself
        return Page(Studio(encoder(), cocoax.Rise(samples=2 * CHUNK, grid=4)), tmp_path_factory.mktemp("page"))

    return asyncio.run(make())


@pytest.fixture
def page(one_page: Page, tmp_path: Path) -> Page:
    """The page, with an upload folder of the test's own and without visitors."""
    folder = tmp_path / "uploads"
    folder.mkdir()
    one_page.folder = folder.resolve()
    one_page.studio.leave("a")
    one_page.studio.leave("b")
    return one_page


def request(key: str = "a") -> Any:
    return SimpleNamespace(session_hash=key)


def event(**data: Any) -> Any:
    return gr.EventData(None, data)


def upload(page: Page, image: Image.Image, name: str = "photo.png", **options: Any) -> str:
    path = page.folder / "0a" / name
    path.parent.mkdir(exist_ok=True)
    image.save(path, **options)
    return str(path)


def figure(page: Page, updates: dict[Any, Any], index: int = 0) -> str:
    return str(updates[page.layout.panels[index].figure])


def notice(page: Page, updates: dict[Any, Any], index: int = 0) -> str:
    return str(updates[page.layout.panels[index].notice])


def with_photo(page: Page) -> list[dict[Any, Any]]:
    return list(page.on_photo(event(path=upload(page, flag())), request()))


# --- photos -----------------------------------------------------------------------------------------------------------


def test_photo__is_looked_at(page: Page) -> None:
    updates = with_photo(page)
    assert f"<b>{CHUNK}</b> of {2 * CHUNK}" in updates[2][page.layout.status]
    assert "finished" in updates[-1][page.layout.status]
    assert updates[2][page.layout.stop].visible
    assert not updates[-1][page.layout.stop].visible
    assert updates[-1][page.layout.more].visible
    assert "cx-map" in figure(page, updates[2])  # an answer while the run goes on
    assert all(set(one) <= outputs_of(page, "on_photo") for one in updates)


@pytest.mark.parametrize("name", ["collage", "coffee"])
def test_sample__brings_a_question(page: Page, name: str) -> None:
    updates = list(page.on_sample(event(name=name), request()))
    question = page.studio.visitor("a").questions[0]
    assert question is not None
    assert question.like_name in ("a cat", "a cup of coffee")
    assert f'data-like="{question.like_name}"' in page.layout.chooser.value  # the browser writes the words
    assert "rather than" in figure(page, updates[-1])
    assert all(set(one) <= outputs_of(page, "on_sample") for one in updates)


def test_sample__unknown(page: Page) -> None:
    (updates,) = page.on_sample(event(name="../secret"), request())
    assert "No sample photo is called" in updates[page.layout.notice]


@pytest.mark.parametrize("said", [None, [], "x", {"x": "here", "y": []}, {"x": float("nan"), "y": 0.5}])
def test_events__that_no_browser_sends_are_no_tracebacks(page: Page, said: Any) -> None:
    with_photo(page)
    nonsense = gr.EventData(None, said)
    assert "was not uploaded" in str(list(page.on_photo(nonsense, request()))[-1])
    assert "No sample photo is called" in str(list(page.on_sample(nonsense, request()))[-1])
    page.on_point(nonsense, request())
    assert page.studio.visitor("a").point is None
    assert "could not be uploaded" in page.on_refused(nonsense)
    assert notice(page, page.on_dropped(0, "like", "", "", nonsense, request()))
    page.on_removed(0, "like", "red", "", nonsense, request())


def test_stop__keeps_what_there_is(page: Page) -> None:
    run = page.on_photo(event(path=upload(page, flag())), request())
    next(run), next(run), next(run)
    assert not page.on_stop(request()).interactive
    (last,) = list(run)
    assert f"<b>{CHUNK}</b> masked copies seen" in last[page.layout.status]
    assert "stopped" in last[page.layout.status]
    assert "cx-map" in figure(page, last)
    more = list(page.on_more(request()))
    assert "finished" in more[-1][page.layout.status]


def test_second_upload_during_a_run(page: Page) -> None:
    first = page.on_photo(event(path=upload(page, flag(), "first.png")), request())
    next(first), next(first)
    second = list(page.on_photo(event(path=upload(page, flag("blue", "red"), "second.png")), request()))
    assert list(first) == []
    assert "finished" in second[-1][page.layout.status]


def test_leave__forgets(page: Page) -> None:
    with_photo(page)
    page.on_leave(request())
    assert page.studio.visitor("a").run is None


def image_of(mode: str, **options: Any) -> Image.Image:
    if mode == "I;16":
        return Image.fromarray((np.arange(1600).reshape(40, 40) * 40).astype(np.uint16))
    return flag().convert(mode, **options)


@pytest.mark.parametrize(("mode", "suffix"), [("CMYK", "jpg"), ("I;16", "png"), ("RGBA", "png"), ("L", "png"), ("P", "gif")])
def test_photo__of_any_kind(page: Page, mode: str, suffix: str) -> None:
    path = upload(page, image_of(mode), f"photo.{suffix}")
    assert "finished" in list(page.on_photo(event(path=path), request()))[-1][page.layout.status]


def test_photo__is_turned_as_the_camera_says(page: Page) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    path = upload(page, flag(size=(60, 40)), "photo.jpg", exif=exif)
    list(page.on_photo(event(path=path), request()))
    explicand = page.studio.visitor("a").explicand
    assert explicand is not None
    assert explicand.picture.shape == (60, 40, 3)


def test_photo__that_is_a_text(page: Page) -> None:
    path = page.folder / "photo.png"
    path.write_text("Once upon a time")
    (updates,) = page.on_photo(event(path=str(path)), request())
    assert "photo.png is not an image that can be read" in updates[page.layout.notice]
    assert str(page.folder) not in updates[page.layout.notice]


def test_photo__of_one_pixel(page: Page) -> None:
    (updates,) = page.on_photo(event(path=upload(page, flag(size=(1, 1)))), request())
    assert "has 1 x 1 pixels; at least 2 x 2 are needed" in updates[page.layout.notice]


def test_photo__that_is_huge(page: Page) -> None:
    path = upload(page, Image.new("1", (20_000, 20_000)))
    (updates,) = page.on_photo(event(path=path), request())
    assert "too many pixels" in updates[page.layout.notice] or "pixels, more than" in updates[page.layout.notice]


def test_photo__bad_one_leaves_the_old_run(page: Page) -> None:
    with_photo(page)
    path = page.folder / "photo.png"
    path.write_text("Once upon a time")
    list(page.on_photo(event(path=str(path)), request()))
    assert "cx-map" in figure(page, page.on_ask(0, "red", "blue", request()))


def test_photo__outside_of_the_folder(page: Page, tmp_path: Path) -> None:
    flag().save(tmp_path / "private.png")
    outside = [tmp_path / "private.png", page.folder / ".." / "private.png", "/etc/passwd", "", None, 3]
    link = page.folder / "link.png"
    link.symlink_to(tmp_path / "private.png")
    for path in (*outside, link, "http://127.0.0.1/x.png"):
        (updates,) = page.on_photo(event(path=path if path is None else str(path)), request())
        assert "was not uploaded to this page" in updates[page.layout.notice]


def test_refused__says_why(page: Page) -> None:
    told = page.on_refused(event(name="a.png", reason="File(s) exceed the maximum allowed size of 20 MB"))
    assert "a.png is too large: at most 20 MB can be uploaded" in told
    assert "<b>.png could not be uploaded" not in page.on_refused(event(name="<b>.png", reason="?"))


def test_photo__bad_one_during_a_run_is_told_until_there_is_a_better_one(page: Page) -> None:
    run = page.on_photo(event(path=upload(page, flag())), request())
    next(run), next(run), next(run)
    path = page.folder / "story.png"
    path.write_text("Once upon a time")
    (updates,) = page.on_photo(event(path=str(path)), request())
    assert "story.png is not an image" in updates[page.layout.notice]
    assert all(page.layout.notice not in tick for tick in run)  # no progress wipes it
    assert page.layout.notice not in page.on_ask(0, "red", "blue", request())
    assert with_photo(page)[0][page.layout.notice] == ""


def test_photo__the_last_choice_counts_whatever_the_order_of_arrival(page: Page) -> None:
    late = list(page.on_sample(event(name="coffee", choice=5), request()))
    assert "finished" in late[-1][page.layout.status]
    for choice, name in ((1, "cat"), (2, "rocket"), (3, "motorbike"), (4, "astronaut")):
        assert list(page.on_sample(event(name=name, choice=choice), request())) == []
    assert list(page.on_photo(event(path=upload(page, flag()), choice=4), request())) == []
    answer = page.studio.visitor("a").answers[0]
    assert answer is not None
    assert answer.name == "a cup of coffee rather than a spoon"


def test_samples__five_at_once_leave_photo_and_question_of_the_last(page: Page) -> None:
    names = ["cat", "rocket", "motorbike", "astronaut", "coffee"]

    def click(choice: int) -> None:
        for _ in page.on_sample(event(name=names[choice], choice=choice), request()):
            pass

    threads = [threading.Thread(target=click, args=(choice,)) for choice in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    visitor = page.studio.visitor("a")
    answer = visitor.answers[0]
    assert answer is not None
    assert answer.name == "a cup of coffee rather than a spoon"
    expected = page.studio.encoder.explicand(page.samples["coffee"])
    assert visitor.run is not None
    assert visitor.run.explicand.tensor.equal(expected.tensor)
    assert visitor.progress == Progress(2 * CHUNK, 2 * CHUNK, running=False)


def test_run__that_breaks_says_so_and_does_not_go_on_for_ever(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(page.studio, "answer", broken)
    run = page.on_photo(event(path=upload(page, flag())), request())
    next(run), next(run)
    told = next(run)
    assert "Something in the page is broken (KeyError: &#x27;a bug&#x27;)" in told[page.layout.notice]
    assert "left" not in told[page.layout.status].split("cx-left")[1]
    assert not told[page.layout.stop].visible
    with pytest.raises(KeyError):
        next(run)


# --- questions --------------------------------------------------------------------------------------------------------


def test_ask__without_encoder_work(page: Page) -> None:
    with_photo(page)
    module = page.studio.encoder.module
    assert isinstance(module, Colours)
    before = module.inputs
    shown = figure(page, page.on_ask(0, "red", "blue", request()))
    assert "<b>red</b> <i>rather than</i> <b>blue</b>" in shown
    assert module.inputs == before


@pytest.mark.parametrize(
    ("like", "unlike", "complaint"),
    [
        ("red", "red", "Both sides of the question are &#x27;red&#x27;"),
        ("red " * 40, "", "takes at most 12; shorten it"),
    ],
)
def test_ask__bad_question_is_told_in_a_sentence(page: Page, like: str, unlike: str, complaint: str) -> None:
    with_photo(page)
    shown = notice(page, page.on_ask(0, like, unlike, request()))
    assert complaint in shown
    assert "Traceback" not in shown


def test_ask__bad_question_is_told_until_there_is_a_better_one(page: Page) -> None:
    run = page.on_photo(event(path=upload(page, flag())), request())
    next(run), next(run)
    assert "Both sides" in notice(page, page.on_ask(0, "red", "red", request()))
    for tick in run:
        assert page.layout.panels[0].notice not in tick
        assert "cx-notice" not in figure(page, tick)
    assert notice(page, page.on_ask(0, "red", "blue", request())) == ""


def test_ask__new_question_brings_its_own_error_and_takes_the_curves_away(page: Page) -> None:
    with_photo(page)
    errors = []
    for words in (("red", "blue"), ("red green blue", "")):
        updates = page.on_ask(0, *words, request())
        assert set(updates) <= outputs_of(page, "on_ask")
        assert updates[page.layout.curves] == ""
        errors.append(f"error {page.studio.visitor('a').error:.0%} of the signal")
        assert errors[-1] in updates[page.layout.status]
    assert errors[0] != errors[1]
    assert with_photo(page)[0][page.layout.curves] == ""
    page.on_compare(True, request())
    assert page.on_compare(False, request())[page.layout.curves] == ""


def test_ask__while_a_run_goes_on_leaves_the_status_to_it(page: Page) -> None:
    run = page.on_photo(event(path=upload(page, flag())), request())
    next(run), next(run), next(run)
    assert page.layout.status not in page.on_ask(0, "red", "blue", request())


def test_ask__empty_is_about_the_photo_itself(page: Page) -> None:
    with_photo(page)
    assert "<b>itself</b>" in figure(page, page.on_ask(0, "", " ", request()))


def test_compare__opens_and_closes_the_second_question(page: Page) -> None:
    with_photo(page)
    assert page.on_compare(True, request())[page.layout.panels[1].column].visible
    assert "cx-map" in figure(page, page.on_ask(1, "blue", "red", request()), 1)
    closed = page.on_compare(False, request())
    assert not closed[page.layout.panels[1].column].visible
    assert "cx-map" not in figure(page, closed, 1)


def test_two_visitors__see_their_own(page: Page) -> None:
    with_photo(page)
    page.on_ask(0, "red", "blue", request("a"))
    assert "Write a question" not in figure(page, page.on_ask(0, "red", "blue", request("a")))
    assert "cx-map" not in figure(page, page.on_ask(0, "red", "blue", request("b")))


def test_pictures__dropped_and_removed(page: Page) -> None:
    with_photo(page)
    path = upload(page, flag("blue", "blue"), "sky.png")
    updates = page.on_dropped(0, "like", "", "red", event(files=[{"path": path, "name": "sky.png"}]), request())
    assert 'data-remove="0"' in updates[page.layout.panels[0].pictures["like"]]
    assert "the picture sky" in figure(page, updates)
    updates = page.on_removed(0, "like", "blue", "red", event(index=0), request())
    assert "data-remove" not in updates[page.layout.panels[0].pictures["like"]]
    assert "sky" not in figure(page, updates)


def drop(page: Page, index: int = 0) -> None:
    path = upload(page, flag("blue", "blue"), "sky.png")
    page.on_dropped(index, "like", "", "red", event(files=[{"path": path, "name": "sky.png"}]), request())


def test_pictures__outlive_their_files(page: Page) -> None:
    with_photo(page)
    drop(page)
    drop(page)
    for path in page.folder.rglob("*.png"):
        path.unlink()  # as Gradio does after an hour
    run = page.on_more(request())
    next(run)
    shown = next(run)
    assert f"<b>{3 * CHUNK}</b> of" in shown[page.layout.status]
    assert "the picture sky / the picture sky" in figure(page, shown)
    updates = page.on_removed(0, "like", "", "red", event(index=0), request())
    assert "the picture sky" in figure(page, updates)
    assert "the picture sky / the picture sky" not in figure(page, updates)


def outputs_of(page: Page, name: str) -> set[Any]:
    return set().union(*(function.outputs for function in page.blocks.fns.values() if function.name == name))


def test_pictures__are_gone_from_the_page_too_when_a_sample_is_chosen(page: Page) -> None:
    with_photo(page)
    drop(page)
    updates = list(page.on_sample(event(name="coffee"), request()))
    for side in ("like", "unlike"):
        assert "data-remove" not in updates[0][page.layout.panels[0].pictures[side]]
    assert set(updates[0]) <= outputs_of(page, "on_sample")
    assert page.studio.visitor("a").pictures[0] == {"like": [], "unlike": []}


def test_pictures__are_gone_from_the_page_too_when_the_second_question_is_closed(page: Page) -> None:
    with_photo(page)
    page.on_compare(True, request())
    drop(page, 1)
    assert "data-remove" in page.on_compare(True, request())[page.layout.panels[1].pictures["like"]]
    updates = page.on_compare(False, request())
    for side in ("like", "unlike"):
        assert "data-remove" not in updates[page.layout.panels[1].pictures[side]]
    assert set(updates) <= outputs_of(page, "on_compare")


def test_pictures__bad_ones(page: Page, tmp_path: Path) -> None:
    with_photo(page)
    text = page.folder / "text.png"
    text.write_text("no picture")
    flag().save(tmp_path / "private.png")
    good = upload(page, flag())
    for files, complaint in (
        ([{"path": str(text)}], "text.png is not an image"),
        ([{"path": str(tmp_path / "private.png")}], "was not uploaded to this page"),
        ([{"path": good}] * (PICTURES + 1), f"At most {PICTURES} pictures fit on one side"),
    ):
        updates = page.on_dropped(0, "like", "", "red", event(files=files), request())
        assert complaint in notice(page, updates)
        assert page.studio.visitor("a").pictures[0]["like"] == []
    told = page.on_too_large(0, event(name="a.png", reason="maximum allowed size"))
    assert "a.png is too large" in notice(page, told)


# --- looking ----------------------------------------------------------------------------------------------------------


def test_view__redraws_all(page: Page) -> None:
    with_photo(page)
    before = figure(page, page.figures(page.studio.visitor("a")))
    updates = page.on_view(0.3, "Orange and purple", "14 × 14", True, request())
    assert figure(page, updates) != before
    assert "Orange" in updates[page.layout.legend]


def test_point__is_read_in_every_panel(page: Page) -> None:
    with_photo(page)
    page.on_ask(1, "blue", "red", request())
    updates = page.on_point(event(x=0.3, y=0.5), request())
    for index in range(2):
        assert "This place:" in figure(page, updates, index)
    assert "This place:" not in figure(page, page.on_point(event(x=7, y="0.5"), request()))


def test_curves__on_demand(page: Page) -> None:
    assert "There is no run yet" in page.on_curves(request())
    with_photo(page)
    page.on_ask(0, "red", "blue", request())
    assert "data:image/jpeg" in page.on_curves(request())


def test_curves__that_come_too_late_are_not_shown(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    with_photo(page)
    measure = page.studio.curves

    def meanwhile(visitor: Visitor) -> Any:
        measured = measure(visitor)
        page.on_ask(0, "red", "blue", request())
        return measured

    monkeypatch.setattr(page.studio, "curves", meanwhile)
    assert page.on_curves(request()) == ""


def test_download__png_and_json(page: Page) -> None:
    with_photo(page)
    page.on_ask(0, "red", "blue", request())
    files = {kind: page.on_download(0, kind, request())[page.layout.file] for kind in ("png", "json")}
    assert files["png"]["name"] == "red-rather-than-blue.png"
    data = {kind: base64.b64decode(file["data"].split(",")[1]) for kind, file in files.items()}
    assert Image.open(io.BytesIO(data["png"])).format == "PNG"
    told = json.loads(data["json"])
    assert told["question"] == "red rather than blue"
    assert np.shape(told["values"]) == np.shape(told["standard_error"]) == (32, 32)
    assert told["samples"] == 2 * CHUNK


def test_download__nothing_yet(page: Page) -> None:
    updates = page.on_download(0, "png", request())
    assert updates[page.layout.file] is None
    assert "There is nothing to download yet" in notice(page, updates)


def test_asked__changes_nothing_where_nothing_is_lacking(page: Page) -> None:
    """Of an event that yields nothing, Gradio empties everything."""
    with_photo(page)
    assert list(page.on_asked(request())) == [{page.layout.stop: gr.skip()}]
    assert list(page.on_asked(request("b"))) == [{page.layout.stop: gr.skip()}]


def test_asked__a_harder_question_goes_on_by_itself(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    patient = cocoax.Rise(samples=2 * CHUNK, grid=4, tolerance=0.5, max_samples=40 * CHUNK)
    monkeypatch.setattr(page.studio, "method", patient)
    with_photo(page)
    visitor = page.studio.visitor("a")
    assert visitor.run is not None
    had = len(visitor.run)
    errors = {}
    for words in (("red", "blue"), ("blue", "green"), ("green", "red"), ("green", "")):
        page.studio.ask(visitor, 0, *words)
        errors[words] = visitor.error or 0.0
    hardest = max(errors, key=lambda words: errors[words])
    monkeypatch.setattr(page.studio, "method", replace(patient, tolerance=0.9 * errors[hardest]))
    page.studio.ask(visitor, 0, *min(errors, key=lambda words: errors[words]))
    assert list(page.on_asked(request())) == [{page.layout.stop: gr.skip()}]  # which is known
    page.studio.ask(visitor, 0, *hardest)
    updates = list(page.on_asked(request()))
    assert "finished" in updates[-1][page.layout.status]
    assert len(visitor.run) > had
    assert visitor.error is not None
    assert visitor.error <= 0.9 * errors[hardest]


def test_baseline__looks_again_or_changes_nothing(page: Page) -> None:
    with_photo(page)
    updates = list(page.on_baseline("mean colour", request()))
    assert "finished" in updates[-1][page.layout.status]
    visitor = page.studio.visitor("a")
    assert visitor.run is not None
    assert visitor.run.method.baseline == cocoax.Mean()
    assert list(page.on_baseline("mean colour", request())) == [{page.layout.stop: gr.skip()}]
    *_, told = page.on_baseline("a unicorn", request())
    assert "Removed parts become one of blur, strong blur" in told[page.layout.notice]
