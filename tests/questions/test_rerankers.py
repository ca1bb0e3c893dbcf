"""Rerankers: values and interactions against enumeration, coverage of intervals, margins, calls, and mistakes."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
import torch

import cocoax
from cocoax.encoders.function_calls import BudgetError, EmbeddingError
from cocoax.encoders.rerankers import Reranker

QUERY, DOCUMENT, OTHER = "drop duplicate rows", "removes duplicated rows of frames", "sorts the rows of frames"
PAIRS = {("duplicate", "duplicated"): 2.0, ("rows", "rows"): 1.0, ("drop", "removes"): 0.5}


class Score:
    """A score of pairs of words, squashed, so that it is no sum over pairs; notes what it was asked for."""

    def __init__(self) -> None:
        self.pairs: list[tuple[str, str]] = []

    def __call__(self, pairs: list[tuple[str, str]]) -> list[float]:
        self.pairs += pairs
        return [self.of(query.split(), document.split()) for query, document in pairs]

    @staticmethod
    def of(query: list[str], document: list[str]) -> float:
        total = sum(value for (a, b), value in PAIRS.items() if a in query and b in document)
        return float(np.tanh(total / 2) + 0.1 * len(query) - 0.02 * len(document) * ("sorts" in document))


def subsets(count: int) -> list[tuple[bool, ...]]:
    return list(itertools.product((False, True), repeat=count))


def enumerated(query: str, document: str) -> tuple[np.ndarray, np.ndarray]:
    """Return effects of all words, and interactions of words of both sides, by going through all subsets."""
    asked, found = query.split(), document.split()
    count, first = len(asked) + len(found), len(asked)
    kept = np.array(subsets(count))
    texts = [
        (
            [w for w, own in zip(asked, row[:first], strict=True) if own],
            [w for w, own in zip(found, row[first:], strict=True) if own],
        )
        for row in kept
    ]
    scores = np.array([Score.of(a or ["…"], b or ["…"]) for a, b in texts])
    effects = np.array([scores[kept[:, i]].mean() - scores[~kept[:, i]].mean() for i in range(count)])
    pairs = np.zeros((first, count - first))
    for i, j in itertools.product(range(first), range(first, count)):
        signs = np.where(kept[:, i], 1, -1) * np.where(kept[:, j], 1, -1)
        pairs[i, j - first] = 4 * (scores * signs).mean()
    return effects, pairs


def test_values_and_interactions__are_those_of_enumeration() -> None:
    match = cocoax.explain_match(cocoax.wrap(Score(), takes="pairs"), QUERY, DOCUMENT, method=cocoax.Rise(samples=256))
    effects, pairs = enumerated(QUERY, DOCUMENT)
    found = torch.cat([match.query.values, match.document.values]).numpy()
    np.testing.assert_allclose(found, effects, atol=1e-6)
    np.testing.assert_allclose(match.interactions.values.numpy(), pairs, atol=1e-6)
    assert match.interactions.top(1)[0][:2] == ("duplicate", "duplicated")
    assert match.similarity == pytest.approx(Score.of(QUERY.split(), DOCUMENT.split()))
    assert float(match.document.standard_error.max()) == 0  # type: ignore[union-attr]
    assert match.summary.startswith("score of this document")


def test_shapley__sums_to_the_score() -> None:
    method = cocoax.KernelShap(samples=2**8 - 2)
    match = cocoax.explain_match(cocoax.wrap(Score(), takes="pairs"), QUERY, DOCUMENT, method=method)
    total = float(match.query.values.sum() + match.document.values.sum())
    assert total == pytest.approx(match.similarity - Score.of(["…"], ["…"]), abs=1e-5)
    assert not match.has_interactions


def test_sampled__intervals_hold_the_exact_values() -> None:
    document = f"{DOCUMENT} and also of other tables that are large"
    effects, pairs = enumerated(QUERY, document)
    value_misses, pair_misses, bias = [], [], []
    for seed in range(20):
        encoder = Reranker(Score())
        match = cocoax.explain_match(encoder, QUERY, document, method=cocoax.Rise(samples=100, seed=seed))
        found = torch.cat([match.query.values, match.document.values]).double().numpy()
        errors = torch.cat([match.query.standard_error, match.document.standard_error]).numpy()  # type: ignore[list-item]
        value_misses += (np.abs(found - effects) > 1.96 * errors + 1e-6).tolist()
        own = match.interactions
        assert own.standard_error is not None
        pair_misses += (np.abs(own.values.numpy() - pairs) > 1.96 * own.standard_error.numpy() + 1e-6).ravel().tolist()
        bias.append(own.values.numpy() - pairs)
    assert np.mean(value_misses) < 0.1
    assert np.mean(pair_misses) < 0.1
    mean, spread = np.mean(bias, 0), np.std(bias, 0) / len(bias) ** 0.5
    assert np.mean(np.abs(mean) > 3 * spread + 1e-3) < 0.05


def test_fillers__of_both_sides_share_nothing() -> None:
    def shared(pairs: list[tuple[str, str]]) -> list[float]:
        return [float(len(set(query) & set(document))) for query, document in pairs]

    encoder = cocoax.wrap(shared, takes="pairs")
    match = cocoax.explain_match(encoder, "rows", "tables", method=cocoax.Rise(samples=64))
    assert match.document.baseline_score == 0
    assert float(match.interactions.values) == shared([("rows", "tables")])[0]


def test_rather_than__why_a_above_b() -> None:
    match = cocoax.explain_match(
        cocoax.wrap(Score(), takes="pairs"), QUERY, DOCUMENT, OTHER, method=cocoax.Rise(samples=1024)
    )
    first, second = (enumerated(QUERY, document)[0][:3] for document in (DOCUMENT, OTHER))
    np.testing.assert_allclose(match.query.values.numpy(), first - second, atol=1e-6)
    assert match.margin == pytest.approx(match.similarity - Score.of(QUERY.split(), OTHER.split()))
    assert "duplicate" in match.sentence
    assert "less for “duplicate”" in match.sentence
    assert match.sentence.startswith("The query's “")
    for first, second in re.findall("“([^”]*)” matches “([^”]*)”", match.sentence):
        assert any(pair[:2] == (first, second) and pair[2] > 2 * pair[3] for pair in match.interactions.top(9))
    turned = cocoax.explain_match(
        cocoax.wrap(Score(), takes="pairs"), QUERY, OTHER, DOCUMENT, method=cocoax.Rise(samples=1024)
    )
    assert "he other has more for “duplicate”" in turned.sentence
    hits = cocoax.explain_hits(cocoax.wrap(Score(), takes="pairs"), QUERY, [DOCUMENT, OTHER])
    assert hits[0].margin == pytest.approx(match.margin)
    assert "score of hit 1" in hits[0].summary
    assert hits.to_dict()["similarity"] == "score"


def test_nothing_twice__pairs_are_kept_by_name() -> None:
    first, again = Score(), Score()
    found = [cocoax.explain_match(Reranker(score, name="pairs of words"), QUERY, DOCUMENT, OTHER) for score in (first, again)]
    assert len(first.pairs) == len(set(first.pairs))
    assert again.pairs == []
    assert found[0].to_dict() == found[1].to_dict()


def test_budget__and_a_long_document() -> None:
    long = " ".join(f"Line {number} sorts the frames of many tables in some order or other." for number in range(8))
    long += f" It {DOCUMENT} quickly."
    score = Score()
    match = cocoax.explain_match(Reranker(score), QUERY, long)
    assert sum(name.startswith("Line") and len(name) > 4 for name in match.document.names or ()) == 6
    assert len(score.pairs) <= 130
    assert "duplicated" in [word for word, _ in match.document.top(2, "positive")]
    assert "".join(match.document.text[b:e] for b, e in match.document.offsets).replace(" ", "") == long.replace(" ", "")  # type: ignore[index, union-attr]
    assert match.interactions.values.shape == (3, len(match.document.values))
    with pytest.raises(BudgetError, match="max_calls"):
        cocoax.explain_match(Reranker(Score(), max_calls=3), QUERY, long)
    with pytest.warns(cocoax.cautions.Caution, match="errors are larger"):
        cocoax.explain_match(Reranker(Score(), max_calls=60), QUERY, f"{DOCUMENT} and also of other tables")


class CrossEncoder(torch.nn.Module):
    """As of sentence-transformers."""

    def __init__(self, weight: float = 1.0) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(weight))

    def predict(self, pairs: list[tuple[str, str]]) -> torch.Tensor:
        return self.weight * torch.tensor(Score()(pairs))


def test_wrap__cross_encoders_and_functions() -> None:
    def score(pairs: list[tuple[str, str]]) -> list[float]:
        return Score()(pairs)

    for encoder in (cocoax.wrap(score), cocoax.wrap(CrossEncoder())):
        assert isinstance(encoder, Reranker)
        assert cocoax.explain_match(encoder, QUERY, DOCUMENT).similarity == pytest.approx(
            Score.of(QUERY.split(), DOCUMENT.split())
        )
    assert cocoax.wrap(CrossEncoder(2.0)).fingerprint != cocoax.wrap(CrossEncoder(1.0)).fingerprint


@pytest.mark.parametrize(
    ("score", "word"),
    [
        (lambda pairs: [1.0] * (len(pairs) + 1), "one number"),
        (lambda pairs: [[0.1, 0.9]] * len(pairs), "classifier"),
        (lambda pairs: [float("nan")] * len(pairs), "NaN"),
        (lambda pairs: ["high"] * len(pairs), "one number"),
        (lambda pairs: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_mistakes(score: Any, word: str) -> None:
    with pytest.raises(EmbeddingError, match=word):
        cocoax.explain_match(cocoax.wrap(score, takes="pairs"), QUERY, DOCUMENT)
    encoder = cocoax.wrap(Score(), takes="pairs")
    for query, document in (("", DOCUMENT), (QUERY, " "), (QUERY, "…"[:0])):
        with pytest.raises(ValueError, match="at least one word"):
            cocoax.explain_match(encoder, query, document)
    with pytest.raises(ValueError, match="similarity"):
        cocoax.explain_match(encoder, QUERY, DOCUMENT, similarity="dot")
    with pytest.raises(ValueError, match="words or sentences"):
        cocoax.explain_match(encoder, QUERY, DOCUMENT, features="tokens")


def test_sentence__says_so_where_all_is_noise() -> None:
    def noise(pairs: list[tuple[str, str]]) -> list[float]:
        return [float(np.random.default_rng(list(f"{query}|{text}".encode())).normal()) for query, text in pairs]

    match = cocoax.explain_match(cocoax.wrap(noise, takes="pairs"), QUERY, DOCUMENT)
    names = re.findall("“([^”]*)” matches “([^”]*)”", match.sentence)
    sure = {pair[:2] for pair in match.interactions.top(20) if pair[2] > 2 * (pair[3] or 0)}
    assert set(names) <= sure
    assert sure or match.sentence == "No word stands out of the noise; take more samples."
