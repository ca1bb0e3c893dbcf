"""Text encoders: strings in, representations out, whatever they are batched with."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cocoax
from cocoax import TextEncoder
from cocoax.encoders import ENCODERS
from cocoax.encoders.embedding import differentiable
from tests.tiny import bert_tokenizer

WORDS = ("<pad>", "<start>", "a", "cat", "dog", "photo", "of", "the", "red", "big")


def tokenize(text: str) -> list[int]:
    """A start token, then one token for each known word."""
    return [1] + [WORDS.index(word) for word in text.split() if word in WORDS]


class Words(nn.Module):
    """The mean over a text's tokens, through a small network; remembers the shapes it has seen."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.embedding = nn.Embedding.from_pretrained(torch.randn(len(WORDS), 6, generator=generator))
        self.register_buffer("matrix", torch.randn(6, 5, generator=generator))
        self.matrix: Tensor
        self.drop = nn.Dropout(0.5)
        self.shapes: list[tuple[int, ...]] = []

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        self.shapes.append(tuple(tokens["input_ids"].shape))
        mask = tokens["attention_mask"].unsqueeze(-1).to(self.matrix)
        mean = (self.embedding(tokens["input_ids"]) * mask).sum(1) / mask.sum(1)
        return torch.tanh(self.drop(mean) @ self.matrix)


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


def test_represent__generator_and_tuple(text: TextEncoder) -> None:
    expected = text.represent(TEXTS)
    assert torch.equal(text.represent(one for one in TEXTS), expected)
    assert torch.equal(text.represent(tuple(TEXTS)), expected)


def test_represent__texts_at_a_time(text: TextEncoder, words: Words) -> None:
    text.represent(["a cat"] * 130)
    assert [shape[0] for shape in words.shapes] == [64, 1, 64, 2]  # the second is the check for determinism
    with pytest.raises(ValueError, match=r"'batch_size' parameter must be .*at least 1\. Got 0 instead"):
        text.represent(TEXTS, batch_size=0)


def test_represent__module_is_left_in_its_mode(text: TextEncoder, words: Words) -> None:
    words.train()
    assert torch.equal(text.represent(TEXTS), text.represent(TEXTS))
    assert words.drop.training


@pytest.mark.parametrize("empty", ["", "  \n\t"])
def test_represent__empty_text(text: TextEncoder, empty: str) -> None:
    with pytest.raises(ValueError, match=r"Input 1: The text is empty; write at least one word"):
        text.represent(["a cat", empty])
    with pytest.raises(ValueError, match=r"Input 0: The text is empty"):
        text.represent(empty)


def test_represent__no_texts(text: TextEncoder) -> None:
    with pytest.raises(ValueError, match=r"There are 0 inputs; pass at least one"):
        text.represent([])


@pytest.mark.parametrize("wrong", [3, None, b"a cat", ["a cat"]])
def test_represent__not_a_string(text: TextEncoder, wrong: Any) -> None:
    with pytest.raises(TypeError, match=rf"Input 1: A text must be a string\. Got {type(wrong).__name__} instead"):
        text.represent(["a cat", wrong])


@pytest.mark.parametrize("wrong", [3, None])
def test_represent__not_even_a_list(text: TextEncoder, wrong: Any) -> None:
    with pytest.raises(TypeError, match=rf"string.*Got {type(wrong).__name__}"):
        text.represent(wrong)


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
    with pytest.raises(RuntimeError, match=r"'mismatched' failed on a batch of 1 inputs: .*tokenize"):
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


def test_reference__name_without_the_texts_that_were_skipped(text: TextEncoder) -> None:
    with pytest.warns(UserWarning, match=r"skipped \(Input 0: The text is empty"):
        reference = text.reference(["", "a cat"], on_error="skip")
    assert reference.name == "a cat"


# --- identity -----------------------------------------------------------------------------------------------------------


def test_fingerprint__same_and_different(words: Words) -> None:
    first = TextEncoder(words, tokenize, limit=8)
    assert first.fingerprint == TextEncoder(Words(), tokenize, limit=8, name="other").fingerprint
    assert first.fingerprint != TextEncoder(Words(seed=1), tokenize, limit=8).fingerprint
    assert first.recognisable


def test_fingerprint__changes_with_the_tokenizer(words: Words) -> None:
    first = TextEncoder(words, tokenize, limit=8)
    second = TextEncoder(words, lambda text: tokenize(text)[::-1], limit=8)
    assert first.fingerprint != second.fingerprint


# --- load ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "closest"), [("startr", "starter"), ("efficientnet", "efficientnet-lite0"), ("MiniLM", "minilm")]
)
def test_load__unknown_name_suggests_the_closest(name: str, closest: str) -> None:
    with pytest.raises(ValueError, match=rf"No encoder is called '{name}'; known are .*Did you mean '{closest}'\?") as caught:
        cocoax.load(name)
    assert all(known in str(caught.value) for known in ENCODERS)


def test_load__nothing_close() -> None:
    with pytest.raises(ValueError, match=r"No encoder is called 'qqq'; known are ") as caught:
        cocoax.load("qqq")
    assert "Did you mean" not in str(caught.value)


def test_load__loads_by_name(monkeypatch: pytest.MonkeyPatch, text: TextEncoder) -> None:
    monkeypatch.setitem(ENCODERS, "toy", lambda: text)
    assert cocoax.load("toy") is text


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


# --- embeddings ---------------------------------------------------------------------------------------------------------


class Large(Words):
    """The same network with a vocabulary for the real tokenizer."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.embedding = nn.Embedding.from_pretrained(torch.randn(len(bert_tokenizer()), 6, generator=generator))


def test_differentiable__own_embeddings_give_the_own_representation() -> None:
    encoder = TextEncoder(Large(), bert_tokenizer(), limit=32)
    explicand = encoder.explicand("The violinist parked.")
    view, embedded = differentiable(encoder, explicand)
    assert embedded.tensor.shape == (6, len(explicand.tensor))
    torch.testing.assert_close(view.encode([embedded.tensor]), encoder.encode([explicand.tensor]))
    assert (view.space, view.name) == (encoder.space, encoder.name)
    other = encoder.explicand("a dog dog cat.")  # another text of the same number of tokens, laid in
    swapped = view.prepare("a dog dog cat.")
    assert swapped.shape == embedded.tensor.shape
    assert other.members is not None
    torch.testing.assert_close(swapped[:, 1:6], differentiable(encoder, other)[1].tensor[:, 1:6])
    assert torch.equal(swapped[:, [0, -1]], embedded.tensor[:, [0, -1]])


class Waiting(Large):
    """Says that it runs, and waits before it looks at its embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.running, self.go = threading.Event(), threading.Event()

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        self.running.set()
        assert self.go.wait(20)
        return super().forward(tokens)


def test_differentiable__other_threads_do_not_see_its_embeddings() -> None:
    module = Waiting()
    encoder = TextEncoder(module, bert_tokenizer(), limit=32)
    explicand = encoder.explicand("The violinist parked.")
    view, embedded = differentiable(encoder, explicand)
    plain = TextEncoder(Large(), bert_tokenizer(), limit=32)
    with ThreadPoolExecutor(3) as pool:
        other = pool.submit(encoder.represent, ["a dog dog cat."])
        assert module.running.wait(20)
        own = pool.submit(view.encode, [embedded.tensor])
        time.sleep(0.1)  # it would have put its embeddings there by now
        module.go.set()
        torch.testing.assert_close(other.result(20), plain.represent(["a dog dog cat."]))
        torch.testing.assert_close(own.result(20), plain.encode([explicand.tensor]))


def test_differentiable__embeddings_are_those_of_the_layer_while_another_thread_runs() -> None:
    module = Waiting()
    encoder = TextEncoder(module, bert_tokenizer(), limit=32)
    explicands = [encoder.explicand(text) for text in ("The violinist parked.", "a dog dog cat.")]
    view, embedded = differentiable(encoder, explicands[0])
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(view.encode, [embedded.tensor])
        assert module.running.wait(20)
        other = pool.submit(differentiable, encoder, explicands[1])
        time.sleep(0.1)
        module.go.set()
        running.result(20)
        assert torch.equal(other.result(20)[1].tensor.T, module.embedding(explicands[1].tensor))


def test_differentiable__is_never_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Large()
    module.norm = nn.BatchNorm1d(4)
    encoder = TextEncoder(module, bert_tokenizer(), limit=32)
    view, embedded = differentiable(encoder, encoder.explicand("The violinist parked."))
    monkeypatch.setattr("cocoax.encoders.folding.fold", lambda *_what: pytest.fail("a copy was made"))
    assert view.folded(view.space, [embedded.tensor], embedded.tensor) is view


def test_embedding_layer__named_found_and_missing(words: Words) -> None:
    class Two(Words):
        def __init__(self) -> None:
            super().__init__()
            self.places = nn.Embedding(4, 6)

    with torch.random.fork_rng():
        two = Two()
    assert TextEncoder(two, tokenize, limit=8).embedding_layer is two.embedding
    assert TextEncoder(two, tokenize, limit=8, embedding="places").embedding_layer is two.places
    del words.embedding
    with pytest.raises(ValueError, match=r"no layer of token embeddings.*embedding="):
        _ = TextEncoder(words, tokenize, limit=8).embedding_layer


def test_embedding_layer__that_does_not_run() -> None:
    class Idle(Large):
        def __init__(self) -> None:
            super().__init__()
            self.idle = nn.Embedding.from_pretrained(self.embedding.weight.clone())

    encoder = TextEncoder(Idle(), bert_tokenizer(), limit=32, embedding="idle", name="idle")
    with pytest.raises(RuntimeError, match=r"embeddings did not run in 'idle'; name another"):
        cocoax.VanillaGradients().explain(encoder, "a cat", cocoax.representation_similarity())
