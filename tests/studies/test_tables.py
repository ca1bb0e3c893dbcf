from __future__ import annotations

import csv
import itertools
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
import torch

from cocoax.evaluation import Interval, paired_difference, paper_interval
from cocoax.studies.published import SETTINGS, paper_tables
from cocoax.studies.study import MEASURES, METHODS, TARGETS, Records
from cocoax.studies.tables import Row, differences, latex, markdown, rows_of, size_table

PUBLISHED = list(csv.DictReader(files("cocoax.studies").joinpath("published.csv").read_text(encoding="utf-8").splitlines()))
RUNS = (123, 456, 789)
ENCODER = "resnet_18 & co"
LABELS = {**TARGETS, "trained": "Trained", "randomized": "Randomised"}


def made_up(study: str) -> Records:
    """Records with a different value in every place."""
    random = np.random.default_rng(0)
    if study == "main":
        keys = [
            {"similarity": similarity, "method": method, "target": target, "model": "trained"}
            for similarity, method, target in itertools.product(("cosine", "dot"), METHODS, TARGETS)
        ]
    else:
        keys = [
            {"similarity": "cosine", "method": method, "target": "cocoa", "model": model}
            for method, model in itertools.product(METHODS, ("trained", "randomized"))
        ]
    keys += [{"method": "random"}, *({"method": f"chance of {method}"} for method in METHODS)]
    rows = [{"class_case": case, **key} for case in ("same", "different") for key in keys]
    units: list[Any] = []
    for run, explicand in itertools.product(RUNS, range(4)):
        curves = {
            metric: torch.from_numpy(random.normal(0.3, 0.1, (len(rows), 2, 5))) for metric in ("insertion", "deletion")
        }
        units.append((curves, {"run": run, "explicand": explicand, "rows": rows, "measures": list(MEASURES)}))
    return Records(units)


@pytest.fixture(scope="module")
def records() -> dict[str, Records]:
    return {study: made_up(study) for study in ("main", "randomised")}


def cells(line: str, separator: str) -> list[str]:
    return [cell.strip() for cell in line.strip("| ").removesuffix(r"\\").split(separator)]


def lines_of(name: str, records: dict[str, Records], kind: str) -> dict[tuple[str, str], list[str]]:
    """The lines of a table by their first two cells."""
    table = paper_tables()[name]
    rows = rows_of(table, records[table.study])
    if kind == "markdown":
        found = [cells(line, "|") for line in markdown(table, rows, ENCODER).splitlines() if line.startswith("| ")][2:]
    else:
        lines = latex(table, rows, ENCODER).splitlines()
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
                (METHODS.get(row["method"], ""), LABELS[row["model" if row["study"] == "randomized" else "target"]])
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
    for target, label in TARGETS.items():
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
        for method in METHODS.values():
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
    assert "| Method | Target | mine, insertion ↑ | deletion ↓ | ImageNet, SimCLR ↑ |" in markdown(table, rows, "mine")
    assert "| RISE | COCOA | 0.500 (0.100) | – |" in markdown(table, rows, "mine")
    made = latex(table, rows, "50%_a&b")
    assert r"\multicolumn{2}{c}{50\%\_a\&b}" in made
    assert made.count("&") == made.count(r"\&") + 3 * 9 - 4  # ten columns in each line, and the heads over pairs of them
    randomised = paper_tables()["randomized_corpus_majority_prob_norm_same_class"]
    assert "| Method | Encoder |" in markdown(randomised, rows, "mine")
    assert "Method & Encoder &" in latex(randomised, rows, "mine")


def test_differences__paired_and_marked(records: dict[str, Records]) -> None:
    made = differences(records["main"])
    groups = records["main"].grouped("class_case", "measure", "similarity", "method", "metric", "target")
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
        for target in TARGETS
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


def test_size_table__a_line_for_each_size() -> None:
    rows = [{"class_case": "same", "corpus": size, "foil": 9, "method": "rise"} for size in (1, 5)]
    curve = torch.arange(2.0)[:, None, None].expand(2, 1, 3) + 0.25
    made = size_table(
        Records([({"insertion": curve, "deletion": -curve}, {"run": 1, "explicand": 0, "rows": rows, "measures": ["a_b"]})])
    )
    assert "| same | a b | RISE | 1 | 9 | 0.250 (–) | -0.250 (–) |" in made
    assert "| same | a b | RISE | 5 | 9 | 1.250 (–) | -1.250 (–) |" in made
