"""Removals: what it means to take a feature away.

A removal turns an explicand and a batch of kept features into inputs for the encoder. Numbers are blended with a baseline
(``baselines``), words are masked, deleted or hidden (``tokens``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

from torch import Tensor

from cocoax.encoders.embedding import Embeddings
from cocoax.inputs import Explicand, Inputs


class Removal(ABC):
    """A way to remove features of an explicand.

    Attributes:
        called: the string that stands for it where the kind of input allows that, as in ``baseline="mask"``.
        made_for: the inputs it makes sense for, in words.

    """

    called: ClassVar[str | None] = None
    made_for: ClassVar[str] = "numbers"

    @abstractmethod
    def emptied(self, explicand: Explicand) -> Tensor:
        """Return the explicand with all of its features removed, prepared for the encoder; or :meth:`versions` of that."""

    def versions(self, explicand: Explicand, emptied: Tensor) -> Sequence[Tensor]:
        """Return each version of the explicand without its features; scores are averaged over them. By default only one."""
        return [emptied]

    @abstractmethod
    def masked(self, explicand: Explicand, emptied: Tensor, kept: Tensor) -> Sequence[Tensor] | Tensor:
        """Return the explicand with some features kept, for every row of ``kept [n, *shape]``; prepared for the encoder.

        ``emptied`` is what :meth:`emptied` gave. Where that has K versions, so has each row, one after the other. Tensors of
        numbers are where the encoder is.
        """

    def in_order(self, explicand: Explicand, kept: Tensor) -> Tensor | None:
        """Return the order in which rows are best encoded: those of a length together. None: as they come."""
        return None

    @classmethod
    def default(cls, inputs: Inputs) -> Self:
        """Return the removal as a kind of input has it by default."""
        return cls()

    def ready(self, inputs: Inputs) -> Removal:
        """Return the same with what only the kind of input knows filled in."""
        return self

    def embedded(self, inputs: Embeddings) -> Removal:
        """Return the removal as gradients see it: embeddings in place of those of the words."""
        raise ValueError(f"{inputs.advice} Got {self!r} instead.")
