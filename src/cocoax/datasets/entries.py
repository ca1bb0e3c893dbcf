"""Entries: what an index knows about one input. A pure function of the encoder, the input, and the options of the index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cocoax.attribution import Rise
from cocoax.attribution.field import feature_vectors
from cocoax.attribution.removal import RemovalMethod
from cocoax.datasets.items import Item, Scalar
from cocoax.datasets.plans import Plan, seeded
from cocoax.encoders import Encoder
from cocoax.features import Game
from cocoax.features.registry import resolve
from cocoax.inputs import Display, Explicand
from cocoax.similarity import LinearSimilarity, get_similarity


@dataclass(frozen=True)
class Making:
    """How entries are made.

    Attributes:
        method: what explains every input; its seed is mixed with the input's id.
        similarity: the one whose questions can be asked: cosine or dot.
        grid: cells that the pixels of pictures are pooled to; by default those of the method's masks.

    """

    method: RemovalMethod = field(default_factory=lambda: Rise(samples=200))
    similarity: str = "cosine"
    grid: int | tuple[int, int] | None = None


@dataclass(frozen=True, eq=False)
class Entry:
    """One input of an index.

    Attributes:
        id, digest: which input it is, and of which content.
        columns: what is known about it.
        error: why it could not be explained; the rest is empty then.
        representation: ``[d]``.
        emptied: the representation without its features, ``[d]``; the mean over several baselines.
        field: one vector for each cell, ``[*cells, d]``: what keeping it, not removing it, does to the feature vector.
        noise: random sums of the field's sampling error over all cells, ``[4, d]``: the mean square of their products with a
            direction is the mean squared error of the map in that direction. Empty where nothing is left to chance.
        display: how it is shown, small.

    """

    id: str
    digest: str
    columns: Mapping[str, Scalar]
    error: str | None = None
    representation: Tensor | None = None
    emptied: Tensor | None = None
    field: Tensor | None = None
    noise: Tensor | None = None
    display: Display | None = None


@dataclass(frozen=True, eq=False)
class Prepared:
    """All that is known about an input before it is encoded.

    Attributes:
        explicand: the input.
        emptied: the same without its features.
        tensors: of both, as they are encoded.
        plan: the masks, and what is made of them.

    """

    explicand: Explicand
    emptied: Tensor
    tensors: list[Tensor]
    plan: Plan


@dataclass(frozen=True, eq=False)
class Ready:
    """An input that was read: its digest, and what was prepared of it or what went wrong with it."""

    item: Item
    digest: str
    prepared: Prepared | Exception

    def failed(self, error: Exception) -> Entry:
        """Return the entry that says what went wrong."""
        return Entry(self.item.id, self.digest, self.item.columns, f"{type(error).__name__}: {error}")


class Maker:
    """What makes entries of inputs: an encoder, made faster once for all of them, and how."""

    def __init__(self, encoder: Encoder, making: Making, space: str) -> None:
        if encoder.space != space:
            raise ValueError(f"The encoder {encoder.name!r} is another one here than where the index was begun.")
        self.encoder = encoder
        self.making = making
        self.space = space
        self.removal = resolve(making.method.baseline, encoder.inputs)
        self._fast: Encoder | None = None

    def begin(self) -> None:
        """Begin a shard: its first input finds out whether the encoder can be made faster for the others.

        So a shard does not depend on those that were made before it.
        """
        self._fast = None

    def read(self, item: Item) -> Ready:
        """Return an input made ready to be explained."""
        content = ""
        try:
            value = item.load()
            content = self.encoder.inputs.digest(value)
            return Ready(item, content, self._prepare(item, self.encoder.explicand(value)))
        except Exception as error:
            return Ready(item, content, error)

    def _prepare(self, item: Item, explicand: Explicand) -> Prepared:
        explicand = self.removal.divided(explicand, self.encoder, getattr(self.making.method, "grid", None))
        emptied = self.removal.emptied(explicand)
        tensors = [explicand.tensor, *self.removal.versions(explicand, emptied)]
        plan = Plan.draw(seeded(self.making.method, item.id), tuple(explicand.shape), self.making.grid)
        return Prepared(explicand, emptied, tensors, plan)

    def read_all(self, items: Sequence[Item]) -> list[Ready]:
        """Return inputs made ready to be explained."""
        return [self.read(item) for item in items]

    def make(self, group: Sequence[Ready]) -> Iterator[Entry]:
        """Yield the entries of some inputs, whose ends are encoded together; what goes wrong with one is its entry."""
        ends = self._encode_ends([ready.prepared for ready in group if isinstance(ready.prepared, Prepared)])
        for ready in group:
            try:
                if isinstance(ready.prepared, Exception):
                    raise ready.prepared
                yield self._entry(ready, ready.prepared, next(ends))
            except Exception as error:
                yield ready.failed(error)

    def _encode_ends(self, parts: Sequence[Prepared]) -> Iterator[Tensor | None]:
        """Yield the representations of each input and of its emptied version; those of one shape are encoded together."""
        tensors = [tensor for part in parts for tensor in part.tensors]
        if len({(tensor.shape, tensor.dtype) for tensor in tensors}) != 1 or not tensors[0].is_floating_point():
            yield from [None] * len(parts)  # one by one, so that what fails is known
            return
        size = self.encoder.batch_size(tensors[0])
        try:
            encoder = self._fast or self.encoder
            encoded = [encoder.encode(tensors[start : start + size]) for start in range(0, len(tensors), size)]
        except Exception:
            yield from [None] * len(parts)
            return
        yield from torch.split(torch.cat(encoded), [len(part.tensors) for part in parts])

    def _entry(self, ready: Ready, part: Prepared, ends: Tensor | None) -> Entry:
        plan = part.plan
        if ends is not None and not bool(torch.isfinite(ends).all()):
            ends = None  # the game says what is wrong
        known: dict[str, Any] = {"space": self.space, "emptied": part.emptied, "ends": ends}
        game = Game(self._fast or self.encoder, part.explicand, self.removal, **known)
        if self._fast is not None:
            game.encoder = self._fast
        representations = torch.cat(list(game.encode(plan.masks, 0, plan.method.batch_size)))
        self._fast = game.encoder
        vectors = torch.cat(feature_vectors(representations, game.ends, linear_similarity(self.making.similarity)))
        field, cells = (plan.field @ vectors).float(), part.explicand.cells
        return Entry(
            ready.item.id,
            ready.digest,
            ready.item.columns,
            None,
            game.ends[0].float(),
            game.ends[1:].float().mean(0),
            field if cells is None else field[cells],
            (plan.noise @ vectors).float(),
            part.explicand.display.small(),
        )


def content_digest(encoder: Encoder, item: Item) -> str:
    """Return a digest of an input's content; empty if it cannot be read."""
    try:
        return encoder.inputs.digest(item.load())
    except Exception:
        return ""


def linear_similarity(name: str) -> LinearSimilarity:
    """Return the similarity of this name; raise unless it is a dot product of feature vectors."""
    similarity = get_similarity(name)
    if not isinstance(similarity, LinearSimilarity):
        raise ValueError(f"An index needs a similarity that is a dot product, cosine or dot. Got {similarity.name} instead.")
    return similarity
