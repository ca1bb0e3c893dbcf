"""What the encoder knows about sounds: every command of this room takes them."""

from __future__ import annotations

import numpy as np
import pytest

import cocoax
from tests.sounds import listener, tone

SEGMENTS = 6


def noisy(hertz: float, seed: int) -> np.ndarray:
    return tone(hertz) + 0.05 * np.random.default_rng(seed).standard_normal(1000).astype(np.float32)


LOW, HIGH = ([noisy(hertz + 5 * seed, seed) for seed in range(6)] for hertz in (60, 300))


@pytest.fixture(scope="module")
def encoder() -> cocoax.Encoder:
    return listener(segments=SEGMENTS)


def test_knows__sounds(encoder: cocoax.Encoder) -> None:
    knowledge = cocoax.knows(encoder.reference(LOW, name="low"), encoder.reference(HIGH, name="high"), permutations=99)
    assert knowledge.auc > 0.9


@pytest.mark.parametrize("method", ["kmeans", "fields", "crops"])
def test_discover__sounds(encoder: cocoax.Encoder, method: str) -> None:
    sounds = [*LOW, *HIGH]
    found = cocoax.discover(encoder, sounds, 2, method, explainer=cocoax.Rise(samples=40))  # type: ignore[arg-type]
    assert len(found) == 2
    assert found.maps(found[0], 1)[0].values.shape == (SEGMENTS,)
    labels = ["low"] * 6 + ["high"] * 6
    if method == "kmeans":
        assert found.purity(labels) >= 0.9
        return
    with pytest.raises(ValueError, match=f"Corpora by '{method}' share inputs, so they have no purity"):
        found.purity(labels)
    for corpus in found:  # of all its members, those in other corpora too
        own = [labels[place] for place in corpus.members]
        assert found.beside(labels)[corpus.number][1] == max(map(own.count, own))


def test_counterfactual__without_distractors_is_a_sentence(encoder: cocoax.Encoder) -> None:
    target = cocoax.contrastive_corpus_similarity(encoder.reference(LOW), encoder.reference(HIGH))
    with pytest.raises(ValueError, match=r"^A counterfactual takes parts of other sounds; pass distractors=\.$"):
        cocoax.counterfactual(encoder, LOW[0], target)


def test_minimal__pieces_of_a_sound(encoder: cocoax.Encoder) -> None:
    target = cocoax.contrastive_corpus_similarity(encoder.reference(LOW), encoder.reference(HIGH))
    least = cocoax.minimal(cocoax.KernelShap(samples=60).run(encoder, LOW[0]), target, keep=0.5)
    assert least.total == SEGMENTS
    assert least.kept.score >= least.level > least.removed.score


def test_examples__sounds(encoder: cocoax.Encoder) -> None:
    ranked = cocoax.examples(encoder, LOW[0], LOW, samples=40)
    assert len(ranked.part_names) == SEGMENTS
    assert ranked.parts is not None
    assert ranked.parts.shape == (6, SEGMENTS)
    nearest = cocoax.examples(encoder, LOW[0], LOW, "neighbours")
    assert int(np.argmax(nearest.values.numpy())) == 0
