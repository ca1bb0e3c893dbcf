"""Questions: captions and pictures on either side, in words and as a target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cocoax
from cocoax import Question, Side
from tests.towers import picture

IMAGE = picture(100)


def unit(rows: Tensor) -> Tensor:
    return rows.double() / rows.double().norm(dim=1, keepdim=True)


# --- targets ----------------------------------------------------------------------------------------------------------


def test_target__of_mixed_sides_by_definition(towers: cocoax.Encoder) -> None:
    """Means of unit vectors for captions and for pictures, half of each, one side minus the other."""
    likes, unlikes = [picture(1), picture(2)], [picture(3)]
    question = Question(Side(["a cat", "a dog"], likes), Side("a rocket", unlikes))
    x = unit(towers.represent([IMAGE]))[0]

    def side(captions: list[str], pictures: list[Any]) -> float:
        words, shots = unit(towers.text.represent(captions)), unit(towers.represent(pictures))
        return float(0.5 * (words @ x).mean() + 0.5 * (shots @ x).mean())

    expected = side(["a cat", "a dog"], likes) - side(["a rocket"], unlikes)
    found = question.target(towers).score(towers.represent([IMAGE]))
    assert float(found) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("similarity", ["cosine", "dot", "rbf"])
def test_target__of_each_kind_is_the_named_target(similarity: str, towers: cocoax.Encoder) -> None:
    cat = towers.text.reference(["a cat"], keep_samples=True)
    shots = towers.reference([picture(1), picture(2)], keep_samples=True)
    pairs = [
        (Question(similarity=similarity), cocoax.representation_similarity(similarity)),
        (Question(unlike="a cat", similarity=similarity), cocoax.contrastive_similarity(cat, similarity)),
        (Question("a cat", similarity=similarity), cocoax.corpus_similarity(cat, similarity)),
        (
            Question("a cat", [picture(1), picture(2)], similarity=similarity),
            cocoax.contrastive_corpus_similarity(cat, shots, similarity),
        ),
    ]
    z = towers.represent([IMAGE, picture(5)])
    for question, expected in pairs:
        torch.testing.assert_close(question.target(towers).score(z, z[0]), expected.score(z, z[0]))


def test_parts__difference_is_the_target(towers: cocoax.Encoder) -> None:
    question = Question(Side("a cat", picture(1)), ["a dog", "a rocket"])
    corpus, foil = question.parts(towers)
    assert foil is not None
    z = towers.represent([IMAGE])
    torch.testing.assert_close(corpus.score(z) - foil.score(z), question.target(towers).score(z))
    assert (corpus.name, foil.name) == ("a cat / a picture", "a dog / a rocket")
    assert Question("a cat").parts(towers)[1] is None


def test_target__folder_counts_every_picture(towers: cocoax.Encoder, tmp_path: Path) -> None:
    for number in range(3):
        picture(number).save(tmp_path / f"{number}.png")
    z = towers.represent([IMAGE])
    one = Question(Side(images=tmp_path)).target(towers).score(z)
    three = Question([picture(0), picture(1), picture(2)]).target(towers).score(z)
    torch.testing.assert_close(one, three)
    both = Question(Side(images=[tmp_path, picture(7)])).target(towers)
    assert [reference.count for reference in both.references] == [4]


# --- names and parsing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "name"),
    [
        (Question("a cat"), "a cat"),
        (Question(), "itself"),
        (Question(None, "a dog"), "itself rather than a dog"),
        (Question("  a   cat ", ["a dog", "a cup"]), "a cat rather than a dog / a cup"),
        (Question(["a", "b", "c", "d"], "e"), "a and 3 more rather than e"),
        (Question("a cat", picture()), "a cat rather than a picture"),
        (Question([picture(), picture(1), picture(2)]), "3 pictures"),
        (Question(Side("a cat", Path("pets/tom.jpg"))), "a cat / the picture tom"),
        (Question(Side("a cat", name="felines"), Side(["x", "y"], name="the rest")), "felines rather than the rest"),
        (Question(["a cat", "a cat"]), "a cat"),
    ],
)
def test_name__in_words(question: Question, name: str) -> None:
    assert question.name == name


@pytest.mark.parametrize(
    "text", ["a cat", "a cat rather than a dog", "itself", "itself rather than a dog", "a / b rather than c / d"]
)
def test_parse__reads_what_name_writes(text: str) -> None:
    assert Question.parse(text).name == text


def test_parse__sides() -> None:
    question = Question.parse("a cat / a kitten rather than a dog")
    assert (question.like.captions, question.unlike.captions) == (("a cat", "a kitten"), ("a dog",))
    assert not Question.parse("itself").like


@pytest.mark.parametrize("text", ["", "  ", "a cat rather than ", " rather than a dog", "a rather than b rather than c"])
def test_parse__what_it_cannot_read(text: str) -> None:
    with pytest.raises(ValueError, match="A question reads"):
        Question.parse(text)


def test_question__both_sides_the_same() -> None:
    with pytest.raises(ValueError, match="Both sides of the question are 'a cat / a dog'"):
        Question(["a cat", "a dog"], ["a dog", "a cat"])
    shot = picture()
    with pytest.raises(ValueError, match="Both sides"):
        Question([shot], [shot])
    Question(Side("a cat", [shot]), "a cat")  # something is left


# --- what is encoded already ------------------------------------------------------------------------------------------------


def test_target__of_references_is_that_of_what_they_were_made_of(towers: cocoax.Encoder) -> None:
    likes, unlikes = [picture(1), picture(2)], [picture(3)]
    corpus, foil = towers.reference(likes, name="these"), towers.reference(unlikes, name="those")
    question = Question(corpus, unlike=foil)
    x = towers.represent([IMAGE])
    expected = Question(Side(images=likes), Side(images=unlikes)).target(towers).score(x)
    torch.testing.assert_close(question.target(towers).score(x), expected)
    assert question.name == question.target(towers).name == "these rather than those"


def test_target__each_reference_counts_as_much_as_the_captions_and_the_pictures(towers: cocoax.Encoder) -> None:
    one, many = towers.reference([picture(1)]), towers.reference([picture(2), picture(3), picture(4)])
    x = towers.represent([IMAGE])
    parts = [cocoax.similarity_to(reference).score(x) for reference in (one, many, towers.text.reference("a cat"))]
    pictures = cocoax.similarity_to(towers.reference([picture(5)])).score(x)
    side = Side("a cat", picture(5), encoded=[one, many])
    found = Question(side).target(towers).score(x)
    torch.testing.assert_close(found, (sum(parts) + pictures) / 4)
    mixed = Question([one, many, "a cat"]).target(towers).score(x)
    torch.testing.assert_close(mixed, sum(parts) / 3)


def test_target__brings_its_similarity(towers: cocoax.Encoder) -> None:
    corpus = towers.reference([picture(1), picture(2)], name="these")
    kernel = cocoax.similarity_to(corpus, cocoax.Rbf(2.0))
    question = Question(kernel, towers.reference([picture(3)], name="those"))
    x = towers.represent([IMAGE])
    foil = cocoax.similarity_to(towers.reference([picture(3)]), cocoax.Rbf(2.0))
    torch.testing.assert_close(question.target(towers).score(x), (kernel - foil).score(x))
    assert question.describe()["similarity"] == str(cocoax.Rbf(2.0))
    assert question.describe()["like"] == {"name": "these", "captions": [], "images": [], "encoded": ["these"]}


def test_question__same_reference_on_both_sides(towers: cocoax.Encoder) -> None:
    corpus = towers.reference([picture(1)], name="these")
    with pytest.raises(ValueError, match="Both sides of the question are 'these', so nothing is left"):
        Question(corpus, corpus)


def test_name__of_two_sides_with_one_name_tells_them_apart(towers: cocoax.Encoder) -> None:
    corpus, foil = (towers.reference(picture(seed)) for seed in (1, 2))
    name = "1 image (corpus) rather than 1 image (foil)"
    assert corpus.name == foil.name == "1 image"
    assert Question(corpus, foil).name == Question(corpus, foil).target(towers).name == name
    assert cocoax.contrastive_corpus_similarity(corpus, foil).name == name
    assert Question(picture(1), picture(2)).name == "a picture (corpus) rather than a picture (foil)"
