"""cocoax bench: everything is measured, shown in a table and written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cocoax.cli import measurements
from cocoax.cli.measurements.equal_calls import Curve
from cocoax.cli.measurements.measurement import at_least, at_most
from tests.cli.support import invoke, rows_of

SPEED = ("overhead", "published_pattern", "integrated_gradients", "captum_gradients", "captum_kernel_shap")


def test_bench__table_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def measure(quick: bool, repeats: int | None, say: Callable[[str], None]) -> list[measurements.Measurement]:
        asked.append((quick, repeats))
        say("measuring")
        return [at_most("fast", "small", [1.0, 3.0, 2.0], 2.5), at_most("slow", "small", [4.0], 2.5)]

    monkeypatch.setattr(measurements, "measure_everything", measure)
    monkeypatch.setattr(measurements, "plot_errors", lambda _measurements, path: path)
    result = invoke("bench", "--full", "--repeats", "4", "--out", str(tmp_path / "out.json"))
    assert result.exit_code == 0, result.output
    assert asked == [(False, 4)]
    assert [row for row in rows_of(result.output) if row[0] in ("fast", "slow")] == [
        ["fast", "small", "2", "1 to 3", "≤ 2.5", "reached"],
        ["slow", "small", "4", "4 to 4", "≤ 2.5", "not reached"],
    ]
    assert result.output.startswith("measuring\n")
    assert result.output.endswith(f"wrote {tmp_path / 'out.json'}\nwrote {tmp_path / 'out.png'}\n")
    assert (tmp_path / "out.json").exists()


def test_bench__accuracy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(quick: bool, say: Callable[[str], None]) -> list[measurements.Measurement]:
        assert quick
        found = Curve("Shapley values", "a game", "cocoax", "1.0", "KernelShap", 1, {50: 0.5, 200: 0.125})
        return [at_least("ratio", "a game", [2.0], 1.0, curves=[asdict(found)])]

    monkeypatch.setattr(measurements, "error_per_call", measure)
    result = invoke("bench", "--accuracy", "--out", str(tmp_path / "out.json"))
    assert result.exit_code == 0, result.output
    assert ["a game", "Shapley values", "1", "cocoax 1.0 KernelShap", "0.5", "0.12"] in rows_of(result.output)
    assert ["ratio", "a game", "2", "2 to 2", "≥ 1", "reached"] in rows_of(result.output)
    assert (tmp_path / "out.png").exists()


def test_bench__interrupted_accuracy(monkeypatch: pytest.MonkeyPatch, interruption: Callable[..., str]) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(measurements, "error_per_call", interrupted)
    assert "kept in the cache folder" in interruption("bench", "--accuracy")


@pytest.mark.parametrize(("quick", "repeats", "seeds"), [(True, 3, 60), (False, 5, 200)])
def test_measure_everything__in_turn(quick: bool, repeats: int, seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def stand_in(name: str, result: Any) -> Callable[..., Any]:
        def measure(*arguments: Any) -> Any:
            asked.append((name, *arguments))
            return result

        measure.__name__ = name
        return measure

    subject = SimpleNamespace(name="small")
    monkeypatch.setattr(measurements, "subjects", stand_in("subjects", [subject]))
    for name in (*SPEED, "sample_efficiency", "coverage"):
        monkeypatch.setattr(measurements, name, stand_in(name, [name]))
    for name in ("new_target", "peak_memory"):
        monkeypatch.setattr(measurements, name, stand_in(name, name))
    said: list[str] = []
    order = [*SPEED, "new_target", "peak_memory", "sample_efficiency", "coverage"]
    assert measurements.measure_everything(quick, say=said.append) == order
    assert asked == [
        ("subjects", quick),
        *((name, subject, repeats) for name in SPEED),
        ("new_target", repeats),
        ("peak_memory",),
        ("sample_efficiency", [subject], quick),
        ("coverage", seeds),
    ]
    assert said[:2] == ["small: overhead", "small: published pattern"]
    assert len(said) == len(order)
