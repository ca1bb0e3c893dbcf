from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

import cocoax
from cocoax.storage import read_safetensors
from cocoax.studies import NAMES, reproduce
from cocoax.studies.reproduce import STUDIES, class_numbers, options_of, run_localisation, run_study
from cocoax.studies.sampling import draw
from cocoax.studies.study import PRESETS
from tests.studies.tiny import HELD_OUT, OPTIONS, TRAIN, small_encoder
from tests.towers import picture, two_towers

mpl.use("Agg")


def test_names__every_one_has_a_study() -> None:
    others = {"completeness", "augmentations", "localisation"}
    assert {study for _, study in NAMES.values()} == set(STUDIES) | others


def test_options_of__preset_with_changes() -> None:
    assert options_of("paper", {"runs": None, "samples": None}) == PRESETS["paper"]
    assert options_of("small", {"runs": 3, "samples": None}) == replace(PRESETS["small"], runs=3)
    with pytest.raises(ValueError, match=r"'preset' parameter must be one of paper, small. Got 'tiny'"):
        options_of("tiny", {})


def test_options_of__figures_are_the_papers_with_its_preset_alone() -> None:
    paper, small = (options_of(preset, {}, "localisation") for preset in ("paper", "small"))
    assert (paper.samples, paper.estimator) == (20_000, "paper")
    assert (small.samples, small.estimator) == (PRESETS["small"].samples, "efficient")
    assert options_of("paper", {"samples": 300}, "localisation").samples == 300


@pytest.mark.parametrize("estimator", ["paper", "efficient"])
def test_figures__use_the_estimator_of_the_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, estimator: Any) -> None:
    used: list[Any] = []

    def stopped(*arguments: Any, **_options: Any) -> None:
        used.append(next(one for one in arguments if isinstance(one, cocoax.Rise)))
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduce, "explain_augmentations", stopped)
    monkeypatch.setattr(reproduce, "explain_localisation", stopped)
    options = replace(OPTIONS, estimator=estimator)
    with pytest.raises(KeyboardInterrupt):
        run_study("augmentations", small_encoder(), TRAIN, HELD_OUT, tmp_path, options, progress=False)
    with pytest.raises(KeyboardInterrupt):
        run_localisation(small_encoder(), [(HELD_OUT.images[0], "cat", "dog")], tmp_path, options, progress=False)
    assert [(method.samples, method.estimator) for method in used] == [(20, estimator)] * 2


def test_run_localisation__writes_the_figure(tmp_path: Path) -> None:
    written = run_localisation(two_towers(), [(picture(), "rocket", "cup")], tmp_path, OPTIONS, progress=False)
    assert [path.name for path in written] == ["localisation.png", "localisation.pdf"]
    assert all(path.stat().st_size > 1000 for path in written)


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
    assert "3 explicands in 1 run." in summary
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


def encoded(folder: Path) -> list[int]:
    """The training images that a study needed."""
    (path,) = folder.glob("representations-*.safetensors")
    return sorted(read_safetensors(path, "representations")[0]["numbers"].tolist())


def test_run_study__completeness_draws_what_a_study_draws_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    check = reproduce.completeness
    monkeypatch.setattr(
        reproduce,
        "completeness",
        lambda encoder, images, *rest, **more: seen.extend(images) or check(encoder, images, *rest, **more),
    )
    labels = np.where(TRAIN.labels == 0, 1, TRAIN.labels)  # no picture of the first class is left for a corpus
    train, options = replace(TRAIN, labels=labels), replace(OPTIONS, classes=(2, 1))
    run_study("completeness", small_encoder(), train, HELD_OUT, tmp_path, options, progress=False)
    drawn = draw(train, HELD_OUT, classes=(2, 1), explicands=1, corpus=4, foil=6, seed=123)
    assert encoded(tmp_path / "tiny" / "completeness") == sorted([*drawn.corpora[2], *drawn.foils[2]])
    assert np.array_equal(seen, [HELD_OUT.images[one.number] for one in drawn.explicands])


@pytest.mark.parametrize(("classes", "labels"), [(None, [0, 1, 2]), ((2, 0), [2, 0])])
def test_run_study__augmentations(tmp_path: Path, classes: tuple[int, ...] | None, labels: list[int]) -> None:
    options = replace(OPTIONS, classes=classes, foil=24)
    files = run_study("augmentations", small_encoder(), TRAIN, HELD_OUT, tmp_path, options, progress=False)
    pictures = dict.fromkeys(one["picture"] for one in json.loads(files[1].read_text()))
    assert [HELD_OUT.labels[int(title.split()[-1])] for title in pictures] == labels
    assert encoded(tmp_path / "tiny" / "augmentations") == list(range(24))


def test_run_study__augmentations_with_too_large_a_foil(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="foil of 25 images was asked for but only 24 are left beside the corpus"):
        run_study("augmentations", small_encoder(), TRAIN, HELD_OUT, tmp_path, replace(OPTIONS, foil=25), progress=False)
