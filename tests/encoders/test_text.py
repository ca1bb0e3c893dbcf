"""Text encoders: strings in, representations out, whatever they are batched with."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from cocoax import TextEncoder
from cocoax.encoders import stream
from tests.encoders.words import Words, tokenize


@pytest.fixture
def words() -> Words:
    return Words()


@pytest.fixture
def text(words: Words) -> TextEncoder:
    return TextEncoder(words, tokenize, limit=8, name="toy")


def slowly(words: Words, text: str) -> Tensor:
    """One text, by definition."""
    return torch.tanh(words.embedding.weight[tokenize(text)].mean(0) @ words.matrix)


TEXTS = ["a cat", "the big red dog", "dog", "a photo of a cat", "cat a"]


def test_represent__equals_the_definition(text: TextEncoder, words: Words) -> None:
    expected = torch.stack([slowly(words, one) for one in TEXTS])
    torch.testing.assert_close(text.represent(TEXTS), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("batch_size", [1, 2, 5, None])
@pytest.mark.parametrize("pad", [0, 9])
def test_represent__padding_does_not_change_results(words: Words, batch_size: int | None, pad: int) -> None:
    encoder = TextEncoder(words, tokenize, limit=8, pad=pad)
    alone = torch.cat([encoder.represent(one) for one in TEXTS])
    torch.testing.assert_close(encoder.represent(TEXTS, batch_size=batch_size), alone, rtol=0, atol=1e-6)


def test_collate__pads_to_the_longest(text: TextEncoder) -> None:
    batch = text.collate([text.prepare("a cat"), text.prepare("dog")])
    assert batch["input_ids"].tolist() == [[1, 2, 3], [1, 4, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]


def test_represent__single_string_is_one_text(text: TextEncoder, words: Words) -> None:
    found = text.represent("a cat")
    assert found.shape == (1, 5)
    torch.testing.assert_close(found[0], slowly(words, "a cat"), rtol=0, atol=1e-6)
    assert text.is_one("a cat")
    assert not text.is_one(["a cat"])
    assert text.as_list("a cat") == ["a cat"]


def test_represent__texts_at_a_time(text: TextEncoder, words: Words) -> None:
    text.represent(["a cat"] * 130)
    assert [shape[0] for shape in words.shapes] == [64, 1, 64, 2]  # the second is the check for determinism
    with pytest.raises(ValueError, match=r"'batch_size' parameter must be .*at least 1\. Got 0 instead"):
        text.represent(TEXTS, batch_size=0)


def test_represent__texts_of_similar_length_share_a_batch(words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "WINDOW", 6)
    encoder = TextEncoder(words, tokenize, limit=8)
    texts = ["a", "the big red dog", "a cat", "dog of the cat", "a", "the cat", "big dog", "a photo of the cat"]
    alone = torch.cat([encoder.represent(one) for one in texts])
    words.shapes.clear()
    torch.testing.assert_close(encoder.represent(texts, batch_size=2), alone, rtol=0, atol=1e-6)
    assert [shape for shape in words.shapes if shape[0] > 1] == [(2, 5), (2, 3), (2, 2), (2, 6)]
    reference = encoder.reference(texts, batch_size=2, cache=False)
    assert reference.samples is not None
    torch.testing.assert_close(reference.samples, alone, rtol=0, atol=1e-6)


def test_reference__skipped_texts_leave_the_others_in_order(text: TextEncoder) -> None:
    texts = ["a", "", "the big red dog", "a cat of the red dog a photo", "dog", "the cat"]
    with pytest.warns(UserWarning, match="2 inputs were skipped"):
        reference = text.reference(texts, on_error="skip")
    assert [index for index, _ in reference.skipped] == [1, 3]
    assert reference.samples is not None
    torch.testing.assert_close(reference.samples, text.represent([texts[i] for i in (0, 2, 4, 5)]), rtol=0, atol=1e-6)


def test_default_batch_size__so_many_tokens_on_a_cpu(text: TextEncoder) -> None:
    sizes = {length: text.batch_size(torch.ones(length, dtype=torch.long)) for length in (8, 64, 256, 10_000)}
    assert sizes == {8: 64, 64: 64, 256: 16, 10_000: 1}


@pytest.mark.parametrize("empty", ["", "  \n\t"])
def test_represent__empty_text(text: TextEncoder, empty: str) -> None:
    with pytest.raises(ValueError, match=r"Input 1: The text is empty; write at least one word"):
        text.represent(["a cat", empty])
    with pytest.raises(ValueError, match=r"Input 0: The text is empty"):
        text.represent(empty)


@pytest.mark.parametrize("wrong", [3, None, b"a cat", ["a cat"]])
def test_represent__not_a_string(text: TextEncoder, wrong: Any) -> None:
    with pytest.raises(TypeError, match=rf"Input 1: A text must be a string\. Got {type(wrong).__name__} instead"):
        text.represent(["a cat", wrong])


def test_represent__too_long_says_how_many_tokens(text: TextEncoder) -> None:
    fits = "the big red dog of the cat"  # with the start token, 8 tokens
    assert text.represent(fits).shape == (1, 5)
    with pytest.raises(ValueError, match=r"Input 1: The text has 9 tokens but 'toy' takes at most 8; shorten it: 'a the big"):
        text.represent(["a cat", "a " + fits])


def test_represent__text_without_any_token(words: Words) -> None:
    encoder = TextEncoder(words, lambda text: tokenize(text)[1:], limit=8)
    with pytest.raises(ValueError, match=r"Input 0: .*no tokens.*'zebra'"):
        encoder.represent("zebra")


def test_represent__advice_of_a_failing_module_is_about_texts(words: Words) -> None:
    encoder = TextEncoder(words, lambda text: [1, 999], limit=8, name="mismatched")
    with pytest.raises(RuntimeError, match=r"'mismatched' failed on a batch of 1 input: .*tokenize"):
        encoder.represent("a cat")


def test_call__is_differentiable_in_the_weights(text: TextEncoder, words: Words) -> None:
    words.matrix.requires_grad_()
    text(text.collate([text.prepare("a cat")])).sum().backward()
    assert words.matrix.grad is not None
    assert float(words.matrix.grad.abs().max()) > 0


# --- names --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        ("a cat", "a cat"),
        (["a cat", "dog"], "a cat / dog"),
        (["a cat", "dog", "cat"], "a cat / dog / cat"),
        (["a cat", "dog", "cat", "the"], "a cat and 3 more"),
        (TEXTS, "a cat and 4 more"),
    ],
)
def test_reference__name_is_made_up_of_the_texts(text: TextEncoder, texts: Any, name: str) -> None:
    assert text.reference(texts).name == name
    assert text.reference([texts] if isinstance(texts, str) else iter(texts)).name == name
    assert text.reference(texts, name="mine").name == "mine"


# --- identity -----------------------------------------------------------------------------------------------------------


def test_fingerprint__changes_with_the_tokenizer(words: Words) -> None:
    first = TextEncoder(words, tokenize, limit=8)
    second = TextEncoder(words, lambda text: tokenize(text)[::-1], limit=8)
    assert first.fingerprint != second.fingerprint
