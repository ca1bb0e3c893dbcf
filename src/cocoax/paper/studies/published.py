"""The paper's tables, the numbers in them, and the words for methods, targets and measures."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cocoax.evaluation import Interval

# The keys of results, and the words they have in tables and figures.
METHOD_TITLES = {
    "integrated_gradients": "Integrated Gradients",
    "gradient_shap": "GradientSHAP",
    "rise": "RISE",
    "rise_efficient": "RISE, efficient",
}
TARGET_TITLES = {
    "label_free": "Label-free",
    "contrastive_label_free": "Contrastive label-free",
    "corpus": "Corpus",
    "cocoa": "COCOA",
}
MEASURES = ("contrastive_corpus_similarity", "corpus_majority_probability")
METRICS = {"insertion": "↑", "deletion": "↓"}  # whether higher or lower is better
CLASS_CASES = ("same", "different")
SETTINGS = {"imagenet_simclr": "ImageNet, SimCLR", "cifar10_simsiam": "CIFAR-10, SimSiam", "mura_resnet": "MURA, ResNet"}


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper: its content, and the study that makes it."""

    name: str
    study: str
    measure: str
    similarity: str
    class_case: str

    @property
    def title(self) -> str:
        """The title of the table, in words."""
        who = "belong to the corpus class" if self.class_case == "same" else "do not belong to the corpus class"
        models = " of trained and randomised encoders" if self.study == "randomised" else ""
        return f"{self.measure.replace('_', ' ').capitalize()}{models}, {self.similarity} targets, explicands {who}"


@cache
def published() -> dict[tuple[str, str, str, str, str, str], Interval]:
    """Return mean and 95 % half-width over five runs, by table, method, target, model, setting and metric."""
    from cocoax.evaluation import Interval  # here, so that the tables can be listed without torch

    return {
        (row["table"], row["method"], row["target"], row["model"], row["setting"], row["metric"]): Interval(
            float(row["mean"]), float(row["ci95"]), 5
        )
        for row in _rows()
    }


@cache
def paper_tables() -> dict[str, PaperTable]:
    """Return the twelve tables, by name."""
    tables = {}
    for row in _rows():
        study = "randomised" if row["study"] == "randomized" else row["study"]
        tables[row["table"]] = PaperTable(row["table"], study, row["measure"], row["target_similarity"], row["class_case"])
    return tables


@cache
def _rows() -> list[dict[str, str]]:
    text = files("cocoax.paper.studies").joinpath("published.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
