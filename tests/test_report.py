from __future__ import annotations

import base64
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

import cocoax
from cocoax.questions.report import compare, region_rows, write_answers
from cocoax.report import Section, write_report
from tests.questions.test_asking import picture, two_towers

EVIL = "<script>alert('1')</script> & \"quotes\" <img src=x onerror=y>"
VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Elements, attributes and text of a page; an unbalanced tag is an error."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and data.strip():
            self.texts.setdefault(self._open[-1], []).append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


def red_figure() -> Figure:
    figure = Figure(figsize=(2, 1), facecolor="red")
    figure.subplots().set_axis_off()
    return figure


def test_write_report__is_a_page_with_everything(tmp_path: Path) -> None:
    sections = [
        Section("First", "a paragraph", red_figure(), ("name", "score"), [["cat", "+0.5"], ["dog", "-0.5"]]),
        Section("Second"),
    ]
    path = write_report(tmp_path / "a" / "b" / "report.html", "A title", sections)
    assert path == tmp_path / "a" / "b" / "report.html"
    page = Page(path)
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert page.texts["title"] == page.texts["h1"] == ["A title"]
    assert page.texts["h2"] == ["First", "Second"]
    assert page.texts["p"] == ["a paragraph"]
    assert page.texts["th"] == ["name", "score"]
    assert page.texts["td"] == ["cat", "+0.5", "dog", "-0.5"]
    assert page.texts["footer"] == [f"Cocoax {cocoax.__version__}"]
    assert (page.count("p"), page.count("table"), page.count("tr"), page.count("img")) == (1, 1, 3, 1)
    assert ("html", {"lang": "en"}) in page.elements


def test_write_report__picture_is_inside(tmp_path: Path) -> None:
    path = write_report(tmp_path / "report.html", "t", [Section("A picture", figure=red_figure())])
    (image,) = [attributes for tag, attributes in Page(path).elements if tag == "img"]
    assert image["alt"] == "A picture"
    prefix, data = str(image["src"]).split(",")
    assert prefix == "data:image/png;base64"
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(data, validate=True))).convert("RGB"))
    assert pixels.shape[1] > 100
    assert tuple(pixels[0, 0]) == (255, 0, 0)


def test_write_report__loads_nothing(tmp_path: Path) -> None:
    path = write_report(tmp_path / "report.html", "t", [Section("h", "text", red_figure(), ("a",), [["b"]])])
    text = re.sub(r"base64,[A-Za-z0-9+/=]+", "", path.read_text(encoding="utf-8"))
    assert not re.search(r"https?:|//|@import|url\(", text)
    page = Page(path)
    assert not {"script", "link", "iframe", "object", "base"} & {tag for tag, _ in page.elements}
    addresses = [value for _, attributes in page.elements for name, value in attributes.items() if name in ("src", "href")]
    assert all(str(value).startswith("data:") for value in addresses)


def test_write_report__escapes_everything(tmp_path: Path) -> None:
    section = Section(EVIL, EVIL, red_figure(), (EVIL,), [[EVIL]])
    page = Page(write_report(tmp_path / "report.html", EVIL, [section]))
    assert page.count("script") == 0
    assert page.count("img") == 1
    assert not any("onerror" in attributes for _, attributes in page.elements)
    for tag in ("title", "h1", "h2", "p", "th", "td"):
        assert "".join(page.texts[tag]) == EVIL
    (image,) = [attributes for tag, attributes in page.elements if tag == "img"]
    assert image["alt"] == EVIL


def test_write_report__other_alphabets(tmp_path: Path) -> None:
    path = write_report(tmp_path / "report.html", "猫 – 🐈", [Section("größer")])
    assert Page(path).texts["h1"] == ["猫 – 🐈"]
    assert ("meta", {"charset": "utf-8"}) in Page(path).elements


def test_write_report__no_sections_and_a_text_path(tmp_path: Path) -> None:
    path = write_report(str(tmp_path / "report.html"), "empty", [])
    assert isinstance(path, Path)
    assert Page(path).count("h2") == 0


def test_write_report__rows_without_a_header(tmp_path: Path) -> None:
    page = Page(write_report(tmp_path / "report.html", "t", [Section("h", rows=[["x", "y"]])]))
    assert (page.count("tr"), page.count("td")) == (1, 2)


def test_write_report__replaces_an_older_one(tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", "a much longer title", [Section("h", "text")])
    page = Page(write_report(tmp_path / "report.html", "shorter", []))
    assert page.texts["h1"] == ["shorter"]
    assert page.count("p") == 0


# --- answers ----------------------------------------------------------------------------------------------------------


def answers() -> list[cocoax.Answer]:
    encoder = two_towers()
    questions = [
        cocoax.Question(cocoax.Side(["a cat", EVIL], picture(1)), ["a dog", "a cup"]),
        cocoax.Question("a rocket / of [bold]", "a ../../dog"),
        cocoax.Question(),
    ]
    return cocoax.ask(encoder, picture(), questions, cocoax.Rise(samples=20, grid=4))


def test_write_answers__files(tmp_path: Path) -> None:
    found = answers()
    files = write_answers(tmp_path / "new", EVIL, found)
    assert {file.parent for file in files} == {tmp_path / "new"}
    assert sorted((tmp_path / "new").rglob("*")) == sorted(files)
    assert [file.name for file in files[:2]] == ["report.html", "answers.json"]
    assert files[4].name == "2-a-rocket-of-bold-rather-than-a-dog.png"
    with Image.open(files[2]) as image:
        assert np.asarray(image.convert("RGB")).std() > 10
    loaded = cocoax.Attribution.load(files[3])
    assert loaded.score == found[0].score
    assert not plt.get_fignums()


def test_write_answers__report_says_it_all(tmp_path: Path) -> None:
    found = answers()
    report = write_answers(tmp_path, EVIL, found)[0]
    page = Page(report)
    assert page.count("img") == 3
    assert page.count("script") == 0
    assert page.texts["h2"] == [answer.name for answer in found]
    for answer, text in zip(found, page.texts["p"], strict=True):
        assert answer.split() in text
        assert compare(answer) in text
        assert "By Rise, 20 samples" in text
    cells = page.texts["td"]
    assert found[0].regions[0].place in cells


def test_write_answers__json_holds_everything(tmp_path: Path) -> None:
    found = answers()
    content = json.loads(write_answers(tmp_path, "a title", found)[1].read_text(encoding="utf-8"))
    assert content["title"] == "a title"
    assert [one["question"] for one in content["answers"]] == [answer.name for answer in found]
    np.testing.assert_allclose(content["answers"][1]["values"], found[1].attribution.values.numpy(), rtol=1e-5)


def test_write_answers__again_keeps_what_is_there(tmp_path: Path) -> None:
    found = answers()
    times = [write_answers(tmp_path / "out", title, found[1:]) for title in ("first", "second", "third")]
    assert [[file.name for file in files[:3]] for files in times] == [
        ["report.html", "answers.json", "1-a-rocket-of-bold-rather-than-a-dog.png"],
        ["report-2.html", "answers-2.json", "1-a-rocket-of-bold-rather-than-a-dog-2.png"],
        ["report-3.html", "answers-3.json", "1-a-rocket-of-bold-rather-than-a-dog-3.png"],
    ]
    assert sorted((tmp_path / "out").iterdir()) == sorted(file for files in times for file in files)
    assert [json.loads(files[1].read_text())["title"] for files in times] == ["first", "second", "third"]


def test_write_answers__none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="0 answers to write"):
        write_answers(tmp_path, "a title", [])


def test_compare__in_a_sentence() -> None:
    found = answers()
    best = found[0].comparison
    captions = [rival for rival in best if rival.is_caption]
    text = compare(found[0], most=2)
    assert text.startswith(
        f"Of 6 captions the picture is most similar to: {captions[0].name} {captions[0].score:+.3f}, "
        f"{captions[1].name} {captions[1].score:+.3f}, …."
    )
    assert text.endswith(f"is number {found[0].rank}.")
    (alone,) = cocoax.ask(two_towers(), picture(), cocoax.Question("a cat"), cocoax.Rise(samples=20, grid=4))
    assert compare(alone) == ""


def test_region_rows__raised_and_lowered() -> None:
    answer = answers()[0]
    rows = region_rows(answer)
    assert [row[0] for row in rows] == ["raises"] * len(answer.regions) + ["lowers"] * len(answer.against)
    assert rows[0][1:3] == [answer.regions[0].place, f"{answer.regions[0].share:.0%}"]
    assert f"± {answer.regions[0].standard_error:.2g}" in rows[0][3]
