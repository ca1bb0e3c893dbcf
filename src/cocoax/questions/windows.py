"""Windows: texts that are longer than an encoder takes, looked at in pieces that overlap by half."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from cocoax.cautions import caution
from cocoax.encoders import Encoder
from cocoax.inputs import Explicand, Features
from cocoax.inputs.text import words
from cocoax.methods.method import check_encoder
from cocoax.similarity import Similarity
from cocoax.store import digest


@dataclass(frozen=True)
class Window:
    """A piece of a long text: number ``number`` of ``count``, from 1, the characters from ``begin`` to ``end``."""

    number: int
    count: int
    begin: int
    end: int

    def __str__(self) -> str:
        return f"window {self.number} of {self.count}, characters {self.begin} to {self.end}"


@dataclass(frozen=True, eq=False)
class Piece:
    """The part of an input that is explained: all of it, or one window of a text.

    Attributes:
        tower: the encoder that takes it.
        whole: the input.
        content: what the encoder is given: the input, or the text of the window.
        window: which window it is, if the input is too long to be taken as a whole.
        is_query: whether it is the query of a search.
        features: what it is divided into; None is what the encoder or the method chooses.

    """

    tower: Encoder
    whole: Any
    content: Any
    window: Window | None = None
    is_query: bool = False
    features: Features | None = None

    @property
    def has_words(self) -> bool:
        """Whether it is a text that is divided into words because nothing else was asked for."""
        inputs: Any = self.tower.inputs
        other = self.features is not None or inputs.chosen_features is not None
        return isinstance(self.content, str) and not other and getattr(inputs, "features", None) == "words"

    def explicand(self) -> Explicand:
        """Return it made ready to be explained; a window is shown within its whole text."""
        explicand = self.tower.explicand(self.content, self.features)
        if self.window is None:
            return explicand
        shown: Any = explicand.display
        offsets = tuple((begin + self.window.begin, end + self.window.begin) for begin, end in shown.offsets)
        return replace(explicand, display=replace(shown, text=self.whole, offsets=offsets))

    @property
    def seen(self) -> Any:
        """The input that is encoded for the comparison: the text, or the part of a picture that is explained."""
        return self.content if isinstance(self.content, str) else self.explicand().tensor

    def key(self, explicand: Explicand | None = None) -> object:
        """Return what equal inputs of one encoder share; two texts of the same tokens may be written in two ways."""
        explicand = self.explicand() if explicand is None else explicand
        return id(self.tower.module), digest(explicand.tensor), getattr(explicand.display, "text", None)


def tower_of(encoder: Encoder, item: object) -> Encoder:
    """Return the tower that takes an input: the text tower for strings, the encoder itself for everything else.

    A string that names a file may have been meant as what is in the file: that is said once for each encoder.
    """
    check_encoder(encoder)
    if not (isinstance(item, str) or (isinstance(item, Explicand) and item.text is not None)):
        return encoder
    try:
        tower = encoder.text
    except AttributeError as error:
        if isinstance(item, str) and _is_input(encoder, item):
            return encoder
        raise ValueError(f"{error} Texts are explained by encoders that take them.") from error
    if tower is not encoder and isinstance(item, str) and os.path.isfile(item):  # a Path raises where the text is long
        instead = f"pass pathlib.Path({item!r}) to explain the {encoder.inputs.noun}"
        caution("a file as a text", encoder.name, f"{item!r} is a file, but strings are texts here; {instead}.")
    return tower


def _is_input(encoder: Encoder, item: str) -> bool:
    """Whether a string is an input itself where there is no text tower: the path of a file, or what the kind reads."""
    try:
        return Path(item).exists() or encoder.prepare(item) is not None
    except (OSError, ValueError, TypeError):
        return False


def pieces_of(encoder: Encoder, item: Any, max_tokens: int | None = None, is_query: bool = False) -> list[Piece]:
    """Return an input as one piece, or as windows where it is a text with more tokens than the encoder takes.

    With ``max_tokens``, or an encoder that was told to cut long texts off (``too_long="cut"``), it is the beginning.
    """
    tower = tower_of(encoder, item)
    if max_tokens is not None and isinstance(item, str):
        tower = cut_off(tower, max_tokens)
    windows = windows_of(tower, item) if isinstance(item, str) else []
    if len(windows) < 2:
        return [Piece(tower, item, item, is_query=is_query)]
    return [Piece(tower, item, item[window.begin : window.end], window, is_query) for window in windows]


def cut_off(tower: Encoder, max_tokens: int) -> Encoder:
    """Return an encoder of texts that takes no more than so many tokens, and leaves out the rest without a warning."""
    inputs: Any = copy.copy(tower.inputs)
    inputs.limit, inputs.too_long, inputs.warns = min(max_tokens, inputs.limit), "cut", False
    return tower.with_inputs(inputs)


def windows_of(tower: Encoder, text: str) -> list[Window]:
    """Return windows of whole words that overlap by half and together cover a text; none where all of it fits."""
    inputs: Any = tower.inputs
    limit = getattr(inputs, "limit", None)
    if limit is None or inputs.too_long == "cut" or not text.strip() or len(list(inputs.tokenize(text))) <= limit:
        return []
    spans = words(text)
    _, places = inputs.places(text)
    special = sum(place is None for place in places)
    tokens = [0] * len(spans)  # of each word
    number = 0
    for place in (place for place in places if place is not None):
        while number + 1 < len(spans) and place[0] >= spans[number + 1][0]:
            number += 1
        tokens[number] += 1
    room = max(limit - special, 1)
    pieces: list[tuple[int, int]] = []
    first = 0
    while True:
        last = _fitting(tokens, first, room)
        # Tokens at the edges may come out otherwise when the rest of the text is missing.
        while last > first + 1 and len(list(inputs.tokenize(text[spans[first][0] : spans[last - 1][1]]))) > limit:
            last -= 1
        if not pieces or spans[last - 1][1] > pieces[-1][1]:  # after a very long word it may hold nothing new
            pieces.append((spans[first][0], spans[last - 1][1]))
        if last == len(spans):
            break
        first = max(min(_fitting(tokens, first, room // 2), last), first + 1)
    return [Window(index + 1, len(pieces), begin, end) for index, (begin, end) in enumerate(pieces)]


def _fitting(tokens: Sequence[int], first: int, room: int) -> int:
    """Return where words from ``first`` on end that have no more tokens than there is room for; at least one word."""
    total, last = 0, first
    while last < len(tokens) and (total + tokens[last] <= room or last == first):
        total += tokens[last]
        last += 1
    return last


def closest(
    pieces: Sequence[Piece],
    others: Sequence[Piece],
    similarity: Similarity,
    own: Tensor | None = None,
    theirs: Tensor | None = None,
) -> tuple[Piece, Piece]:
    """Return the most similar pair of pieces of two inputs; nothing is encoded where there is one of each.

    ``own`` and ``theirs`` are the representations of the pieces of each, if they are known.
    """
    if len(pieces) == len(others) == 1:
        return pieces[0], others[0]
    own, theirs = represent(pieces) if own is None else own, represent(others) if theirs is None else theirs
    scores = similarity.pairwise(own.double(), theirs.double())
    best = int(scores.argmax())
    return pieces[best // len(others)], others[best % len(others)]


def closest_to(pieces: Sequence[Piece], own: Tensor, similarity: Similarity, theirs: Tensor | None = None) -> Piece:
    """Return the piece that is most similar to a representation ``[d]``; ``theirs`` are the pieces' own, if known."""
    if len(pieces) == 1:
        return pieces[0]
    theirs = represent(pieces) if theirs is None else theirs
    return pieces[int(similarity.pairwise(own[None].double(), theirs.double()).argmax())]


def represent(pieces: Sequence[Piece], progress: bool | None = False) -> Tensor:
    """Return the representations of pieces of one encoder's inputs, ``[n, d]``, from the cache where it has them."""
    tower = pieces[0].tower
    samples = tower.reference([piece.seen for piece in pieces], keep_samples=True, progress=progress).samples
    assert samples is not None
    return samples
