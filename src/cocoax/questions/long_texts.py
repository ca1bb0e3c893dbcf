"""Long texts at two levels: a run over the sentences, then runs over the words of those sentences that matter.

A word's value is what keeping it, rather than removing it, does to the score while the rest of the text stays; a sentence's
value is that of a game in which sentences are kept at random. Each level has standard errors of its own runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from cocoax.encoders import Encoder
from cocoax.encoders.function_calls import BudgetError
from cocoax.inputs import Explicand
from cocoax.inputs.text import Text, words
from cocoax.masking import MaskedEncoder, resolve
from cocoax.methods import Attribution, Interactions, RemovalMethod, Rise, Run, interactions
from cocoax.methods.run import draw_checked
from cocoax.results.interactions import PairSide, Sampled
from cocoax.similarity import Similarity
from cocoax.targets import Target

LONG = 60  # words from which on a text is explained at two levels
DEEP = 3  # sentences whose words are explained, at most
FEWEST = 10  # masked copies that a map needs


@dataclass(frozen=True)
class Budget:
    """Numbers of masked copies of a text: of words alone, or of sentences and of the words of each important sentence."""

    words: int
    sentences: int
    each: int
    deep: int = DEEP

    def __mul__(self, share: float) -> Budget:
        """Return a share of it, with no words of sentences where those would get too few."""
        deep = self.deep if self.each * share >= FEWEST else 0
        words, sentences, each = (max(int(own * share), FEWEST) for own in (self.words, self.sentences, self.each))
        return Budget(words, sentences, each, deep)


@dataclass(frozen=True, eq=False)
class Plan:
    """What is encoded of an input: a run over its features, and of a long text runs over words of some of these.

    Attributes:
        features: the input with its features; of a long text sentences.
        method: of the run over them.
        by_words: a long text with its words as features.
        budget: how many masked copies the words of each sentence get, and how many sentences.
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

    def carried_out(self, make: Callable[[Explicand, RemovalMethod], Run], target: Target | None) -> Run | NestedRun:
        """Return the runs, each from ``make``; the sentences that matter are those that raise the target most."""
        whole = make(self.features, self.method)
        if self.by_words is None or target is None:
            return whole
        ranked = whole.explain(target).relative[self.first :].argsort(descending=True, stable=True)
        runs = {}
        with suppress(BudgetError):  # the sentences are known then
            for number in sorted((ranked[: self.budget.deep] + self.first).tolist()):
                inside = _words_within(self.by_words, self.features.display.offsets[number])  # type: ignore[attr-defined]
                if inside is not None:
                    runs[number] = make(inside, Rise(samples=self.budget.each))
        return NestedRun(whole, runs)


# Both within the goals: 80 encoder calls for a document of 200 words, 600 for ten hits and their query. Measured in
# docs/how-to/retrieval.md.
MATCH_BUDGET = Budget(words=128, sentences=24, each=14)
HIT_BUDGET = Budget(words=44, sentences=18, each=11, deep=2)


def is_long(text: str) -> bool:
    """Whether a text is explained at two levels."""
    return len(words(text)) > LONG


@dataclass(frozen=True, eq=False)
class NestedRun:
    """A run over the sentences of a text, and one over the words of each sentence that matters.

    Attributes:
        sentences: the run over sentences.
        words: by number of the sentence, the run over its words, in which the rest of the text is never removed.

    """

    sentences: Run
    words: Mapping[int, Run]

    @property
    def anchors(self) -> Tensor:
        """Representations of the whole text and of the text without its words, ``[2, d]``."""
        return self.sentences.anchors

    @property
    def explicand(self) -> Explicand:
        """The text with its sentences."""
        return self.sentences.explicand

    def __len__(self) -> int:
        return len(self.sentences) + sum(map(len, self.words.values()))

    def explain(self, targets: Sequence[Target]) -> list[Attribution]:
        """Return maps over the words of the sentences that matter, and over the other sentences as wholes."""
        whole = self.sentences.explain(targets)
        inside = {number: run.explain(targets) for number, run in self.words.items()}
        return [
            self._joined(attribution, {number: answers[index] for number, answers in inside.items()})
            for index, attribution in enumerate(whole)
        ]

    def explain_sentences(self, target: Target) -> Attribution:
        """Return the map over sentences."""
        found: Attribution = self.sentences.explain(target)
        return found

    @cached_property
    def _display(self) -> Text:
        display: Any = self.sentences.explicand.display
        offsets: list[tuple[int, int]] = []
        for number, span in enumerate(display.offsets):
            inner: Any = self.words[number].explicand.display if number in self.words else None
            offsets += [span] if inner is None else inner.offsets
        return replace(display, offsets=tuple(offsets))  # type: ignore[no-any-return]

    def _joined(self, whole: Attribution, inside: Mapping[int, Attribution]) -> Attribution:
        values: list[Tensor] = []
        errors: list[Tensor] = []
        for number in range(len(whole.values)):
            own = inside.get(number)
            values.append(whole.relative[number : number + 1] if own is None else own.relative)
            error = whole.standard_error if own is None else own.standard_error
            assert error is not None
            errors.append(error[number : number + 1] if own is None else error)
        floor = max([whole.floor, *(own.floor for own in inside.values())])
        metadata = {**whole.metadata, "samples": len(self), "sentences": len(whole.values), "with words": sorted(inside)}
        return replace(
            whole,
            values=torch.cat(values).float(),
            standard_error=torch.cat(errors).float(),
            neutral=0.0,
            unit=1.0,
            metadata=metadata,
            display=self._display,
            floor=floor,
            features=None,
            raw=None,
        )


def _words_within(explicand: Explicand, span: tuple[int, int]) -> Explicand | None:
    """Return a text of whose words only those within a span are features; None if there are fewer than two."""
    display: Any = explicand.display
    inside = [own for own in display.offsets if span[0] <= own[0] < span[1]]
    return None if len(inside) < 2 else with_spans(explicand, inside)


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


# --- interactions ---------------------------------------------------------------------------------------------------------


def run_interactions(query: Run | NestedRun, document: Run | NestedRun, similarity: str | Similarity) -> Interactions:
    """Return how the features of two inputs interact; of a text at two levels, words and other sentences."""
    by_rows = [_joined_pairs([interactions(a, b, similarity) for b in _runs(document)], document) for a in _runs(query)]
    turned = [_turned(pairs) for pairs in by_rows]
    return _turned(_joined_pairs(turned, query))


def _runs(run: Run | NestedRun) -> list[Run]:
    return [run.sentences, *run.words.values()] if isinstance(run, NestedRun) else [run]


def _turned(pairs: Interactions) -> Interactions:
    sampled = None if pairs.sampled is None else tuple(replace(s, left=s.right, right=s.left) for s in pairs.sampled)
    lengths = None if pairs.lengths is None else pairs.lengths[::-1]
    rows, columns = len(pairs.a.shape), len(pairs.b.shape)
    values = pairs.values.permute(*range(rows, rows + columns), *range(rows))
    return replace(
        pairs, values=values, a=pairs.b, b=pairs.a, sampled=sampled, lengths=lengths, rounding=pairs.rounding[::-1]
    )


def _joined_pairs(parts: Sequence[Interactions], run: Run | NestedRun) -> Interactions:
    """Return interactions with a side at two levels from those with its runs: words in place of their sentences."""
    if not isinstance(run, NestedRun):
        return parts[0]
    own: dict[int, list[int]] = {at: [] for at in range(len(parts))}  # of each run, its features,
    places: dict[int, list[int]] = {at: [] for at in range(len(parts))}  # and where they stand in the text
    total = 0
    for sentence in range(parts[0].values.shape[-1]):
        at = 1 + list(run.words).index(sentence) if sentence in run.words else 0
        features = list(range(parts[at].values.shape[-1])) if at else [sentence]
        own[at] += features
        places[at] += range(total, total + len(features))
        total += len(features)
    values = parts[0].values.new_zeros(*parts[0].values.shape[:-1], total)
    lengths = torch.ones(total)
    sampled = []
    for at, pairs in enumerate(parts):
        values[..., places[at]] = pairs.values[..., own[at]]
        if pairs.lengths is not None:
            lengths[places[at]] = pairs.lengths[1][own[at]]
        for part in pairs.sampled or ():
            right = part.right.new_zeros(len(part.right), total)
            right[:, places[at]] = part.right[:, own[at]]
            sampled.append(Sampled(part.masks, part.left, right))
    first = parts[0]
    rounding = max(part.rounding[1] for part in parts)
    return replace(
        first,
        values=values,
        b=PairSide(run._display, (total,), first.b.identity),
        sampled=None if first.sampled is None else tuple(sampled),
        lengths=None if first.lengths is None else (first.lengths[0], lengths),
        rounding=(first.rounding[0], rounding),
    )
