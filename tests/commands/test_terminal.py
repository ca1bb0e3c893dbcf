"""The terminal: what is printed is what was to be printed."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import pytest

from cocoax.commands.terminal import draw_into_files, print_plain, print_written


def test_print_plain__styles_emojis_and_long_lines_stay_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    text = "[bold] photo:cat:.png 12 " + "long " * 100
    print_plain(text)
    assert capsys.readouterr().out == f"{text}\n"


def test_print_written__a_line_for_each_file(capsys: pytest.CaptureFixture[str]) -> None:
    print_written((Path("a [new].json"), Path("b.png")))
    assert capsys.readouterr().out == "wrote a [new].json\nwrote b.png\n"


def test_draw_into_files__needs_no_screen() -> None:
    matplotlib.use("svg")
    draw_into_files()
    assert matplotlib.get_backend().lower() == "agg"
