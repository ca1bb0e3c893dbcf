"""Shortcuts and wrong labels: inputs that are similar to their class for an unusual reason, or less than to another class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from cocoax.results import Attribution, ResultList
from cocoax.seeding import stream
from cocoax.show import Gallery, Histogram, Paragraph, Table, View
from cocoax.targets import Target, contrastive_corpus_similarity

if TYPE_CHECKING:
    from cocoax.inputs import Display
    from cocoax.survey.index import Index


_MIN_CLASS_SIZE = 20  # inputs of a class: the median of fewer maps is too uncertain
_SIZE_RATIO = 1.25  # classes whose sizes differ by less are compared at the smallest of them
_FALSE_DISCOVERY_RATE = 0.05  # below which an input stands out
_HARDLY = 0.1  # of all inputs: where more must stand out before any q is small, the test hardly finds anything
_LEGEND = (
    "z: how far the map lies above the median map of the class, in robust standard deviations, in its most unusual cell. "
    "p: the share of inputs of other classes that are at least as unusual. q: the share of false findings to expect among "
    "all inputs that are at least as unusual."
)
_NAMED = 5  # classes that were left out are named, of more the largest


@dataclass(frozen=True, eq=False)
class Suspect:
    """An input, and how unusual its map is for its class.

    Attributes:
        row, id, label: which one.
        cell: where its map is most unusual.
        value: of the map in this cell: the change in score if the cell is kept.
        usual: the median of the class in this cell.
        z: the difference of the two in robust standard deviations of the class.
        p: the share of the inputs of other classes that are at least as unusual in theirs, among equally many members; with n
            such inputs at least 1 / (n + 1).
        q: the false discovery rate among all inputs that are at least as unusual (Benjamini and Hochberg).

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
class Shortcuts(ResultList[Suspect]):
    """The answer of :meth:`cocoax.survey.Index.shortcuts`: all inputs, most unusual first, as ``suspects``.

    No ``q`` falls below .05 before ``needed`` inputs stand out: 40 with two classes of one size, 23 with ten.
    """

    file: ClassVar[str] = "shortcuts"
    index: Index
    classes: Classes
    suspects: Sequence[Suspect]
    usual: dict[str, Tensor]

    def __repr__(self) -> str:
        certain = sum(suspect.q < _FALSE_DISCOVERY_RATE for suspect in self.suspects)
        found = f"{certain} of {len(self.suspects)} inputs with q < .05"
        return f"Shortcuts({self.classes.label!r}, {found}, which takes {self.needed} that stand out)"

    @property
    def needed(self) -> int:
        """The number of inputs that must be more unusual than all others before q can fall below .05."""
        _, counts = np.unique(self.classes.values, return_counts=True)
        total = int(counts.sum())
        return int(total / (_FALSE_DISCOVERY_RATE * (1 + total - int(counts.min())))) + 1

    def attributions(self, count: int = 20) -> list[Attribution]:
        """Return the maps of the most unusual inputs: what makes each similar to its class, rather than to the others."""
        return [
            self.index.attributions([suspect.row], self.classes.target(suspect.label))[0] for suspect in self.suspects[:count]
        ]

    @property
    def parts(self) -> Sequence[Suspect]:
        """All inputs, most unusual first."""
        return self.suspects

    @property
    def summary(self) -> str:
        """The number of inputs that stand out."""
        certain = sum(suspect.q < _FALSE_DISCOVERY_RATE for suspect in self.suspects)
        if not certain and self.needed > _HARDLY * len(self.suspects):
            return (
                f"With {len(self.suspects)} inputs this test can hardly find anything ({self.needed} would have to stand "
                "out); the most unusual are listed."
            )
        return (
            f"{certain} of {len(self.suspects)} inputs are like their {self.classes.label} for unusual reasons (q < .05), "
            f"for which {self.needed} must stand out."
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """Which classes were left out, since they are too small."""
        return (f"{self.classes.too_small} A class needs {_MIN_CLASS_SIZE}.",) if self.classes.left_out else ()

    def views(self, count: int = 12) -> list[View]:
        """Return the maps of the most unusual inputs, and a table of more."""
        tiles = tuple(
            replace(attribution.view(), title=f"z {suspect.z:.1f}, q {suspect.q:.2g}", note=f"{suspect.id} · {suspect.label}")
            for attribution, suspect in zip(self.attributions(count), self.suspects, strict=False)
        )
        whole = self.table()
        return [Gallery(tiles, title="Most unusual", note=_LEGEND), replace(whole, rows=whole.rows[:50], title="Table")]

    def table(self) -> Table:
        """Return one row for each input, most unusual first."""
        return _table(self.suspects, Suspect)


@dataclass(frozen=True, eq=False)
class Classes:
    """Rows of an index that have a class.

    Attributes:
        index: the index.
        label: the column of the classes.
        rows: numbers of the rows.
        values: the class of each.
        left_out: how many inputs each class has that is too small.

    """

    index: Index
    label: str
    rows: np.ndarray
    values: np.ndarray
    left_out: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, index: Index, label: str, rows: np.ndarray | None = None, least: int = 2) -> Classes:
        """Return the classes of some rows; raise if there is one alone. Those with fewer than ``least`` rows are left out."""
        known, values = index.labelled(label, rows)
        names, counts = np.unique(values, return_counts=True)
        many = np.isin(values, names[counts >= least])
        left_out = {str(name): int(count) for name, count in zip(names, counts, strict=True) if count < least}
        found = cls(index, label, known[many], values[many], left_out)
        if len(found.names) < 2:
            raise ValueError(
                f"A class is told apart from others, and {label!r} has {len(found.names)} with at least {least} inputs."
                + (f" {found.too_small}" if left_out else "")
            )
        return found

    @property
    def too_small(self) -> str:
        """The classes that were left out, in a sentence."""
        largest = sorted(self.left_out.items(), key=lambda item: -item[1])
        named = [f"{name} ({count} {'input' if count == 1 else 'inputs'})" for name, count in largest[:_NAMED]]
        named += [f"{len(largest) - _NAMED} more"] if len(largest) > _NAMED else []
        return f"Left out: {', '.join(named)}."

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
    from scipy import stats  # slow to import, and few programs need it

    if index.cells is None:
        raise ValueError("Inputs of different shapes, such as texts, have no places in common; ask for words instead.")
    classes = Classes.of(index, label, rows, _MIN_CLASS_SIZE)
    names, counts = np.unique(classes.values, return_counts=True)
    sizes = _compared_sizes(counts)
    found: list[tuple[int, str, int, float, float, float]] = []
    usual: dict[str, Tensor] = {}
    within_sizes = []
    for name in names.tolist():
        members = classes.members(name)
        drawn = torch.stack(index.maps(classes.target(name), members)).flatten(1).double().numpy()
        middle = np.median(drawn, 0)
        usual[name] = torch.from_numpy(middle).view(index.cells)
        unusual = _unusual(drawn)
        within_sizes.append(_unusual_by_size(drawn, sizes))
        for number, (row, cell) in enumerate(zip(members, unusual.argmax(1).tolist(), strict=True)):
            values = float(drawn[number, cell]), float(middle[cell]), float(unusual[number, cell])
            found.append((int(row), name, cell, *values))
    z = np.array([entry[-1] for entry in found])
    p = _p_values(np.concatenate(within_sizes, 1), np.repeat(names, counts))
    q = stats.false_discovery_control(p)  # of Benjamini and Hochberg
    suspects = []
    for number in np.argsort(-z, kind="stable"):
        row, name, at_cell, value, common, score = found[number]
        cells = tuple(int(place) for place in np.unravel_index(at_cell, index.cells))
        suspects.append(Suspect(row, index.ids[row], name, cells, value, common, score, float(p[number]), float(q[number])))
    return Shortcuts(index, classes, suspects, usual)


def _unusual(drawn: np.ndarray) -> np.ndarray:
    """Return how many (robust) standard deviations each value of maps ``[..., n, cells]`` lies above the median of the maps.

    The standard deviation of a cell counts as at least half of the median one, so that cells in which maps hardly vary do not
    dominate.
    """
    apart = drawn - np.median(drawn, -2, keepdims=True)
    spread = 1.4826 * np.median(np.abs(apart), -2, keepdims=True)
    unusual: np.ndarray = apart / np.maximum(spread, 0.5 * np.median(spread, -1, keepdims=True) + 1e-12)
    return unusual


def _compared_sizes(counts: np.ndarray) -> list[int]:
    """Return the class sizes at which maps are compared: sizes that differ by less than a quarter count as one."""
    sizes: list[int] = []
    for count in np.unique(counts).tolist():
        if not sizes or count >= _SIZE_RATIO * sizes[-1]:
            sizes.append(count)
    return sizes


def _unusual_by_size(drawn: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Return how unusual the most unusual cell of each map is, at several class sizes: ``[n, cells]`` to ``[sizes, n]``.

    For each size the class is divided at random into groups of that size, and each map is compared with its group. NaN where
    the class has fewer members.
    """
    count, draws = len(drawn), stream(0)
    found = np.full((len(sizes), count), np.nan)
    for place, size in enumerate(sizes):
        if size <= count:
            order = draws.permutation(count)
            groups = np.resize(order, (-(-count // size), size))  # the last one is filled up with members of the first
            found[place, order] = _unusual(drawn[groups]).max(-1).ravel()[:count]
    return found


def _p_values(unusual: np.ndarray, names: np.ndarray) -> np.ndarray:
    """Return for each input the share of those of all other classes that are at least as unusual in theirs.

    Two classes are compared at the size of the smaller one, since maps of a small class seem more unusual: its median is less
    certain.
    """
    largest = (~np.isnan(unusual)).sum(0) - 1
    p = np.empty(len(names))
    for name in np.unique(names):
        own = names == name
        top, above = int(largest[own][0]), np.zeros(int(own.sum()), int)
        for place in range(top + 1):
            others = np.sort(unusual[place, ~own & ((largest == place) if place < top else (largest >= top))])
            above += len(others) - np.searchsorted(others, unusual[place, own])
        p[own] = (1 + above) / (1 + (~own).sum())
    return p


def _table(items: Sequence[Any], kind: type[Any]) -> Table:
    """Return the attributes of dataclasses as columns; tuples become lists, as JSON has them."""
    names = tuple(each.name for each in fields(kind))
    rows = [[getattr(item, name) for name in names] for item in items]
    return Table(names, tuple(tuple(list(value) if isinstance(value, tuple) else value for value in row) for row in rows))


@dataclass(frozen=True, eq=False)
class Typical:
    """An input, and how typical it is of its class.

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


@dataclass(frozen=True, eq=False)
class Typicality(ResultList[Typical]):
    """All inputs of an ``index`` with their typicality of the classes of a ``label``; the least typical first."""

    file: ClassVar[str] = "typicality"
    label: str
    inputs: Sequence[Typical]
    index: Index

    def __repr__(self) -> str:
        return f"Typicality({self.label!r}, {len(self)} inputs, least: {self.inputs[0].id!r})"

    @property
    def parts(self) -> Sequence[Typical]:
        """All inputs, the least typical first."""
        return self.inputs

    @property
    def summary(self) -> str:
        """The number of inputs that are closer to another class, and the least typical one."""
        wrong, least = sum(item.margin < 0 for item in self.inputs), self.inputs[0]
        return (
            f"{wrong} of {len(self)} inputs are more similar to another {self.label} than to their own; the least typical is "
            f"{least.id}, {least.label!r} but closest to {least.closest!r} (margin {least.margin:+.3f})."
        )

    def _tile(self, item: Typical, display: Display | None) -> View:
        shown = None if display is None else display.input_view()
        more = "more" if item.margin < 0 else "less"
        words = f"{abs(item.margin):.3f} {more} similar to {item.closest} than to its own {self.label}"
        view = Paragraph(item.id, title="") if shown is None else shown
        return replace(view, title=item.label, note=f"{item.id} · {words}", alt=item.id)

    def views(self, count: int = 12) -> list[View]:
        """Return the least typical inputs as they look, the margins, and a table of more."""
        least = self.inputs[:count]
        displays = self.index.displays([item.row for item in least])
        tiles = tuple(self._tile(item, display) for item, display in zip(least, displays, strict=True))
        columns, inches = (3, 3.2) if any(isinstance(tile, Paragraph) for tile in tiles) else (6, 1.9)
        margins = np.array([item.margin for item in self.inputs])
        whole = self.table()
        return [
            Gallery(tiles, columns, inches=inches, title="Least typical"),
            Histogram({"": margins}, "margin", title="Margins"),
            replace(whole, rows=whole.rows[:50], title="Table"),
        ]

    def table(self) -> Table:
        """Return one row for each input, the least typical first."""
        return _table(self.inputs, Typical)


def typicality(index: Index, label: str) -> Typicality:
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
    found = [
        Typical(
            int(classes.rows[place]),
            index.ids[classes.rows[place]],
            str(classes.values[place]),
            float(margin[place]),
            str(names[which[place]]),
        )
        for place in torch.argsort(margin, stable=True).tolist()
    ]
    return Typicality(label, found, index)
