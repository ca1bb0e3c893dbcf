"""Records of a study and tables in the paper's layout, with all 792 published numbers in their places."""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cocoax.evaluation import paper_interval
from cocoax.paper.studies.insertion_deletion import MainStudy, RandomisationStudy
from cocoax.paper.studies.published import METHOD_TITLES, SETTINGS, TARGET_TITLES, paper_tables, published
from cocoax.paper.studies.tables import Records, _run_means, paper_table
from tests.paper.studies.tiny import RUNS, cells, made_up


def test_records__means_and_runs() -> None:
    curve = torch.tensor([[[0.0, 1.0, 2.0]], [[2.0, 2.0, 2.0]]])
    rows = [{"method": "a", "gini": 0.1}, {"method": "b", "gini": 0.1}]
    headers = [{"run": run, "explicand": 0, "rows": rows, "measures": ["m"]} for run in (1, 1, 2)]
    records = Records(
        [({"insertion": curve * k, "deletion": -curve * k}, header) for k, header in zip((1, 3, 5), headers, strict=True)]
    )
    areas = records.grouped("method", "metric")
    assert [value["value"] for value in areas["a", "insertion"]] == pytest.approx([1, 3, 5])
    assert [value["value"] for value in areas["b", "deletion"]] == pytest.approx([-2, -6, -10])
    assert _run_means(areas["a", "insertion"]) == pytest.approx([2, 5])  # of runs 1 and 2
    np.testing.assert_allclose(records.mean_curves("method")["a", "m", "insertion"], [0, 3, 6])


FILE = files("cocoax.paper.studies").joinpath("published.csv")


PUBLISHED = list(csv.DictReader(FILE.read_text(encoding="utf-8").splitlines()))


def test_published__file_is_the_one_that_was_checked() -> None:
    """Every other test of tables reads the same file, so a changed number would change what they expect."""
    digest = hashlib.sha256(FILE.read_bytes()).hexdigest()
    assert digest == "3f11cec4ba6306c656c69caef1aa14d1df2057c58b83b9c56895684ce5529e6f"


@pytest.mark.parametrize(
    ("table", "row", "mean", "half"),
    [
        ("corpus_majority_prob_norm_same_class", "integrated_gradients label_free imagenet_simclr insertion", 0.362, 0.005),
        ("corpus_majority_prob_norm_same_class", "rise cocoa mura_resnet deletion", 0.415, 0.025),
        ("corpus_majority_prob_norm_diff_class", "rise cocoa imagenet_simclr insertion", 9.51e-4, 2.58e-4),
        ("corpus_majority_prob_norm_diff_class", "gradient_shap corpus cifar10_simsiam deletion", 0.055, 0.003),
        ("corpus_majority_prob_unnorm_diff_class", "rise contrastive_label_free imagenet_simclr deletion", 6.25e-4, 1.01e-4),
        ("corpus_majority_prob_unnorm_same_class", "rise label_free mura_resnet insertion", 0.724, 0.019),
        (
            "randomized_contrastive_corpus_similarity_norm_same_class",
            "integrated_gradients cocoa mura_resnet deletion",
            -0.036,
            0.013,
        ),
        (
            "randomized_contrastive_corpus_similarity_norm_diff_class",
            "random random cifar10_simsiam deletion",
            -4.07e-3,
            1.46e-3,
        ),
    ],
)
def test_published__numbers_typed_from_the_paper(table: str, row: str, mean: float, half: float) -> None:
    method, target, setting, metric = row.split()
    found = published()[table, method, target, "trained", setting, metric]
    assert (found.mean, found.half) == (mean, half)


def test_published__shape() -> None:
    assert len(PUBLISHED) == len(published()) == 792
    assert len(paper_tables()) == 12
    assert Counter(table.study for table in paper_tables().values()) == {"main": 8, "randomised": 4}
    assert {row["setting"] for row in PUBLISHED} == set(SETTINGS)
    # Three methods by four targets and random, in three settings, insertion and deletion.
    sizes = Counter(row["table"] for row in PUBLISHED)
    assert {sizes[name] for name, table in paper_tables().items() if table.study == "main"} == {(3 * 4 + 1) * 3 * 2}
    assert {sizes[name] for name, table in paper_tables().items() if table.study == "randomised"} == {(3 * 2 + 1) * 3 * 2}


ENCODER = "resnet_18 & co"


VARIANTS = {"main": MainStudy.variants, "randomised": RandomisationStudy.variants}


LABELS = {**TARGET_TITLES, "trained": "Trained", "randomized": "Randomised"}


@pytest.fixture(scope="module")
def records() -> dict[str, Records]:
    return {study: made_up(study) for study in ("main", "randomised")}


def lines_of(name: str, records: dict[str, Records], kind: str) -> dict[tuple[str, str], list[str]]:
    """The lines of a table by their first two cells."""
    study = paper_tables()[name].study
    table = paper_table(paper_tables()[name], VARIANTS[study], records[study], ENCODER)
    if kind == "markdown":
        found = [cells(line, "|") for line in table.markdown().splitlines() if line.startswith("| ")][2:]
    else:
        lines = table.latex().splitlines()
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


def test_tables__heads_and_files(records: dict[str, Records], tmp_path: Path) -> None:
    table = paper_table(paper_tables()["corpus_majority_prob_norm_same_class"], VARIANTS["main"], records["main"], ENCODER)
    assert f"| Method | Target | {ENCODER} ↑ | {ENCODER} ↓ | ImageNet, SimCLR ↑ |" in table.markdown()
    made = table.latex()
    assert r"\multicolumn{2}{c}{resnet\_18 \& co}" in made
    body = [line for line in made.splitlines() if line.endswith(r"\\")]
    assert {line.count(" & ") for line in body} == {9}  # ten columns
    assert table.save(tmp_path / "a.md").read_text() == table.markdown()
    assert table.save(tmp_path / "a.tex").read_text() == made


def test_tables__numbers_are_those_that_are_shown(records: dict[str, Records]) -> None:
    table = paper_table(paper_tables()["corpus_majority_prob_norm_same_class"], VARIANTS["main"], records["main"], ENCODER)
    rows = {tuple(row[name] for name in ("method", "target", "setting", "metric")): row for row in table.table().records()}
    assert len(rows) == 78 + 2 * (4 * 5 + 1)
    assert rows["RISE", "COCOA", "mura_resnet", "deletion"]["mean"] == 0.415
    where = {"class_case": "same", "measure": "corpus_majority_probability", "metric": "insertion"}
    own = rows["RISE", "COCOA", ENCODER, "insertion"]
    expected = by_hand(records["main"], **where, similarity="cosine", method="rise", target="cocoa")
    assert f"{own['mean']:.3f} ({own['half width']:.3f})" == expected
