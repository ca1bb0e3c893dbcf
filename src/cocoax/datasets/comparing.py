"""Two encoders and one data set: where do scores and maps differ?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cocoax.datasets.index import Index
from cocoax.datasets.shortcuts import class_target
from cocoax.storage import to_json, write_text
from cocoax.targets import Target, representation_similarity

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Changed:
    """One input under two encoders.

    Attributes:
        id, label: which one; the label is empty where none was asked about.
        scores: under the first and the second encoder.
        correlation: of its two maps, cell by cell; NaN where one of them is flat.

    """

    id: str
    label: str
    scores: tuple[float, float]
    correlation: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """The same inputs and questions under two encoders; ``inputs`` are those whose maps differ most first."""

    names: tuple[str, str]
    question: str
    inputs: Sequence[Changed]

    def __repr__(self) -> str:
        return f"Comparison({self.names[0]!r}, {self.names[1]!r}, {len(self.inputs)} inputs, maps agree {self.agreement:.2f})"

    @property
    def agreement(self) -> float:
        """The mean correlation of the two maps of an input."""
        return float(np.nanmean([changed.correlation for changed in self.inputs]))

    def by_label(self) -> dict[str, dict[str, float]]:
        """Return for each label how many inputs it has, how well their maps agree, and the mean scores of both encoders."""
        groups: dict[str, list[Changed]] = {}
        for changed in self.inputs:
            groups.setdefault(changed.label, []).append(changed)
        return {
            name: {
                "inputs": len(group),
                "agreement": float(np.nanmean([changed.correlation for changed in group])),
                **{f"score {number + 1}": float(np.mean([changed.scores[number] for changed in group])) for number in (0, 1)},
            }
            for name, group in sorted(groups.items())
        }

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for each input."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "id": item.id,
                    "label": item.label,
                    "score_a": item.scores[0],
                    "score_b": item.scores[1],
                    "correlation": item.correlation,
                }
                for item in self.inputs
            ]
        )

    def describe(self, most: int = 50) -> dict[str, Any]:
        """Return it as plain values, with the inputs that changed most."""
        return {
            "encoders": list(self.names),
            "question": self.question,
            "inputs": len(self.inputs),
            "agreement": self.agreement,
            "by_label": self.by_label(),
            "changed_most": [{**vars(changed), "scores": list(changed.scores)} for changed in self.inputs[:most]],
        }

    def save(self, path: str | Path) -> Path:
        """Write it as JSON; return the path."""
        return write_text(path, to_json(self.describe(), indent=1))


def compare(first: Index, second: Index, label: str | None = None) -> Comparison:
    """Ask the same question of the inputs that two indexes share, and return where their maps differ most.

    With a ``label`` every input is asked what makes it like its class rather than the others, without one what makes it like
    itself (label-free). Inputs are the same where ids and cells are.
    """
    there = set(second.ids)
    shared = [name for name in first.ids if name in there]
    if not shared:
        raise ValueError("The two indexes have no id in common; they are of different data.")
    numbers = [{name: row for row, name in enumerate(index.ids)} for index in (first, second)]
    rows = [np.array([own[name] for name in shared]) for own in numbers]
    classes = np.array([""] * len(shared)) if label is None else first.column(label).astype(str)[rows[0]]
    changed: list[Changed] = []
    for name in np.unique(classes):
        chosen = np.flatnonzero(classes == name)
        answers = [_answers(index, own[chosen], label, str(name)) for index, own in zip((first, second), rows, strict=True)]
        for number, place in enumerate(chosen):
            scores = (float(answers[0][0][number]), float(answers[1][0][number]))
            maps = [answer[1][number] for answer in answers]
            if maps[0].shape != maps[1].shape:
                raise ValueError(
                    f"The maps of {shared[place]!r} have {list(maps[0].shape)} and {list(maps[1].shape)} cells; build both "
                    "indexes with the same grid."
                )
            changed.append(Changed(shared[place], str(name), scores, _correlation(maps[0], maps[1])))
    changed.sort(key=lambda item: (np.nan_to_num(item.correlation, nan=-2.0), item.id))
    question = "itself" if label is None else f"its {label} rather than the others"
    return Comparison((first.manifest.encoder, second.manifest.encoder), question, changed)


def _answers(index: Index, rows: np.ndarray, label: str | None, name: str) -> tuple[np.ndarray, list[torch.Tensor]]:
    """Return scores and maps of some rows."""
    target: Target = representation_similarity(index.similarity) if label is None else class_target(index, label, name)
    features = index.similarity.features(index.representations[rows].double())
    scores = (features * index.directions(target, rows).double()).sum(1)
    return scores.numpy(), index.maps(target, rows)


def _correlation(first: torch.Tensor, second: torch.Tensor) -> float:
    a, b = (values.flatten().double() - values.double().mean() for values in (first, second))
    size = float(a.norm() * b.norm())
    return float(a @ b) / size if size > 0 else float("nan")
