"""cocoax demo: what it prints and passes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cocoax
from cocoax.cli import demo_report
from tests.cli.support import interrupt_after, invoke, load_starter, rows_of
from tests.conftest import images


def test_demo__help() -> None:
    output = invoke("demo", "--help").output
    assert all(option in output for option in ("--out", "--samples", "--seed"))


def test_demo__prints_quadrants_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starter = load_starter()
    monkeypatch.setattr(demo_report, "load", lambda _name, device: starter)
    result = invoke("demo", "--samples", "20", "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert "Encoding 20 masked copies" in result.output
    rows = [line for line in result.output.splitlines() if " rather than the other " in line]
    assert len(rows) == 8
    for row, expected in zip(rows, demo_report.QUADRANTS * 2, strict=True):
        hottest, mark = rows_of(row)[0][2:]
        assert hottest in demo_report.QUADRANTS
        assert mark == ("yes" if hottest == expected else f"no, expected {expected}")
    for name in ("collage.png", "astronaut.png", "report.html"):
        assert f"wrote {tmp_path / 'out' / name}" in result.output
        assert (tmp_path / "out" / name).stat().st_size > 1000


def test_demo__options_are_passed_on_and_answers_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    attribution = cocoax.Attribution(images(1)[0, 0], 0.25, 0.0, metadata={"target": "a cat rather than [dogs]"})

    def run_demo(folder: Path, samples: int, seed: int, device: str | None) -> tuple[list[Any], list[Path]]:
        asked.append((folder, samples, seed, device))
        hottest = ("top left", "bottom right")
        answers = [demo_report.QuadrantAnswer(attribution, "top left", quadrant) for quadrant in hottest]
        return answers, [folder / "report.html"]

    monkeypatch.setattr(demo_report, "run_demo", run_demo)
    folder = tmp_path / "out [new]"
    result = invoke("demo", "--out", str(folder), "--samples", "10", "--seed", "7", "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert asked == [(folder, 10, 7, "cpu")]
    right, wrong = [line for line in result.output.splitlines() if "a cat" in line]
    assert "+0.250" in right
    assert "yes" in right
    assert "bottom right" in wrong
    assert "expected top left" in wrong
    assert "a cat rather than [dogs]" in right
    assert f"wrote {folder / 'report.html'}" in result.output


def test_demo__interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, towers: cocoax.Encoder, interruption: Callable[..., str]
) -> None:
    monkeypatch.setattr(demo_report, "load", lambda _name, device: towers)
    interrupt_after(monkeypatch, type(towers.module), "forward", 6)
    said = interruption("demo", "--out", str(tmp_path / "out"))
    assert said == "interrupted: nothing was kept; fewer --samples take less time"
