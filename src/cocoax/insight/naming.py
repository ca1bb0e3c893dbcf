"""Names for corpora: few words of a vocabulary whose sum is closest, as in SpLiCE (Bhalla et al. 2024)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cocoax.checks import as_items
from cocoax.data import caption, cifar100
from cocoax.encoders import Encoder
from cocoax.encoders.families.starter import imagenet_classes
from cocoax.insight.collection import Collection
from cocoax.references import Reference
from cocoax.similarity import LinearSimilarity

WORDS = 3  # of a name, at most
COMMON = 1000  # words of texts that are their own vocabulary
LEAST = 0.05  # the weight of a word that is worth naming
# Classes of CIFAR-10, and what CIFAR-100 puts its classes together as: words for kinds of things.
KINDS = (
    *("airplane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck", "fish", "flower", "food", "fruit"),
    *("vegetable", "household appliance", "furniture", "insect", "carnivore", "building", "landscape", "mammal", "person"),
    *("invertebrate", "reptile", "rodent", "tree", "vehicle", "container", "tool", "clothing", "musical instrument"),
)


@dataclass(frozen=True)
class Word:
    """A word in the name of a corpus, and its weight in the sum."""

    word: str
    weight: float


def combine(direction: np.ndarray, vocabulary: np.ndarray, words: Sequence[str], most: int = WORDS) -> tuple[Word, ...]:
    """Return the sparse non-negative combination of words closest to a direction ``[d]``, largest weight first.

    Words ``[v, d]`` enter one by one, as the lasso with weights of at least 0 lets them in (least angle regression), until
    there are ``most``. Their weights are those of the closest sum, not shrunk as the lasso does. Directions and words must be
    centred; only their directions count.
    """
    from scipy.optimize import nnls
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import lars_path

    rows = vocabulary / np.maximum(np.linalg.norm(vocabulary, axis=1, keepdims=True), 1e-12)
    unit = direction / max(float(np.linalg.norm(direction)), 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, _, paths = lars_path(rows.T, unit, method="lasso", positive=True, max_iter=most)
    chosen = np.flatnonzero(paths[:, -1] > 0)
    if not len(chosen):
        return ()
    weights, _ = nnls(rows[chosen].T, unit)
    order = np.argsort(-weights, kind="stable")[:most]
    return tuple(Word(words[chosen[place]], float(weights[place])) for place in order if weights[place] >= LEAST)


def name_corpora(collection: Collection, directions: Sequence[np.ndarray], vocabulary: Any = None) -> list[tuple[Word, ...]]:
    """Return words for each direction ``[d]`` of the feature space; none where the encoder has no text tower."""
    encoder = collection.encoder
    tower: Encoder | None = getattr(encoder, "text", None)
    if tower is None:
        if vocabulary is not None:
            raise ValueError(
                "Words need an encoder with a text tower, such as cocoax.load('starter'); leave out 'vocabulary'."
            )
        return [()] * len(directions)
    reads_texts = tower is encoder
    words = _words(collection, reads_texts) if vocabulary is None else as_items("A vocabulary", vocabulary)
    if not words:
        raise ValueError("The vocabulary is empty; give at least one word.")
    captions = words if reads_texts else [caption(word, "a {}") for word in words]
    known = tower.reference(captions, name="vocabulary", keep_samples=True)
    vectors = _centred(known, collection.similarity)
    return [combine(direction, vectors, words) for direction in directions]


def _centred(words: Reference, similarity: LinearSimilarity) -> np.ndarray:
    vectors = similarity.features(words.kept("a vocabulary").double()).numpy()
    centred: np.ndarray = vectors - vectors.mean(0) if len(vectors) > 1 else vectors
    return centred


def _words(collection: Collection, reads_texts: bool) -> list[str]:
    """Return the words that are tried: for pictures the names of classes of ImageNet and CIFAR, for texts their own."""
    if not reads_texts:
        return list(dict.fromkeys([*KINDS, *imagenet_classes(), *cifar100()]))
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(stop_words="english", max_features=COMMON, token_pattern=r"(?u)\b[^\W\d_]{3,}\b")
    try:
        return list(counter.fit(collection.texts()).get_feature_names_out())
    except ValueError as error:
        raise ValueError(f"The texts hold no words to name corpora with ({error}); give a 'vocabulary'.") from error
