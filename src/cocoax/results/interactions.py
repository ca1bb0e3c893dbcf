"""Interactions: how features of two inputs together make the two similar."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from cocoax.checks import check_count
from cocoax.inputs import Display, Names
from cocoax.inputs.text import words
from cocoax.results.attribution import Attribution, at_least_rounding
from cocoax.results.result import Result
from cocoax.show import WHOLE, HeatMap, Link, Links, LinkSide, Matrix, PlotOptions, Table, View
from cocoax.show.views import place_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNIT = "change in score when both are kept, beyond what each does alone"
NOTHING = "No two parts make a difference together: all there is to see is rounding."
_CANDIDATES = 200  # pairs of two pictures that findings are made of: so many of the most alike, and of the largest values
_AS_STRONG = 0.5  # of the other's strength: neighbours are one finding from there on
_LARGEST_PART = 0.25  # of a picture: neighbours are one region up to that
_FAINT = 0.2  # of the strongest word's map: words below have none
_MAPS = 5  # words whose heat maps are shown
Cell = int | tuple[int, ...] | str  # a number, a row and a column, or a name
Part = Cell | list[Cell]


@dataclass(frozen=True, eq=False)
class PairSide:
    """One of two inputs that are compared: how it is shown, the shape of its features, and what they are called.

    Attributes:
        display: how it is shown.
        shape: of its features: rows and columns of a picture's grid, or how many there are.
        identity: of its representations, the method and the similarity: two with the same can be contrasted.
        feature_ids: of a picture whose features are parts of it, the part that each pixel belongs to, -1 for none.

    """

    display: Display
    shape: tuple[int, ...]
    identity: str = ""
    feature_ids: Tensor | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of features: words, columns; of a picture where segments are, rows and columns of a grid from 1 on."""
        own = self.display.names
        if own is not None:
            return own
        if self.feature_ids is not None and len(self.shape) == 1:
            return _numbered([self._place([feature]) for feature in range(self.shape[0])])
        if len(self.shape) == 1:
            return tuple(f"part {number + 1}" for number in range(self.shape[0]))
        return tuple(f"row {row + 1}, column {column + 1}" for row, column in product(*map(range, self.shape)))

    def _place(self, features: Sequence[int]) -> str:
        """Return where features of a picture are, in words."""
        return place_words(np.isin(self.places.numpy(), features), getattr(self.display, "box", WHOLE))

    @property
    def is_picture(self) -> bool:
        """Whether features are places of a picture."""
        return len(self.shape) == 2 or self.feature_ids is not None

    @property
    def places(self) -> Tensor:
        """The feature at each place where it is shown: of a list, a grid, or pixels; -1 for none."""
        return torch.arange(prod(self.shape)).view(self.shape) if self.feature_ids is None else self.feature_ids

    @property
    def link_side(self) -> LinkSide:
        """The input as views show it."""
        picture = getattr(self.display, "picture", None)
        return LinkSide(
            self.names,
            getattr(self.display, "text", None),
            getattr(self.display, "offsets", None),
            None if picture is None else picture.numpy(),
            getattr(self.display, "box", WHOLE),
            self.places.numpy() if self.is_picture else None,
        )

    def shown(self, values: Tensor) -> Tensor:
        """Return values of features ``[features]`` at the places where they are shown."""
        return torch.cat([values, values.new_zeros(1)])[self.places]


def _numbers_of(part: Part, side: PairSide) -> list[int]:
    """Return the numbers of features among all of their side, from numbers, places, names or phrases."""
    if isinstance(part, list):
        if not part:
            raise ValueError("A list of features is empty; give at least one.")
        return sorted({number for feature in part for number in _numbers_of(feature, side)})
    return _named(part, side) if isinstance(part, str) else [_placed(part, side)]


def _called(numbers: Sequence[int], side: PairSide) -> str:
    """Return the names of features."""
    return " ".join(side.names[number] for number in numbers)


def _named(name: str, side: PairSide) -> list[int]:
    """Return the numbers of the feature of this name, or of the words of this phrase."""
    phrase = [name] if name in side.names else [name[begin:end] for begin, end in words(name)]
    starts = [at for at in range(len(side.names)) if phrase and list(side.names[at : at + len(phrase)]) == phrase]
    if not starts:
        begun = [other for other in side.names if other.startswith(name)]
        close = (begun or difflib.get_close_matches(name, side.names, n=3, cutoff=0.3) or list(side.names))[:3]
        raise ValueError(f"No feature is called {name!r}; close are {', '.join(close)}.")
    if len(starts) > 1:
        raise ValueError(f"{len(starts)} features are called {name!r}; give one's number: {starts}.")
    return list(range(starts[0], starts[0] + len(phrase)))


def _placed(feature: int | tuple[int, ...], side: PairSide) -> int:
    """Return the number of a feature among all of its side, from its number or its place."""
    place: tuple[Any, ...] = feature if isinstance(feature, tuple) else (feature,)
    whole = all(isinstance(at, Integral) for at in place) and len(place) == len(side.shape)
    if not whole or not all(-size <= at < size for at, size in zip(place, side.shape, strict=True)):
        raise IndexError(f"A feature is a place in {list(side.shape)}. Got {feature!r} instead.")
    number = 0
    for at, size in zip(place, side.shape, strict=True):
        number = number * size + int(at) % size
    return number


# --- interactions -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sampled:
    """The influence of samples on values: sample n moves that of features i and j by ``left[n, i] * right[n, j]``.

    Attributes:
        masks: of the run; two runs with the same masks have samples that err together.
        left: ``[n, features_a]``.
        right: ``[n, features_b]``.

    """

    masks: Mapping[str, Tensor]
    left: Tensor
    right: Tensor

    def shared(self, other: Sampled) -> int:
        """Return how many samples, the first ones, have the same masks."""
        return min(len(self.left), len(other.left)) if _same(self.masks, other.masks) else 0


@dataclass(frozen=True, eq=False)
class Interactions(Result):
    """Interactions between the features of two inputs in their similarity; made by :func:`cocoax.interactions`.

    ``values[i, j]`` is the change in score when both are kept, beyond what each does alone: the mean over everything else of
    s(i and j) - s(i alone) - s(j alone) + s(neither). Masks of Rise over pixels are smooth, so that a cell's value is shared
    with its neighbours. For KernelShap runs the changes are Shapley values of each side, and
    all values together, on the method's own features, sum to s(a, b) - s(a, ∅) - s(∅, b) + s(∅, ∅).

    Attributes:
        values: ``[*features_a, *features_b]``.
        a, b: the two inputs.
        score: the similarity of the two.
        sampled: what the samples of the runs do to values, from which standard errors come; None where that is not known.
        lengths: of the vectors of a's features and of b's, whose dot products are the values.
        rounding: how far rounding alone may move the vectors of a's features and of b's.

    """

    file: ClassVar[str] = "interactions"
    values: Tensor
    a: PairSide
    b: PairSide
    score: float
    sampled: tuple[Sampled, ...] | None = None
    lengths: tuple[Tensor, Tensor] | None = None
    rounding: tuple[float, float] = (0.0, 0.0)

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.values.shape))
        best = [f"most: {one} with {other} {value:+.3f}" for one, other, value, _ in self.top(1)]
        return f"Interactions({shape}, score {self.score:+.3f}, {(best or ['nothing but rounding'])[0]})"

    @property
    def matrix(self) -> Tensor:
        """The values with one row per feature of a and one column per feature of b."""
        return self.values.reshape(prod(self.a.shape), -1)

    @cached_property
    def shown(self) -> Tensor:
        """The matrix as it is shown: what may be rounding alone is 0."""
        floors = self._floors(torch.eye(self.matrix.shape[1]), "b")
        return torch.where(self.matrix.abs() > floors, self.matrix, 0.0)

    @property
    def is_nothing(self) -> bool:
        """Whether no pair makes a difference that is more than rounding."""
        return not bool(self.shown.any())

    def _floors(self, weights: Tensor, side: str) -> Tensor:
        """Return the largest change by rounding alone of the sums in :meth:`errors_of_sums`."""
        if self.lengths is None:
            return torch.zeros(1, 1)
        (other, its), (other_rounding, its_rounding) = self.lengths, self.rounding
        if side == "a":
            other, its, other_rounding, its_rounding = its, other, its_rounding, other_rounding
        sizes = weights.abs().to(its)
        return other_rounding * (its @ sizes) + its_rounding * torch.outer(other, sizes.sum(0))

    @cached_property
    def standard_error(self) -> Tensor | None:
        """The standard error of each value, from the sampling of both sides; None where that is not known."""
        error = self.errors_of_sums(torch.eye(prod(self.b.shape), dtype=torch.float64), "b")
        return None if error is None else error.view(self.values.shape)

    def errors_of_sums(self, weights: Tensor, side: str) -> Tensor | None:
        """Return standard errors ``[features of the other side, k]`` of sums over a side's features, by ``[features, k]``."""
        if self.sampled is None:
            return None
        turned = [replace(part, left=part.right, right=part.left) for part in self.sampled]
        variance = torch.zeros(1, dtype=torch.float64)
        for one, other in product(self.sampled if side == "b" else turned, repeat=2):
            rows = slice(one.shared(other))
            along = (one.right[rows] @ weights) * (other.right[rows] @ weights)
            variance = variance + (one.left[rows] * other.left[rows]).T @ along
        return variance.clamp(min=0).sqrt().float()

    def top(self, count: int = 5) -> list[tuple[str, str, float, float | None]]:
        """Return the strongest :meth:`links`: both names, the value and its standard error."""
        check_count("count", count, 0)
        return [(*link.names, link.value, link.error) for link in self.links(count)]

    @property
    def _by_cosine(self) -> bool:
        return self.lengths is not None and self.a.is_picture and self.b.is_picture

    def links(self, count: int = 5) -> list[Link]:
        """Return the strongest findings, none that may be rounding alone: as they are listed, numbered and drawn.

        A finding is a pair of features. Of two pictures it is a pair of regions: pairs that are neighbours on both sides, and
        about as strong as each other, are one finding, whose value is the sum of all pairs of their features. No pair of
        features is in two findings.
        """
        if not self._by_cosine:
            return [self._link((i,), (j,)) for i, j in self.strongest(count)]
        found = [self._link(tuple(sorted(a)), tuple(sorted(b))) for a, b in self._regions()]
        return sorted(found, key=lambda link: -abs(link.value))[:count]

    def _regions(self) -> list[tuple[frozenset[int], frozenset[int]]]:
        """Return the pairs of regions of two pictures that are one finding each; no pair of features is in two of them."""
        everywhere = [side.places.numpy() for side in (self.a, self.b)]
        near = [_neighbours(places) for places in everywhere]
        areas = [np.bincount(places[places >= 0].flatten()) / places.size for places in everywhere]

        def meet(one: frozenset[int], other: frozenset[int], side: int) -> bool:
            both = one | other
            if both in (one, other):
                return True
            touching = any(near[side][feature] & other or feature in other for feature in one)
            return touching and bool(areas[side][list(both)].sum() <= _LARGEST_PART)

        found: dict[tuple[frozenset[int], frozenset[int]], float] = {}  # with the strength of its strongest pair
        for i, j in self._candidates():
            if any(i in a and j in b for a, b in found):
                continue
            new, strength = (frozenset({i}), frozenset({j})), float(self._strength[i, j])
            for other in [*found]:
                joined = new[0] | other[0], new[1] | other[1]
                if (
                    _AS_STRONG <= strength / found[other] <= 1 / _AS_STRONG
                    and all(meet(new[side], other[side], side) for side in (0, 1))
                    and not any(joined[0] & a and joined[1] & b for a, b in found if (a, b) != other)
                ):
                    strength, new = max(strength, found.pop(other), key=abs), joined
            found[new] = strength
        return list(found)

    def _candidates(self) -> list[tuple[int, int]]:
        """Return the pairs of two pictures that findings are made of, the most alike first."""
        values = self.shown.abs().flatten()
        largest = {divmod(int(index), self.matrix.shape[1]) for index in values.topk(min(_CANDIDATES, len(values))).indices}
        order = self.strongest(len(values))
        return order[:_CANDIDATES] + [pair for pair in order[_CANDIDATES:] if pair in largest]

    def _link(self, a: tuple[int, ...], b: tuple[int, ...]) -> Link:
        """Return what features of a and features of b add to the similarity together."""
        value = float(self.matrix[list(a)][:, list(b)].sum())
        names = _link_name(a, self.a), _link_name(b, self.b)
        return Link(a, b, value, self._error_of(a, b), names)

    def _error_of(self, a: Sequence[int], b: Sequence[int]) -> float | None:
        """Return the standard error of the sum over pairs of these features."""
        if self.sampled is None:
            return None
        variance = 0.0
        for one, other in product(self.sampled, repeat=2):
            rows = slice(one.shared(other))
            sums = [part.left[rows][:, list(a)].sum(1) * part.right[rows][:, list(b)].sum(1) for part in (one, other)]
            variance += float(sums[0] @ sums[1])
        return float(max(variance, 0.0) ** 0.5)

    def strongest(self, count: int) -> list[tuple[int, int]]:
        """Return the strongest pairs as numbers of features, strongest first.

        They are those of the largest values. Of two pictures they are the regions that are most alike, by the cosine of their
        vectors: by value, the region that an encoder cares for most would be linked to whatever resembles it a little.
        Vectors that are shorter than usual (the root mean square of their picture's) are divided by that instead, since
        they may be noise alone, which is alike by chance.
        """
        strength = self._strength
        order = torch.argsort(strength.flatten(), descending=True, stable=True)
        order = order[strength.flatten()[order] != 0][:count]
        return [divmod(index, self.matrix.shape[1]) for index in order.tolist()]

    @cached_property
    def _strength(self) -> Tensor:
        """How strong each pair is, by which :meth:`strongest` goes."""
        if not self._by_cosine or self.lengths is None:
            return self.shown
        lengths = [each.clamp(min=float(each.square().mean().sqrt())) for each in self.lengths]
        return self.shown / torch.outer(*lengths).clamp(min=torch.finfo(self.shown.dtype).tiny)

    def given(self, feature: Part, side: str = "b", *, rather_than: Sequence[Part] = ()) -> Attribution:
        """Return the map on the other side for one feature, or for some: where does this noun lie?

        Args:
            feature: its number (row and column for a picture), its name, several words that follow each other, or a list of
                these. The maps of several are added.
            side: the one that it belongs to: ``"b"`` gives a map on ``a``.
            rather_than: others of that side, whose mean is subtracted: where does *this* noun lie, rather than the others?
        """
        if side not in ("a", "b"):
            raise ValueError(f"The 'side' parameter must be 'a' or 'b'. Got {side!r} instead.")
        its, other = (self.b, self.a) if side == "b" else (self.a, self.b)
        own, *others = (_numbers_of(part, its) for part in (feature, *rather_than))
        weights = torch.zeros(prod(its.shape), dtype=self.values.dtype)
        weights[own] = 1
        for part in others:
            if set(part) & set(own):
                raise ValueError(f"{_called(own, its)!r} cannot be contrasted with itself; leave it out of 'rather_than'.")
            weights[part] -= 1 / len(others)
        chosen = (self.matrix if side == "b" else self.matrix.T) @ weights
        error = self.errors_of_sums(weights[:, None].double(), side)
        floor = float(self._floors(weights[:, None], side).max())
        contrast = f" rather than {' / '.join(_called(part, its) for part in others)}" if others else ""
        return Attribution(
            values=other.shown(chosen),
            score=float(chosen.sum()),
            baseline_score=0.0,
            standard_error=None if error is None else other.shown(at_least_rounding(error[:, 0], floor)),
            features=None if other.feature_ids is None else chosen,
            feature_ids=other.feature_ids,
            metadata={"target": _called(own, its) + contrast, "method": "interactions"},
            display=other.display,
            floor=floor,
        )

    # --- what every result has ------------------------------------------------------------------------------------------

    @property
    def summary(self) -> str:
        """The similarity and the strongest pair."""
        best = [f"{one} with {other} {value:+.3f}" for one, other, value, _ in self.top(1)]
        return (
            f"Similarity {self.score:+.3f}, strongest pair: {best[0]}" if best else f"Similarity {self.score:+.3f}. {NOTHING}"
        )

    def views(self, most: int | None = None) -> list[View]:
        """Return the two inputs with links between their features; for ``most`` words heat maps over a picture."""
        pictures = self.a.is_picture + self.b.is_picture
        note = (
            f"Red raises the similarity, blue lowers it; the numbers are the {UNIT}. "
            + ("Regions share with their neighbours where masks are smooth. " if pictures else "")
            + "The part that is pointed at has a scale of its own, on which its largest value has the full colour; what lies "
            "within two standard errors has none."
        )
        errors = None if self.sampled is None else (self._hover_errors(rather=False), self._hover_errors(rather=True))
        links = self.links(max(_MAPS, most or 0))
        sides, title = (self.a.link_side, self.b.link_side), self._heading
        maps = self._maps(_MAPS if most is None else most) if pictures == 1 else ()
        return [Links(*sides, self.shown.double().numpy(), links, UNIT, errors, maps, title=title, note=note)]

    def _maps(self, most: int) -> tuple[HeatMap, ...]:
        """Return heat maps of the words that have the strongest regions."""
        side = "b" if self.a.is_picture else "a"
        listed = self.b if side == "b" else self.a
        peaks = self.shown.double().numpy().max(0 if side == "b" else 1)
        strong = [word for word in np.argsort(-peaks, kind="stable")[:most].tolist() if peaks[word] >= _FAINT * peaks.max()]
        chosen = sorted(strong[:1] + [word for word in strong[1:] if peaks[word] > 0])
        views = [(word, self.given(word, side).view()) for word in chosen]
        return tuple(replace(view, title=listed.names[word]) for word, view in views if isinstance(view, HeatMap))

    def _hover_errors(self, *, rather: bool) -> dict[str, np.ndarray]:
        """Return errors of each part of a side with those of the other, or of the part minus the mean of those beside it."""
        errors = {}
        for side, its in (("a", self.a), ("b", self.b)):
            count = len(its.names)
            one = torch.eye(count, dtype=torch.float64)
            own = self.errors_of_sums(one - (1 - one) / max(1, count - 1) if rather else one, side)
            assert own is not None
            errors[side] = own.T.numpy()
        return errors

    def table(self) -> Table:
        """Return one row per pair, in the order of features: both names, the value and its standard error."""
        errors = None if self.standard_error is None else self.standard_error.reshape(self.matrix.shape).tolist()
        values = self.matrix.tolist()
        rows = tuple(
            (one, other, values[i][j], None if errors is None else errors[i][j])
            for (i, one), (j, other) in product(enumerate(self.a.names), enumerate(self.b.names))
        )
        return Table(("a", "b", "value", "standard_error"), rows)

    def facts(self) -> Mapping[str, Any]:
        """Return the similarity, the names of features, all values, and the strongest pairs."""
        pairs = [dict(zip(("a", "b", "value", "standard_error"), pair, strict=True)) for pair in self.top(10)]
        names = {"a": list(self.a.names), "b": list(self.b.names)}
        return {"score": self.score, **names, "values": self.matrix.tolist(), "pairs": pairs}

    def plot(self, kind: str | None = None, *, most: int | None = None, **options: Any) -> Figure:  # type: ignore[override]
        """Draw it; return the figure.

        Args:
            kind: ``"arcs"`` (two lines of text, words joined), ``"maps"`` (a picture, with the map of each of some words) or
                ``"links"`` (two pictures, the strongest pairs numbered on both), whichever suits the two inputs; or
                ``"matrix"``, for any.
            most: how many pairs, words or rows and columns are drawn.
            options: those of :class:`cocoax.show.PlotOptions`.

        """
        from cocoax.show import figure

        suits = ("arcs", "maps", "links")[self.a.is_picture + self.b.is_picture]
        if kind not in (None, "matrix", suits):
            raise ValueError(
                f"The 'kind' parameter must be {suits!r} or 'matrix' for these two inputs. Got {kind!r} instead."
            )
        chosen = PlotOptions.of({**options, "most": most})
        if kind != "matrix":
            return figure.plot(self.views(most), chosen)
        values = self.shown.double().numpy()
        return figure.plot([Matrix(values, self.a.names, self.b.names, UNIT, title=self._heading)], chosen)

    @property
    def _heading(self) -> str:
        return f"similarity {self.score:+.3f}" + (f"\n{NOTHING}" if self.is_nothing else "")

    def __sub__(self, other: Interactions) -> Interactions:
        return self._beside(other, -1)

    def __add__(self, other: Interactions) -> Interactions:
        return self._beside(other, 1)

    def _beside(self, other: Interactions, sign: int) -> Interactions:
        """Return both, of one input with two others: the features of the other's b stand after those of this one's."""
        if not isinstance(other, Interactions):
            return NotImplemented
        if self.a.names != other.a.names or self.a.identity != other.a.identity:
            raise ValueError(
                "Interactions can be contrasted where they are of the same input a, one method and one similarity; these are "
                "not."
            )
        names = (*self.b.names, *(f"{name} (instead)" if sign < 0 else name for name in other.b.names))
        sampled = None
        if self.sampled is not None and other.sampled is not None:
            here, there = (torch.zeros(prod(side.shape), dtype=torch.float64) for side in (self.b, other.b))
            sampled = (
                *(replace(part, right=_beside(part.right, there)) for part in self.sampled),
                *(replace(part, right=sign * _beside(here, part.right)) for part in other.sampled),
            )
        lengths = None
        if self.lengths is not None and other.lengths is not None:
            lengths = torch.maximum(self.lengths[0], other.lengths[0]), torch.cat([self.lengths[1], other.lengths[1]])
        return Interactions(
            torch.cat([self.matrix, sign * other.matrix], dim=1).view(*self.a.shape, len(names)),
            self.a,
            PairSide(Names(names), (len(names),)),
            self.score + sign * other.score,
            sampled,
            lengths,
            tuple(map(max, self.rounding, other.rounding)),  # type: ignore[arg-type]  # of two, since both are
        )


def _neighbours(places: np.ndarray) -> dict[int, set[int]]:
    """Return the features that touch each feature, by places ``[rows, columns]``."""
    touching: dict[int, set[int]] = {int(feature): set() for feature in np.unique(places)}
    for one, other in ((places[1:], places[:-1]), (places[:, 1:], places[:, :-1])):
        for left, right in np.unique(np.stack([one, other])[:, one != other].T, axis=0).tolist():
            touching[left].add(right)
            touching[right].add(left)
    return touching


def _link_name(features: tuple[int, ...], side: PairSide) -> str:
    """Return what features are called: their names, or of regions of a picture where they are."""
    if not side.is_picture:
        return _called(features, side)
    return side._place(features)


def _numbered(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of which no two are the same: later ones have a number."""
    counts: Counter[str] = Counter()
    unique = []
    for name in names:
        counts[name] += 1
        unique.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return tuple(unique)


def _beside(*parts: Tensor) -> Tensor:
    """Return factors of features beside each other, of which one side's are the same number in every row."""
    rows = max(len(part) for part in parts if part.ndim == 2)
    return torch.cat([part.expand(rows, -1) for part in parts], dim=1)


def _same(masks: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> bool:
    """Return whether two runs have the same masks, as those of one method and seed on two texts of as many words have."""
    if masks.keys() != others.keys():
        return False
    # Pictures of different sizes have the same cells under one seed, shifted otherwise: their errors go together too.
    compared = ["bits"] if "bits" in masks else list(masks)
    return all(_begin_alike(masks[name], others[name]) for name in compared)


def _begin_alike(one: Tensor, other: Tensor) -> bool:
    """Return whether the shorter of two tensors is the beginning of the other, cell by cell: 8 x 6 may be 6 x 8."""
    count = min(len(one), len(other))
    return count == 0 or torch.equal(one[:count].reshape(count, -1), other[:count].reshape(count, -1))
