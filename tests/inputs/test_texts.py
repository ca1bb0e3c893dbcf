"""Texts: tokens, words and sentences, what is too long, and how values are shown on them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
import torch

import cocoax
from cocoax import TextEncoder
from cocoax.encoders.identity import describe
from cocoax.inputs import Text, Texts
from cocoax.inputs.text import Tokenizer
from tests.encoders.words import Words, tokenize
from tests.tiny import bert_tokenizer, bytes_tokenizer


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
    assert found.feature_ids is not None
    assert found.feature_ids.tolist() == [-1, 0, 1, 1, 2, 2, 3, -1]
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
    assert found.feature_ids is not None
    assert set(found.feature_ids[1:-1].tolist()) == set(range(len(found.tokens or ())))


def test_explicand__one_word(pieces: TextEncoder) -> None:
    assert pieces.explicand("cat").tokens == ("cat",)
    assert pieces.explicand("violinist").tokens == ("violinist",)


def test_by__other_features_same_encoder(pieces: TextEncoder) -> None:
    other = pieces.by("sentences")
    assert (other.inputs.features, pieces.inputs.features) == ("sentences", "words")
    assert other.space == pieces.space
    assert other.fingerprint == pieces.fingerprint
    assert pieces.by(prompt="a ").explicand("cat").tokens == ("cat",)
    with pytest.raises(ValueError, match=r"'features' parameter"):
        pieces.by("letters")  # type: ignore[arg-type]


def test_by__prompt_needs_a_tokenizer_of_transformers(text: TextEncoder) -> None:
    with pytest.raises(TypeError, match=r"'toy' has a tokenizer of its own, which takes no prompt"):
        text.by(prompt="a ")


def test_explicand__half_a_character(pieces: TextEncoder) -> None:
    for call in (pieces.explicand, pieces.prepare):
        with pytest.raises(ValueError, match=r"lone surrogate.* at place 6"):
            call("a cat \ud800")


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


# --- the kind itself ----------------------------------------------------------------------------------------------------


def test_is_one__a_string_or_an_explicand(pieces: TextEncoder) -> None:
    kind = pieces.inputs
    assert kind.is_one("a cat")
    assert kind.is_one(pieces.explicand("a cat"))
    assert not kind.is_one(["a cat"])


def test_prepare__tensors_and_explicands_as_they_are(pieces: TextEncoder) -> None:
    ids = torch.tensor([2, 7, 3])
    assert pieces.prepare(ids) is ids
    explicand = pieces.explicand("a cat")
    assert pieces.prepare(explicand) is explicand.tensor
    assert torch.equal(pieces.prepare("a cat"), explicand.tensor)


def test_prepare__cut_with_and_without_places() -> None:
    cut = Texts(bert_tokenizer(), 5, too_long="cut")
    with pytest.warns(UserWarning, match=r"Texts over 5 tokens, the most that 'the encoder' takes, were cut off"):
        assert cut.prepare("the cat the dog the house").tolist()[-1] == 3  # the special token at the end stays
    plain = Texts(lambda text: [1] * len(text.split()), 2, too_long="cut")
    with pytest.warns(UserWarning, match=r"Texts over 2 tokens"):
        assert plain.prepare("a b c d").tolist() == [1, 1]


def test_settings__prompt_and_limit_make_other_representations_in_one_space() -> None:
    tokenizer = bert_tokenizer()
    plain, prompted = Texts(Tokenizer(tokenizer), 9), Texts(Tokenizer(tokenizer, "query: "), 9)
    assert [describe(part) for part in plain.settings] != [describe(part) for part in prompted.settings]
    assert plain.space_settings == prompted.space_settings
    assert Texts(tokenizer, 9).settings[1:] == Texts(tokenizer, 5).settings[1:]
    assert Texts(tokenizer, 9, too_long="cut").settings[1:] != Texts(tokenizer, 5, too_long="cut").settings[1:]


def test_default_removal__mask_token_or_deletion() -> None:
    assert Texts(bert_tokenizer(), 9).default_removal == "MaskToken"
    assert Texts(bytes_tokenizer(), 9).default_removal == "Deletion"
    assert Texts(bytes_tokenizer(), 9, mask=7).default_removal == "MaskToken"


@pytest.mark.parametrize(
    ("labels", "count", "expected"),
    [
        (["a"], 1, "a"),
        (["a", "b", "c"], 3, "a / b / c"),
        (["a", "b", "c", "d"], 9, "a and 8 more"),
        (["a"], 2, "a and 1 more"),
    ],
)
def test_name_together__few_texts_or_the_first(labels: list[str], count: int, expected: str) -> None:
    assert Texts(bert_tokenizer(), 9).set_label(labels, count) == expected


# --- how it is shown ----------------------------------------------------------------------------------------------------


def attribution(values: list[float], errors: list[float] | None = None, **options: Any) -> cocoax.Attribution:
    error = None if errors is None else torch.tensor(errors)
    display = Text("A <b> cat.", ((0, 1), (2, 5), (6, 9), (9, 10)))
    return cocoax.Attribution(torch.tensor(values), 0.5, 0.0, error, display=display, **options)


def test_text__names_notes_and_bars() -> None:
    shown = attribution([0.5, -1.0, 0.75, 0.5])
    assert shown.names == ("A", "<b>", "cat", ".")
    assert Text("a", ((0, 1),), 3).notes == {"left_out": 3}
    assert Text("a", ((0, 1),)).notes == {}
    assert [label.get_text() for label in shown.plot().axes[0].get_yticklabels()] == ["A", "<b>", "cat", "."]
    plt.close("all")


def test_explicand__says_which_words_are_unknown(tmp_path: Path) -> None:
    class Tokens:
        unknown = 1

        def __call__(self, text: str) -> list[int]:
            return self.places(text)[0]

        def places(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
            spans = [match.span() for match in re.finditer(r"\S+", text)]
            return [1 if not text[begin].isascii() else 5 for begin, _ in spans], spans

    encoder = TextEncoder(Words(), Tokens(), limit=20)
    result = cocoax.Rise(samples=20).explain(encoder, "a 🐱 and a 猫 or a 🐱", cocoax.representation_similarity())
    assert result.metadata["unknown"] == ["🐱", "猫"]
    assert result.remarks[-1] == "The encoder does not know '🐱', '猫': all unknown words are the same to it."
    assert "does not know" in result._repr_html_()
    again = cocoax.Attribution.load(result.save(tmp_path / "result.safetensors"))
    assert again.remarks == result.remarks
    known = cocoax.Rise(samples=20).explain(encoder, "a cat", cocoax.representation_similarity())
    assert "unknown" not in known.metadata
