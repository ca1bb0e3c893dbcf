"""Targets γ: the scalar that is explained.

Every target is a signed sum of mean similarities to references, so targets form an algebra::

    similarity_to(cats) - similarity_to(dogs)
    0.5 * similarity_to(a) + 0.5 * similarity_to(b) - similarity_to(foil)

The four targets of the paper are such sums. One of them, the explicand's own representation (label-free importance,
RELAX), is known only when an explicand is explained; until then it stands as a placeholder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from cocoax.references import Reference, check_same_space
from cocoax.similarity import Compared, LinearSimilarity, Similarity, get_similarity


class Encodes(Protocol):
    """What a target needs of an encoder to become a module."""

    module: Any

    @property
    def space(self) -> str:
        """Identifies the representation space."""

    def __call__(self, batch: Any) -> Tensor:
        """Return representations of a collated batch."""

    def collate(self, prepared: Tensor) -> Any:
        """Return prepared inputs as one batch."""

    def single(self, inputs: Any) -> Any:
        """Return the only input there is."""

    def represent(self, inputs: Any) -> Tensor:
        """Return representations of inputs."""


class Target:
    """A signed, weighted sum of mean similarities to references.

    ``weights`` maps each reference to its weight; the key ``None`` stands for the explicand itself.
    """

    def __init__(
        self,
        weights: Mapping[Reference | None, float],
        similarity: str | Similarity = "cosine",
        name: str | None = None,
    ) -> None:
        self.similarity = get_similarity(similarity)
        # What cancels is left out: it would cost a comparison and say nothing.
        kept = {reference: float(weight) for reference, weight in weights.items() if weight != 0}
        self.weights: Mapping[Reference | None, float] = MappingProxyType(kept or dict(weights))
        self._name = name
        check_same_space(self.references)
        if self.similarity.needs_samples:
            for reference in self.references:
                reference.points(self.similarity.name)  # fail now rather than after the encoder has run

    # --- the algebra --------------------------------------------------------------------------------------------------

    def __add__(self, other: Target) -> Target:
        if not isinstance(other, Target):
            return NotImplemented
        if self.similarity != other.similarity:
            raise ValueError(
                f"Cannot add a target of {self.similarity} to one of {other.similarity}: they live in different feature "
                "spaces and have no common direction. Use one similarity, or explain both and combine the attributions."
            )
        weights = dict(self.weights)
        for reference, weight in other.weights.items():
            weights[reference] = weights.get(reference, 0.0) + weight
        return Target(weights, self.similarity)

    def __mul__(self, factor: float) -> Target:
        if not isinstance(factor, int | float):
            return NotImplemented
        return Target({reference: factor * weight for reference, weight in self.weights.items()}, self.similarity)

    __rmul__ = __mul__

    def __neg__(self) -> Target:
        return -1.0 * self

    def __sub__(self, other: Target) -> Target:
        if not isinstance(other, Target):
            return NotImplemented
        return self + -other

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def references(self) -> list[Reference]:
        """Its references, without the explicand's placeholder."""
        return [reference for reference in self.weights if reference is not None]

    @property
    def needs_explicand(self) -> bool:
        """Whether the explicand's own representation takes part."""
        return None in self.weights

    @property
    def name(self) -> str:
        """The question it asks, in words: ``a cat rather than a cup of coffee``."""
        if self._name is not None:
            return self._name
        sides = [
            " + ".join(
                (f"{abs(weight):.3g}·" if abs(weight) != 1 else "") + ("itself" if key is None else key.name)
                for key, weight in self.weights.items()
                if weight * sign > 0
            )
            for sign in (1, -1)
        ]
        return f"{sides[0] or 'nothing'} rather than {sides[1]}" if sides[1] else sides[0] or "nothing"

    def named(self, name: str) -> Target:
        """Return the same target under another name."""
        return Target(self.weights, self.similarity, name)

    def __repr__(self) -> str:
        return f"Target({self.name!r}, {self.similarity})"

    def check_space(self, space: str | None, dimension: int | None = None) -> None:
        """Raise if its references do not belong to this representation space."""
        check_same_space(self.references, space)
        for reference in self.references:
            if dimension is not None and reference.dimension != dimension:
                raise ValueError(
                    f"Reference {reference.name!r} has {reference.dimension} dimensions but the encoder's "
                    f"representations have {dimension}; encode it with the encoder you explain."
                )

    # --- scoring ------------------------------------------------------------------------------------------------------

    def score(self, representations: Tensor, explicand: Tensor | None = None) -> Tensor:
        """Return γ of every representation: ``[n, d] -> [n]``, differentiable.

        ``explicand`` is the explicand's representation ``[d]``, needed by targets that compare with the explicand.
        """
        return score_all([self], representations, explicand)[:, 0]

    def direction(self, explicand: Tensor | None = None) -> Tensor:
        """Return the contrastive direction ``[d]``: for a linear similarity, γ(z) is φ(z) times this vector."""
        return self.similarity.direction(self.weighted(explicand))

    def weighted(self, explicand: Tensor | None = None) -> list[tuple[float, Compared]]:
        """Return its weights, and what they belong to; ``explicand`` takes the place of the placeholder."""
        return [(weight, self._own(explicand) if key is None else key) for key, weight in self.weights.items()]

    def _own(self, explicand: Tensor | None) -> _Itself:
        if explicand is None:
            raise ValueError(
                f"The target {self.name!r} compares with the explicand; pass explicand= (its representation here, the "
                "input itself for as_module), or explain it with an attribution method, which knows its explicand."
            )
        return _Itself(explicand.detach().reshape(1, -1))

    def as_module(self, encoder: Encodes, explicand: object | None = None) -> nn.Module:
        """Return the target as an ``nn.Module`` from prepared inputs to ``[batch]``, for Captum, Quantus, SHAP and the like.

        A target that compares with the explicand needs that one ``explicand`` (an input, as for ``encoder.represent``).
        """
        self.check_space(encoder.space)
        own = None
        if self.needs_explicand and explicand is not None:
            own = encoder.represent([encoder.single(explicand)])[0]
        if self.needs_explicand:
            self._own(own)
        return TargetModule(self, encoder, own)


@dataclass(frozen=True, eq=False)
class _Itself:
    """The explicand's own representation ``[1, d]``, to be compared with."""

    representation: Tensor

    def points(self, similarity_name: str) -> Tensor:
        return self.representation

    def mean_features(self, similarity: LinearSimilarity) -> Tensor:
        return similarity.features(self.representation.double())[0]


class TargetModule(nn.Module):
    """A target as a module; ``explicand`` is the explicand's representation ``[d]``, for targets that need it."""

    def __init__(self, target: Target, encoder: Encodes, explicand: Tensor | None) -> None:
        super().__init__()
        self.target = target
        self.encoder = encoder
        if isinstance(encoder.module, nn.Module):
            self.module = encoder.module  # registered, so that methods which hook layers find them
        self.explicand: Tensor | None
        self.register_buffer("explicand", explicand, persistent=False)
        self.training = False  # the flag of this wrapper alone: the encoder's own module is left as it is

    def forward(self, inputs: Tensor) -> Tensor:
        """Return scores ``[n]`` of prepared inputs ``[n, C, H, W]``."""
        return self.target.score(self.encoder(self.encoder.collate(inputs)), self.explicand)


def score_all(targets: Sequence[Target], representations: Tensor, explicand: Tensor | None = None) -> Tensor:
    """Return scores of many targets, ``[n, targets]``: by one matrix product for all that share a linear similarity."""
    if representations.ndim != 2:
        raise ValueError(f"'representations' must have shape [n, d]. Got {list(representations.shape)} instead.")
    if explicand is not None and explicand.numel() != representations.shape[1]:
        raise ValueError(
            f"The explicand has {explicand.numel()} dimensions but the representations {representations.shape[1]}."
        )
    columns: dict[int, Tensor] = {}
    similarities: list[Similarity] = []  # not a dict: a similarity of a user's own may have no hash
    for target in targets:
        target.check_space(None, representations.shape[1])
        if target.similarity not in similarities:
            similarities.append(target.similarity)
    for similarity in similarities:
        indices = [index for index, target in enumerate(targets) if target.similarity == similarity]
        scores = similarity.scores(representations, [targets[index].weighted(explicand) for index in indices])
        columns.update(zip(indices, scores.unbind(1), strict=True))
    return torch.stack([columns[index] for index in range(len(targets))], dim=1)


def similarity_to(reference: Reference, similarity: str | Similarity = "cosine") -> Target:
    """Return the mean similarity to a reference; the piece that all other targets are made of."""
    if not isinstance(reference, Reference):
        raise TypeError(
            f"A target compares with a Reference; make one with encoder.reference(...) or encoder.text.reference(...). "
            f"Got {type(reference).__name__} instead."
        )
    return Target({reference: 1.0}, similarity)


def representation_similarity(similarity: str | Similarity = "cosine") -> Target:
    """Return the similarity to the explicand's own representation: label-free importance (dot) and RELAX (cosine)."""
    return Target({None: 1.0}, similarity)


def contrastive_similarity(foil: Reference, similarity: str | Similarity = "cosine") -> Target:
    """Return the similarity to the explicand minus the mean similarity to the foil: contrastive label-free importance."""
    return representation_similarity(similarity) - similarity_to(foil, similarity)


def corpus_similarity(corpus: Reference, similarity: str | Similarity = "cosine") -> Target:
    """Return the mean similarity to the corpus."""
    return similarity_to(corpus, similarity)


def contrastive_corpus_similarity(corpus: Reference, foil: Reference, similarity: str | Similarity = "cosine") -> Target:
    """Return the mean similarity to the corpus minus that to the foil: the target of COCOA."""
    return similarity_to(corpus, similarity) - similarity_to(foil, similarity)
