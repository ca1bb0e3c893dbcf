"""From the name of a table or figure to its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cocoax
from cocoax.paper.studies import augmentations, localisation
from cocoax.paper.studies.reproduce import class_numbers, options_of, run_localisation, run_study
from cocoax.paper.studies.study import PRESETS
from tests.paper.studies.tiny import HELD_OUT, OPTIONS, TRAIN, small_encoder


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


def test_class_numbers__names_or_numbers() -> None:
    assert class_numbers("green, 0", ["blue", "green", "red"]) == (1, 0)
    for wrong in ("gren", "3", "-1", ""):
        with pytest.raises(ValueError, match=f"no class '{wrong}'; close are"):
            class_numbers(wrong, ["blue", "green", "red"])


@pytest.mark.parametrize("estimator", ["paper", "efficient"])
def test_figures__use_the_estimator_of_the_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, estimator: Any) -> None:
    used: list[Any] = []

    def stopped(*arguments: Any, **_options: Any) -> None:
        used.append(next(argument for argument in arguments if isinstance(argument, cocoax.Rise)))
        raise KeyboardInterrupt

    monkeypatch.setattr(augmentations, "explain_augmentations", stopped)
    monkeypatch.setattr(localisation, "explain_localisation", stopped)
    options = replace(OPTIONS, estimator=estimator)
    with pytest.raises(KeyboardInterrupt):
        run_study("augmentations", small_encoder(), TRAIN, HELD_OUT, tmp_path, options, progress=False)
    with pytest.raises(KeyboardInterrupt):
        run_localisation(small_encoder(), [(HELD_OUT.images[0], "cat", "dog")], tmp_path, options, progress=False)
    assert [(method.samples, method.estimator) for method in used] == [(20, estimator)] * 2


def test_run_study__one_that_takes_no_labelled_data(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="'localisation' takes pictures of its own rather than labelled data"):
        run_study("localisation", small_encoder(), TRAIN, HELD_OUT, tmp_path, OPTIONS)
