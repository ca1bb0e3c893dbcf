"""What every result promises, whatever it found."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure
from rich.console import Console

import cocoax
from cocoax.results import Result, ResultList
from cocoax.show import View
from tests.results.samples import RESULTS

ENDINGS = (".png", ".pdf", ".svg", ".html", ".json", ".csv", ".parquet")


@pytest.fixture(params=RESULTS)
def result(request: pytest.FixtureRequest) -> Result:
    return RESULTS[request.param]


@pytest.fixture(autouse=True)
def _figures() -> object:
    yield
    plt.close("all")


def test_result__says_it_shortly(result: Result) -> None:
    assert result.summary
    assert "\n" not in result.summary
    assert len(repr(result)) < 300
    assert all(isinstance(view, View) for view in result.views())


def test_result__table_is_plain_and_a_data_frame(result: Result) -> None:
    pytest.importorskip("pandas")
    table = result.table()
    assert table.rows
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert all(isinstance(value, str | float | int | bool | None) for row in table.rows for value in row)
    frame = result.to_dataframe()
    assert (list(frame.columns), len(frame)) == (list(table.columns), len(table.rows))


def test_result__dict_is_json(result: Result) -> None:
    plain = result.to_dict()
    assert plain["summary"] == result.summary
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain == json.loads(result.to_json())


def test_result__plots_a_figure_that_pyplot_shows(result: Result) -> None:
    before = len(plt.get_fignums())
    figure = result.plot()
    assert isinstance(figure, Figure)
    assert len(plt.get_fignums()) == before + 1
    with pytest.raises(TypeError, match=r"Options of drawings are .*'colours'"):
        result.plot(colours="PuOr") if not isinstance(result, cocoax.Curve) else result.save("a.png", colours="PuOr")


@pytest.mark.parametrize("ending", ENDINGS)
def test_save__by_ending(result: Result, ending: str, tmp_path: Path) -> None:
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    before = plt.get_fignums()
    path = result.save(tmp_path / f"file{ending}")
    assert path == tmp_path / f"file{ending}"
    assert plt.get_fignums() == before
    content = path.read_bytes()
    assert content
    if ending == ".svg":
        assert b"<text" in content or b"<image" in content
    if ending == ".csv":
        assert len(list(csv.reader(io.StringIO(content.decode())))) == 1 + len(result.table().rows)


def test_save__a_folder_gets_a_page_numbers_and_a_figure(result: Result, tmp_path: Path) -> None:
    files = result.save_all(tmp_path / "all")
    assert sorted(file.suffix for file in files) == [".html", ".json", ".png"]
    assert sorted(files) == sorted((tmp_path / "all").iterdir())
    with pytest.raises(ValueError, match=r"Files end in \.png, \.pdf"):
        result.save(tmp_path / "file.bmp")


def test_html__loads_nothing_and_shows_markup_as_text(result: Result, tmp_path: Path) -> None:
    page = result.save(tmp_path / "page.html").read_text(encoding="utf-8")
    for html in (page, result._repr_html_(), result.html()):
        bare = re.sub(r"base64,[A-Za-z0-9+/=]+", "", html)
        assert not re.search(r"https?:|src=\"(?!data:)|<link|@import|url\(", bare)
        assert "<script>alert" not in bare
        assert "<b>weight" not in bare
    assert page.startswith("<!doctype html>")
    assert page.count("<h1>") == 1
    renamed = result.save(tmp_path / "page.html", title="Cats & <dogs>").read_text(encoding="utf-8")
    assert "<h1>Cats &amp; &lt;dogs&gt;</h1>" in renamed


def test_terminal__shows_it(result: Result) -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(result)
    assert result.title.split("<")[0].strip() in console.export_text()


def test_options__size_and_transparency(tmp_path: Path) -> None:
    from PIL import Image

    result = RESULTS["photo"]
    for width, inches in (("single", 3.5), ("double", 7.2), (5.0, 5.0)):
        with Image.open(result.save(tmp_path / "a.png", width=width, dpi=100)) as image:
            assert image.width == pytest.approx(100 * inches, abs=1)
    with Image.open(result.save(tmp_path / "a.png", transparent=True)) as image:
        assert image.convert("RGBA").getpixel((0, 0))[3] == 0  # type: ignore[index]
    for wrong in ({"width": "wide"}, {"uncertainty": "dots"}, {"opacity": 2}, {"limit": 0}, {"most": 0}, {"order": "random"}):
        with pytest.raises(ValueError, match=f"'{next(iter(wrong))}' parameter must"):
            result.plot(**wrong)


class _Words(ResultList[str]):
    summary = "two words"
    parts = ("one", "two")

    def views(self) -> list[View]:
        return []

    def table(self):  # type: ignore[no-untyped-def]
        from cocoax.show import Table

        return Table(("word",), tuple((word,) for word in self.parts))


def test_result_list__is_a_sequence() -> None:
    words = _Words()
    assert (len(words), list(words), words[1], list(words[:1])) == (2, ["one", "two"], "two", ["one"])
    assert words.to_dict() == {"summary": "two words", "rows": [{"word": "one"}, {"word": "two"}]}
