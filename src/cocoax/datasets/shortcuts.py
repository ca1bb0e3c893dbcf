"""Right for the wrong reason: inputs whose similarity to their class rests where that of the class does not usually rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from cocoax.targets import Target, contrastive_corpus_similarity

if TYPE_CHECKING:
    import pandas as pd

    from cocoax.attribution.result import Attribution
    from cocoax.datasets.index import Index


@dataclass(frozen=True, eq=False)
class Suspect:
    """An input whose similarity to its class rests on an unusual place.

    Attributes:
        row, id, label: which one.
        cell: where its map is most unusual.
        value: of the map there: the change in score if the cell is kept.
        usual: the median of the class there.
        z: how many (robust) standard deviations of the class lie between the two.
        p: the share of all inputs, beside those of its own class, that are at least as unusual in theirs.
        q: the share of false ones to expect among those that are at least as unusual (Benjamini and Hochberg).

    """

    row: int
    id: str
    label: str
    cell: tuple[int, ...]
    value: float
    usual: float
    z: float
    p: float
    q: float


@dataclass(frozen=True, eq=False)
class Shortcuts:
    """What :meth:`cocoax.datasets.Index.shortcuts` found; ``suspects`` are all inputs, most unusual first."""

    index: Index
    label: str
    suspects: Sequence[Suspect]
    usual: dict[str, Tensor]

    def __repr__(self) -> str:
        certain = sum(suspect.q < 0.05 for suspect in self.suspects)
        return f"Shortcuts({self.label!r}, {certain} of {len(self.suspects)} inputs with q < .05)"

    def attributions(self, count: int = 20) -> list[Attribution]:
        """Return the maps of the most unusual inputs: what makes each similar to its class, rather than to the others."""
        return [
            self.index.attributions([suspect.row], class_target(self.index, self.label, suspect.label))[0]
            for suspect in self.suspects[:count]
        ]

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for each input, most unusual first."""
        import pandas as pd

        return pd.DataFrame([vars(suspect) for suspect in self.suspects])


def class_target(index: Index, label: str, name: str) -> Target:
    """Return the target of one class: members rather than all others."""
    values = index.column(label).astype(str)
    corpus = index.reference(values == name, name)
    foil = index.reference(values != name, f"other {label}s")
    return contrastive_corpus_similarity(corpus, foil, index.similarity)


def shortcuts(index: Index, label: str) -> Shortcuts:
    """Return all inputs, the one first whose map is most unlike those of its class; see :class:`Suspect`."""
    if index.cells is None:
        raise ValueError("Inputs of different shapes, such as texts, have no places in common; ask for words instead.")
    values = index.column(label).astype(str)
    names, counts = np.unique(values, return_counts=True)
    if len(names) < 2:
        raise ValueError(f"All inputs have the same {label}, {names[0]!r}; a class is told apart from others.")
    if counts.min() < 8:
        raise ValueError(
            f"The class {names[counts.argmin()]!r} has {counts.min()} inputs; what is usual takes at least 8. Leave it out."
        )
    unusual = np.empty((len(index), int(np.prod(index.cells))))
    maps = np.empty_like(unusual)
    usual: dict[str, Tensor] = {}
    for name in names:
        rows = np.flatnonzero(values == name)
        drawn = torch.stack(list(index.maps(class_target(index, label, str(name)), rows))).flatten(1).double().numpy()
        middle = np.median(drawn, 0)
        spread = 1.4826 * np.median(np.abs(drawn - middle), 0)
        maps[rows], usual[str(name)] = drawn, torch.from_numpy(middle).view(index.cells)
        # A cell in which a class hardly varies is not more telling than others: half of the typical spread is the least.
        unusual[rows] = (drawn - middle) / np.maximum(spread, 0.5 * np.median(spread) + 1e-12)
    z = unusual.max(1)
    p = np.array([_share(z[row], z[values != values[row]]) for row in range(len(z))])
    q = _expected_false(p)
    suspects = []
    for row in np.argsort(-z, kind="stable"):
        at = int(unusual[row].argmax())
        cell = tuple(int(place) for place in np.unravel_index(at, index.cells))
        middle = float(usual[values[row]].flatten()[at])
        suspects.append(
            Suspect(
                int(row),
                index.ids[row],
                values[row],
                cell,
                float(maps[row, at]),
                middle,
                float(z[row]),
                float(p[row]),
                float(q[row]),
            )
        )
    return Shortcuts(index, label, suspects, usual)


def _share(value: float, others: np.ndarray) -> float:
    return float((1 + (others >= value).sum()) / (1 + len(others)))


def _expected_false(p: np.ndarray) -> np.ndarray:
    """Return the q-values of Benjamini and Hochberg."""
    order = np.argsort(p, kind="stable")
    scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
    q = np.empty_like(p)
    q[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return q


@dataclass(frozen=True, eq=False)
class Typical:
    """How typical an input is of its class.

    Attributes:
        row, id, label: which one.
        margin: its similarity to the mean of its class (without itself), minus that to the closest other class.
        closest: that other class.

    """

    row: int
    id: str
    label: str
    margin: float
    closest: str


def typicality(index: Index, label: str) -> list[Typical]:
    """Return all inputs, the least typical of its class first: what a wrong label looks like."""
    values = index.column(label).astype(str)
    names, own = np.unique(values, return_inverse=True)
    if len(names) < 2:
        raise ValueError(f"All inputs have the same {label}, {names[0]!r}; a class is told apart from others.")
    features = index.similarity.features(index.representations.double())
    sums = torch.zeros(len(names), features.shape[1], dtype=torch.float64).index_add_(0, torch.from_numpy(own), features)
    counts = torch.from_numpy(np.bincount(own)).double()
    scores = features @ (sums / counts[:, None]).T
    rows = torch.arange(len(features))
    mine = counts[own]
    without = (scores[rows, own] * mine - features.square().sum(1)) / (mine - 1).clamp(min=1)
    scores[rows, own] = -torch.inf
    best, which = scores.max(1)
    margin = without - best
    return [
        Typical(int(row), index.ids[row], values[row], float(margin[row]), str(names[which[row]]))
        for row in torch.argsort(margin, stable=True).tolist()
    ]
