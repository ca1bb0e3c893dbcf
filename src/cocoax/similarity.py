"""Similarities s between two representations.

A *linear* similarity is a dot product of feature vectors: s(z, r) = φ(z)·φ(r), with φ the unit vector (cosine) or the
identity (dot). The mean similarity to any number of references is then one dot product with their mean feature vector.
The other kernels (RBF, Laplacian, polynomial) have no finite feature map and compare with every reference.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar, Literal, Protocol

import torch
from torch import Tensor

from cocoax.checks import as_float, shown

_ROWS_AT_ONCE = 4096  # kernel matrices are built for this many representations at a time


class Compared(Protocol):
    """The other side of a similarity: a :class:`cocoax.Reference`, or the explicand itself."""

    @property
    def weights(self) -> Tensor | None:
        """The weight of each representation, 1 on average; None where all are equal."""

    def points(self, similarity_name: str) -> Tensor:
        """Return its representations ``[m, d]``."""

    def mean_features(self, similarity: LinearSimilarity) -> Tensor:
        """Return the mean of their feature vectors, ``[d]``."""


# A signed sum of mean similarities: weights, and what they belong to.
WeightedSum = Sequence[tuple[float, Compared]]


class Similarity(ABC):
    """A positive semi-definite kernel between representations.

    Attributes:
        summary: which of the means that every :class:`cocoax.Reference` holds is all that this similarity needs of it:
            ``"mean"`` or ``"mean_unit"``. None if it needs the samples.
        undefined_at_zero: whether a representation that is zero is similar to nothing, not even by 0.

    """

    summary: ClassVar[Literal["mean", "mean_unit"] | None] = None
    undefined_at_zero: ClassVar[bool] = False

    @property
    def needs_samples(self) -> bool:
        """Whether references must keep their samples (``keep_samples=True``) to be compared with."""
        return self.summary is None

    @property
    def name(self) -> str:
        """The name under which :func:`get_similarity` finds it."""
        return type(self).__name__.lower()

    @abstractmethod
    def pairwise(self, representations: Tensor, references: Tensor) -> Tensor:
        """Return the similarity of every representation ``[n, d]`` to every reference ``[m, d]``: ``[n, m]``."""

    def scores(self, representations: Tensor, sums: Sequence[WeightedSum]) -> Tensor:
        """Return signed sums of mean similarities of every representation ``[n, d]``: ``[n, sums]``, differentiable."""
        return torch.stack([self._score(representations, weighted) for weighted in sums], dim=1)

    def _score(self, representations: Tensor, weighted: WeightedSum) -> Tensor:
        total = torch.zeros(len(representations), dtype=representations.dtype, device=representations.device)
        for weight, compared in weighted:
            points = compared.points(self.name).to(representations)
            shares = None if compared.weights is None else compared.weights.to(representations)
            rows = []
            for part in torch.split(representations, _ROWS_AT_ONCE):
                similarities = self.pairwise(part, points)
                rows.append((similarities if shares is None else similarities * shares).mean(1))
            total = total + weight * torch.cat(rows)
        return total

    def size(self, representations: Tensor, weighted: WeightedSum) -> float:
        """Return how large the terms are that a score of representations ``[n, d]`` is the sum of."""
        sizes = [(abs(weight), compared) for weight, compared in weighted]
        return float(self.scores(representations, [sizes]).abs().max())

    def direction(self, weighted: WeightedSum) -> Tensor:
        """Return the vector ``[d]`` whose product with φ(z) is a signed sum of mean similarities, if there is one."""
        raise ValueError(f"A {self.name} target is a weighted set of points, not one direction.")


class LinearSimilarity(Similarity):
    """A similarity that is a dot product of feature vectors φ."""

    @abstractmethod
    def features(self, representations: Tensor) -> Tensor:
        """Return the feature vectors φ(z), ``[n, d] -> [n, d]``."""

    def project(self, representations: Tensor, directions: Tensor) -> Tensor:
        """Return φ(z)·v for every representation ``[n, d]`` and every direction, the columns of ``[d, k]``: ``[n, k]``."""
        return self.features(representations) @ directions

    def pairwise(self, representations: Tensor, references: Tensor) -> Tensor:
        """Return φ(z)·φ(r) for every pair, ``[n, m]``."""
        return self.project(representations, self.features(references).T)

    def scores(self, representations: Tensor, sums: Sequence[WeightedSum]) -> Tensor:
        """Return signed sums of mean similarities, ``[n, sums]``: one matrix product for all."""
        directions = torch.stack([self.direction(weighted) for weighted in sums], dim=1)
        return self.project(representations, directions.to(representations))

    def direction(self, weighted: WeightedSum) -> Tensor:
        """Return the weighted sum of mean feature vectors, ``[d]``."""
        return torch.stack([weight * compared.mean_features(self) for weight, compared in weighted]).sum(0)

    def size(self, representations: Tensor, weighted: WeightedSum) -> float:
        """Return the product of the lengths of feature vectors, which is what the entries of their dot product are like."""
        lengths = sum(abs(weight) * float(compared.mean_features(self).norm()) for weight, compared in weighted)
        return lengths * float(self.features(representations.double()).norm(dim=1).max())


@dataclass(frozen=True)
class Cosine(LinearSimilarity):
    """z·r / (‖z‖ ‖r‖)."""

    summary = "mean_unit"
    undefined_at_zero = True

    def features(self, representations: Tensor) -> Tensor:
        """Return unit vectors, whatever the scale; raise if a representation is zero, which has no direction."""
        near_one, norms = _near_one(representations)
        return near_one / norms

    def project(self, representations: Tensor, directions: Tensor) -> Tensor:
        """Return φ(z)·v without a copy of all representations as unit vectors."""
        near_one, norms = _near_one(representations)
        return near_one @ directions / norms


def _near_one(representations: Tensor) -> tuple[Tensor, Tensor]:
    """Return representations ``[n, d]``, scaled so that squares neither overflow nor vanish, and their norms ``[n, 1]``.

    Those that need no scaling, which are nearly all, come back as they are.
    """
    norms: Tensor = torch.linalg.vector_norm(representations, dim=1, keepdim=True)
    limits = torch.finfo(representations.dtype)
    if not bool(((norms > limits.tiny**0.4) & (norms < limits.max**0.4)).all()):
        # A cosine does not depend on the scale, so neither does its gradient, which need not go through it.
        largest = representations.detach().abs().amax(1, keepdim=True)
        _check_no_zero(largest[:, 0])
        representations = representations / largest
        norms = torch.linalg.vector_norm(representations, dim=1, keepdim=True)
    return representations, norms


def _check_no_zero(sizes: Tensor) -> None:
    zero = (sizes == 0).nonzero()[:, 0].tolist()
    if zero:
        which = ", ".join(map(str, zero[:3])) + (f" and {len(zero) - 3} more" if len(zero) > 3 else "")
        raise ValueError(
            f"Representation {which} of {len(sizes)} is zero, so its cosine similarity is undefined; "
            "leave out the inputs that the encoder maps to zero, or use similarity='dot'."
        )


@dataclass(frozen=True)
class Dot(LinearSimilarity):
    """z·r."""

    summary = "mean"

    def features(self, representations: Tensor) -> Tensor:
        """Return the representations themselves."""
        return representations

    def project(self, representations: Tensor, directions: Tensor) -> Tensor:
        """Return z·v, in double precision where products of such numbers might overflow or vanish otherwise.

        Raise where they are so small that an attribution, which is in single precision, cannot hold them.
        """
        limits = torch.finfo(representations.dtype)
        largest = float(_largest(representations)) * float(_largest(directions))
        if 0 < largest < torch.finfo(torch.float32).tiny:
            raise ValueError(
                f"Dot products of about {largest:.0e} are too small for single precision; scale the encoder's "
                "representations to about 1, or use similarity='cosine', which does not depend on scale."
            )
        if largest != 0 and not limits.tiny**0.8 < largest < limits.max**0.8:
            representations, directions = representations.double(), directions.double()
        return representations @ directions


def _largest(values: Tensor) -> Tensor:
    return values.detach().abs().amax() if values.numel() else values.new_zeros(())


@dataclass(frozen=True)
class Rbf(Similarity):
    """exp(-γ ‖z - r‖²), with γ = 1/d unless given."""

    gamma: float | None = None

    def __post_init__(self) -> None:
        _check_gamma(self.gamma)

    def pairwise(self, representations: Tensor, references: Tensor) -> Tensor:
        """Return the kernel matrix ``[n, m]``."""
        centre = references.mean(0)
        representations, references = representations - centre, references - centre
        squared = (
            representations.square().sum(1, keepdim=True) + references.square().sum(1) - 2 * representations @ references.T
        )
        return torch.exp(-_gamma(self.gamma, references) * squared.clamp(min=0))


@dataclass(frozen=True)
class Laplacian(Similarity):
    """exp(-γ ‖z - r‖₁), with γ = 1/d unless given."""

    gamma: float | None = None

    def __post_init__(self) -> None:
        _check_gamma(self.gamma)

    def pairwise(self, representations: Tensor, references: Tensor) -> Tensor:
        """Return the kernel matrix ``[n, m]``."""
        return torch.exp(-_gamma(self.gamma, references) * torch.cdist(representations, references, p=1))


@dataclass(frozen=True)
class Polynomial(Similarity):
    """(γ z·r + c)^degree, with γ = 1/d unless given."""

    degree: int = 3
    gamma: float | None = None
    constant: float = 1.0

    def __post_init__(self) -> None:
        _check_gamma(self.gamma)
        numbers = isinstance(self.degree, Real) and isinstance(self.constant, Real)
        if not (numbers and 1 <= self.degree <= 100 and self.degree % 1 == 0 and 0 <= as_float(self.constant) < math.inf):
            raise ValueError(
                "Polynomial needs an integer degree >= 1 and constant >= 0 to be a kernel, and degree <= 100 to be a number. "
                f"Got degree={shown(self.degree)}, constant={shown(self.constant)} instead."
            )

    def pairwise(self, representations: Tensor, references: Tensor) -> Tensor:
        """Return the kernel matrix ``[n, m]``."""
        inner = representations @ references.T
        return (_gamma(self.gamma, references) * inner + self.constant) ** self.degree


SIMILARITIES: dict[str, type[Similarity]] = {
    kind.__name__.lower(): kind for kind in (Cosine, Dot, Rbf, Laplacian, Polynomial)
}


def get_similarity(similarity: str | Similarity) -> Similarity:
    """Return a similarity from its name, with default parameters; a :class:`Similarity` as it is."""
    if isinstance(similarity, Similarity):
        return similarity
    try:
        return SIMILARITIES[similarity.lower()]()
    except (KeyError, AttributeError, TypeError):
        raise ValueError(
            f"The 'similarity' parameter must be one of {', '.join(SIMILARITIES)}, or a Similarity. "
            f"Got {shown(similarity)} instead."
        ) from None


def _check_gamma(gamma: float | None) -> None:
    if gamma is not None and not (isinstance(gamma, Real) and 0 < as_float(gamma) < math.inf):
        raise ValueError(f"The 'gamma' parameter must be a number above 0, or None for 1/d. Got {shown(gamma)} instead.")


def _gamma(gamma: float | None, references: Tensor) -> float:
    return 1 / references.shape[1] if gamma is None else gamma
