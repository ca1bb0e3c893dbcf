from __future__ import annotations

import csv
import hashlib
from collections import Counter
from importlib.resources import files

import pytest

from cocoax.paper.studies.published import SETTINGS, paper_tables, published

FILE = files("cocoax.paper.studies").joinpath("published.csv")
ROWS = list(csv.DictReader(FILE.read_text(encoding="utf-8").splitlines()))


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


def test_published__a_number_of_a_randomised_encoder() -> None:
    table = "randomized_contrastive_corpus_similarity_norm_diff_class"
    found = published()[table, "rise", "cocoa", "randomized", "cifar10_simsiam", "insertion"]
    assert (found.mean, found.half) == (-3.57e-3, 1.40e-3)


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
