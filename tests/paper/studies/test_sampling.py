from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from cocoax.data.labelled import LabelledImages
from cocoax.paper.studies.study import RUN_SEEDS, Draw, DrawnExplicand, draw_run

RANDOM = np.random.default_rng(0)
CLASSES = [f"class {number}" for number in range(5)]


def numbered(per_class: int) -> LabelledImages:
    labels = RANDOM.permutation(np.repeat(np.arange(5), per_class))
    return LabelledImages(list(range(5 * per_class)), labels, CLASSES)


TRAIN, HELD_OUT = numbered(60), numbered(20)


def drawn(seed: int = 123, **changes: Any) -> Draw:
    asked = {"classes": range(5), "explicands": 8, "corpus": 10, "foil": 150} | changes
    return draw_run(asked.pop("train", TRAIN), asked.pop("held_out", HELD_OUT), **asked, seed=seed)


def test_run_seeds__are_the_papers() -> None:
    assert RUN_SEEDS == (123, 456, 789, 42, 91)


def test_draw__explicands_are_held_out_and_of_their_class() -> None:
    found = drawn().explicands
    assert len(found) == 40
    assert Counter(explicand.own for explicand in found) == dict.fromkeys(range(5), 8)
    assert all(HELD_OUT.labels[explicand.number] == explicand.own for explicand in found)
    assert len({explicand.number for explicand in found}) == 40


def test_draw__each_class_is_the_other_one_equally_often() -> None:
    found = drawn().explicands
    assert all(explicand.other != explicand.own for explicand in found)
    assert Counter(explicand.other for explicand in found) == dict.fromkeys(range(5), 8)
    # Every pair of classes occurs: four others in eight turns, each twice.
    assert set(Counter((explicand.own, explicand.other) for explicand in found).values()) == {2}


def test_draw__corpus_is_of_its_class() -> None:
    found = drawn()
    for label, corpus in found.corpora.items():
        assert len(set(corpus.tolist())) == 10
        assert set(TRAIN.labels[corpus]) == {label}


def test_draw__foil_is_apart_from_the_corpus_and_includes_its_class_in_proportion() -> None:
    found = drawn()
    for label, foil in found.foils.items():
        assert len(set(foil.tolist())) == 150
        assert not set(foil.tolist()) & set(found.corpora[label].tolist())
    # Half of what is left: 25 of the 50 left of the own class, and 30 of 60 of each other one, give or take.
    own = [int((TRAIN.labels[foil] == label).sum()) for seed in range(10) for label, foil in drawn(seed).foils.items()]
    assert np.mean(own) == pytest.approx(150 * 50 / 290, abs=1.5)
    assert min(own) > 10


def test_draw__seeded() -> None:
    first, again, other = drawn(5), drawn(5), drawn(6)
    assert first.explicands == again.explicands
    for label in range(5):
        np.testing.assert_array_equal(first.corpora[label], again.corpora[label])
        np.testing.assert_array_equal(first.foils[label], again.foils[label])
        assert set(first.corpora[label].tolist()) != set(other.corpora[label].tolist())
    assert first.explicands != other.explicands


def test_draw__smaller_numbers_are_the_first_of_larger_ones() -> None:
    few, many = drawn(explicands=4, corpus=10, foil=20), drawn(explicands=8, corpus=10, foil=150)
    for label in range(5):
        np.testing.assert_array_equal(few.foils[label], many.foils[label][:20])
    assert few.explicands == many.explicands[:20]  # the classes take turns, so that a study stopped half way is balanced
    np.testing.assert_array_equal(drawn(corpus=3).corpora[2], many.corpora[2][:3])


def test_draw__some_classes() -> None:
    found = drawn(classes=[4, 1])
    assert {(explicand.own, explicand.other) for explicand in found.explicands} == {(4, 1), (1, 4)}
    assert set(found.corpora) == {1, 4}
    assert set(TRAIN.labels[found.foils[4]]) == set(range(5))  # foils are of all training images, as in the paper
    np.testing.assert_array_equal(found.corpora[4], drawn().corpora[4])  # a class draws the same, whoever else takes part


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpus": 61}, "'class 0' has 60 images but 61 corpus images were asked for; ask for fewer or leave the class out"),
        ({"explicands": 21}, "'class 0' has 20 images but 21 explicands were asked for"),
        ({"foil": 291}, "foil of 291 images was asked for but only 290 are left beside the corpus"),
        ({"classes": [1]}, "at least two classes, each of them once"),
        ({"classes": []}, "at least two classes, each of them once"),
        ({"classes": [1, 1]}, "at least two classes, each of them once"),
        ({"classes": [1, 5]}, "classes 0 to 4. Got"),
        ({"classes": [-1, 1]}, "classes 0 to 4. Got"),
        ({"corpus": 0}, "must be at least 1"),
        ({"explicands": 0}, "must be at least 1"),
        ({"foil": -1}, "must be at least 1"),
    ],
)
def test_draw__too_few(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        drawn(**changes)


def test_draw__by_hand_with_overlap_is_refused() -> None:
    with pytest.raises(ValueError, match="Corpus and foil of class 2 share 1 images, such as number 7"):
        Draw(0, [DrawnExplicand(0, 2, 1)], {2: np.array([1, 7])}, {2: np.array([3, 7, 9])})
