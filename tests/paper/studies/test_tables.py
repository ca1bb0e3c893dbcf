from __future__ import annotations

import csv
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from cocoax.evaluation import Interval, paper_interval
from cocoax.paper.studies.insertion_deletion import MainStudy, RandomisationStudy
from cocoax.paper.studies.published import METHOD_TITLES, SETTINGS, TARGET_TITLES, paper_tables
from cocoax.paper.studies.tables import Records, Row, latex, markdown, rows_of
from tests.paper.studies.tiny import RUNS, cells, made_up

PUBLISHED = list(
    csv.DictReader(files("cocoax.paper.studies").joinpath("published.csv").read_text(encoding="utf-8").splitlines())
)
ENCODER = "resnet_18 & co"
VARIANTS = {"main": MainStudy.variants, "randomised": RandomisationStudy.variants}
LABELS = {**TARGET_TITLES, "trained": "Trained", "randomized": "Randomised"}


@pytest.fixture(scope="module")
def records() -> dict[str, Records]:
    return {study: made_up(study) for study in ("main", "randomised")}


def lines_of(name: str, records: dict[str, Records], kind: str) -> dict[tuple[str, str], list[str]]:
    """The lines of a table by their first two cells."""
    table = paper_tables()[name]
    variants = VARIANTS[table.study]
    rows = rows_of(table, variants, records[table.study])
    if kind == "markdown":
        lines = markdown(table, variants, rows, ENCODER).splitlines()
        found = [cells(line, "|") for line in lines if line.startswith("| ")][2:]
    else:
        lines = latex(table, variants, rows, ENCODER).splitlines()
        start = next(number for number, line in enumerate(lines) if line == r"\midrule")
        found = [cells(line, " & ") for line in lines[start:] if " & " in line]
    return {(line[0], line[1]): line[2:] for line in found}


@pytest.mark.parametrize("kind", ["markdown", "latex"])
def test_tables__show_all_792_published_numbers(records: dict[str, Records], kind: str) -> None:
    """In the right line and column, with the digits of the paper."""
    shown = 0
    for name in paper_tables():
        lines = lines_of(name, records, kind)
        for row in (row for row in PUBLISHED if row["table"] == name):
            place = (
                (METHOD_TITLES.get(row["method"], ""), LABELS[row["model" if row["study"] == "randomized" else "target"]])
                if (row["method"] != "random")
                else ("Random", "Pixel noise")
            )
            column = 2 + 2 * list(SETTINGS).index(row["setting"]) + ["insertion", "deletion"].index(row["metric"])
            assert lines[place][column] == f"{row['mean']} ({row['ci95']})", (name, place)
            shown += 1
        numbers = sum(cell not in ("–", "--") for line in lines.values() for cell in line[2:])
        assert numbers == sum(row["table"] == name for row in PUBLISHED)  # and no others
    assert shown == 792


def by_hand(records: Records, **key: Any) -> str:
    runs: dict[int, list[float]] = {run: [] for run in RUNS}
    for record in records:
        if all(record.get(name) == value for name, value in key.items()):
            runs[record["run"]].append(record["value"])
    assert all(len(values) == 4 for values in runs.values())
    return str(paper_interval([float(np.mean(values)) for values in runs.values()]))


def test_rows__our_numbers(records: dict[str, Records]) -> None:
    table = next(t for t in paper_tables().values() if (t.study, t.similarity, t.class_case) == ("main", "dot", "different"))
    lines = lines_of(table.name, records, "markdown")
    where = {"class_case": "different", "measure": table.measure, "metric": "deletion"}
    for target, label in TARGET_TITLES.items():
        expected = by_hand(records["main"], **where, similarity="dot", method="rise", target=target)
        assert lines["RISE", label][1].strip("*") == expected
    assert lines["Random", "Pixel noise"][1] == by_hand(records["main"], **where, method="random")
    assert lines["RISE, efficient", "Chance"][1] == by_hand(records["main"], **where, method="chance of rise_efficient")
    table = next(t for t in paper_tables().values() if (t.study, t.class_case) == ("randomised", "same"))
    lines = lines_of(table.name, records, "latex")
    where = {"class_case": "same", "measure": table.measure, "metric": "insertion", "method": "gradient_shap"}
    assert by_hand(records["randomised"], **where, model="randomized") in lines["GradientSHAP", "Randomised"][0]


@pytest.mark.parametrize(("kind", "mark"), [("markdown", "**"), ("latex", r"\textbf")])
def test_tables__best_of_each_method_is_bold(records: dict[str, Records], kind: str, mark: str) -> None:
    for name in paper_tables():
        lines = lines_of(name, records, kind)
        for method in METHOD_TITLES.values():
            for column, best in ((0, max), (1, min)):
                own = {label: line[column] for (group, label), line in lines.items() if group == method and label != "Chance"}
                values = {label: float(cell.strip("*").replace(r"\textbf{", "").split(" ")[0]) for label, cell in own.items()}
                bold = [label for label, cell in own.items() if cell.startswith(mark)]
                assert len(bold) == 1
                assert values[bold[0]] == best(values.values())
        marked = [cell for (_, label), line in lines.items() if label in ("Chance", "Pixel noise") for cell in line]
        assert not any(mark in cell for cell in marked)
        assert not any(mark in cell for line in lines.values() for cell in line[2:])


def test_tables__heads() -> None:
    table = paper_tables()["corpus_majority_prob_norm_same_class"]
    rows = [Row("RISE", "COCOA", (Interval(0.5, 0.1, 5), None), (None,) * 6)]
    shown = markdown(table, VARIANTS["main"], rows, "mine")
    assert "| Method | Target | mine, insertion ↑ | deletion ↓ | ImageNet, SimCLR ↑ |" in shown
    assert "| RISE | COCOA | 0.500 (0.100) | – |" in shown
    made = latex(table, VARIANTS["main"], rows, "50%_a&b")
    assert r"\multicolumn{2}{c}{50\%\_a\&b}" in made
    assert made.count("&") == made.count(r"\&") + 3 * 9 - 4  # ten columns in each line, and the heads over pairs of them
    randomised = paper_tables()["randomized_corpus_majority_prob_norm_same_class"]
    assert "| Method | Encoder |" in markdown(randomised, VARIANTS["randomised"], rows, "mine")
    assert "Method & Encoder &" in latex(randomised, VARIANTS["randomised"], rows, "mine")
