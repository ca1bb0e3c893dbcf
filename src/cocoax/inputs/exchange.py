"""Exchanging parts of an input with those of others: what that means is up to the kind of input.

An exchange has parts, and for each part some offers: what donors would put in its place. A choice is one number for each
part: 0 leaves it, r takes offer r. Offers that belong together, such as all cells of one donor in their places, have the
same number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from cocoax.inputs.explicand import Explicand

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# How much each part of an input raises the score, ``[parts]``.
Importance = Callable[[Explicand], Tensor]
# Which of some prepared inputs do what is asked, ``[n]``.
Flips = Callable[[Sequence[Tensor]], np.ndarray]


class Change(NamedTuple):
    """A part that was changed, what it was and what it is now."""

    part: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.part}: {self.before} → {self.after}"


class Exchange(ABC):
    """Parts of an explicand, and what may be put in the place of each.

    Attributes:
        names: of the parts.
        offered: whether a part has an offer, ``[parts, offers]``.
        noun: what one part is called.

    """

    names: tuple[str, ...]
    offered: np.ndarray
    noun: str = "part"

    @abstractmethod
    def made(self, choices: np.ndarray) -> Sequence[Tensor]:
        """Return the input after each of ``choices [n, parts]``, prepared for the encoder."""

    @abstractmethod
    def outcome(self, choice: np.ndarray) -> Any:
        """Return the input after a choice, as users hold it."""

    @abstractmethod
    def changes(self, choice: np.ndarray) -> list[Change]:
        """Return what a choice changes, in words."""

    @abstractmethod
    def draw(self, axes: Sequence[Axes], choice: np.ndarray, titles: Sequence[str]) -> None:
        """Draw the input, where the offers come from, and what comes out, each under a title."""

    @property
    def height(self) -> float:
        """How many inches the drawing should have."""
        return 3.6

    def arrangements(self) -> list[np.ndarray]:
        """Return choices that take the same offer wherever there is one, one for each offer."""
        return [np.where(own, number, 0) for number, own in enumerate(self.offered.T, start=1) if own.any()]

    def possible(self, choices: np.ndarray) -> np.ndarray:
        """Return which of ``choices [n, parts]`` give an input at all; by default all."""
        return np.ones(len(choices), bool)

    def closer(self, choice: np.ndarray, flips: Flips) -> Self:
        """Return the exchange with offers for a choice that change less and still do it; by default there are none."""
        return self


def without(names: Sequence[str], fixed: Sequence[str], offered: np.ndarray) -> np.ndarray:
    """Return which offers there are once some parts are fixed; raise if a fixed one does not exist."""
    asked = [fixed] if isinstance(fixed, str) else list(fixed)
    unknown = [name for name in asked if name not in names]
    if unknown:
        raise ValueError(f"There is no part {unknown[0]!r} to be fixed; there are {', '.join(names[:8])}.")
    return offered & ~np.isin(np.array(names, dtype=object), asked)[:, None]


def check_shape(explicand: Explicand, donor: Explicand) -> None:
    """Raise unless a donor has the shape of the explicand."""
    if donor.tensor.shape != explicand.tensor.shape:
        raise ValueError(
            f"It has shape {list(donor.tensor.shape)} but the explicand {list(explicand.tensor.shape)}; parts are exchanged "
            "between inputs of one shape. Cut or resize them alike, as the encoder's preprocess= can."
        )


class FeatureExchange(Exchange):
    """Features of inputs of one shape, each exchanged with the same feature of a donor: segments of a sound, say."""

    noun = "feature"

    def __init__(self, explicand: Explicand, donors: Sequence[Explicand], fixed: Sequence[str] = ()) -> None:
        self.explicand, self.donors = explicand, list(donors)
        count = int(np.prod(explicand.shape))
        self.names = explicand.names or tuple(f"feature {number + 1}" for number in range(count))
        self.offered = without(self.names, fixed, np.ones((count, len(donors)), bool))

    def made(self, choices: np.ndarray) -> list[Tensor]:
        """Return tensors with some features from donors."""
        stacked = torch.stack([self.explicand.tensor, *(donor.tensor for donor in self.donors)])
        made = []
        for choice in torch.from_numpy(np.ascontiguousarray(choices)).long():
            result = stacked[0].clone()
            for number in torch.unique(choice[choice > 0]).tolist():
                kept = self.explicand.elements_kept((choice != number).float().view(1, *self.explicand.shape))[0]
                result = torch.where(kept.bool(), result, stacked[number])
            made.append(result)
        return made

    def outcome(self, choice: np.ndarray) -> Tensor:
        """Return the tensor."""
        return self.made(choice[None])[0]

    def changes(self, choice: np.ndarray) -> list[Change]:
        """Return which feature comes from which donor."""
        return [
            Change(self.names[part], "its own", f"that of donor {choice[part]}") for part in np.flatnonzero(choice).tolist()
        ]

    def draw(self, axes: Sequence[Axes], choice: np.ndarray, titles: Sequence[str]) -> None:
        """Draw which features were exchanged."""
        chosen = torch.from_numpy(choice > 0).view(self.explicand.shape)
        donor = self.donors[int(choice.max()) - 1]
        shown = ((self.explicand, None), (donor, chosen), (self.explicand, ~chosen))
        for ax, title, (explicand, mask) in zip(axes, titles, shown, strict=True):
            explicand.display.draw_parts(ax, mask, title)
