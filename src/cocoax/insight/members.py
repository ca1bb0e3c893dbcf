"""The members of a corpus: names, representations, and the inputs themselves if there are any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from cocoax.encoders import Encoder
from cocoax.inputs import Explicand
from cocoax.inputs.base import naming_input
from cocoax.references import Reference


def numbered(labels: Sequence[str]) -> tuple[str, ...]:
    """Return labels with their place, from 1, where several are the same."""
    often = Counter(labels)
    return tuple(label if often[label] == 1 else f"{label} {place}" for place, label in enumerate(labels, 1))


class Members:
    """Members of a corpus: inputs, or a reference that has kept its samples."""

    def __init__(self, encoder: Encoder, members: Any) -> None:
        self.encoder = encoder
        self.reference = members if isinstance(members, Reference) else None
        self.items: list[Any] = [] if self.reference is not None else encoder.as_list(members)
        if self.reference is not None and self.reference.space not in (None, encoder.space):
            raise ValueError(f"The reference {self.reference.name!r} is of another encoder; encode it with {encoder.name!r}.")
        if len(self) < 2:
            raise ValueError(f"There is nothing to rank in a corpus of {len(self)}; pass at least two members.")

    def __len__(self) -> int:
        return len(self.items) if self.reference is None else self.reference.count

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What to call each."""
        if self.reference is not None:
            return tuple(f"{self.reference.name} {number + 1}" for number in range(len(self)))
        return numbered([self.encoder.inputs.label(item) for item in self.items])

    @cached_property
    def representations(self) -> Tensor:
        """One for each, ``[n, d]``."""
        if self.reference is not None:
            return self.reference.kept("ranking its members")
        return self.encoder.represent(self.items, progress=False)

    @cached_property
    def explicands(self) -> list[Explicand]:
        """The inputs, ready to be encoded; raise if there is only a reference."""
        if self.reference is not None:
            raise ValueError("This needs the members themselves, not their representations; pass the inputs.")
        made = []
        for index, item in enumerate(self.items):
            with naming_input(index):
                made.append(self.encoder.explicand(item))
        return made

    def shown(self, numbers: Sequence[int]) -> list[Explicand | None]:
        """Return some of the inputs to be drawn; None where there are none."""
        return [None if self.reference is not None else self.encoder.explicand(self.items[number]) for number in numbers]

    @property
    def shares(self) -> Tensor:
        """How much each counts in the mean over the corpus, ``[n]`` of sum 1: equal but for a reference that has weights."""
        weights = None if self.reference is None else self.reference.weights
        counts = torch.ones(len(self)) if weights is None else weights
        return counts.double() / counts.double().sum()

    def stacked(self) -> Tensor:
        """Return representations in double precision, ``[n, d]``."""
        return torch.as_tensor(self.representations).double()
