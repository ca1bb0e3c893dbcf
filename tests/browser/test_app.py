"""The page in a real browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.app.colours import flag
from tests.app.serving import serving

pytestmark = pytest.mark.browser
LIKE, UNLIKE = "#cx-like-{} input, #cx-like-{} textarea", "#cx-unlike-{} input, #cx-unlike-{} textarea"


def upload(page: Any, photo: Path) -> None:
    page.set_input_files("#cx-photo input[type=file]", str(photo))


def ask(page: Any, like: str, unlike: str, index: int = 0) -> None:
    page.fill(LIKE.format(index, index), like)
    page.fill(UNLIKE.format(index, index), unlike)
    page.press(UNLIKE.format(index, index), "Enter")
    page.wait_for_function(
        "([index, like]) => document.querySelector(`#cx-figure-${index} .cx-question`)?.innerText.startsWith(like)",
        arg=[index, like],
    )


def finished(page: Any) -> None:
    page.wait_for_selector(".cx-progress.finished")


def place(page: Any, across: float, down: float) -> tuple[float, float]:
    """Where a place of the first map is in the window."""
    page.locator("#cx-figure-0 .heat img").scroll_into_view_if_needed()
    box = page.locator("#cx-figure-0 .heat img").bounding_box()
    return box["x"] + across * box["width"], box["y"] + down * box["height"]


def samples(page: Any) -> int:
    return int(page.inner_text(".cx-status b"))


@pytest.mark.parametrize("width", [1920, 1280, 390])
def test_page__fits_its_window_and_has_no_clutter(visit: Any, width: int, photo: Path) -> None:
    page = visit(width)
    assert page.title() == "Cocoax"
    upload(page, photo)
    finished(page)
    ask(page, "red", "blue")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not page.is_visible("footer")
    assert "Gradio" not in page.inner_text("body")
    cards = [page.locator(selector).bounding_box() for selector in ("#cx-photo", "#cx-asks")]
    left, right = min(card["x"] for card in cards), width - max(card["x"] + card["width"] for card in cards)
    assert abs(left - right) <= 1
    assert left <= (10 if width == 390 else 0.15 * width)
    behind = """x => document.elementsFromPoint(x, 500).map(element => getComputedStyle(element).backgroundColor)
        .find(colour => colour !== "rgba(0, 0, 0, 0)")"""
    assert page.evaluate(behind, 2) == page.evaluate(behind, left - 4)  # the same from edge to edge


def test_photo__runs_with_live_progress_then_answers(visit: Any, photo: Path) -> None:
    page = visit()
    upload(page, photo)
    page.wait_for_selector(".cx-progress.running")
    page.wait_for_selector("#cx-figure-0 .heat img")  # before the run has ended
    first = samples(page)
    page.wait_for_function("first => Number(document.querySelector('.cx-status b').innerText) > first", arg=first)
    assert "of the signal" in page.inner_text(".cx-status")
    finished(page)
    before = page.get_attribute("#cx-figure-0 .heat img", "src")
    ask(page, "red", "blue")
    assert page.get_attribute("#cx-figure-0 .heat img", "src") != before
    assert page.is_visible("#cx-more")
    assert samples(page) == 240


def test_two_questions__side_by_side(visit: Any, photo: Path) -> None:
    page = visit()
    upload(page, photo)
    finished(page)
    ask(page, "red", "blue")
    page.check("#cx-compare input")
    ask(page, "blue", "red", 1)
    left, right = (page.locator(f"#cx-panel-{index}").bounding_box() for index in range(2))
    assert left["x"] + left["width"] <= right["x"]
    page.mouse.click(*place(page, 0.2, 0.5))
    page.wait_for_selector("#cx-figure-1 path.on")  # both maps answer
    readings = [page.inner_text(f"#cx-figure-{index} .says") for index in range(2)]
    assert all("±" in reading for reading in readings)
    assert "+" in readings[0]
    assert "−" in readings[1]
    page.uncheck("#cx-compare input")
    page.wait_for_selector("#cx-panel-1", state="hidden")


def test_stop__and_go_on(visit: Any, photo: Path) -> None:
    page = visit()
    upload(page, photo)
    page.wait_for_selector("#cx-figure-0 .heat img")
    page.click("#cx-stop")
    page.wait_for_selector(".cx-progress.stopped")
    assert samples(page) < 240
    ask(page, "red", "blue")
    page.click("#cx-more")
    finished(page)
    assert samples(page) > 240


def test_second_upload__during_a_run(visit: Any, photo: Path, tmp_path: Path) -> None:
    page = visit()
    upload(page, photo)
    page.wait_for_selector("#cx-figure-0 .heat img")
    flag("blue", "red", size=(90, 120)).save(tmp_path / "second.png")
    upload(page, tmp_path / "second.png")
    page.wait_for_function(
        "(() => { const i = document.querySelector('.cx-photo img'); return i && i.naturalHeight > i.naturalWidth })()"
    )
    finished(page)
    assert samples(page) == 240
    size = page.evaluate(
        "(() => { const i = document.querySelector('#cx-figure-0 .heat img'); return [i.naturalWidth, i.naturalHeight] })()"
    )
    assert size[0] / size[1] == 90 / 120


def test_two_visitors__at_once(visit: Any, photo: Path, tmp_path: Path) -> None:
    one, two = visit(), visit()
    flag("green", "red", size=(90, 120)).save(tmp_path / "second.png")
    upload(one, photo)
    upload(two, tmp_path / "second.png")
    ask(one, "red", "blue")
    ask(two, "green", "red")
    finished(one), finished(two)
    one.wait_for_selector("#cx-figure-0 .cx-question >> text=red rather than blue")
    two.wait_for_selector("#cx-figure-0 .cx-question >> text=green rather than red")
    assert samples(one) == samples(two) == 240


def test_pictures__dropped_on_a_side(visit: Any, photo: Path, tmp_path: Path) -> None:
    page = visit()
    upload(page, photo)
    finished(page)
    flag("blue", "blue").save(tmp_path / "sky.png")
    page.set_input_files("#cx-like-pictures-0 input[type=file]", str(tmp_path / "sky.png"))
    page.wait_for_selector("#cx-like-pictures-0 .cx-ref img")
    page.wait_for_function("document.querySelector('#cx-figure-0 .cx-question').innerText.includes('sky')")
    page.click("#cx-like-pictures-0 [data-remove]")
    page.wait_for_selector("#cx-like-pictures-0 .cx-ref", state="detached")


def test_samples__five_fast_clicks_leave_words_and_map_of_the_last(visit: Any) -> None:
    page = visit()
    for name in ("collage", "cat", "rocket", "motorbike", "coffee"):
        page.click(f"[data-sample={name}]")
    finished(page)
    page.wait_for_timeout(1000)  # whatever was still on its way
    assert page.input_value(LIKE.format(0, 0)) == "a cup of coffee"
    assert page.input_value(UNLIKE.format(0, 0)) == "a spoon"
    assert page.inner_text("#cx-figure-0 .cx-question") == "a cup of coffee rather than a spoon"
    shapes = page.evaluate(
        "[...document.querySelectorAll('.cx-photo img, #cx-figure-0 .heat img')].map(i => i.naturalWidth / i.naturalHeight)"
    )
    thumbnail = 1.5  # the photo of the coffee is 600 x 400
    assert shapes == pytest.approx([thumbnail, thumbnail], rel=0.02)
    assert page.is_visible("[data-sample=coffee].chosen")


def test_photo__dropped_from_outside(visit: Any, photo: Path) -> None:
    page = visit()
    data = list(photo.read_bytes())
    page.evaluate(
        """data => {
            const files = new DataTransfer();
            files.items.add(new File([new Uint8Array(data)], "dropped.png", { type: "image/png" }));
            const drop = new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true });
            document.querySelector(".cx-drop").dispatchEvent(drop);
        }""",
        data,
    )
    finished(page)


def test_upload__that_is_no_picture_is_told_while_a_run_goes_on_and_after_it(visit: Any, photo: Path, tmp_path: Path) -> None:
    page = visit()
    upload(page, photo)
    finished(page)
    (tmp_path / "story.png").write_text("Once upon a time")
    page.click("#cx-more")  # a run of 500 samples, which goes on while the notice arrives
    page.wait_for_selector(".cx-progress.running")
    upload(page, tmp_path / "story.png")
    page.wait_for_selector("#cx-notice .cx-notice")
    before = samples(page)
    finished(page)
    assert samples(page) > before
    assert "story.png" in page.inner_text("#cx-notice .cx-notice")
    upload(page, photo)
    page.wait_for_selector("#cx-notice .cx-notice", state="hidden")


def test_upload__that_is_too_large(visit: Any, tmp_path: Path) -> None:
    page = visit()
    (tmp_path / "large.png").write_bytes(b"x" * 21_000_000)
    upload(page, tmp_path / "large.png")
    page.wait_for_selector("#cx-notice .cx-notice")
    assert page.inner_text("#cx-notice .cx-notice").startswith("large.png is too large: at most 20 MB")


def test_question__bad_one_is_told_beside_the_old_answer(visit: Any, photo: Path) -> None:
    page = visit()
    upload(page, photo)
    finished(page)
    ask(page, "red", "blue")
    page.fill(UNLIKE.format(0, 0), "red")
    page.press(UNLIKE.format(0, 0), "Enter")
    page.wait_for_selector("#cx-notice-0 .cx-notice")
    assert "Both sides of the question are 'red'" in page.inner_text("#cx-notice-0 .cx-notice")
    assert page.is_visible("#cx-figure-0 .heat img")


def test_controls__redraw(visit: Any, photo: Path) -> None:
    page = visit()
    upload(page, photo)
    finished(page)
    ask(page, "red", "blue")
    page.click("#cx-settings button")
    for action in (
        lambda: page.click("#cx-colours label:has-text('Orange')"),
        lambda: page.fill("#cx-opacity input[type=number]", "0.2"),
    ):
        before = page.get_attribute("#cx-figure-0 .heat img", "src")
        action()
        page.wait_for_function("before => document.querySelector('#cx-figure-0 .heat img').src !== before", arg=before)
    assert "Orange raises" in page.inner_text(".cx-legend")


def test_curves__on_demand(visit: Any, photo: Path) -> None:
    page = visit()
    upload(page, photo)
    finished(page)
    page.click("#cx-measure")
    page.wait_for_selector("#cx-curves img")
    ask(page, "red", "blue")
    page.wait_for_selector("#cx-curves img", state="detached")


def test_downloads(visit: Any, photo: Path, tmp_path: Path) -> None:
    page = visit()
    upload(page, photo)
    finished(page)
    ask(page, "red", "blue")
    for kind in ("png", "json"):
        with page.expect_download() as waiting:
            page.click(f"#cx-{kind}-0")
        waiting.value.save_as(tmp_path / f"answer.{kind}")
        assert waiting.value.suggested_filename == f"red-rather-than-blue.{kind}"
    assert (tmp_path / "answer.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "answer.json").read_text())["question"] == "red rather than blue"


def test_places__of_open_tabs_are_kept_and_those_of_closed_ones_given_to_others(
    visit: Any, photo: Path, tmp_path: Path
) -> None:
    with serving(tmp_path, "1") as (_, address):
        first, second = visit(at=address), visit(at=address)
        upload(first, photo)
        first.wait_for_selector("#cx-figure-0 .heat img")
        upload(second, photo)
        second.wait_for_selector("text=All 1 places on this page are taken; try again")
        ask(first, "red", "blue")
        finished(first)
        first.close()
        second.wait_for_timeout(1000)  # until the server has noticed
        upload(second, photo)
        finished(second)
        second.wait_for_selector("#cx-notice .cx-notice", state="hidden")


def test_connection__that_is_lost_for_a_moment_loses_no_work(visit: Any, photo: Path) -> None:
    page = visit()
    upload(page, photo)
    finished(page)
    page.context.set_offline(True)
    page.wait_for_timeout(1000)
    page.context.set_offline(False)
    ask(page, "red", "blue")
    assert samples(page) == 240


def test_known__a_run_ends_by_itself_and_goes_on_for_another_question(visit: Any, photo: Path, tmp_path: Path) -> None:
    with serving(tmp_path, "32", "0.1") as (_, address):
        page = visit(at=address)
        page.fill(LIKE.format(0, 0), "red")
        page.fill(UNLIKE.format(0, 0), "blue")
        page.press(UNLIKE.format(0, 0), "Enter")
        upload(page, photo)
        page.wait_for_selector("text=until 10%")
        page.wait_for_selector("text=s left")
        finished(page)
        known = samples(page)
        assert known < 240
        page.fill(LIKE.format(0, 0), "")  # what it has in common with itself is hardly in any of its parts
        page.fill(UNLIKE.format(0, 0), "")
        page.press(UNLIKE.format(0, 0), "Enter")
        page.wait_for_function("known => Number(document.querySelector('.cx-status b')?.innerText) > known", arg=known)
        finished(page)
        assert samples(page) == 240
        assert "instead of 10%: take more copies" in page.inner_text(".cx-status")


def test_baseline__looks_at_the_photo_again(visit: Any, photo: Path) -> None:
    page = visit()
    upload(page, photo)
    finished(page)
    ask(page, "red", "blue")
    before = page.get_attribute("#cx-figure-0 .heat img", "src")
    page.click("#cx-settings button")
    page.check("#cx-baseline input[value='mean colour']")
    page.wait_for_selector(".cx-progress.running")
    finished(page)
    assert page.inner_text("#cx-figure-0 .cx-question") == "red rather than blue"
    assert page.get_attribute("#cx-figure-0 .heat img", "src") != before


# --- keyboard and screen readers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "light"), (1280, "dark")])
def test_axe__finds_nothing(visit: Any, axe: str, address: str, photo: Path, tmp_path: Path, width: int, scheme: str) -> None:
    page = visit(width, at=f"{address}?__theme={scheme}", color_scheme=scheme)
    page.evaluate(axe)

    def findings() -> list[str]:
        found = page.evaluate("axe.run(document)")
        assert any(rule["id"] == "color-contrast" for rule in found["passes"])
        return [f"{rule['id']}: {node['html'][:200]}" for rule in found["violations"] for node in rule["nodes"]]

    assert findings() == []
    upload(page, photo)
    page.wait_for_selector("#cx-figure-0 .heat img")
    assert findings() == []  # while a run goes on
    finished(page)
    ask(page, "red", "blue / green")
    flag("blue", "blue").save(tmp_path / "sky.png")
    page.check("#cx-compare input")
    page.set_input_files("#cx-like-pictures-1 input[type=file]", str(tmp_path / "sky.png"))
    page.wait_for_selector("#cx-figure-1 .heat img")
    page.fill(UNLIKE.format(0, 0), "red")
    page.press(UNLIKE.format(0, 0), "Enter")
    page.wait_for_selector("#cx-notice-0 .cx-notice")
    page.click("#cx-measure")
    page.wait_for_selector("#cx-curves img")
    assert findings() == []


def test_names__of_what_has_no_text(visit: Any, photo: Path) -> None:
    page = visit()
    upload(page, photo)
    page.get_by_role("progressbar", name="masked copies seen").wait_for()
    for side in ("Looks like", "rather than"):
        assert page.get_by_label(f"{side}: choose pictures").first.count() == 1
    assert page.get_by_label("Drop a photo here").count() == 1


def test_keyboard__reads_the_map_without_a_mouse(visit: Any, photo: Path) -> None:
    page = visit()
    upload(page, photo)
    finished(page)
    ask(page, "red", "blue")
    page.focus("#cx-figure-0 .heat path[tabindex='0']")
    said = []
    for key in ("ArrowLeft", *["ArrowRight"] * 8):
        page.keyboard.press(key)
        said.append(page.inner_text("#cx-figure-0 .says"))
    assert all("±" in words for words in said)
    assert "+" in said[0]
    assert "−" in said[-1]  # blue is on the right
    assert page.evaluate("document.activeElement.ariaLabel") == said[-1]


def test_keyboard__leads_through_the_page_and_shows_where_it_is(visit: Any) -> None:
    page = visit()
    page.click("#cx-settings button")
    page.focus("#cx-colours input")
    page.keyboard.press("ArrowDown")
    page.wait_for_function("document.querySelector('.cx-legend').innerText.includes('Orange raises')")
    assert page.input_value("#cx-colours input:checked") == "Orange and purple"
    page.focus("#cx-photo input[type=file]")
    for _ in range(25):
        outline = page.evaluate(
            """(() => {
                const focused = document.activeElement;
                const style = getComputedStyle(focused.type === "file" ? focused.closest("label") : focused);
                return [focused.outerHTML.slice(0, 80), style.outlineStyle, style.outlineWidth];
            })()"""
        )
        assert outline[0].startswith("<body") or outline[1:] == ["solid", "3px"], outline[0]
        page.keyboard.press("Tab")
