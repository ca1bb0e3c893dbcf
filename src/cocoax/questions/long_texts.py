"""Long texts at two levels: a run over the sentences says which of them matter, and a second one is over the words of these.

In the second run the words of the sentences that matter and the other sentences, as wholes, are features of one game, so that
their values can be compared. The values of all sentences, with standard errors of their own, are those of the first run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cocoax.encoders import Encoder
from cocoax.inputs import Explicand
from cocoax.inputs.text import words
from cocoax.masking import MaskedEncoder, resolve
from cocoax.methods import RemovalMethod, Run
from cocoax.methods.run import draw_checked
from cocoax.targets import Target

LONG = 60  # words from which on a text is explained at two levels
DEEP = 3  # sentences whose words are explained, at most
FEWEST = 10  # masked copies that a map needs


@dataclass(frozen=True)
class Budget:
    """Numbers of masked copies of a text: of words alone, or of sentences and then of words inside of the ``deep`` best."""

    words: int
    sentences: int
    inside: int
    deep: int = DEEP

    def __mul__(self, share: float) -> Budget:
        """Return a share of it, with no words of sentences where those would get too few."""
        deep = self.deep if self.inside * share >= FEWEST else 0
        words, sentences, inside = (max(int(own * share), FEWEST) for own in (self.words, self.sentences, self.inside))
        return Budget(words, sentences, inside, deep)


@dataclass(frozen=True, eq=False)
class Plan:
    """What is encoded of an input: a run over its features, and of a long text one over the words of some of these.

    Attributes:
        features: the input with its features; of a long text sentences.
        method: of the run over them.
        by_words: a long text with its words as features.
        budget: how many masked copies the words get, and how many sentences they are of.
        first: the number of the first sentence; features before it are words of a query.

    """

    features: Explicand
    method: RemovalMethod
    by_words: Explicand | None = None
    budget: Budget = Budget(0, 0, 0, 0)
    first: int = 0

    def inputs(self, encoder: Encoder) -> Iterator[Tensor]:
        """Yield what is encoded first: the input, what it is without its features, and masked copies."""
        method, explicand = self.method.choose_features(encoder, self.features)
        removal = resolve(method.baseline, encoder.inputs)
        explicand = removal.with_features(explicand, encoder, getattr(method, "grid", None))
        masked = MaskedEncoder(encoder, explicand, removal, anchors=torch.empty(0))
        return masked.inputs(draw_checked(method, explicand.shape))

    def refined(self, run: Run, target: Target) -> Explicand | None:
        """Return a long text by the words of the sentences that raise the target most, and by the others as wholes.

        None where ``run``, over its sentences, is all there is.
        """
        if self.by_words is None or self.budget.deep == 0:
            return None
        ranked = run.explain(target).relative[self.first :].argsort(descending=True, stable=True)
        best = set((ranked[: self.budget.deep] + self.first).tolist())
        display: Any = self.by_words.display
        sentences: Any = self.features.display
        spans: list[tuple[int, int]] = []
        for number, (begin, end) in enumerate(sentences.offsets):
            inside = [own for own in display.offsets if begin <= own[0] < end] if number in best else []
            spans += inside or [(begin, end)]
        return with_spans(self.by_words, spans)


# Both within the goals: 80 encoder calls for a document of 200 words, 600 for ten hits and their query. Measured in
# docs/how-to/retrieval.md.
MATCH_BUDGET = Budget(words=128, sentences=24, inside=52)
HIT_BUDGET = Budget(words=44, sentences=18, inside=24, deep=2)


def is_long(text: str) -> bool:
    """Whether a text is explained at two levels."""
    return len(words(text)) > LONG


def with_spans(explicand: Explicand, spans: Sequence[tuple[int, int]]) -> Explicand:
    """Return a text by words with other features: spans that hold some of its words; words outside are never removed."""
    display: Any = explicand.display
    owner = [
        next((number for number, (begin, end) in enumerate(spans) if begin <= start < end), -1)
        for start, _ in display.offsets
    ]
    held = sorted({number for number in owner if number >= 0})  # what was cut off holds none
    places = torch.tensor([held.index(number) if number >= 0 else -1 for number in owner] + [-1])
    assert explicand.feature_ids is not None
    offsets = tuple(spans[number] for number in held)
    return replace(explicand, feature_ids=places[explicand.feature_ids], display=replace(display, offsets=offsets))
