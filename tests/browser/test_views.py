"""Every view of the page in a real browser: by keyboard, on a desk and on a phone, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.app.colours import flag
from tests.app.serving import serving

pytestmark = pytest.mark.browser
VIEWS = {  # by encoder: what is pressed to see an answer, and where it appears
    "pictures": {
        "Photo": ("[data-sample=cat]", ".cx-progress.finished"),
        "Match": ("#cx-match-example-0", "#cx-match-answer iframe"),
        "Search": ("#cx-search-example-0", "#cx-search-answer iframe"),
        "Data set": ("#cx-data-set-example-0", "#cx-data-set-answer iframe"),
    },
    "sounds": {
        "Sound": ("#cx-sound-example-0", "#cx-sound-answer iframe"),
        "Match": ("#cx-match-example-0", "#cx-match-answer iframe"),
    },
    "rows": {"Table row": ("#cx-table-row-example-0", "#cx-table-row-answer iframe")},
}


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A page for each encoder, with all views that it has."""
    with ExitStack() as held:
        yield {
            kind: held.enter_context(
                serving(
                    tmp_path_factory.mktemp("server"),
                    "32",
                    "0",
                    str(tmp_path_factory.mktemp("index")) if kind == "pictures" else kind,
                )
            )[1]
            for kind in VIEWS
        }


@pytest.mark.parametrize("kind", VIEWS)
def test_views__all_are_listed_here(visit: Any, views: dict[str, str], kind: str) -> None:
    assert visit(at=views[kind]).get_by_role("tab").all_inner_texts() == list(VIEWS[kind])


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
@pytest.mark.parametrize(("kind", "view"), [(kind, view) for kind, own in VIEWS.items() for view in own])
def test_view__answers_an_example_by_keyboard(
    visit: Any, axe: str, views: dict[str, str], kind: str, view: str, width: int, scheme: str
) -> None:
    page = visit(width, at=f"{views[kind]}?__theme={scheme}", color_scheme=scheme, reduced_motion="reduce")
    pressed, answer = VIEWS[kind][view]
    page.get_by_role("tab", name=view).focus()
    page.keyboard.press("Enter")
    page.focus(pressed)
    page.keyboard.press("Enter")
    page.wait_for_selector(answer)
    page.wait_for_timeout(1000)  # a frame grows to its content
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.getAnimations().filter(one => one.playState === 'running').length") == 0
    for frame in page.frames:
        frame.evaluate(axe)
        assert frame.evaluate("document.documentElement.scrollWidth") <= width
    found = page.evaluate("axe.run(document)")
    assert any(rule["id"] == "color-contrast" for rule in found["passes"])
    assert [f"{rule['id']}: {node['html'][:200]}" for rule in found["violations"] for node in rule["nodes"]] == []


# --- what visitors do -------------------------------------------------------------------------------------------------------

MARKUP = "<img src=x onerror=window.broken=1><b>red</b> {{ 1 }} ${x} מרחבא 🦄"


def in_view(visit: Any, address: str, view: str) -> Any:
    page = visit(at=address)
    page.get_by_role("tab", name=view).click()
    return page


def answer(page: Any, slug: str) -> Any:
    """Return the frame of an answer."""
    page.wait_for_selector(f"#cx-{slug}-answer iframe")
    return page.locator(f"#cx-{slug}-answer iframe").content_frame


def test_search__uploads_fill_the_documents(visit: Any, views: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("green blue\nred red\n")
    (tmp_path / "table.csv").write_text('id,body\n1,"blue, blue"\n2,red\n')
    page = in_view(visit, views["pictures"], "Search")
    chooser, box = "#cx-search-documents-picture input[type=file]", "#cx-search-documents textarea"
    page.set_input_files(chooser, str(tmp_path / "texts.txt"))
    page.wait_for_function(f"document.querySelector('{box}').value === 'green blue\\nred red\\n'")
    page.fill("#cx-search-column input, #cx-search-column textarea", "body")
    page.set_input_files(chooser, str(tmp_path / "table.csv"))
    page.wait_for_function(f"document.querySelector('{box}').value === 'blue, blue\\nred'")
    page.fill("#cx-search-query input, #cx-search-query textarea", "red")
    page.click("#cx-search-run")
    assert answer(page, "search").locator("td", has_text="red").first.is_visible()
    page.set_input_files(chooser, str(Path(__file__)))
    assert "holds no documents" in page.locator("#cx-notice-search .cx-notice").inner_text()


def test_data_set__a_point_two_groups_and_a_box(visit: Any, views: dict[str, str]) -> None:
    page = in_view(visit, views["pictures"], "Data set")
    points = page.locator("#cx-data-set-chart circle")
    points.first.click()
    assert points.first.get_attribute("data-name") in answer(page, "data-set").locator("table").inner_text()
    page.check("#cx-uses input[value=like]")
    points.nth(1).click()
    page.check("#cx-uses input[value=unlike]")
    chart = page.locator("#cx-data-set-chart svg")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 30, box["y"] + 1)  # beside its rounded corners
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 30, box["y"] + box["height"] - 1, steps=4)
    page.mouse.up()
    lines = page.input_value("#cx-data-set-unlike textarea").split("\n")
    assert len(lines) == points.count()  # all, also the one that was in the other group
    page.click("#cx-uses .cx-clear, .cx-clear")
    page.check("#cx-uses input[value=like]")
    points.nth(1).click()
    page.check("#cx-uses input[value=unlike]")
    points.nth(2).click()
    assert "Like these: 1; rather than these: 1." in page.inner_text(".cx-says")
    page.click("#cx-data-set-run")
    answer(page, "data-set").locator("h1", has_text="1 chosen input rather than 1 other input").wait_for()


def test_link__of_a_photo_and_of_a_match(visit: Any, views: dict[str, str]) -> None:
    page = visit(at=f"{views['pictures']}?view=Photo&photo=cat&like=red&unlike=blue")
    page.wait_for_selector("#cx-figure-0 .heat img")
    assert page.inner_text("#cx-figure-0 .cx-question") == "red rather than blue"
    page = visit(at=f"{views['pictures']}?view=Match&first=red&second=blue%20red")
    assert "Why they match" in answer(page, "match").locator("h1").inner_text()
    page = visit(at=f"{views['pictures']}?view=Photo&photo=%22%5D&like={quote(MARKUP)}")  # of no sample: nothing happens
    assert page.is_visible("[data-sample=cat]")


def test_markup__is_text_everywhere(visit: Any, views: dict[str, str]) -> None:
    page = in_view(visit, views["pictures"], "Match")
    page.fill("#cx-match-first input, #cx-match-first textarea", MARKUP)
    page.fill("#cx-match-second textarea", f"blue {MARKUP}")
    page.click("#cx-match-run")
    frame = answer(page, "match")
    assert "<b>red</b>" in frame.locator("body").inner_text()
    page.get_by_role("tab", name="Photo").click()
    page.click("[data-sample=cat]")
    page.wait_for_selector(".cx-progress.finished")
    page.fill("#cx-like-0 input, #cx-like-0 textarea", MARKUP)
    page.press("#cx-like-0 input, #cx-like-0 textarea", "Enter")
    page.wait_for_function("document.querySelector('#cx-figure-0 .cx-question').innerText.includes('<b>red</b>')")
    assert "{{ 1 }} ${x}" in page.inner_text("#cx-figure-0 .cx-question")
    assert not any(each.evaluate("window.broken") for each in page.frames)


def test_large_inputs__are_answered_by_a_sentence(visit: Any, views: dict[str, str]) -> None:
    page = in_view(visit, views["pictures"], "Match")
    page.evaluate("window.longest = 'red '.repeat(250000)")
    fill = "box => { box.value = window.longest; box.dispatchEvent(new Event('input', { bubbles: true })); }"
    page.locator("#cx-match-second textarea").evaluate(fill)
    page.fill("#cx-match-first input, #cx-match-first textarea", "red")
    page.click("#cx-match-run")
    assert "takes up to 20,000 characters" in page.locator("#cx-notice-match .cx-notice").inner_text()
    page.get_by_role("tab", name="Search").click()
    page.fill("#cx-search-query input, #cx-search-query textarea", "red")
    page.evaluate("window.longest = Array.from({length: 10000}, (_, at) => `blue ${at}`).join('\\n')")
    page.locator("#cx-search-documents textarea").evaluate(fill)
    page.click("#cx-search-run")
    assert "takes up to 2,000 documents" in page.locator("#cx-notice-search .cx-notice").inner_text()


def test_thin_pictures__have_maps_that_can_be_seen(visit: Any, views: dict[str, str], tmp_path: Path) -> None:
    page = visit(at=views["pictures"])
    for size, name in (((1, 5000), "line.png"), ((3, 900), "thin.png")):
        flag(size=size).save(tmp_path / name)
        page.set_input_files("#cx-photo input[type=file]", str(tmp_path / name))
        if name == "line.png":
            page.wait_for_selector("#cx-notice .cx-notice")
            assert "line.png has 1 x 5000 pixels; at least 2 x 2" in page.inner_text("#cx-notice")
    page.wait_for_selector(".cx-progress.finished")
    page.fill("#cx-like-0 input, #cx-like-0 textarea", "red")
    page.press("#cx-like-0 input, #cx-like-0 textarea", "Enter")
    page.wait_for_selector("#cx-figure-0 .heat img")
    box = page.locator("#cx-figure-0 .heat img").bounding_box()
    assert min(box["width"], box["height"]) > 40
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
