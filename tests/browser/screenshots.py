"""Takes the pictures of the page and of the answer of a data set for README and docs, with the starter encoder.

It then measures how long a new question takes.

python -m tests.browser.screenshots [FOLDER]
"""

from __future__ import annotations

import functools
import io
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page as Window
from playwright.sync_api import sync_playwright

import cocoax
from cocoax.app import Page, launch
from cocoax.data import photo
from cocoax.survey import build
from tests.browser.conftest import chromium

LIKE, UNLIKE = "#cx-like-{} input", "#cx-unlike-{} input"
QUESTIONS = [
    ("a cup of coffee", "a cat"),
    ("a motorbike", "a rocket"),
    ("a drink", "an animal"),
    ("a wheel", "a face"),
    ("a spoon", "a saucer"),
    ("an engine", "a kitten"),
    ("a launch pad", "a garage"),
    ("whiskers", "a plate"),
]


def shoot(window: Window, path: Path, full: bool = False) -> None:
    window.mouse.move(2, 2)
    image = Image.open(io.BytesIO(window.screenshot(full_page=full))).convert("RGB")
    for quality in (88, 80, 72, 64):
        image.save(path, quality=quality, optimize=True, progressive=True)
        if path.stat().st_size < 200_000:
            break
    print(f"{path}: {image.size}, {path.stat().st_size / 1000:.0f} kB")


def ask(window: Window, like: str, unlike: str, index: int = 0) -> float:
    """Ask, and tell how long the browser waited for the new map, in seconds."""
    window.fill(LIKE.format(index), like)
    window.fill(UNLIKE.format(index), unlike)
    began = time.perf_counter()
    window.press(UNLIKE.format(index), "Enter")
    window.wait_for_function(
        "([index, asked]) => document.querySelector(`#cx-figure-${index} .cx-question`)?.innerText === asked",
        arg=[index, f"{like} rather than {unlike}"],
        polling=5,
    )
    return time.perf_counter() - began


def timed(page: Page) -> list[float]:
    """From now on, how long each question takes at the server."""
    took: list[float] = []
    for function in page.blocks.fns.values():
        if function.name == "on_ask":
            function.fn = _measured(function.fn, took)
    return took


def _measured(inner: Any, took: list[float]) -> Any:
    @functools.wraps(inner)  # Gradio looks at what the function takes
    def measured(*given: Any) -> Any:
        began = time.perf_counter()
        answer = inner(*given)
        took.append(time.perf_counter() - began)
        return answer

    return measured


def film(window: Window, path: Path) -> None:
    """Choose a photo, watch its map, and ask another question, as an animation of at most 2 MB."""
    frames: list[Image.Image] = []
    seconds: list[int] = []

    def take(milliseconds: int) -> None:
        frames.append(Image.open(io.BytesIO(window.screenshot())).convert("RGB"))
        seconds.append(milliseconds)

    take(900)
    window.click("[data-sample=collage]")
    window.mouse.move(2, 2)
    window.wait_for_selector("#cx-figure-0 .heat img", timeout=240_000)
    while not window.query_selector(".cx-progress.finished") and len(frames) < 30:
        take(220)
        window.wait_for_timeout(300)
    take(1500)
    question = "a cat", "a rocket"
    for side, words in zip((LIKE, UNLIKE), question, strict=True):
        window.fill(side.format(0), words)
        take(500)
    ask(window, *question)
    window.wait_for_selector(".cx-progress.finished", timeout=600_000)
    window.mouse.click(2, 2)  # no field has the focus
    window.wait_for_timeout(300)
    take(2500)
    for quality in (70, 50, 35):
        frames[0].save(path, save_all=True, append_images=frames[1:], duration=seconds, loop=0, quality=quality, method=4)
        if path.stat().st_size < 2_000_000:
            break
    print(f"{path}: {len(frames)} frames, {path.stat().st_size / 1000:.0f} kB")


def crops(folder: Path) -> Path:
    """Write six parts of each of five sample photos, in a folder for each."""
    for name in ("cat", "coffee", "rocket", "motorbike", "astronaut"):
        whole = photo(name)
        width, height = whole.size
        (folder / name).mkdir(parents=True, exist_ok=True)
        places = ((0, 0, 0.8), (0.2, 0.1, 0.8), (0.1, 0.2, 0.8), (0, 0.15, 0.7), (0.15, 0, 0.85), (0.1, 0.1, 0.6))
        for number, (x, y, share) in enumerate(places):
            end = [int((at + share) * side) if at + share < 1 else side for at, side in ((x, width), (y, height))]
            part = whole.crop((int(x * width), int(y * height), *end))
            part.resize((256, 256 * height // width)).save(folder / name / f"{name}{number}.jpg")
    return folder


def shoot_survey(browser: Any, encoder: cocoax.Encoder, work: Path, path: Path) -> None:
    """Take a picture of the answer of an index, a page of its own, which is made in a folder."""
    index = build(encoder, crops(work / "photos"), work / "index-photos", cocoax.Rise(samples=120))
    index.encoder = encoder
    page = index.ask("a cat rather than a rocket", top=12).save(work / "answer.html")
    window = browser.new_page(viewport={"width": 1000, "height": 900})
    window.goto(page.as_uri())
    window.wait_for_timeout(500)
    shoot(window, path)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    page, address = launch(wait=False, prepare=False)
    module: Any = page.service.encoder.module
    calls: list[int] = []
    module.register_forward_hook(lambda _module, inputs, _output: calls.append(len(inputs[0])))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-background-networking"])

        def visit(width: int, height: int) -> Window:
            window = browser.new_page(viewport={"width": width, "height": height})
            window.set_default_timeout(240_000)
            window.goto(address)
            window.wait_for_selector("[data-sample]")
            window.wait_for_timeout(800)
            return window

        with tempfile.TemporaryDirectory() as work:
            shoot_survey(browser, page.service.encoder, Path(work), folder / "dataset-answer.jpg")
        film(visit(1180, 900), folder / "app.webp")
        window = visit(1280, 860)
        window.click("[data-sample=collage]")
        window.wait_for_selector(".cx-progress.finished", timeout=600_000)
        window.wait_for_timeout(500)
        box = window.locator("#cx-figure-0 .heat img").bounding_box()
        assert box is not None
        window.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + 0.3 * box["height"])
        window.wait_for_selector(".heat path.on")
        shoot(window, folder / "app-question.jpg")
        window.check("#cx-compare input")
        window.wait_for_selector("#cx-like-1 input")
        ask(window, "a cat", "a rocket", 1)
        window.wait_for_selector(".cx-progress.finished", timeout=600_000)
        window.mouse.click(2, 2)  # no field has the focus
        window.wait_for_timeout(400)
        shoot(window, folder / "app-two-questions.jpg", full=True)
        window.get_by_role("tab", name="Match").click()
        window.get_by_role("button", name="Try: two photos").click()
        window.wait_for_selector("#cx-match-answer iframe", timeout=600_000)
        window.wait_for_timeout(2500)
        shoot(window, folder / "app-match.jpg", full=True)
        window.get_by_role("tab", name="Photo").click()
        before, took = len(calls), timed(page)
        waited = [ask(window, *question) for question in QUESTIONS]
        print(f"new questions: {len(took)}, encoder calls for them: {len(calls) - before}")
        for what, times in (("at the server", took), ("in the browser", waited)):
            print(f"{what}: median {1000 * statistics.median(times):.0f} ms, each {[round(1000 * one) for one in times]}")
        browser.close()
    page.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
