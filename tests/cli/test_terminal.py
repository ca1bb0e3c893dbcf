"""The terminal: what is printed is what was to be printed."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from cocoax.cli import terminal
from cocoax.cli.terminal import (
    counted,
    print_line,
    print_plain,
    print_table,
)


def test_print_plain__styles_emojis_and_long_lines_stay_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    text = "[bold] photo:cat:.png 12 " + "long " * 100
    print_plain(text)
    assert capsys.readouterr().out == f"{text}\n"


def at_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> Console:
    console = Console(file=StringIO(), width=width, force_terminal=True, emoji=False)
    monkeypatch.setattr(terminal, "console", console)
    return console


ROWS = [["photo [new].jpg", "a cat rather than " + "a very long caption " * 9], ["b", Text("yes", "green")]]


def test_print_table__piped_has_a_line_for_each_row_however_long(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("picture", "question"), ROWS, title="2 pictures")
    assert capsys.readouterr().out.splitlines() == [
        "2 pictures",
        "picture          question",
        f"photo [new].jpg  {ROWS[0][1]}".rstrip(),
        "b                yes",
    ]


@pytest.mark.parametrize("width", [80, 140])
def test_print_table__on_a_terminal_has_frames_and_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    console = at_terminal(monkeypatch, width)
    print_table(("picture", "question"), ROWS)
    lines = re.sub(r"\x1b\[[\d;]*m", "", console.file.getvalue()).splitlines()  # type: ignore[attr-defined]
    assert lines[0].startswith("┏━")
    assert any("photo [new].jpg" in line for line in lines)
    assert max(map(len, lines)) <= width


def test_print_line__only_a_terminal_breaks_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_line("[bold]word[/] " + "word " * 50)
    assert capsys.readouterr().out.count("\n") == 1
    console = at_terminal(monkeypatch, 80)
    print_line("word " * 50)
    assert console.file.getvalue().count("\n") == 4  # type: ignore[attr-defined]


@pytest.mark.parametrize(("number", "words"), [(0, "0 pictures"), (1, "1 picture"), (2, "2 pictures")])
def test_counted(number: int, words: str) -> None:
    assert counted(number, "picture") == words
    assert counted(number, "body", "bodies").endswith("body" if number == 1 else "bodies")
