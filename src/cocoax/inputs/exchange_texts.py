"""Exchanging words of a text: deleted, or replaced by words of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from cocoax.inputs.exchange import Change, Exchange, Importance, without
from cocoax.inputs.explicand import Explicand
from cocoax.inputs.outlines import write_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DONORS = 5  # whose words are looked at: those with the lowest scores
_WORDS = 6  # that are offered for every word


class WordExchange(Exchange):
    """Words, each of which may be deleted, or replaced by one of the donors' words that lower the score most.

    Args:
        explicand: the text.
        donors: other texts, those with the lowest scores first; without any, words are deleted only.
        importance: how much each word of a text raises the score.
        prepare: the kind of input's, from a text to its token ids: what is encoded is the text that comes out.
        fixed: words that stay.

    """

    noun = "word"

    def __init__(
        self,
        explicand: Explicand,
        donors: Sequence[Explicand],
        importance: Importance,
        prepare: Callable[[str], Tensor],
        fixed: Sequence[str] = (),
    ) -> None:
        if explicand.text is None or explicand.names is None or explicand.offsets is None:
            raise ValueError("The explicand must be a text, not token ids; pass the string.")
        self.text, self.names, self.offsets = explicand.text, explicand.names, explicand.offsets
        self.donors, self.prepare = [str(donor.text) for donor in donors[:_DONORS]], prepare
        lowered: dict[str, float] = {}
        for donor in donors[:_DONORS]:
            for word, value in zip(donor.names or (), importance(donor).tolist(), strict=True):
                lowered[word] = min(value, lowered.get(word, 0.0))
        promising = sorted((word for word in lowered if lowered[word] < 0), key=lambda word: lowered[word])
        self.words = ["", *promising[:_WORDS]]  # nothing first: the word is deleted
        offered = np.array([[offer.lower() != name.lower() for offer in self.words] for name in self.names])
        self.offered = without(self.names, fixed, offered)

    def outcome(self, choice: np.ndarray) -> str:
        """Return the text with words deleted or replaced."""
        parts, at = [], 0
        for (begin, end), number in zip(self.offsets, choice.tolist(), strict=True):
            parts += [self.text[at:begin], self.text[begin:end] if number == 0 else self.words[number - 1]]
            at = end
        return " ".join("".join([*parts, self.text[at:]]).split())

    def possible(self, choices: np.ndarray) -> np.ndarray:
        """Return which leave a text: some word must stay."""
        return np.array([bool(self.outcome(choice)) for choice in choices])

    def made(self, choices: np.ndarray) -> list[Tensor]:
        """Return token ids of the texts."""
        return [self.prepare(self.outcome(choice)) for choice in choices]

    def changes(self, choice: np.ndarray) -> list[Change]:
        """Return which word was deleted, or replaced by which."""
        return [
            Change(f"word {part + 1}", self.names[part], self.words[choice[part] - 1] or "(deleted)")
            for part in np.flatnonzero(choice).tolist()
        ]

    @property
    def height(self) -> float:
        """A few lines are enough."""
        return 1.9 + 0.012 * len(self.text)

    def draw(self, axes: Sequence[Axes], choice: np.ndarray, titles: Sequence[str]) -> None:
        """Write the text, what was changed, and what came out."""
        changes = "\n".join(f"{change.before} → {change.after}" for change in self.changes(choice))
        for ax, title, text in zip(axes, titles, (self.text, changes, self.outcome(choice)), strict=True):
            write_on(ax, text, title)
