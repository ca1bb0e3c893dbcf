"""DNA as inputs: strings of A, C, G and T. The features are stretches of a few letters; small letters are never removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from cocoax.inputs import Display, Explicand, Inputs
from cocoax.show import ColouredText, Effects, Paragraph

LETTERS = "ACGT"


@dataclass(frozen=True, eq=False)
class Strand(Display):
    """A strand of DNA, with its stretches in colour.

    Attributes:
        letters: the sequence as it was given.
        members: the stretch that each letter belongs to, -1 for none.

    """

    kind = "dna"
    letters: str
    members: tuple[int, ...]

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Where each stretch begins and ends."""
        places: dict[int, list[int]] = {}
        for place, member in enumerate(self.members):
            if member >= 0:
                places.setdefault(member, []).append(place)
        return tuple((own[0], own[-1] + 1) for own in places.values())

    @property
    def names(self) -> tuple[str, ...]:
        """Each stretch with the place of its first letter, counted from 1: ``ACG@4``."""
        return tuple(f"{self.letters[begin:end]}@{begin + 1}" for begin, end in self.spans)

    def view(self, effects: Effects) -> ColouredText:
        """Return the letters on the colours of their stretches."""
        return ColouredText(effects, self.letters, self.spans)

    def input_view(self) -> Paragraph:
        """Return the letters."""
        return Paragraph(self.letters, title="input")

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return letters and members."""
        return {}, {"letters": self.letters, "members": self.members}

    @classmethod
    def restored(cls, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> Self:
        """Return the strand that was saved."""
        return cls(header["letters"], tuple(header["members"]))


class Dna(Inputs):
    """Strings of A, C, G and T, as floats ``[4, L]``: one channel for each letter.

    Args:
        width: letters of a stretch, which are removed together.

    """

    noun = "sequence"
    hint = "Check the length of the sequences that it expects."
    removals: ClassVar[tuple[str, ...]] = (
        "Mean",
        "Constant",
        "Noise",
        "Fixed",
        "Background",
    )  # Mean: how often each letter is
    advice = "Sequences take cocoax.Mean(), cocoax.Constant(0.25), or other sequences of the same length."
    any_shape = True

    def __init__(self, width: int = 3) -> None:
        if width < 1:
            raise ValueError(f"The 'width' parameter must be at least 1. Got {width} instead.")
        self.width = width  # changes no representation, so it is not among the settings

    def is_one(self, inputs: object) -> bool:
        """Whether this is one sequence rather than many."""
        return isinstance(inputs, str | Explicand) or (isinstance(inputs, Tensor) and inputs.ndim == 2)

    def prepare(self, item: Any) -> Tensor:
        """Return a sequence as ``[4, L]``."""
        if isinstance(item, Explicand):
            return item.tensor
        if isinstance(item, Tensor):
            return item  # it was prepared before
        if not isinstance(item, str):
            raise TypeError(f"A sequence must be a string. Got {type(item).__name__} instead.")
        wrong = sorted(set(item.upper()) - set(LETTERS))
        if wrong or not item:
            raise ValueError(f"A sequence has letters A, C, G and T, at least one. Got {wrong or 'none'} in {item[:30]!r}.")
        return torch.tensor([[float(letter == own) for letter in item.upper()] for own in LETTERS])

    def explicand(self, item: Any) -> Explicand:
        """Return a sequence made ready to be explained."""
        if isinstance(item, Explicand):
            return item
        tensor = self.prepare(item)
        if not isinstance(item, str):
            raise TypeError("To be explained, a sequence must be given as a string.")
        large = torch.tensor([letter.isupper() for letter in item])
        if not bool(large.any()):
            raise ValueError(f"All letters of {item[:30]!r} are small, so that there is nothing to remove; write some large.")
        members = torch.full((len(item),), -1)
        members[large] = torch.arange(int(large.sum())) // self.width
        return Explicand(tensor, Strand(item, tuple(members.tolist())), members)

    def label(self, item: Any) -> str:
        """Return the beginning of a sequence."""
        return f"{item[:8]}…" if isinstance(item, str) else self.noun

    def set_label(self, labels: Sequence[str], count: int) -> str:
        """Return the beginning of one sequence, or how many there are."""
        return labels[0] if count == 1 else super().set_label(labels, count)
