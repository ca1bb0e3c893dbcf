"""Entries: what an index knows about one input. A pure function of the encoder, the input, and the options of the index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from cocoax.encoders import Encoder
from cocoax.encoders.fast_encoder import FastEncoder, can_be_faster
from cocoax.encoders.folding import agree
from cocoax.encoders.forward import by_shape
from cocoax.inputs import Display, Explicand
from cocoax.inputs.base import check_elements
from cocoax.masking import Game
from cocoax.masking.registry import resolve
from cocoax.methods import Rise
from cocoax.methods.field import feature_vectors
from cocoax.methods.removal import RemovalMethod
from cocoax.similarity import LinearSimilarity, get_similarity
from cocoax.spaces import same_space
from cocoax.store import digest
from cocoax.survey.items import Item, Scalar, storable
from cocoax.survey.plans import Plan, seeded


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
        id, source, digest: which input it is, where it lies (the path of its file, or the number of its row), and of which
            content.
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
    source: str
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
        plan: the masks, and what is made of them.
        together: both as they are encoded, together with those of other inputs, and after them one masked input where a
            folded encoder is to be tried on it; nothing where each input goes through an encoder of its own.

    """

    explicand: Explicand
    emptied: Tensor
    plan: Plan
    together: list[Tensor]


@dataclass(frozen=True, eq=False)
class Ready:
    """An input that was read: its digest, and what was prepared of it or what went wrong with it."""

    item: Item
    digest: str
    prepared: Prepared | Exception

    def failed(self, error: Exception) -> Entry:
        """Return the entry that says what went wrong."""
        why = storable(f"{type(error).__name__}: {error}")
        return Entry(self.item.id, self.item.source, self.digest, self.item.columns, why)


class Maker:
    """What makes entries of inputs: an encoder, folded once for all inputs of one shape in a shard, and how."""

    def __init__(self, encoder: Encoder, making: Making, space: str) -> None:
        if not same_space(encoder.space, space):
            raise ValueError(f"The encoder {encoder.name!r} is another one here than where the index was begun.")
        self.encoder = encoder
        self.making = making
        self.removal = resolve(making.method.baseline, encoder.inputs)
        self._folds = can_be_faster(encoder)
        self._fast: dict[torch.Size, FastEncoder] = {}

    def begin(self) -> None:
        """Begin a shard: the first input of each shape finds out whether the encoder can be folded for the others.

        So a shard does not depend on those that were made before it.
        """
        self._fast = {}

    def read(self, item: Item) -> Ready:
        """Return an input made ready to be explained."""
        content = ""
        try:
            value = item.load()
            content = _digest(self.encoder, value)
            return Ready(item, content, self._prepare(item, _explicand(self.encoder, value)))
        except Exception as error:
            return Ready(item, content, error)

    def _prepare(self, item: Item, explicand: Explicand) -> Prepared:
        explicand = self.removal.divided(explicand, self.encoder, getattr(self.making.method, "grid", None))
        emptied = self.removal.emptied(explicand)
        plan = Plan.draw(seeded(self.making.method, item.id), tuple(explicand.shape), self.making.grid)
        together: list[Tensor] = []
        if explicand.tensor.is_floating_point() and self.removal.through(self.encoder, explicand) is self.encoder:
            together = [explicand.tensor, *self.removal.versions(explicand, emptied)]
            if self._folds:
                kept = plan.masks.full(slice(0, 1)).reshape(1, *explicand.shape).float()
                together += list(self.removal.masked(explicand, emptied, kept))
        return Prepared(explicand, emptied, plan, together)

    def read_all(self, items: Sequence[Item]) -> list[Ready]:
        """Return inputs made ready to be explained."""
        return [self.read(item) for item in items]

    def make(self, group: Sequence[Ready]) -> Iterator[Entry]:
        """Yield the entries of some inputs, whose ends are encoded together; what goes wrong with one is its entry."""
        encoded = self._encode_together([ready.prepared for ready in group if isinstance(ready.prepared, Prepared)])
        for ready in group:
            try:
                if isinstance(ready.prepared, Exception):
                    raise ready.prepared
                yield self._entry(ready, ready.prepared, next(encoded))
            except Exception as error:
                yield ready.failed(error)

    def _encode_together(self, parts: Sequence[Prepared]) -> Iterator[Tensor | None]:
        """Yield representations of what each input has to be encoded together; None where that fails, or is not finite."""
        tensors = [tensor for part in parts for tensor in part.together]
        encoded = torch.empty(0, 0)
        try:
            if tensors:
                encoded = by_shape(tensors, self._encode)
        except Exception:
            parts = [replace(part, together=[]) for part in parts]  # one by one, so that what fails is known
        for own in torch.split(encoded, [len(part.together) for part in parts]):
            yield own if len(own) and bool(torch.isfinite(own).all()) else None

    def _encode(self, tensors: Sequence[Tensor]) -> Tensor:
        size = self.encoder.batch_size(tensors[0])
        return torch.cat([self.encoder.encode(tensors[start : start + size]) for start in range(0, len(tensors), size)])

    def _entry(self, ready: Ready, part: Prepared, encoded: Tensor | None) -> Entry:
        plan = part.plan
        versions = len(self.removal.versions(part.explicand, part.emptied))
        ends = None if encoded is None else encoded[: 1 + versions]
        game = Game(self.encoder, part.explicand, self.removal, emptied=part.emptied, ends=ends)
        representations = self._representations(game, plan, None if encoded is None else encoded[1 + versions :])
        vectors = torch.cat(feature_vectors(representations, game.ends, linear_similarity(self.making.similarity)))
        field, cells = (plan.field @ vectors).float(), part.explicand.cells
        if cells is not None:  # -1, the last, is what the encoder does not see
            field = torch.cat([field, torch.zeros_like(field[:1])])[cells]
        return Entry(
            ready.item.id,
            ready.item.source,
            ready.digest,
            ready.item.columns,
            None,
            game.ends[0].float(),
            game.ends[1:].float().mean(0),
            field,
            (plan.noise @ vectors).float(),
            part.explicand.display.small(),
        )

    def _representations(self, game: Game, plan: Plan, tried: Tensor | None) -> Tensor:
        """Return what the encoder makes of masked inputs.

        The first input of each shape tries the folded encoder on a whole batch, as any game does. Later ones trust it if it
        gives the first masked input what the encoder itself gives it, which is ``tried``.
        """
        shape = game.explicand.tensor.shape
        if tried is None or not len(tried):
            return _encoded(game, plan)
        if shape not in self._fast:
            representations = _encoded(game, plan)
            self._fast[shape] = game.fast
            return representations
        game.fast.adopt(self._fast[shape])
        representations = _encoded(game, plan)
        if agree(representations[:1].flatten(0, -2), tried):
            return representations
        game.fast.use_plain()
        return _encoded(game, plan)


def _encoded(game: Game, plan: Plan) -> Tensor:
    return torch.cat(list(game.encode(plan.masks, 0, plan.method.batch_size)))


def content_digest(encoder: Encoder, item: Item) -> str:
    """Return a digest of an input's content; empty if it cannot be read."""
    try:
        return _digest(encoder, item.load())
    except Exception:
        return ""


def _explicand(encoder: Encoder, value: Any) -> Explicand:
    """Return an input made ready to be explained; the bytes of a file are read as a file is, with the same checks."""
    if not isinstance(value, bytes):
        return encoder.explicand(value)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(value)
        try:
            return encoder.explicand(path)
        except (ValueError, OSError) as error:
            raise ValueError(str(error).replace(str(path), "What the table holds")) from error


def _digest(encoder: Encoder, value: Any) -> str:
    check_elements(value)
    return digest(value) if isinstance(value, bytes) else encoder.inputs.digest(value)


def linear_similarity(name: str) -> LinearSimilarity:
    """Return the similarity of this name; raise unless it is a dot product of feature vectors."""
    similarity = get_similarity(name)
    if not isinstance(similarity, LinearSimilarity):
        raise ValueError(f"An index needs a similarity that is a dot product, cosine or dot. Got {similarity.name} instead.")
    return similarity
