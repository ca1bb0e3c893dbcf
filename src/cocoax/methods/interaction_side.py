"""One input of a match: its features, what they are called and where they are shown."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from cocoax.inputs import Display
from cocoax.inputs.words import words

Cell = int | tuple[int, ...] | str  # a number, a row and a column, or a name
Part = Cell | list[Cell]


@dataclass(frozen=True, eq=False)
class Matched:
    """One input of a match: how it is shown, the shape of its features, and what they are called.

    Attributes:
        display: how it is shown.
        shape: of its features: rows and columns of a picture's grid, or how many there are.
        identity: of its representations, the method and the similarity: two with the same can be contrasted.
        members: of a picture whose features are parts of it, the part that each pixel belongs to, -1 for none.

    """

    display: Display
    shape: tuple[int, ...]
    identity: str = ""
    members: Tensor | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of features: words, columns, segments; rows and columns of a grid, counted from 1, for a picture."""
        own = self.display.names
        if own is not None:
            return own
        if len(self.shape) == 1:
            return tuple(f"part {number + 1}" for number in range(self.shape[0]))
        return tuple(f"row {row + 1}, column {column + 1}" for row, column in product(*map(range, self.shape)))

    @property
    def is_picture(self) -> bool:
        """Whether features are places of a picture."""
        return len(self.shape) == 2 or self.members is not None

    @property
    def places(self) -> Tensor:
        """The feature at each place where it is shown: of a list, a grid, or pixels; -1 for none."""
        return torch.arange(prod(self.shape)).view(self.shape) if self.members is None else self.members

    def shown(self, values: Tensor) -> Tensor:
        """Return values of features ``[features]`` at the places where they are shown."""
        return torch.cat([values, values.new_zeros(1)])[self.places]


def numbers_of(part: Part, side: Matched) -> list[int]:
    """Return the numbers of features among all of their side, from numbers, places, names or phrases."""
    if isinstance(part, list):
        if not part:
            raise ValueError("A list of features is empty; give at least one.")
        return sorted({number for feature in part for number in numbers_of(feature, side)})
    return _named(part, side) if isinstance(part, str) else [_placed(part, side)]


def called(numbers: Sequence[int], side: Matched) -> str:
    """Return the names of features."""
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
