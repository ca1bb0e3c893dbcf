"""MaxSim: scores, alignments and values against the formula written out, for modules, functions and pictures."""

from __future__ import annotations

import hashlib
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import cocoax
from cocoax.encoders.families.sentence import load_hf_text
from cocoax.encoders.function_calls import EmbeddingError
from tests.tiny import save_bert

QUERY, DOCUMENT, OTHER = "red car", "the violinist parked her car", "a big dog"
WIDTH = 64


class Tokens:
    """One unit vector for each word; notes what it was asked for."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: list[str]) -> list[np.ndarray]:
        self.texts += texts
        return [self.of(text) for text in texts]

    @staticmethod
    def of(text: str) -> np.ndarray:
        rows = []
        for word in text.split():
            seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "little")
            rows.append(np.random.default_rng(seed).standard_normal(WIDTH))
        vectors = np.array(rows, np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def maxsim(query: str, document: str) -> float:
    return float((Tokens.of(query) @ Tokens.of(document).T).max(1).sum())


def effects(text: str, score: Any) -> np.ndarray:
    """Return what keeping each word does to a score, the mean over all subsets of the others."""
    words = text.split()
    kept = np.array(list(itertools.product((False, True), repeat=len(words))))
    scores = np.array([score(" ".join(np.array(words)[row]) or "…") for row in kept])
    return np.array([scores[kept[:, i]].mean() - scores[~kept[:, i]].mean() for i in range(len(words))])


def test_function__scores_and_values_are_those_of_enumeration() -> None:
    encoder = cocoax.wrap(Tokens(), late_interaction=True)
    match = cocoax.explain_match(encoder, QUERY, DOCUMENT, OTHER)
    assert match.similarity == pytest.approx(maxsim(QUERY, DOCUMENT), abs=1e-5)
    assert match.others == pytest.approx((maxsim(QUERY, OTHER),), abs=1e-5)
    document = effects(DOCUMENT, lambda text: maxsim(QUERY, text))
    np.testing.assert_allclose(2 * match.document.values.numpy() - 2 * match.document.neutral, document, atol=1e-5)
    query = effects(QUERY, lambda text: maxsim(text, DOCUMENT) - maxsim(text, OTHER))
    np.testing.assert_allclose(2 * match.query.values.numpy() - 2 * match.query.neutral, query, atol=1e-5)
    assert match.summary.startswith(f"{match.margin:+.3f} = MaxSim with this document")


def test_alignment__is_exact_and_sums_to_the_score() -> None:
    match = cocoax.explain_match(cocoax.wrap(Tokens(), late_interaction=True), QUERY, DOCUMENT)
    assert match.exact is not None
    assert match.exact.columns == ("query token", "found", "similarity")
    assert sum(row[2] for row in match.exact.rows) == pytest.approx(match.similarity, abs=1e-5)
    assert match.exact.rows[1][2] == pytest.approx(1.0, abs=1e-6)  # car
    assert match.exact.rows[1][1] == "vector 5"
    assert match.to_dict()["exact"][1]["found"] == "vector 5"
    pairs = match.interactions
    assert pairs.values.shape == (2, 5)
    assert pairs.top(1)[0][1] == "car"
    tokens = [effects(DOCUMENT, lambda text, row=row: (Tokens.of(QUERY)[row] @ Tokens.of(text).T).max()) for row in (0, 1)]
    np.testing.assert_allclose(pairs.values.numpy(), np.stack(tokens), atol=1e-5)


def test_hits__foils_and_calls() -> None:
    tokens, again = Tokens(), Tokens()
    rows = [(DOCUMENT, 0.9), (OTHER, 0.1)]
    found = [
        cocoax.explain_hits(cocoax.wrap(each, late_interaction=True, name="words"), QUERY, rows) for each in (tokens, again)
    ]
    assert len(tokens.texts) == len(set(tokens.texts))
    assert again.texts == []
    assert found[0].to_dict() == found[1].to_dict()
    assert found[0][0].margin == pytest.approx(maxsim(QUERY, DOCUMENT) - maxsim(QUERY, OTHER), abs=1e-5)
    assert "car" in found[0][0].sentence
    assert found[0].html().count("found") >= 2


def test_hidden_states_of_a_transformer(tmp_path: Any) -> None:
    encoder = load_hf_text(str(save_bert(tmp_path)))
    match = cocoax.explain_match(encoder, QUERY, DOCUMENT, similarity="maxsim")
    states = []
    for text in (QUERY, DOCUMENT):
        ids = encoder.inputs.prepare(text)
        with torch.no_grad():
            hidden = encoder.module.token_states(encoder.collate([ids]))[0, 1:-1]  # type: ignore[union-attr, operator]
        states.append(torch.nn.functional.normalize(hidden, dim=1))
    expected = (states[0] @ states[1].T).amax(1).sum()
    assert match.similarity == pytest.approx(float(expected), abs=1e-5)
    assert match.exact is not None
    assert [row[0] for row in match.exact.rows][-1] == "car"
    assert match.document.names == ("the", "violinist", "parked", "her", "car")


def test_a_page_and_a_query_in_words() -> None:
    def pages(pictures: list[Image.Image]) -> list[np.ndarray]:
        arrays = [np.asarray(picture.resize((4, 4), Image.Resampling.BOX), np.float32) / 255 + 0.01 for picture in pictures]
        return [array.reshape(16, 3) for array in arrays]

    def words(texts: list[str]) -> list[np.ndarray]:
        colours = {"red": [1, 0, 0], "green": [0, 1, 0]}
        return [np.array([colours.get(word, [0.4, 0.5, 0.6]) for word in text.split()], np.float32) for text in texts]

    pixels = np.full((32, 32, 3), 40, np.uint8)
    pixels[:8, :8] = (255, 0, 0)
    documents = cocoax.wrap(pages, late_interaction=True, takes="pictures")
    encoder = cocoax.wrap(words, late_interaction=True)
    match = cocoax.explain_match(
        encoder, "red", Image.fromarray(pixels), document_encoder=documents, method=cocoax.Rise(samples=60, grid=4)
    )
    assert float(match.document.values[:8, :8].mean()) > float(match.document.values[16:, 16:].mean())
    assert match.exact is not None
    assert match.exact.rows[0][1] == "vector 1"


@pytest.mark.parametrize(
    ("output", "word"),
    [
        (lambda texts: np.zeros((len(texts), 4)), "tokens, d"),
        (lambda texts: [np.zeros((2, 3)), np.zeros((2, 4))][: len(texts)] + [np.zeros((1, 5))] * len(texts), "tokens, d"),
        (lambda texts: [np.full((2, 3), np.nan)] * len(texts), "NaN"),
    ],
)
def test_mistakes(output: Any, word: str) -> None:
    with pytest.raises(EmbeddingError, match=word):
        cocoax.explain_match(cocoax.wrap(output, late_interaction=True), QUERY, DOCUMENT)
    plain = cocoax.wrap(lambda texts: np.ones((len(texts), 3)), takes="texts")
    with pytest.raises(TypeError, match="one vector for each token"):
        cocoax.explain_match(plain, QUERY, DOCUMENT, similarity="maxsim")
