"""Both sides of a match: how features of one input and features of another make the two similar.

For a similarity that is a dot product, s(a, b) = φ(a)·φ(b), the two sides are perturbed independently, so the interaction of
feature i of a with feature j of b is the dot product of two field vectors, ⟨A_i, B_j⟩. Two runs, n + m encoder calls, answer
the n x m game.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cocoax.attribution import linked_page, linking
from cocoax.attribution.field import AT_ONCE, default_grid, feature_vectors, pooled
from cocoax.attribution.result import Attribution, Estimate
from cocoax.attribution.run import Run
from cocoax.checks import check_count, check_kind
from cocoax.features.segments import check_grid
from cocoax.inputs import Display, Names
from cocoax.inputs.words import words
from cocoax.similarity import LinearSimilarity, Similarity, get_similarity
from cocoax.storage import digest, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = int | tuple[int, ...] | str  # a number, a row and a column, or a name
Part = Cell | list[Cell]


@dataclass(frozen=True, eq=False)
class Matched:
    """One input of a match: how it is shown, the shape of its features, and what they are called."""

    display: Display
    shape: tuple[int, ...]
    identity: str = ""  # of its representation and the similarity

    @property
    def names(self) -> tuple[str, ...]:
        """The names of features: words, columns, segments; rows and columns of a grid, counted from 1, for a picture."""
        own = self.display.names
        if own is not None:
            return own
        return tuple(f"row {row + 1}, column {column + 1}" for row, column in product(*map(range, self.shape)))


@dataclass(frozen=True, eq=False)
class Errors:
    """Where errors come from, for sums of values.

    Errors of one side's sampling along two features of the other go together as far as what is measured along them does;
    those of two features of the side itself do not, since they are removed independently.

    Attributes:
        of_a, of_b: standard errors from the sampling of either side, ``[features_a, features_b]``.
        along_a, along_b: correlations of what the other side's samples measure along features, ``[features, features]``.

    """

    of_a: Tensor
    of_b: Tensor
    along_a: Tensor
    along_b: Tensor

    def of_sum(self, weights: Tensor, side: str) -> Tensor:
        """Return standard errors ``[features of the other side]`` of the weighted sum over the features of a side."""
        facing, own, along = (self.of_a, self.of_b, self.along_b) if side == "b" else (self.of_b.T, self.of_a.T, self.along_a)
        together = facing * weights
        variance = ((together @ along) * together).sum(1) + own.square() @ weights.square()
        return variance.clamp(min=0).sqrt()


@dataclass(frozen=True, eq=False)
class Interactions:
    """How features of one input and of another make the two similar; made by :func:`cocoax.interactions`.

    ``values[i, j]`` is the change in score when both are kept, beyond what each does alone: the mean over everything else of
    s(i and j) - s(i alone) - s(j alone) + s(neither). For KernelShap runs the changes are Shapley values of each side, and
    all values together, on the method's own features, sum to s(a, b) - s(a, ∅) - s(∅, b) + s(∅, ∅).

    Attributes:
        values: ``[*features_a, *features_b]``.
        standard_error: of each value, from the sampling of both sides.
        a, b: the two inputs.
        score: the similarity of the two.
        errors: where the standard errors come from; None where that is not known.

    """

    values: Tensor
    standard_error: Tensor | None
    a: Matched
    b: Matched
    score: float
    errors: Errors | None = None

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.values.shape))
        best = self.top(1)[0]
        return f"Interactions({shape}, score {self.score:+.3f}, most: {best[0]} with {best[1]} {best[2]:+.3f})"

    @property
    def matrix(self) -> Tensor:
        """The values with one row per feature of a and one column per feature of b."""
        return self.values.reshape(prod(self.a.shape), -1)

    def top(self, count: int = 5) -> list[tuple[str, str, float, float | None]]:
        """Return the pairs that make the two most similar: both names, the value and its standard error, largest first."""
        check_count("count", count, 0)
        flat = self.matrix.flatten()
        errors = None if self.standard_error is None else self.standard_error.flatten().tolist()
        names = list(product(self.a.names, self.b.names))
        order = torch.argsort(flat, descending=True, stable=True)[:count].tolist()
        return [(*names[index], float(flat[index]), None if errors is None else errors[index]) for index in order]

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
        own, *others = (_numbers(part, its) for part in (feature, *rather_than))
        weights = torch.zeros(prod(its.shape), dtype=self.values.dtype)
        weights[own] = 1
        for part in others:
            if set(part) & set(own):
                raise ValueError(f"{_called(own, its)!r} cannot be contrasted with itself; leave it out of 'rather_than'.")
            weights[part] -= 1 / len(others)
        chosen = (self.matrix if side == "b" else self.matrix.T) @ weights
        error = None
        if self.errors is not None:
            error = self.errors.of_sum(weights, side)
        elif self.standard_error is not None:  # as if values were independent
            apart = self.standard_error.reshape(self.matrix.shape)
            error = ((apart if side == "b" else apart.T).square() @ weights.square()).sqrt()
        contrast = f" rather than {' / '.join(_called(part, its) for part in others)}" if others else ""
        return Attribution(
            values=chosen.reshape(other.shape),
            score=float(chosen.sum()),
            baseline_score=0.0,
            standard_error=None if error is None else error.reshape(other.shape),
            metadata={"target": _called(own, its) + contrast, "method": "interactions"},
            display=other.display,
        )

    def plot(self, kind: str | None = None, *, most: int | None = None) -> Figure:
        """Draw it; returns the figure.

        Args:
            kind: ``"arcs"`` (two lines of text, words joined), ``"maps"`` (a picture, with the map of each of some words) or
                ``"links"`` (two pictures, the strongest pairs numbered on both), whichever suits the two inputs; or
                ``"matrix"``, for any.
            most: how many pairs, words or rows and columns are drawn.

        """
        return linking.draw(self, kind, most)

    def html(self) -> str:
        """Return both inputs as an HTML fragment: pointing at a part of one shows what it meets in the other."""
        return linked_page.fragment(self)

    _repr_html_ = html

    def save_html(self, path: str | Path, title: str = "How two inputs meet") -> Path:
        """Write a page that loads nothing; returns its path."""
        return write_text(path, linked_page.page(self, title))

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
                "Interactions can be contrasted where they are of the same input a and of one similarity; these are not."
            )
        names = (*self.b.names, *(f"{name} (instead)" if sign < 0 else name for name in other.b.names))
        errors = [part.standard_error for part in (self, other)]
        error = None
        if errors[0] is not None and errors[1] is not None:
            error = torch.cat([errors[0].reshape(self.matrix.shape), errors[1].reshape(other.matrix.shape)], dim=1)
        shape = (*self.a.shape, len(names))
        return Interactions(
            torch.cat([self.matrix, sign * other.matrix], dim=1).view(shape),
            None if error is None else error.view(shape),
            self.a,
            Matched(Names(names), (len(names),)),
            self.score + sign * other.score,
        )


def interactions(
    run_a: Run, run_b: Run, similarity: str | Similarity = "cosine", grid: int | tuple[int, int] | None = None
) -> Interactions:
    """Return how features of two inputs interact in the similarity of their representations; no encoder is called.

    Args:
        run_a, run_b: runs of two inputs, of any kinds, of encoders that share a representation space.
        similarity: cosine or dot.
        grid: cells of a picture, a number or (rows, columns); by default those of the run's masks.

    """
    linear = get_similarity(similarity)
    if not isinstance(linear, LinearSimilarity):
        raise ValueError(f"Interactions need a similarity that is a dot product, cosine or dot. Got {linear.name} instead.")
    for run in (run_a, run_b):
        check_kind("Interactions", run, Run, "are between two runs, such as cocoax.Rise().run(encoder, input) gives")
    if run_a.space != run_b.space:
        raise ValueError(
            f"The runs live in different representation spaces: one was made by {run_a.encoder!r}, the other by "
            f"{run_b.encoder!r}; use one encoder, or two towers that share a space."
        )
    a, b = (_Effects.of(run, linear, grid) for run in (run_a, run_b))
    vectors_a, vectors_b = a.vectors(), b.vectors()  # [d, features]
    # The vectors of one side are directions for the other, whose estimates come with standard errors of their own.
    on_a, on_b = a.along(vectors_b), b.along(vectors_a)
    values = vectors_a.T @ vectors_b
    variance = apart = None
    if on_a.standard_error is not None and on_b.standard_error is not None:
        apart = on_a.standard_error.T, on_b.standard_error
        variance = apart[0].square() + apart[1].square()
    common = _in_common(a, b)
    if common is not None and variance is not None:
        # Errors of the same masks go together: their product has a mean, and the two sides' errors a covariance.
        (x_a, r_a), (x_b, r_b) = common
        values = values - (x_a * (r_a * r_b).sum(1, keepdim=True)).T @ x_b
        covariance = (x_a * (r_b @ vectors_a)).T @ (x_b * (r_a @ vectors_b))
        variance = torch.maximum(variance + 2 * covariance, 0.1 * variance)  # the covariance is itself uncertain
    errors = None
    if variance is not None and apart is not None:
        scale = (variance / (apart[0].square() + apart[1].square()).clamp(min=1e-300)).sqrt()
        parts = apart[0] * scale, apart[1] * scale, b.correlation(vectors_a), a.correlation(vectors_b)
        errors = Errors(*(part.float() for part in parts))
    shape = (*a.shape, *b.shape)
    score = float(linear.pairwise(run_a.ends[:1].double(), run_b.ends[:1].double()))
    return Interactions(
        values.float().view(shape),
        None if variance is None else variance.sqrt().float().view(shape),
        a.matched(linear),
        b.matched(linear),
        score,
        errors,
    )


@dataclass(frozen=True, eq=False)
class _Effects:
    """One side: what keeping each of its features does to scores of masked inputs."""

    run: Run
    masks: Any
    grid: tuple[int, int] | None
    features: Tensor
    ends: Tensor

    @classmethod
    def of(cls, run: Run, similarity: LinearSimilarity, grid: int | tuple[int, int] | None) -> _Effects:
        pictures = len(run.explicand.shape) == 2
        cells = None
        if pictures:
            shape = run.explicand.shape
            cells = default_grid(run.method, shape, 1) if grid is None else check_grid(shape[0], shape[1], grid)
        vectors, ends = feature_vectors(run.representations, run.ends, similarity)
        return cls(run, run.method.cells(run.masks, cells), cells, vectors, ends)

    def matched(self, similarity: LinearSimilarity) -> Matched:
        """Return the input of this side, as it is shown."""
        identity = digest(self.run.ends[0], self.run.space, str(similarity))
        return Matched(self.run.explicand.display, self.shape, identity)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its features."""
        cells = self.run.explicand.cells
        if cells is not None:  # of a picture
            return tuple(cells.shape)
        return self.run.explicand.shape if self.grid is None else self.grid

    def _laid_out(self, maps: Tensor) -> Tensor:
        """Return maps ``[k, ...]`` with one value per feature, ``[k, features]``."""
        flat = pooled(maps, self.run.explicand.shape, self.grid).flatten(1)
        cells = self.run.explicand.cells
        return flat if cells is None else flat[:, cells.flatten()]

    def vectors(self) -> Tensor:
        """Return one vector for each feature, ``[d, features]``."""
        step = self.features.shape[1] if self.masks is not self.run.masks or self.grid is None else AT_ONCE
        identity = torch.eye(self.features.shape[1], dtype=torch.float64)
        return torch.cat([self.along(part, errors=False).values for part in torch.split(identity, step, dim=1)])

    def scatter(self) -> tuple[Tensor, Tensor] | None:
        """Return factors of the sampling error, ``[n, features]`` and ``[n, d]``; None where there is none."""
        factors = self.run.method.scatter(self.masks, self.features, self.ends)
        if factors is None:
            return None
        x, r = factors
        return self._laid_out(x), r

    def correlation(self, directions: Tensor) -> Tensor:
        """Return how scores of the masked inputs along directions ``[d, k]`` go together, ``[k, k]``."""
        scores = self.features @ directions
        scores = torch.nn.functional.normalize(scores - scores.mean(0), dim=0)
        return scores.T @ scores

    def along(self, directions: Tensor, errors: bool = True) -> Estimate:
        """Return what keeping each feature does along directions ``[d, k]``, ``[k, features]``, with standard errors."""
        effects = self.run.method.effects(self.masks, self.features @ directions, self.ends @ directions, errors)
        error = effects.standard_error
        return Estimate(self._laid_out(effects.values), None if error is None else self._laid_out(error))


def _in_common(a: _Effects, b: _Effects) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]] | None:
    """Return factors of the errors of both sides for the samples that have the same masks; None where masks are independent.

    Two runs of one method and seed, on two pictures or two texts of as many words, have the same masks.
    """
    count = min(len(a.run), len(b.run))
    parts_a, parts_b = (side.run.masks.tensors for side in (a, b))
    if "bits" not in parts_a or parts_a.keys() != parts_b.keys() or parts_a["bits"].shape[1:] != parts_b["bits"].shape[1:]:
        return None
    # Pictures of different sizes have the same cells under one seed, shifted otherwise: their errors go together too.
    if not torch.equal(parts_a["bits"][:count], parts_b["bits"][:count]):
        return None
    factors = [side.scatter() for side in (a, b)]
    if factors[0] is None or factors[1] is None:
        return None
    rows = min(len(factors[0][0]), len(factors[1][0]))
    return (factors[0][0][:rows], factors[0][1][:rows]), (factors[1][0][:rows], factors[1][1][:rows])


def _numbers(part: Part, side: Matched) -> list[int]:
    """Return the numbers of features among all of their side, from numbers, places, names or phrases."""
    if isinstance(part, list):
        if not part:
            raise ValueError("A list of features is empty; give at least one.")
        return sorted({number for feature in part for number in _numbers(feature, side)})
    return _named(part, side) if isinstance(part, str) else [_placed(part, side)]


def _called(numbers: Sequence[int], side: Matched) -> str:
    return " ".join(side.names[number] for number in numbers)


def _named(name: str, side: Matched) -> list[int]:
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


def _placed(feature: int | tuple[int, ...], side: Matched) -> int:
    """Return the number of a feature among all of its side, from its number or its place."""
    place: tuple[Any, ...] = feature if isinstance(feature, tuple) else (feature,)
    whole = all(isinstance(at, Integral) for at in place) and len(place) == len(side.shape)
    if not whole or not all(-size <= at < size for at, size in zip(place, side.shape, strict=True)):
        raise IndexError(f"A feature is a place in {list(side.shape)}. Got {feature!r} instead.")
    number = 0
    for at, size in zip(place, side.shape, strict=True):
        number = number * size + int(at) % size
    return number
