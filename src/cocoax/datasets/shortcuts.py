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


LEAST = 20  # inputs of a class: of fewer it is not known what is usual


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
    classes: Classes
    suspects: Sequence[Suspect]
    usual: dict[str, Tensor]

    def __repr__(self) -> str:
        certain = sum(suspect.q < 0.05 for suspect in self.suspects)
        return f"Shortcuts({self.classes.label!r}, {certain} of {len(self.suspects)} inputs with q < .05)"

    def attributions(self, count: int = 20) -> list[Attribution]:
        """Return the maps of the most unusual inputs: what makes each similar to its class, rather than to the others."""
        return [
            self.index.attributions([suspect.row], self.classes.target(suspect.label))[0] for suspect in self.suspects[:count]
        ]

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for each input, most unusual first."""
        import pandas as pd

        return pd.DataFrame([vars(suspect) for suspect in self.suspects])


@dataclass(frozen=True, eq=False)
class Classes:
    """Rows of an index by class; those of which the class is not known are left out.

    Attributes:
        index: where they are.
        label: the column that tells the class.
        rows: their numbers.
        values: the class of each.

    """

    index: Index
    label: str
    rows: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, index: Index, label: str, rows: np.ndarray | None = None, least: int = 2) -> Classes:
        """Return the classes of some rows; raise if there is one alone. Those with fewer than ``least`` rows are left out."""
        known, values = index.known(label, rows)
        names, counts = np.unique(values, return_counts=True)
        many = np.isin(values, names[counts >= least])
        found = cls(index, label, known[many], values[many])
        if len(found.names) < 2:
            raise ValueError(
                f"A class is told apart from others, and {label!r} has {len(found.names)} with at least {least} inputs."
            )
        return found

    @property
    def names(self) -> list[str]:
        """The names of the classes."""
        return [str(name) for name in np.unique(self.values)]

    def members(self, name: str) -> np.ndarray:
        """Return the rows of a class."""
        rows: np.ndarray = self.rows[self.values == name]
        return rows

    def target(self, name: str) -> Target:
        """Return the target of one class: members rather than all others."""
        corpus = self.index.reference(self.members(name), name)
        foil = self.index.reference(self.rows[self.values != name], f"other {self.label}s")
        return contrastive_corpus_similarity(corpus, foil, self.index.similarity)


def shortcuts(index: Index, label: str, rows: np.ndarray) -> Shortcuts:
    """Return inputs, the one first whose map is most unlike those of its class; see :class:`Suspect`."""
    if index.cells is None:
        raise ValueError("Inputs of different shapes, such as texts, have no places in common; ask for words instead.")
    classes = Classes.of(index, label, rows, LEAST)
    found: list[tuple[int, str, int, float, float, float]] = []
    usual: dict[str, Tensor] = {}
    for name in classes.names:
        members = classes.members(name)
        drawn = torch.stack(index.maps(classes.target(name), members)).flatten(1).double().numpy()
        middle = np.median(drawn, 0)
        spread = 1.4826 * np.median(np.abs(drawn - middle), 0)
        usual[name] = torch.from_numpy(middle).view(index.cells)
        # A cell in which a class hardly varies is not more telling than others: half of the typical spread is the least.
        unusual = (drawn - middle) / np.maximum(spread, 0.5 * np.median(spread) + 1e-12)
        at = unusual.argmax(1)
        for number, row in enumerate(members):
            cell = int(at[number])
            found.append(
                (int(row), name, cell, float(drawn[number, cell]), float(middle[cell]), float(unusual[number, cell]))
            )
    z = np.array([entry[-1] for entry in found])
    p = _shares(z, np.array([entry[1] for entry in found]))
    q = _expected_false(p)
    suspects = []
    for number in np.argsort(-z, kind="stable"):
        row, name, at_cell, value, common, score = found[number]
        cells = tuple(int(place) for place in np.unravel_index(at_cell, index.cells))
        suspects.append(Suspect(row, index.ids[row], name, cells, value, common, score, float(p[number]), float(q[number])))
    return Shortcuts(index, classes, suspects, usual)


def _shares(z: np.ndarray, names: np.ndarray) -> np.ndarray:
    """Return for each input the share of those of all other classes that are at least as unusual in theirs."""
    p = np.empty(len(z))
    for name in np.unique(names):
        own = names == name
        others = np.sort(z[~own])
        p[own] = (1 + len(others) - np.searchsorted(others, z[own])) / (1 + len(others))
    return p


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
    """Return inputs, the least typical of its class first: what a wrong label looks like. Classes of one are left out."""
    classes = Classes.of(index, label)
    names, own = np.unique(classes.values, return_inverse=True)
    features = index.similarity.features(index.representations[classes.rows].double())
    sums = torch.zeros(len(names), features.shape[1], dtype=torch.float64).index_add_(0, torch.from_numpy(own), features)
    counts = torch.from_numpy(np.bincount(own)).double()
    scores = features @ (sums / counts[:, None]).T
    places = torch.arange(len(features))
    mine = counts[own]
    without = (scores[places, own] * mine - features.square().sum(1)) / (mine - 1)
    scores[places, own] = -torch.inf
    best, which = scores.max(1)
    margin = without - best
    return [
        Typical(
            int(classes.rows[place]),
            index.ids[classes.rows[place]],
            str(classes.values[place]),
            float(margin[place]),
            str(names[which[place]]),
        )
        for place in torch.argsort(margin, stable=True).tolist()
    ]
