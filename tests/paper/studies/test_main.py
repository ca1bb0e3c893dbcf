"""The main study: what it writes, and COCOA minus the other targets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import torch

from cocoax.evaluation import paired_difference
from cocoax.paper.studies.insertion_deletion import differences
from cocoax.paper.studies.published import MEASURES, TARGET_TITLES
from cocoax.paper.studies.reproduce import run_study
from cocoax.paper.studies.tables import Records
from tests.paper.studies.tiny import HELD_OUT, OPTIONS, TRAIN, cells, made_up, small_encoder

mpl.use("Agg")


def test_run_study__main_writes_tables_plots_and_values(tmp_path: Path) -> None:
    name = "corpus_majority_prob_unnorm_diff_class"
    options = replace(OPTIONS, runs=1, explicands=1)
    written = run_study(name, small_encoder(name="a:b/c"), TRAIN, HELD_OUT, tmp_path, options, progress=False)
    folder = tmp_path / "a-b-c" / "main"
    assert {path.stem for path in written[-2:]} == {name}  # what was asked for comes last
    assert all(path.parent == folder and path.stat().st_size > 500 for path in written)
    kinds = [path.suffix for path in written]
    assert (kinds.count(".md"), kinds.count(".tex"), kinds.count(".png"), kinds.count(".pdf")) == (9, 8, 4, 4)
    summary = (folder / "summary.md").read_text()
    assert "3 explicands in 1 run." in summary
    assert "COCOA minus the other targets" in summary
    assert not list(tmp_path.rglob("*.part"))


def test_differences__paired_and_marked() -> None:
    records = made_up("main")
    made = differences(records)
    groups = records.grouped("class_case", "measure", "similarity", "method", "metric", "target")
    key = ("same", MEASURES[0], "cosine", "rise", "insertion")
    expected = paired_difference(*([record["value"] for record in groups[(*key, target)]] for target in ("cocoa", "corpus")))
    block = made.split("**Contrastive corpus similarity, cosine, same class**")[1]
    line = next(cells(line, "|") for line in block.splitlines() if line.startswith("| RISE |"))
    assert line[5].strip("*") == f"{expected.mean:+.3f} ({expected.half:.3f})"  # the third of the others
    assert made.count("| RISE, efficient |") == 8


@pytest.mark.parametrize(
    ("cocoa", "metric", "mark"),
    [(1, "insertion", "**"), (-1, "insertion", "*"), (-1, "deletion", "**"), (1, "deletion", "*"), (0, "deletion", "")],
)
def test_differences__better_is_bold_and_worse_italic(cocoa: float, metric: str, mark: str) -> None:
    noise = np.random.default_rng(1).normal(0, 0.1, 8)
    rows = [
        {"class_case": "same", "similarity": "cosine", "method": "rise", "target": target, "model": "trained"}
        for target in TARGET_TITLES
    ]
    units: list[Any] = []
    for number in range(8):
        level = torch.tensor([[0.0], [0.0], [0.0], [cocoa + noise[number] - noise.mean()]])
        curve = level[..., None].expand(4, 1, 3)
        units.append(
            ({"insertion": curve, "deletion": curve}, {"run": 1, "explicand": number, "rows": rows, "measures": MEASURES[:1]})
        )
    line = next(line for line in differences(Records(units)).splitlines() if line.startswith("| RISE |"))
    cell = cells(line, "|")[1 + ["insertion", "deletion"].index(metric)]
    assert (len(cell) - len(cell.lstrip("*"))) == len(mark)
    assert cell == f"{mark}{cell.strip('*')}{mark}"
