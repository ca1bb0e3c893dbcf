"""Questions: captions and pictures on either side, one target, and what an answer says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import cocoax
from cocoax import Question, Side, ask, questions
from cocoax.similarity import Cosine
from tests.conftest import SmallNet, images

WORDS = ("a", "cat", "dog", "rocket", "cup", "of", "coffee", "this", "is", "photo")


class Words(nn.Module):
    """Bags of words, 8 dimensions; counts the texts it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(torch.randn(64, 8, generator=torch.Generator().manual_seed(9)))
        self.inputs = 0

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        self.inputs += len(tokens["input_ids"])
        mask = tokens["attention_mask"].unsqueeze(-1).float()
        mean: Tensor = (self.embedding(tokens["input_ids"]) * mask).sum(1) / mask.sum(1)
        return mean


def tokenize(text: str) -> list[int]:
    return [sum(map(ord, word)) % 64 for word in text.split()]


def two_towers() -> cocoax.Encoder:
    """A small image-and-text encoder that takes pictures of any size."""
    text = cocoax.TextEncoder(Words().eval(), tokenize, limit=12, name="words")
    preprocess = cocoax.ImagePreprocess(resize=18, crop=16)
    return cocoax.Encoder(SmallNet().eval(), preprocess, text=text, name="towers")


@pytest.fixture
def towers() -> cocoax.Encoder:
    return two_towers()


@pytest.fixture(autouse=True)
def forgotten() -> None:
    questions._captions.clear()


def picture(seed: int = 0, side: int = 24) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8))


def unit(rows: Tensor) -> Tensor:
    return rows.double() / rows.double().norm(dim=1, keepdim=True)


IMAGE = picture(100)


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


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("caption", ["", "   ", "\n"])
def test_side__empty_caption(caption: str) -> None:
    with pytest.raises(ValueError, match="A caption is empty; write at least one word"):
        Side(["a cat", caption])
    with pytest.raises(ValueError, match="A caption is empty"):
        Question("a cat", caption)


def test_side__caption_that_is_no_string() -> None:
    with pytest.raises(TypeError, match=r"A caption must be a string. Got Image instead; pictures go into images="):
        Side([picture()])  # type: ignore[list-item]


def test_question__both_sides_the_same() -> None:
    with pytest.raises(ValueError, match="Both sides of the question are 'a cat / a dog'"):
        Question(["a cat", "a dog"], ["a dog", "a cat"])
    shot = picture()
    with pytest.raises(ValueError, match="Both sides"):
        Question([shot], [shot])
    Question(Side("a cat", [shot]), "a cat")  # something is left


def test_ask__caption_too_long(towers: cocoax.Encoder) -> None:
    with pytest.raises(ValueError, match="13 tokens but 'words' takes at most 12"):
        ask(towers, IMAGE, Question("cat " * 13), cocoax.Rise(samples=10, grid=3))


def test_ask__words_to_an_encoder_without_a_text_tower(encoder: cocoax.Encoder) -> None:
    with pytest.raises(ValueError, match=r"has no text tower.*Ask it with pictures instead of captions"):
        ask(encoder, images(1)[0], Question("a cat"), cocoax.Rise(samples=10, grid=3))


def test_ask__nothing(towers: cocoax.Encoder) -> None:
    with pytest.raises(ValueError, match="There are 0 questions"):
        ask(towers, IMAGE, [])


def test_ask__run_of_another_encoder(towers: cocoax.Encoder) -> None:
    run = cocoax.Rise(samples=10, grid=3).run(cocoax.Encoder(SmallNet(seed=4).eval()), images(1)[0])
    with pytest.raises(ValueError, match="another representation space"):
        ask(towers, run, Question("a cat"))


# --- answers ----------------------------------------------------------------------------------------------------------

RISE = cocoax.Rise(samples=40, grid=4)


def test_ask__at_least_uses_all_samples_that_are_saved(towers: cocoax.Encoder) -> None:
    ask(towers, IMAGE, Question("a cat"), replace(RISE, samples=60))
    found = [ask(towers, IMAGE, Question("a cat"), RISE, at_least=at_least)[0] for at_least in (False, True)]
    assert [answer.attribution.metadata["samples"] for answer in found] == [40, 60]


def test_ask__score_is_split(towers: cocoax.Encoder) -> None:
    question = Question(["a cat", "a dog"], Side("a rocket", picture(1)))
    (answer,) = ask(towers, IMAGE, question, RISE)
    corpus, foil = question.parts(towers)
    assert foil is not None
    z = towers.represent([IMAGE])
    assert answer.corpus_score == pytest.approx(float(corpus.score(z)), abs=1e-6)
    assert answer.foil_score == pytest.approx(float(foil.score(z)), abs=1e-6)
    assert answer.score == pytest.approx(answer.corpus_score - answer.foil_score, abs=1e-6)
    assert answer.split() == (
        f"{answer.score:+.3f}: {answer.corpus_score:+.3f} to 'a cat / a dog' "
        f"minus {answer.foil_score:+.3f} to 'a rocket / a picture'"
    )
    (alone,) = ask(towers, IMAGE, Question(), RISE)
    assert (alone.foil_score, alone.split()) == (None, "+1.000")


def test_ask__compares_every_caption_in_play(towers: cocoax.Encoder) -> None:
    first, second = ask(towers, IMAGE, [Question("a cat", ["a dog", "a cup"]), Question("a rocket", "a dog")], RISE)
    captions = ["a cat", "a dog", "a cup", "a rocket"]
    own = towers.represent([IMAGE])
    expected = dict(zip(captions, Cosine().pairwise(towers.text.represent(captions), own)[:, 0].tolist(), strict=True))
    for answer in (first, second):
        assert {rival.name: rival.score for rival in answer.comparison} == pytest.approx(expected, abs=1e-6)
        scores = [rival.score for rival in answer.comparison]
        assert scores == sorted(scores, reverse=True)
    assert {rival.name: rival.side for rival in first.comparison} == {
        "a cat": "like",
        "a dog": "unlike",
        "a cup": "unlike",
        "a rocket": "other",
    }
    ranking = sorted(captions, key=lambda caption: -expected[caption])
    assert (first.rank, second.rank) == (ranking.index("a cat") + 1, ranking.index("a rocket") + 1)


def test_ask__rank_is_among_captions_only(towers: cocoax.Encoder) -> None:
    (answer,) = ask(towers, IMAGE, Question("a cat", Side("a dog", [IMAGE])), RISE)
    assert answer.comparison[0].name == "a picture"  # the picture itself is on the other side
    assert answer.rank in (1, 2)
    (alone,) = ask(towers, IMAGE, Question("a cat", picture(3)), RISE)
    assert alone.rank is None


def test_ask__map_is_that_of_the_target(towers: cocoax.Encoder) -> None:
    question = Question("a cat", "a dog")
    (answer,) = ask(towers, IMAGE, question, RISE)
    expected = RISE.explain(towers, IMAGE, question.target(towers))
    assert torch.equal(answer.attribution.values, expected.values)
    assert answer.attribution.name == "a cat rather than a dog"


def test_ask__again_costs_the_image_tower_nothing(towers: cocoax.Encoder) -> None:
    ask(towers, IMAGE, Question("a cat", "a dog"), RISE)
    net, words = towers.module, towers.text.module
    assert isinstance(net, SmallNet)
    assert isinstance(words, Words)
    net.inputs = words.inputs = 0
    ask(towers, IMAGE, Question("a dog", "a cat"), RISE)
    assert (net.inputs, words.inputs) == (0, 0)
    ask(towers, IMAGE, Question("a rocket", "a cat"), RISE)
    assert net.inputs == 0
    assert words.inputs <= 2  # the new caption (and the check that the tower is deterministic)


def test_ask__many_captions_are_found_on_disk(towers: cocoax.Encoder) -> None:
    many = [f"a cat {number}" for number in range(40)]
    run = RISE.run(towers, IMAGE)
    (first,) = ask(towers, run, Question("a dog", many))
    questions._captions.clear()
    words = towers.text.module
    assert isinstance(words, Words)
    words.inputs = 0
    (again,) = ask(towers, run, Question("a dog", many))
    assert words.inputs <= 2
    assert again.score == first.score


def test_ask__memory_of_captions_is_bounded(towers: cocoax.Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "_REMEMBERED", 5)
    run = RISE.run(towers, IMAGE)
    for number in range(4):
        ask(towers, run, Question(f"a cat {number}", f"a dog {number}"))
    assert len(questions._captions) == 5


@pytest.mark.parametrize(
    "method", [cocoax.IntegratedGradients(steps=4), cocoax.VanillaGradients(), cocoax.Occlusion(window=4)]
)
def test_ask__with_other_methods(method: cocoax.Method, towers: cocoax.Encoder) -> None:
    question = Question(Side("a cat", picture(1)), "a dog")
    answer, own = ask(towers, IMAGE, [question, Question()], method)
    expected = method.explain(towers, IMAGE, question.target(towers))
    torch.testing.assert_close(answer.attribution.values, expected.values)
    assert answer.score == pytest.approx(answer.corpus_score - (answer.foil_score or 0), abs=1e-6)
    assert own.corpus_score == pytest.approx(1, abs=1e-6)


def test_describe__holds_everything(towers: cocoax.Encoder) -> None:
    (answer,) = ask(towers, IMAGE, Question(Side("a cat", picture(1)), "a dog"), RISE)
    plain = json.loads(json.dumps(answer.describe()))
    assert plain["question"] == "a cat / a picture rather than a dog"
    assert plain["like"] == {"name": "a cat / a picture", "captions": ["a cat"], "images": ["Image"]}
    assert plain["score"] == answer.score
    np.testing.assert_allclose(plain["values"], answer.attribution.values.numpy(), rtol=1e-5)
    assert answer.attribution.standard_error is not None
    np.testing.assert_allclose(plain["standard_error"], answer.attribution.standard_error.numpy(), rtol=1e-5)
    assert plain["options"]["samples"] == 40
    assert plain["versions"]["cocoax"] == cocoax.__version__
    assert len(plain["regions"]) == len(answer.regions) >= 1
    assert plain["comparison"][0].keys() == {"name", "score", "side", "is_caption"}
    assert "values" not in answer.describe(values=False)
