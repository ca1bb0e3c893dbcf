"""Texts: tokens, words and sentences, what is too long, and how values are shown on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from cocoax import TextEncoder
from tests.encoders.words import Words, tokenize
from tests.tiny import bert_tokenizer


@pytest.fixture
def words() -> Words:
    return Words()


@pytest.fixture
def text(words: Words) -> TextEncoder:
    return TextEncoder(words, tokenize, limit=8, name="toy")


def test_several__is_lazy(text: TextEncoder) -> None:
    def endless() -> Iterator[str]:
        while True:
            yield "a cat"

    stream = text.inputs.each(endless())[0]
    assert [next(stream) for _ in range(3)] == ["a cat"] * 3


# --- explicands ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def pieces(words: Words) -> TextEncoder:
    """A real tokenizer, with special tokens and words of several pieces."""
    return TextEncoder(words, bert_tokenizer(), limit=12, name="pieces")


def test_explicand__words_and_their_places(pieces: TextEncoder) -> None:
    text = "The violinist parked."
    found = pieces.explicand(text)
    assert found.tokens == ("The", "violinist", "parked", ".")
    assert [text[begin:end] for begin, end in found.offsets or ()] == list(found.tokens)
    assert found.members is not None
    assert found.members.tolist() == [-1, 0, 1, 1, 2, 2, 3, -1]
    assert found.tensor.tolist() == pieces.prepare(text).tolist()
    assert (found.text, found.display.notes) == (text, {})
    assert pieces.explicand(found) is found


@pytest.mark.parametrize(
    "text",
    ["a cat 👩‍👧 dog", "我 爱 dog", "שלום cat", "e\u0301 dog", "red\tcar\u00a0dog", "dog\u200bcat", "ﬁne cat", "İ cat"],
)
@pytest.mark.parametrize("features", ["words", "tokens", "sentences"])
def test_explicand__offsets_are_characters_of_the_original(pieces: TextEncoder, text: str, features: Any) -> None:
    found = pieces.by(features).explicand(text)
    assert [text[begin:end] for begin, end in found.offsets or ()] == list(found.tokens or ())
    assert all(token.strip() for token in found.tokens or ())
    assert found.members is not None
    assert set(found.members[1:-1].tolist()) == set(range(len(found.tokens or ())))


def test_explicand__one_word(pieces: TextEncoder) -> None:
    assert pieces.explicand("cat").tokens == ("cat",)
    assert pieces.explicand("violinist").tokens == ("violinist",)


def test_by__other_features_same_encoder(pieces: TextEncoder) -> None:
    other = pieces.by("sentences")
    assert (other.features, pieces.features) == ("sentences", "words")
    assert other.space == pieces.space
    assert other.fingerprint == pieces.fingerprint
    assert pieces.by(prompt="a ").explicand("cat").tokens == ("cat",)
    with pytest.raises(ValueError, match=r"'features' parameter"):
        pieces.by("letters")  # type: ignore[arg-type]


def test_by__prompt_needs_a_tokenizer_of_transformers(text: TextEncoder) -> None:
    with pytest.raises(TypeError, match=r"'toy' has a tokenizer of its own, which takes no prompt"):
        text.by(prompt="a ")


@pytest.mark.parametrize("empty", ["", "  \n\t"])
def test_explicand__empty(pieces: TextEncoder, empty: str) -> None:
    with pytest.raises(ValueError, match=r"The text is empty; write at least one word"):
        pieces.explicand(empty)


def test_explicand__nothing_but_what_the_tokenizer_drops(pieces: TextEncoder) -> None:
    with pytest.raises(ValueError, match=r"no tokens that 'pieces' knows"):
        pieces.explicand("\u0301\u0301")


def test_explicand__tokenizer_without_places(text: TextEncoder) -> None:
    with pytest.raises(TypeError, match=r"tokenizer of 'toy' does not say where its tokens stand.*places\(text\)"):
        text.explicand("a cat")


LONG = "the big red dog behind the house. the cat parked her car"  # 14 tokens and two special ones


def test_explicand__too_long_raises(pieces: TextEncoder) -> None:
    with pytest.raises(ValueError, match=r"The text has 16 tokens but 'pieces' takes at most 12; shorten it.*too_long='cut'"):
        pieces.explicand(LONG)


def test_explicand__too_long_cut_says_how_much(words: Words) -> None:
    encoder = TextEncoder(words, bert_tokenizer(), limit=12, too_long="cut", name="pieces")
    with pytest.warns(UserWarning, match=r"16 tokens .* at most 12; the last 4 were left out, from 'parked her car' on"):
        found = encoder.explicand(LONG)
    assert found.display.notes["left_out"] == 4
    assert found.tokens == ("the", "big", "red", "dog", "behind", "the", "house", ".", "the", "cat")
    assert len(found.tensor) == 12
    assert found.tensor[-1] == 3  # the separator is still there
    with pytest.warns(UserWarning, match=r"Texts over 12 tokens, the most that 'pieces' takes, were cut off"):
        assert torch.equal(encoder.prepare(LONG), found.tensor)
    assert encoder.fingerprint != TextEncoder(words, bert_tokenizer(), limit=12).fingerprint


def test_too_long__unknown(words: Words) -> None:
    with pytest.raises(ValueError, match=r"'too_long' parameter must be 'raise' or 'cut'\. Got 'split' instead"):
        TextEncoder(words, bert_tokenizer(), limit=12, too_long="split")  # type: ignore[arg-type]


def test_collate__own_attention_masks(pieces: TextEncoder) -> None:
    batch = pieces.collate([torch.tensor([[2, 7, 3], [1, 0, 1]]), torch.tensor([2, 3])])
    assert batch["input_ids"].tolist() == [[2, 7, 3], [2, 3, 0]]
    assert batch["attention_mask"].tolist() == [[1, 0, 1], [1, 1, 0]]
