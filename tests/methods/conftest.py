"""Fixtures of attribution methods: a corpus, a foil and the target of COCOA."""

from __future__ import annotations

import pytest

import cocoax
from tests.conftest import images


@pytest.fixture
def corpus(encoder: cocoax.Encoder) -> cocoax.Reference:
    return encoder.reference(images(5, seed=11), name="corpus", keep_samples=True)


@pytest.fixture
def foil(encoder: cocoax.Encoder) -> cocoax.Reference:
    return encoder.reference(images(7, seed=12), name="foil", keep_samples=True)


@pytest.fixture
def target(corpus: cocoax.Reference, foil: cocoax.Reference) -> cocoax.Target:
    return cocoax.contrastive_corpus_similarity(corpus, foil)
