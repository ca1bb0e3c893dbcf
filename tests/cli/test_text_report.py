"""Answers about texts: which words are shown, and in which order."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import cocoax
from cocoax.cli import terminal
from cocoax.cli.text_report import print_side, write_sides
from cocoax.encoders.families.sentence import load_hf_text
from cocoax.questions.matches import MatchSide, explain_text
from tests.cli.support import rows_of
from tests.tiny import save_bert


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory) -> MatchSide:
    encoder = load_hf_text(str(save_bert(tmp_path_factory.mktemp("tiny"))))
    corpus, foil = (encoder.reference([text], progress=False, cache=False) for text in ("a cat", "a dog"))
    return explain_text(encoder, "The violinist parked her car.", corpus, foil, method=cocoax.Occlusion())


def test_print_side__the_words_that_count_most_come_first(side: MatchSide, capsys: pytest.CaptureFixture[str]) -> None:
    print_side("The text", side, most=2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "The text: a cat rather than a dog"
    header, *rows = rows_of("\n".join(lines[5:-1]))
    assert header == ["word", "value", "corpus", "foil"]
    tokens = ["The", "violinist", "parked", "her", "car", "."]
    words = sorted(zip(side.attribution.values.tolist(), tokens, strict=True), key=lambda pair: -abs(pair[0]))
    assert [row[:2] for row in rows] == [[word, f"{value:+.4f}"] for value, word in words[:2]]
    assert lines[-1] == "and 4 more that count less; --out writes them all"


def test_write_sides__all_words_and_all_parts(side: MatchSide, tmp_path: Path) -> None:
    page, numbers = write_sides(tmp_path / "new", {"The text": side})
    assert page.read_text(encoding="utf-8").count("<tr>") == 7
    written = json.loads(numbers.read_text(encoding="utf-8"))["The text"]
    assert written["values"] == side.attribution.values.tolist()
    assert written["corpus_values"] == side.corpus.values.tolist()
    assert side.foil is not None
    assert written["foil_values"] == side.foil.values.tolist()


def test_print_side__on_a_terminal_the_words_are_coloured(side: MatchSide, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR")
    console = Console(file=StringIO(), width=80, force_terminal=True, color_system="truecolor")
    monkeypatch.setattr(terminal, "console", console)
    print_side("The text", side)
    output = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b[" in output
    assert "┃" in output


def test_write_sides__again_keeps_what_is_there(side: MatchSide, tmp_path: Path) -> None:
    first = write_sides(tmp_path, {"The text": side})
    before = [file.read_bytes() for file in first]
    second = write_sides(tmp_path, {"The query": side})
    assert [file.name for file in second] == ["answer-2.html", "answer-2.json"]
    assert [file.read_bytes() for file in first] == before
    assert "The query" in second[1].read_text()
