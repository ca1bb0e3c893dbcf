"""Texts as gradients see them: embeddings in place of tokens."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cocoax
from cocoax import TextEncoder
from cocoax.encoders.embedding import differentiable
from cocoax.encoders.fast_encoder import FastEncoder
from cocoax.encoders.forward import locked
from cocoax.masking import resolve
from tests.encoders.words import Pieces, Words, tokenize
from tests.tiny import bert_tokenizer


def test_differentiable__own_embeddings_give_the_own_representation() -> None:
    encoder = TextEncoder(Pieces(), bert_tokenizer(), limit=32)
    explicand = encoder.explicand("The violinist parked.")
    view, embedded = differentiable(encoder, explicand)
    assert embedded.tensor.shape == (6, len(explicand.tensor))
    torch.testing.assert_close(view.encode([embedded.tensor]), encoder.encode([explicand.tensor]))
    assert (view.space, view.name) == (encoder.space, encoder.name)
    other = encoder.explicand("a dog dog cat.")  # another text of the same number of tokens, laid in
    swapped = view.prepare("a dog dog cat.")
    assert swapped.shape == embedded.tensor.shape
    assert other.feature_ids is not None
    torch.testing.assert_close(swapped[:, 1:6], differentiable(encoder, other)[1].tensor[:, 1:6])
    assert torch.equal(swapped[:, [0, -1]], embedded.tensor[:, [0, -1]])


class Waiting(Pieces):
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
    plain = TextEncoder(Pieces(), bert_tokenizer(), limit=32)
    with ThreadPoolExecutor(3) as pool:
        other = pool.submit(encoder.represent, ["a dog dog cat."])
        assert module.running.wait(20)
        own = pool.submit(view.encode, [embedded.tensor])
        time.sleep(0.1)  # it would have put its embeddings there by now
        module.go.set()
        torch.testing.assert_close(other.result(20), plain.represent(["a dog dog cat."]))
        torch.testing.assert_close(own.result(20), plain.encode([explicand.tensor]))


def test_differentiable__is_never_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Pieces()
    module.norm = nn.BatchNorm1d(4)
    encoder = TextEncoder(module, bert_tokenizer(), limit=32)
    view, embedded = differentiable(encoder, encoder.explicand("The violinist parked."))
    monkeypatch.setattr("cocoax.encoders.fast_encoder.fold", lambda *_what: pytest.fail("a copy was made"))
    assert FastEncoder(view, [embedded.tensor], embedded.tensor).encoder is view


def test_embedding_layer__named_found_and_missing() -> None:
    class Two(Words):
        def __init__(self) -> None:
            super().__init__()
            self.places = nn.Embedding(4, 6)

    with torch.random.fork_rng():
        two = Two()
    assert TextEncoder(two, tokenize, limit=8).embedding_layer is two.embedding
    assert TextEncoder(two, tokenize, limit=8, embedding="places").embedding_layer is two.places
    words = Words()
    del words.embedding
    with pytest.raises(ValueError, match=r"no layer of token embeddings.*embedding="):
        _ = TextEncoder(words, tokenize, limit=8).embedding_layer


def test_embedding_layer__that_does_not_run() -> None:
    class Idle(Pieces):
        def __init__(self) -> None:
            super().__init__()
            self.idle = nn.Embedding.from_pretrained(self.embedding.weight.clone())

    encoder = TextEncoder(Idle(), bert_tokenizer(), limit=32, embedding="idle", name="idle")
    with pytest.raises(RuntimeError, match=r"embeddings did not run in 'idle'; name another"):
        cocoax.VanillaGradients().explain(encoder, "a cat", cocoax.representation_similarity())


class Slowed(Pieces):
    """Lets its first forward pass wait for ``go``, and its second for the first one's end; remembers their modes."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = False
        self.started, self.go, self.first_done = threading.Event(), threading.Event(), threading.Event()
        self.modes: list[bool] = []

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        if self.slow:
            first = not self.modes
            self.modes.append(self.training)
            self.started.set()
            assert (self.go if first else self.first_done).wait(20)
            self.modes.append(self.drop.training)
        return super().forward(tokens)


def test_differentiable__eval_mode_lasts_while_another_thread_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def lingering(owner: nn.Module | None) -> Iterator[None]:
        """Give the lock back, and let the other thread go first."""
        with locked(owner):
            yield
        time.sleep(0.2)

    monkeypatch.setattr("cocoax.encoders.embedding.locked", lingering)
    module = Slowed().train()
    encoder = TextEncoder(module, bert_tokenizer(), limit=32)
    encoder.represent(["a cat", "the dog"])  # so that nothing is encoded twice later on
    explicands = [encoder.explicand(text) for text in ("The violinist parked.", "a dog dog cat.")]
    (view, first), (other, second) = (differentiable(encoder, explicand) for explicand in explicands)
    expected = encoder.encode([explicand.tensor for explicand in explicands])
    module.slow = True
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(view.encode, [first.tensor])
        running.add_done_callback(lambda _future: module.first_done.set())
        assert module.started.wait(20)
        waiting = pool.submit(other.encode, [second.tensor])
        time.sleep(0.2)  # it waits for the first one by now
        module.go.set()
        found = torch.cat([running.result(20), waiting.result(20)])
    assert module.modes == [False] * 4
    torch.testing.assert_close(found, expected)
    assert module.training
    assert module.drop.training


def test_differentiable__numbers_are_their_own_view(encoder: cocoax.Encoder) -> None:
    explicand = encoder.explicand(torch.zeros(3, 8, 8))
    assert differentiable(encoder, explicand) == (encoder, explicand)


def test_differentiable__noise_has_the_spread_of_the_words() -> None:
    encoder = TextEncoder(Pieces(), bert_tokenizer(), limit=32)
    explicand = encoder.explicand("The violinist parked.")
    _, embedded = differentiable(encoder, explicand)
    assert embedded.scale is not None
    assert explicand.feature_ids is not None
    special = explicand.feature_ids < 0
    assert bool((embedded.scale[special] == 0).all())
    spread = float(embedded.tensor[:, ~special].std())
    assert embedded.scale[~special].tolist() == pytest.approx([spread] * int((~special).sum()))


def test_embeddings__removals() -> None:
    encoder = TextEncoder(Pieces(), bert_tokenizer(), limit=32)
    explicand = encoder.explicand("The violinist parked.")
    view, embedded = differentiable(encoder, explicand)
    layer: Any = encoder.embedding_layer
    assert explicand.feature_ids is not None
    words = explicand.feature_ids >= 0
    for removal, expected in [
        (None, layer.weight[4]),
        ("mask", layer.weight[4]),
        (cocoax.MaskToken(7), layer.weight[7]),
        (cocoax.Constant(0.5), torch.full((6,), 0.5)),
    ]:
        baseline_input = resolve(removal, view.inputs).baseline_input(embedded)
        assert torch.equal(baseline_input[:, words], expected[:, None].expand(-1, int(words.sum())))
        assert torch.equal(baseline_input[:, ~words], embedded.tensor[:, ~words])
    bare = TextEncoder(Pieces(), bert_tokenizer(), limit=32)
    bare.inputs.mask = None
    view, embedded = differentiable(bare, explicand)
    assert bool((resolve(None, view.inputs).baseline_input(embedded)[:, words] == 0).all())


class Upside(cocoax.Baseline):
    """A baseline of a user's own."""

    def __call__(self, explicand: Tensor) -> Tensor:
        return -explicand


def test_embeddings__baseline_of_ones_own_and_embeddings_themselves() -> None:
    encoder = TextEncoder(Pieces(), bert_tokenizer(), limit=32)
    view, embedded = differentiable(encoder, encoder.explicand("The violinist parked."))
    own = resolve(Upside(), view.inputs).baseline_input(embedded)
    assert torch.equal(own[:, 1:-1], -embedded.tensor[:, 1:-1])
    assert torch.equal(own[:, [0, -1]], embedded.tensor[:, [0, -1]])
    assert torch.equal(resolve(own, view.inputs).baseline_input(embedded), own)
    with pytest.raises(ValueError, match=r"'baseline' parameter must be one text\. Got 2 instead"):
        resolve(["a cat", "a dog"], view.inputs)
    with pytest.raises(ValueError, match=r"Gradients need something in place of a word.*Got 'delete' instead"):
        resolve("delete", view.inputs)
