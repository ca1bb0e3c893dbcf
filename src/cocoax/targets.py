"""Targets γ: the scalar that is explained.

Every target is a signed sum of mean similarities to references, so targets form an algebra::

    similarity_to(cats) - similarity_to(dogs)
    0.5 * similarity_to(a) + 0.5 * similarity_to(b) - similarity_to(foil)

The four targets of the paper are such sums. One of them, the explicand's own representation (label-free importance,
RELAX), is known only when an explicand is explained; until then it stands as a placeholder.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from cocoax.checks import as_items, check_finite, check_kind, shown
from cocoax.references import Reference, caution_overlap, check_same_space
from cocoax.similarity import Compared, LinearSimilarity, Similarity, WeightedSum, get_similarity

_COMPARES = "compares with a Reference; make one with encoder.reference(...) or encoder.text.reference(...)"


class _Encodes(Protocol):
    """The part of an encoder that a target needs to become a module."""

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

    def copied(self) -> _Encodes:
        """Return the same encoder around a copy of its module, which shares the weights."""

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
        check_kind("The weights of a target", weights, Mapping, "must be a dict from references to numbers")
        for reference, weight in weights.items():
            check_kind("A target", reference, (Reference, type(None)), _COMPARES)
            check_finite(f"The weight of {getattr(reference, 'name', 'the input')!r} in a target", weight)
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
        if not isinstance(factor, Real):
            return NotImplemented
        return Target({reference: factor * weight for reference, weight in self.weights.items()}, self.similarity)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Target:
        if not isinstance(divisor, Real):
            return NotImplemented
        if divisor == 0:
            raise ZeroDivisionError("A target cannot be divided by zero.")
        return self * (1 / divisor)

    def __radd__(self, other: object) -> Target:
        return self if other == 0 else NotImplemented  # sum([...]) begins with 0

    def __neg__(self) -> Target:
        return -1.0 * self

    def __sub__(self, other: Target) -> Target:
        if not isinstance(other, Target):
            return NotImplemented
        for corpus in self.references:
            for foil in other.references:
                caution_overlap(corpus, foil)
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
        if not sides[0]:
            return f"unlike {sides[1]}" if sides[1] else "nothing"
        return rather_than(*sides) if sides[1] else sides[0]

    def named(self, name: str) -> Target:
        """Return the same target under another name."""
        return Target(self.weights, self.similarity, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.similarity})"

    def __reduce__(self) -> tuple[object, ...]:
        return Target, (dict(self.weights), self.similarity, self._name)  # a read-only mapping cannot be copied

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
        """Return γ of every representation, ``[n, d] -> [n]``, differentiable; ``explicand [d]`` for targets that need it."""
        return score_all([self], representations, explicand)[:, 0]

    def direction(self, explicand: Tensor | None = None) -> Tensor:
        """Return the contrastive direction ``[d]``: for a linear similarity, γ(z) is φ(z) times this vector."""
        return self.similarity.direction(self.weighted(explicand))

    def weighted(self, explicand: Tensor | None = None) -> list[tuple[float, Compared]]:
        """Return its weights, and what they belong to; ``explicand`` takes the place of the placeholder."""
        return [(weight, self._own(explicand) if key is None else key) for key, weight in self.weights.items()]

    def size(self, explicand: Tensor) -> float:
        """Return how large the terms are whose sum is the score of an explicand ``[d]``; they are rounded, and so is it."""
        return self.similarity.size(explicand[None], self.weighted(explicand))

    def _own(self, explicand: Tensor | None) -> _Itself:
        if explicand is None:
            raise ValueError(
                f"The target {self.name!r} compares with the input; pass explicand= (its representation here, the "
                "input itself for as_module), or explain it with an attribution method, which knows its explicand."
            )
        return _Itself(explicand.detach().reshape(1, -1))

    def as_module(self, encoder: _Encodes, explicand: object | None = None, *, column: bool = False) -> nn.Module:
        """Return the target as an ``nn.Module`` from prepared inputs to ``[batch]``, for Captum and the like.

        A target that compares with the explicand needs that one ``explicand`` (an input, as for ``encoder.represent``). With
        ``column`` the module gives ``[batch, 1]``, a classifier of one class, which is what Quantus, SHAP and others ask for,
        and is a copy that shares the weights: what such libraries leave in it, they do not leave in the encoder's.
        """
        if not hasattr(encoder, "copied"):
            raise TypeError(f"A target becomes a module with a cocoax.Encoder. Got {shown(encoder)} instead.")
        self.check_space(encoder.space)
        own = None
        if self.needs_explicand and explicand is not None:
            own = encoder.represent([encoder.single(explicand)])[0]
        if self.needs_explicand:
            self._own(own)
        return TargetModule(self, encoder.copied() if column else encoder, own, column)


class FunctionTarget(Target):
    """A target that is any function of representations; it needs the run, since it has no direction and no references.

    Args:
        function: from representations ``[n, d]`` to one number for each, ``[n]``; differentiable, for gradient methods.
        name: the question it asks.

    """

    def __init__(self, function: Callable[[Tensor], Tensor], name: str | None = None) -> None:
        if not callable(function):
            raise TypeError(f"A target must be a function of representations. Got {type(function).__name__} instead.")
        self.function = function
        super().__init__({}, _Function(function), name or getattr(function, "__name__", None) or type(function).__name__)

    def __reduce__(self) -> tuple[object, ...]:
        return FunctionTarget, (self.function, self._name)

    def named(self, name: str) -> FunctionTarget:
        """Return the same target under another name."""
        return FunctionTarget(self.function, name)

    def __add__(self, other: Target) -> Target:
        raise TypeError("A function of representations is no sum of similarities; write the sum into the function.")

    __mul__ = __rmul__ = __truediv__ = __add__  # type: ignore[assignment]


@dataclass(frozen=True)
class _Function(Similarity):
    """Stands where targets have their similarity, and scores representations by a function of them."""

    function: Callable[[Tensor], Tensor]

    def __str__(self) -> str:
        return "a function of representations"

    def scores(self, representations: Tensor, sums: Sequence[WeightedSum]) -> Tensor:
        """Return the function of representations ``[n, d]``, ``[n, sums]``."""
        try:
            values = self.function(representations)
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError, KeyError) as error:
            raise ValueError(f"The function failed on representations {list(representations.shape)}: {error}") from error
        if not isinstance(values, Tensor) or tuple(values.shape) != (len(representations),):
            got = list(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise ValueError(
                f"A target that is a function must give one number for each of the {len(representations)} representations, "
                f"a tensor [{len(representations)}]. Got {got} instead."
            )
        return torch.stack([values.to(representations)] * len(sums), dim=1)

    def pairwise(self, representations: Tensor, references: Tensor) -> Tensor:
        """Raise: there are no references."""
        raise TypeError("A function of representations compares with no references.")


def class_score(encoder: Any, label: int | str) -> Target:
    """Return the score (the logit) that the encoder's head gives to one class, by number or name, as a target."""
    head, names = getattr(encoder, "head", None), getattr(encoder, "classes", None)
    if head is None:
        owner = repr(getattr(encoder, "name", shown(encoder)))
        raise ValueError(f"The encoder {owner} has no head; give it one: cocoax.Encoder(module, head=...).")
    check_kind("A class", label, (int, str), "is asked for by its number or its name")
    if isinstance(label, str):
        if names is None or label not in names:
            close = difflib.get_close_matches(label, names or [], n=3, cutoff=0.3)
            hint = f"close are {', '.join(close)}" if close else "its classes have no such name"
            raise ValueError(f"The head of {encoder.name!r} has no class {label!r}; {hint}.")
        number, name = names.index(label), label
    else:
        number, name = label, names[label] if names is not None and 0 <= label < len(names) else f"class {label}"
    head = copy.deepcopy(head).eval()  # in training mode dropout would draw; the user's own stays as it is

    def score(representations: Tensor) -> Tensor:
        like = next(head.parameters(), representations)
        logits: Tensor = head(representations.to(like))
        if not 0 <= number < logits.shape[1]:
            raise ValueError(
                f"The head of {encoder.name!r} has {logits.shape[1]} classes, counted from 0. Got {number} instead."
            )
        return logits[:, number]

    return FunctionTarget(score, name)


@dataclass(frozen=True, eq=False)
class _Itself:
    """The explicand's own representation ``[1, d]``, to be compared with."""

    representation: Tensor
    weights: Tensor | None = None

    def points(self, similarity_name: str) -> Tensor:
        return self.representation

    def mean_features(self, similarity: LinearSimilarity) -> Tensor:
        return similarity.features(self.representation.double())[0]


class TargetModule(nn.Module):
    """A target as a module; ``explicand`` is the explicand's representation ``[d]``, for targets that need it."""

    def __init__(self, target: Target, encoder: _Encodes, explicand: Tensor | None, column: bool = False) -> None:
        super().__init__()
        self.target = target
        self.column = column
        self.encoder = encoder
        if isinstance(encoder.module, nn.Module):
            self.module = encoder.module  # registered, so that methods which hook layers find them
        self.explicand: Tensor | None
        self.register_buffer("explicand", explicand, persistent=False)
        self.training = False  # the flag of this wrapper alone: the encoder's own module is left as it is

    def forward(self, inputs: Any) -> Tensor:
        """Return scores ``[n]``, or ``[n, 1]``, of prepared inputs ``[n, C, H, W]``, or of inputs as users hold them."""
        if isinstance(inputs, Tensor):
            representations = self.encoder(self.encoder.collate(inputs))
        else:  # texts, rows, pictures, as SHAP's explainers of those hand them over
            representations = self.encoder.represent(as_items("Inputs", inputs))
        scores = self.target.score(representations, self.explicand)
        return scores[:, None] if self.column else scores


def rather_than(corpus: str, foil: str) -> str:
    """Return both sides of a question in words; sides of one name get a distinguishing addition."""
    return f"{corpus} rather than {foil}" if corpus != foil else f"{corpus} (corpus) rather than {foil} (foil)"


def score_all(targets: Sequence[Target], representations: Tensor, explicand: Tensor | None = None) -> Tensor:
    """Return scores of many targets, ``[n, targets]``: by one matrix product for all that share a linear similarity."""
    check_kind("Representations", representations, Tensor, "must be a tensor [n, d]")
    if representations.ndim != 2:
        raise ValueError(f"'representations' must have shape [n, d]. Got {list(representations.shape)} instead.")
    if explicand is not None:
        check_kind("The explicand's representation", explicand, Tensor, "must be a tensor [d]")
        if (own := explicand.numel()) != representations.shape[1]:
            raise ValueError(f"The input has {own} dimensions but the representations {representations.shape[1]}.")
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
    check_kind("A target", reference, Reference, _COMPARES)
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
    """Return the mean similarity to the corpus minus that to the foil: the target of COCOA.

    Example:
        >>> encoder = cocoax.load("minilm")
        >>> music, sport = encoder.reference(["a sonata"], name="music"), encoder.reference(["a goal"], name="sport")
        >>> target = cocoax.contrastive_corpus_similarity(music, sport)
        >>> target.score(encoder.represent(["a violin", "a striker"])) > 0
        tensor([ True, False])
    """
    return similarity_to(corpus, similarity) - similarity_to(foil, similarity)
