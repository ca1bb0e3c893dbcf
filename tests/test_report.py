"""HTML reports: everything is inside, nothing is loaded, and all text is escaped."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import cocoax
from cocoax.report import Section, data_uri, png, write_report
from tests.pages import EVIL, Page


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


def test_png_and_data_uri__hold_the_picture() -> None:
    content = png(red_figure(), dpi=50)
    assert Image.open(io.BytesIO(content)).size == (100, 50)
    kind, data = data_uri("image/png", content).split(";base64,")
    assert kind == "data:image/png"
    assert base64.b64decode(data, validate=True) == content
