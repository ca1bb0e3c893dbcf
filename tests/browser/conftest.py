"""A real browser, driven by Playwright. Whatever it asks for from elsewhere fails the test that did."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from tests.app.colours import flag
from tests.app.conftest import address

__all__ = ["address"]

Open = Callable[..., Any]


def chromium() -> str:
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    assert found, "there is no chromium; `make test-browser` installs one, or set CHROMIUM to its path"
    return found


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core."""
    path = Path(os.environ.get("AXE") or Path(sys.prefix) / "axe/node_modules/axe-core/axe.min.js")
    assert path.is_file(), "there is no axe-core; `make test-browser` installs it, or set AXE to the path of axe.min.js"
    return path.read_text()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        arguments = ["--no-sandbox", "--disable-background-networking"]
        started = driver.chromium.launch(executable_path=chromium(), args=arguments)
        yield started
        started.close()


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Open]:
    """Opens the page for a new visitor, in a window of this width; or another page."""
    contexts: list[Any] = []
    asked: list[str] = []
    complaints: list[str] = []

    def open_page(width: int = 1280, height: int = 860, at: str = address, **options: Any) -> Any:
        phone = {"has_touch": width < 600, "is_mobile": width < 600}
        context = browser.new_context(viewport={"width": width, "height": height}, **phone, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(at)
        page.wait_for_selector("[data-sample], .cx-task")
        page.wait_for_timeout(300)  # listeners are attached a moment after the page is shown
        return page

    yield open_page
    for context in contexts:
        context.close()
    elsewhere = {url for url in asked if urlparse(url).scheme not in ("data", "blob")}
    assert {urlparse(url).hostname for url in elsewhere} == {"127.0.0.1"}
    assert not complaints


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    flag(size=(120, 100)).save(tmp_path / "flag.png")
    return tmp_path / "flag.png"
