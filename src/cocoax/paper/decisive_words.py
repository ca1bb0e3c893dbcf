"""Texts to try things on: sentences in which a single word has to do with a topic."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class DecisiveWord:
    """A text that has to do with a topic, rather than with another, because of a single word."""

    text: str
    topic: str
    rather_than: str
    word: str


def decisive_words() -> list[DecisiveWord]:
    """Return 48 pairs of a text and a topic: 24 sentences about two things each, once for either thing."""
    source = files("cocoax.paper").joinpath("decisive_words.tsv").read_text(encoding="utf-8")
    rows = list(csv.reader(source.splitlines()[1:], delimiter="\t"))
    return [
        DecisiveWord(text, *pair)
        for text, topic, word, other, its_word in rows
        for pair in ((topic, other, word), (other, topic, its_word))
    ]
