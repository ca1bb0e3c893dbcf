"""Tokenizers of transformers: ids, places, special tokens, prompts."""

from __future__ import annotations

from typing import Any

import pytest

from cocoax.inputs.text import Tokenizer
from tests.tiny import bert_tokenizer, bytes_tokenizer


def test_places__of_pieces_and_special_tokens() -> None:
    text = "The violinist parked."
    ids, places = Tokenizer(bert_tokenizer()).places(text)
    assert ids == Tokenizer(bert_tokenizer())(text)
    assert places[0] is None
    assert places[-1] is None
    assert [text[slice(*place)] for place in places if place is not None] == ["The", "violin", "ist", "park", "ed", "."]


@pytest.mark.parametrize("text", ["e\u0301a ö", "cat 👩‍👧 dog", "我 a", "שלום a", "naïve"])
@pytest.mark.parametrize("make", [bert_tokenizer, bytes_tokenizer])
def test_places__are_characters_of_the_original(text: str, make: Any) -> None:
    ids, places = Tokenizer(make()).places(text)
    assert len(ids) == len(places)
    spans = [place for place in places if place is not None]
    assert spans == sorted(spans)
    assert all(0 <= begin < end <= len(text) for begin, end in spans)
    covered = {place for begin, end in spans for place in range(begin, end)}
    assert {index for index, letter in enumerate(text) if letter.isalnum()} <= covered


def test_places__prompt_is_not_part_of_the_text() -> None:
    plain, prompted = Tokenizer(bert_tokenizer()), Tokenizer(bert_tokenizer(), "a red ")
    ids, places = prompted.places("the cat")
    assert ids == plain("a red the cat") == prompted("the cat")
    assert places == [None, None, None, (0, 3), (4, 7), None]


def test_special__ids() -> None:
    assert (Tokenizer(bert_tokenizer()).pad, Tokenizer(bert_tokenizer()).mask) == (0, 4)
    assert (Tokenizer(bytes_tokenizer()).pad, Tokenizer(bytes_tokenizer()).mask) == (0, None)


def test_repr__tells_vocabularies_and_prompts_apart() -> None:
    one = Tokenizer(bert_tokenizer())
    one("a cat")  # using it changes nothing
    other = bert_tokenizer()
    other.add_tokens(["zebra"])
    assert repr(one) == repr(Tokenizer(bert_tokenizer()))
    assert repr(one) != repr(Tokenizer(other))
    assert repr(one) != repr(Tokenizer(bert_tokenizer(), "query: "))


def test_places__slow_tokenizer() -> None:
    class Slow:
        is_fast = False

        def get_vocab(self) -> dict[str, int]:
            return {"a": 0}

    with pytest.raises(TypeError, match=r"Slow does not say where its tokens stand"):
        Tokenizer(Slow()).places("a")


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("แมวที่ a", [(0, 6), (7, 8)]),  # an unknown word of Thai, of which normalisation takes the last marks
        ("ete\u0301 e\u0301", [(0, 1), (1, 2), (2, 4), (5, 7)]),
    ],
)
def test_places__marks_belong_to_the_letter_before(text: str, spans: list[tuple[int, int]]) -> None:
    _, places = Tokenizer(bert_tokenizer()).places(text)
    assert [span for span in places if span is not None] == spans
