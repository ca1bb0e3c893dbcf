"""Fixtures of all tests of commands: plain output, closed figures, and a small encoder under the name of the starter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import cocoax
from tests.cli.support import picture, run_main, two_towers


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(autouse=True)
def plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def complaint(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run the ``cocoax`` script with a mistake; return the one sentence that it says, and nothing but that."""

    def run(*arguments: str) -> str:
        stopped = run_main(monkeypatch, *arguments)
        assert stopped.code == 1
        sentence = str(stopped.__cause__)
        shown = capsys.readouterr()
        assert (shown.out, shown.err) == ("", f"error: {sentence}\n")
        return sentence

    return run


@pytest.fixture
def interruption(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run the ``cocoax`` script, which is interrupted; return the one line that it says last, on standard error."""

    def run(*arguments: str) -> str:
        assert run_main(monkeypatch, *arguments).code == 130
        shown = capsys.readouterr()
        assert "Traceback" not in shown.err
        return shown.err.splitlines()[-1]

    return run


@pytest.fixture
def towers(monkeypatch: pytest.MonkeyPatch) -> cocoax.Encoder:
    """A small encoder under the name of the starter."""
    encoder = two_towers()
    load = cocoax.load
    monkeypatch.setattr(cocoax, "load", lambda name, **options: encoder if name == "starter" else load(name, **options))
    return encoder


@pytest.fixture
def image(tmp_path: Path) -> str:
    """The file of a picture."""
    picture(100, 40).save(tmp_path / "photo.png")
    return str(tmp_path / "photo.png")
