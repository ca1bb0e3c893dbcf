"""Every view of the page in a real browser: by keyboard, on a desk and on a phone, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

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
