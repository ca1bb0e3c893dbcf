"""cocoax ask-text: highlighted answer, table, report, JSON, and errors in sentences."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cocoax
from cocoax.cli.methods import METHODS
from cocoax.encoders import ENCODERS
from cocoax.encoders.families.sentence import TextModel, load_hf_text
from tests.cli.support import interrupt_after, invoke
from tests.conftest import SmallNet
from tests.tiny import save_bert

TEXT = "The violinist parked her car."


@pytest.fixture(autouse=True)
def tiny(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_bert(tmp_path_factory.mktemp("tiny"))
    monkeypatch.setitem(ENCODERS, "minilm", lambda: load_hf_text(str(folder)))  # type: ignore[arg-type]


def ask(*arguments: str, **options: Any) -> str:
    result = invoke("ask-text", *arguments, catch_exceptions=False, **options)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("method", METHODS)
def test_ask_text__prints_the_text_the_score_and_the_words(method: str) -> None:
    output = ask(TEXT, "--like", "a cat", "--unlike", "a dog", "--samples", "60", "--method", method)
    assert "a cat rather than a dog" in output
    assert TEXT in output
    assert "(similarity to a cat)" in output
    assert "violinist" in output.split("(similarity to a cat)")[1]


def test_ask_text__writes_a_report_and_json(tmp_path: Path) -> None:
    out = tmp_path / "answers"
    ask(TEXT, "--like", "a cat", "--unlike", "a dog", "--unlike", "the car", "--samples", "60", "--out", str(out))
    page = (out / "answer.html").read_text(encoding="utf-8")
    assert "cocoax-text" in page
    assert "http" not in page.replace("http-equiv", "")
    numbers = json.loads((out / "answer.json").read_text(encoding="utf-8"))["The text"]
    assert numbers["tokens"] == ["The", "violinist", "parked", "her", "car", "."]
    assert [TEXT[begin:end] for begin, end in numbers["offsets"]] == numbers["tokens"]
    assert numbers["score"] == pytest.approx(numbers["corpus"] - numbers["foil"], abs=1e-5)
    for value, corpus, foil in zip(numbers["values"], numbers["corpus_values"], numbers["foil_values"], strict=True):
        assert value == pytest.approx(corpus - foil, abs=1e-4)


def test_ask_text__again_keeps_the_earlier_report(tmp_path: Path) -> None:
    for like in ("a cat", "a dog"):
        ask(TEXT, "--like", like, "--samples", "60", "--out", str(tmp_path))
    assert sorted(file.name for file in tmp_path.glob("answer*")) == [
        "answer-2.html",
        "answer-2.json",
        "answer.html",
        "answer.json",
    ]
    assert json.loads((tmp_path / "answer.json").read_text())["The text"]["question"] == "a cat"


def test_ask_text__json_and_nothing_else_on_standard_output(tmp_path: Path) -> None:
    arguments = ("cat " * 40, "--like", "a cat", "--samples", "60", "--out", str(tmp_path), "--json")
    with pytest.warns(UserWarning, match="left out"):
        result = invoke("ask-text", *arguments)
    content = json.loads(result.stdout)
    assert content["answers"] == json.loads((tmp_path / "answer.json").read_text())
    assert content["files"] == [str(tmp_path / name) for name in ("answer.html", "answer.json")]


def test_ask_text__interrupted(monkeypatch: pytest.MonkeyPatch, interruption: Callable[..., str]) -> None:
    interrupt_after(monkeypatch, TextModel, "forward", 3)
    said = interruption("ask-text", TEXT, "--like", "a cat", "--unlike", "a dog")
    assert said == "interrupted: nothing was kept; fewer --samples take less time"


def test_ask_text__match_explains_both_sides() -> None:
    output = ask("red car", "--like", TEXT, "--unlike", "a dog", "--match", "--samples", "60")
    assert "The query: the document rather than the other document" in output
    assert "The document: the query rather than the other document" in output


def test_ask_text__options_and_standard_input() -> None:
    output = ask("-", "--like", "a cat", "--features", "sentences", "--removal", "deletion", input="A car. The dog.")
    assert "The dog." in output


def test_ask_text__too_long_says_how_much_was_left_out() -> None:
    with pytest.warns(UserWarning, match=r"at most 32; the last 10 were left out, from 'cat cat"):
        ask("cat " * 40, "--like", "a dog", "--samples", "60")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["", "--like", "a cat"], "The text is empty; write at least one word"),
        (["  ", "--like", "a cat"], "The text is empty; write at least one word"),
        ([TEXT, "--like", " "], "One of the texts of --like is empty"),
        ([TEXT, "--like", "a cat", "--unlike", ""], "One of the texts of --unlike is empty"),
        ([TEXT, "--like", "a cat", "--features", "letters"], "'features' parameter must be 'words'"),
        ([TEXT, "--like", "a cat", "--method", "magic"], "No method is called 'magic'; known are rise"),
        ([TEXT, "--like", "a", "--like", "cat", "--match"], "A match is with one document"),
    ],
)
def test_ask_text__mistakes_are_told_before_anything_is_loaded(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, complaint: Callable[..., str]
) -> None:
    monkeypatch.setattr(cocoax, "load", lambda _name, device: pytest.fail("loaded an encoder"))
    assert message in complaint("ask-text", *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--removal", "blur"], "Words are removed by baseline='mask'"),
        (["--encoder", "nothing"], "No encoder is called 'nothing'"),
    ],
)
def test_ask_text__mistakes_are_told_in_a_sentence(arguments: list[str], message: str, complaint: Callable[..., str]) -> None:
    assert message in complaint("ask-text", TEXT, "--like", "a cat", *arguments)


def test_ask_text__an_encoder_of_pictures_alone(monkeypatch: pytest.MonkeyPatch, complaint: Callable[..., str]) -> None:
    monkeypatch.setattr(cocoax, "load", lambda _name, device: cocoax.Encoder(SmallNet().eval()))
    said = complaint("ask-text", TEXT, "--like", "a cat", "--encoder", "mine")
    assert said == "'mine' does not encode texts whose words can be removed; use minilm or st:NAME_OR_FOLDER."


def test_ask_text__names_of_files_are_no_texts(tmp_path: Path, complaint: Callable[..., str]) -> None:
    assert "'cat.jpg' is the name of a picture" in complaint("ask-text", "cat.jpg", "--like", "music")
    assert "use 'cocoax ask'" in complaint("ask-text", TEXT, "--like", "cat.jpg")
    (tmp_path / "article.txt").write_text(TEXT)
    assert "'cocoax ask-text - < FILE'" in complaint("ask-text", str(tmp_path / "article.txt"), "--like", "music")
