"""Measurements: goals and the JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from cocoax.cli.measurements.measurement import at_least, at_most, write_json


@pytest.mark.parametrize(("goal", "most", "least"), [(1.5, False, True), (2.0, True, True), (2.5, True, False)])
def test_goal__is_compared_with_the_median(goal: float, most: bool, least: bool) -> None:
    values = [9.0, 2.0, 1.0]
    assert (at_most("a", "b", values, goal).goal, at_most("a", "b", values, goal).reached) == (f"≤ {goal:g}", most)
    assert (at_least("a", "b", values, goal).goal, at_least("a", "b", values, goal).reached) == (f"≥ {goal:g}", least)


def test_write_json__measurements_and_the_machine(tmp_path: Path) -> None:
    measurement = at_most("time", "small", [3.0, 1.0, 2.0], 2.5, samples=40)
    written = json.loads(write_json(tmp_path / "new" / "bench.json", [measurement]).read_text(encoding="utf-8"))
    assert (written["machine"]["threads"], written["machine"]["torch"]) == (torch.get_num_threads(), torch.__version__)
    assert written["figures"] == [
        {
            "name": "time",
            "subject": "small",
            "values": [3.0, 1.0, 2.0],
            "goal": "≤ 2.5",
            "reached": True,
            "details": {"samples": 40},
            "median": 2.0,
        }
    ]
