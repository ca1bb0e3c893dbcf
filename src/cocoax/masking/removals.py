"""Removals: what it means to take a feature away.

A removal turns an explicand and a batch of kept features into inputs for the encoder. Numbers are blended with a baseline
(``baselines``), words are masked, deleted or hidden (``tokens``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Tensor

from cocoax.encoders import Encoder
from cocoax.encoders.embedding import Embeddings
from cocoax.inputs import Explicand, Inputs


class Removal(ABC):
    """A way to remove features of an explicand.

    Attributes:
        called: the string that stands for it where the kind of input allows that, as in ``baseline="mask"``.
        made_for: the inputs it makes sense for, in words.
        defined: every removal that has been imported, so that files can name those of users too.

    """

    called: ClassVar[str | None] = None
    made_for: ClassVar[str] = "numbers"
    defined: ClassVar[list[type[Removal]]] = []

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        Removal.defined.append(cls)

    @abstractmethod
    def emptied(self, explicand: Explicand) -> Tensor:
        """Return the explicand with all of its features removed, prepared for the encoder; or :meth:`versions` of that."""

    def versions(self, explicand: Explicand, emptied: Tensor) -> Sequence[Tensor]:
        """Return each version of the explicand without its features; scores are averaged over them.

        Where inputs are numbers, those are what :meth:`emptied` gave with one dimension more than the explicand has.
        """
        several = explicand.tensor.is_floating_point() and emptied.ndim > explicand.tensor.ndim
        return list(emptied) if several else [emptied]  # token ids may lie over an attention mask, which is no version

    @abstractmethod
    def masked(self, explicand: Explicand, emptied: Tensor, kept: Tensor) -> Sequence[Tensor] | Tensor:
        """Return the explicand with some features kept, for every row of ``kept [n, *shape]``; prepared for the encoder.

        ``emptied`` is what :meth:`emptied` gave. Where that has K versions, so has each row, one after the other. Tensors of
        numbers are where the encoder is.
        """

    def divided(self, explicand: Explicand, encoder: Encoder, grid: int | tuple[int, int] | None = None) -> Explicand:
        """Return the explicand with features that can be removed; ``grid`` are the cells of a method that has some.

        By default the features that it has.
        """
        return explicand

    def through(self, encoder: Encoder, explicand: Explicand) -> Encoder:
        """Return the encoder that takes what :meth:`masked` gives; by default the one that takes the explicand."""
        return encoder

    @property
    def blends(self) -> bool:
        """Whether masked inputs are nothing but blends of the explicand and of what :meth:`emptied` gives."""
        return False

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


@dataclass(frozen=True)
class Forgotten(Removal):
    """A removal of a user's own in a file, which holds what it did but not how.

    Args:
        name: of its class.

    """

    name: str

    def emptied(self, explicand: Explicand) -> Tensor:
        """Raise."""
        raise ValueError(
            f"The run removed features by {self.name!r}, which files cannot hold; it answers targets but cannot be extended. "
            "Start a new run."
        )

    def masked(self, explicand: Explicand, emptied: Tensor, kept: Tensor) -> Tensor:
        """Raise."""
        return self.emptied(explicand)
