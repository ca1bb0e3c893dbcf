from __future__ import annotations

import csv
from collections import Counter
from importlib.resources import files

from cocoax.studies import NAMES
from cocoax.studies.published import SETTINGS, paper_tables, published

ROWS = list(csv.DictReader(files("cocoax.studies").joinpath("published.csv").read_text(encoding="utf-8").splitlines()))


def test_published__shape() -> None:
    assert len(ROWS) == len(published()) == 792
    assert len(paper_tables()) == 12
    assert Counter(table.study for table in paper_tables().values()) == {"main": 8, "randomised": 4}
    assert {row["setting"] for row in ROWS} == set(SETTINGS)
    # Three methods by four targets and random, in three settings, insertion and deletion.
    sizes = Counter(row["table"] for row in ROWS)
    assert {sizes[name] for name, table in paper_tables().items() if table.study == "main"} == {(3 * 4 + 1) * 3 * 2}
    assert {sizes[name] for name, table in paper_tables().items() if table.study == "randomised"} == {(3 * 2 + 1) * 3 * 2}


def test_published__each_table_is_one_measure_similarity_and_case() -> None:
    for row in ROWS:
        table = paper_tables()[row["table"]]
        assert (table.measure, table.similarity, table.class_case) == (
            row["measure"],
            row["target_similarity"],
            row["class_case"],
        )
    assert len({table.title for table in paper_tables().values()}) == 12


def test_names__list_every_table() -> None:
    assert set(paper_tables()) < set(NAMES)
    assert {"main", "randomised", "corpus-size", "foil-size", "completeness", "augmentations", "localisation"} < set(NAMES)
