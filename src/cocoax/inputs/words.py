"""Where the words, tokens and sentences of a text begin and end, and which tokens belong to which.

Words are those of Unicode's default rules (UAX #29): "don't", "3.14" and an emoji with all its parts are one, punctuation
marks are words of their own, and so is each character of Chinese; Katakana stays together. The rules know no dictionary, so
Thai, Lao, Khmer and Burmese come as single characters: ``features="tokens"`` says more about those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Literal, get_args

import regex

Span = tuple[int, int]
Features = Literal["words", "tokens", "sentences"]

_WORD_BOUNDARY = regex.compile(r"\b", regex.WORD | regex.VERSION1)
# A sentence ends at . ! ? … (and quotes after them) before a space that no small letter follows, at the marks of Chinese and
# Japanese, or at an empty line.
_SENTENCE_END = regex.compile(r"""[.!?…؟۔]+[\p{Pe}\p{Pf}"']*(?=\s+[^\s\p{Ll}]|\s*$)|[。！？]+[\p{Pe}\p{Pf}]*|\n\s*\n""")


def check_features(features: str) -> Features:
    """Raise unless it is one of the three kinds."""
    for known in get_args(Features):
        if features == known:
            return known  # type: ignore[no-any-return]
    raise ValueError(f"The 'features' parameter must be 'words', 'tokens' or 'sentences'. Got {features!r} instead.")


def words(text: str) -> list[Span]:
    """Begin and end of every word and punctuation mark."""
    return _pieces(text, [match.start() for match in _WORD_BOUNDARY.finditer(text)])


def sentences(text: str) -> list[Span]:
    """Begin and end of every sentence, by its punctuation; abbreviations before a capital letter count as ends too."""
    return _pieces(text, [match.end() for match in _SENTENCE_END.finditer(text)])


def _pieces(text: str, cuts: Sequence[int]) -> list[Span]:
    """What lies between the cuts, without the space around it."""
    bounds = [0, *cuts, len(text)]
    found = []
    for begin, end in pairwise(bounds):
        piece = text[begin:end]
        if piece.strip():
            found.append((begin + len(piece) - len(piece.lstrip()), begin + len(piece.rstrip())))
    return found


def group(text: str, tokens: Sequence[Span | None], features: Features) -> tuple[list[Span], list[int]]:
    """The features of a text, and for each token the one that it belongs to; None and -1 are special tokens.

    A token belongs to the feature it shares most characters with; a token of nothing but space to the one before. Words that
    have no token but such a one (an unknown word of Thai is one token, and each of its characters a word) join that feature.
    What is in no token, such as a character that the tokenizer drops, the encoder never sees, and it is no feature.
    """
    if features == "tokens":
        spans = [_trimmed(text, span) for span in tokens if span is not None]
        numbers = iter(range(len(spans)))
        return spans, [-1 if span is None else next(numbers) for span in tokens]
    spans = words(text) if features == "words" else sentences(text)
    owner = [-1] * len(text)
    for number, (begin, end) in enumerate(spans):
        owner[begin:end] = [number] * (end - begin)
    members: list[int | None] = []
    within: dict[int, set[int]] = {}  # for each feature, those that its tokens touch
    before = 0
    for span in tokens:
        if span is None:
            members.append(None)
            continue
        shared = Counter(number for number in owner[slice(*span)] if number >= 0)
        before = max(shared, key=lambda number: (shared[number], -number)) if shared else before
        members.append(before)
        within.setdefault(before, {before}).update(shared)
    seen = sorted({number for number in members if number is not None})
    place = {number: index for index, number in enumerate(seen)}
    joined = [_joined(spans, number, within[number] - set(seen)) for number in seen]
    return joined, [-1 if number is None else place[number] for number in members]


def _joined(spans: Sequence[Span], number: int, others: Collection[int]) -> Span:
    """A span together with those of ``others`` that follow it, or come before it, without a gap in their numbers."""
    first = last = number
    while first - 1 in others:
        first -= 1
    while last + 1 in others:
        last += 1
    return spans[first][0], spans[last][1]


def _trimmed(text: str, span: Span) -> Span:
    """Without space at its ends, which some tokenizers count to a token, unless it is nothing else."""
    found = _pieces(text[slice(*span)], [])
    return (span[0] + found[0][0], span[0] + found[0][1]) if found else span
