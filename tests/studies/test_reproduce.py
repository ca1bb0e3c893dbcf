from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import pytest

from cocoax.studies import NAMES
from cocoax.studies.reproduce import STUDIES, class_numbers, options_of, run_study
from cocoax.studies.study import PRESETS
from tests.studies.tiny import HELD_OUT, OPTIONS, TRAIN, small_encoder

mpl.use("Agg")


def test_names__every_one_has_a_study() -> None:
    others = {"completeness", "augmentations", "localisation"}
    assert {study for _, study in NAMES.values()} == set(STUDIES) | others


def test_options_of__preset_with_changes() -> None:
    assert options_of("paper", {"runs": None, "samples": None}) == PRESETS["paper"]
    assert options_of("small", {"runs": 3, "samples": None}) == replace(PRESETS["small"], runs=3)
    with pytest.raises(ValueError, match=r"'preset' parameter must be one of paper, small. Got 'tiny'"):
        options_of("tiny", {})


def test_class_numbers__names_or_numbers() -> None:
    assert class_numbers("green, 0", ["blue", "green", "red"]) == (1, 0)
    for wrong in ("gren", "3", "-1", ""):
        with pytest.raises(ValueError, match=f"no class '{wrong}'; close are"):
            class_numbers(wrong, ["blue", "green", "red"])


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
    assert "3 explicands in 1 runs" in summary
    assert "COCOA minus the other targets" in summary
    assert not list(tmp_path.rglob("*.part"))


def test_run_study__randomised(tmp_path: Path) -> None:
    options = replace(OPTIONS, runs=1, explicands=1)
    written = run_study("randomised", small_encoder(), TRAIN, HELD_OUT, tmp_path, options, progress=False)
    assert len([path for path in written if path.suffix == ".tex"]) == 4
    assert "| RISE | Randomised |" in (tmp_path / "tiny" / "randomised" / "summary.md").read_text()


def test_run_study__sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = STUDIES["foil-size"]
    monkeypatch.setattr(study, "pairs", ((3, 2), (3, 6)))
    options = replace(OPTIONS, explicands=1)
    written = run_study("foil-size", small_encoder(), TRAIN, HELD_OUT, tmp_path, options, progress=False)
    assert {path.name for path in written if path.suffix == ".png"} == {"foil_size_same.png", "foil_size_different.png"}
    assert "| 3 | 2 |" in (tmp_path / "tiny" / "foil-size" / "summary.md").read_text()


def test_run_study__completeness(tmp_path: Path) -> None:
    (path,) = run_study("completeness", small_encoder(), TRAIN, HELD_OUT, tmp_path, OPTIONS, progress=False)
    assert "| KernelSHAP | cosine | cocoa |" in path.read_text()
