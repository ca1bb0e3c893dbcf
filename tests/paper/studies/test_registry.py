"""The list of studies: what can be asked for by name, and that a new study needs no more than a line there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cocoax.paper.studies import NAMES, STUDIES
from cocoax.paper.studies.published import paper_tables
from cocoax.paper.studies.reproduce import options_of, run_study
from cocoax.paper.studies.study import PRESETS, LabelledStudy
from tests.paper.studies.tiny import HELD_OUT, OPTIONS, TRAIN, small_encoder


def test_names__every_one_has_a_study() -> None:
    assert {study for _, study in NAMES.values()} == set(STUDIES)
    assert all(study.name == name and NAMES[name][0] for name, study in STUDIES.items())


def test_names__list_every_table() -> None:
    assert set(paper_tables()) < set(NAMES)
    assert {"main", "randomised", "corpus-size", "foil-size", "completeness", "augmentations", "localisation"} < set(NAMES)


def test_names__studies_of_tables_come_first_with_their_tables() -> None:
    others = ["corpus-size", "foil-size", "augmentations", "localisation", "completeness"]
    assert list(NAMES) == ["main", "randomised", *paper_tables(), *others]


def test_tables__each_is_made_by_the_study_that_is_named() -> None:
    made = {table.name: name for name, study in STUDIES.items() for table in study.tables()}
    assert made == {name: NAMES[name][1] for name in paper_tables()}


class Sizes(LabelledStudy):
    """As short as a study can be."""

    name = "sizes"
    paper = {"samples": 7}  # noqa: RUF012

    def write(self, progress: bool | None = None) -> list[Path]:
        self.folder.mkdir(parents=True)
        path = self.folder / "sizes.md"
        path.write_text(f"{len(self.train)} and {len(self.held_out)} images, {self.options.samples} samples")
        return [path]


def test_registry__a_new_study_is_run_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STUDIES, Sizes.name, Sizes)
    monkeypatch.setitem(NAMES, Sizes.name, ("how many images there are", Sizes.name))
    assert options_of("paper", {}, "sizes") == replace(PRESETS["paper"], samples=7)
    assert options_of("small", {}, "sizes") == PRESETS["small"]
    (path,) = run_study("sizes", small_encoder(), TRAIN, HELD_OUT, tmp_path, OPTIONS)
    assert path == tmp_path / "tiny" / "sizes" / "sizes.md"
    assert path.read_text() == "24 and 12 images, 20 samples"
