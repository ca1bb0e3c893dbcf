"""Names: the words whose non-negative sum is closest to a direction."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Lasso

import cocoax
from cocoax.insight.discovery import _collection_of, _name_corpora, _sparse_sum
from tests.towers import picture, two_towers


def test_combine__is_the_lasso_with_weights_of_at_least_nothing() -> None:
    random = np.random.default_rng(0)
    words = random.normal(size=(30, 60))
    words /= np.linalg.norm(words, axis=1, keepdims=True)
    direction = words[3] + 0.6 * words[11]
    found = _sparse_sum(direction, words, [f"word {number}" for number in range(30)], most=2)
    assert [word.word for word in found] == ["word 3", "word 11"]
    lasso = [
        Lasso(alpha=alpha, positive=True, fit_intercept=False, max_iter=10_000).fit(words.T, direction).coef_
        for alpha in np.geomspace(1e-1, 1e-5, 100)
    ]
    first = next(path for path in lasso if (path > 1e-9).sum() == 2)
    assert set(np.flatnonzero(first > 1e-9)) == {3, 11}
    length = np.linalg.norm(direction)
    assert [word.weight for word in found] == pytest.approx([1 / length, 0.6 / length])


def test_combine__only_directions_count() -> None:
    words = np.eye(4)
    assert _sparse_sum(5 * np.array([0, 1.0, 0, 0]), 3 * words, list("abcd"))[0].word == "b"
    assert _sparse_sum(-words[0], words, list("abcd")) == ()


def test_name_corpora__words_of_pictures_texts_and_none() -> None:
    towers = two_towers()
    pictures = _collection_of(towers, [picture(seed) for seed in range(4)], "cosine", None)
    direction = towers.text.represent(["a zebra"])[0].double().numpy()
    names = _name_corpora(pictures, [direction], ["lion", "zebra", "cup", "tree", "road"])
    assert names[0][0].word == "zebra"
    texts = _collection_of(towers.text, ["a large zebra", "one green cup"], "cosine", None)
    assert {word.word for word in _name_corpora(texts, [direction])[0]} <= {"large", "zebra", "green", "cup"}
    with pytest.raises(ValueError, match="vocabulary is empty"):
        _name_corpora(pictures, [direction], [])
    with pytest.raises(TypeError, match="must be a list"):
        _name_corpora(pictures, [direction], "zebra")
    with pytest.raises(ValueError, match="hold no words"):
        _name_corpora(_collection_of(towers.text, ["1 2", "3"], "cosine", None), [direction])


def test_name_corpora__without_a_text_tower(encoder: cocoax.Encoder) -> None:
    from tests.conftest import images

    collection = _collection_of(encoder, images(4), "cosine", None)
    assert _name_corpora(collection, [np.ones(8)]) == [()]
    with pytest.raises(ValueError, match="leave out 'vocabulary'"):
        _name_corpora(collection, [np.ones(8)], ["a"])
