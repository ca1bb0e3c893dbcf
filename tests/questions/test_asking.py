"""Asking: what is encoded, what is compared, and what is said about bad input."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cocoax
from cocoax import Question, Side, ask
from cocoax.questions import question as sides
from cocoax.questions.report import write_answers
from cocoax.similarity import Cosine, Similarity
from tests.conftest import SmallNet, images
from tests.kinds import recording_encoder, recordings
from tests.similarities import Overlap, Signs
from tests.towers import Words, picture

IMAGE = picture(100)
RISE = cocoax.Rise(samples=40, grid=4)


# --- bad input --------------------------------------------------------------------------------------------------------


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


def test_ask__at_least_uses_all_samples_that_are_saved(towers: cocoax.Encoder) -> None:
    ask(towers, IMAGE, Question("a cat"), replace(RISE, samples=60))
    found = [ask(towers, IMAGE, Question("a cat"), RISE, at_least=at_least)[0] for at_least in (False, True)]
    assert [answer.attribution.metadata["samples"] for answer in found] == [40, 60]


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
    assert (net.inputs, words.inputs) == (1, 3)  # probes
    ask(towers, IMAGE, Question("a rocket", "a cat"), RISE)
    assert net.inputs == 2
    assert words.inputs <= 7  # the new caption, the check that the tower is deterministic, and probes


def test_ask__many_captions_are_found_on_disk(towers: cocoax.Encoder) -> None:
    many = [f"a cat {number}" for number in range(40)]
    run = RISE.run(towers, IMAGE)
    (first,) = ask(towers, run, Question("a dog", many))
    sides._captions.clear()
    words = towers.text.module
    assert isinstance(words, Words)
    words.inputs = 0
    (again,) = ask(towers, run, Question("a dog", many))
    assert words.inputs <= 5  # the short side and probes
    assert again.score == first.score


def test_ask__memory_of_captions_is_bounded(towers: cocoax.Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sides, "_REMEMBERED", 5)
    run = RISE.run(towers, IMAGE)
    for number in range(4):
        ask(towers, run, Question(f"a cat {number}", f"a dog {number}"))
    assert len(sides._captions) == 5


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


# --- identity -----------------------------------------------------------------------------------------------------------


def test_ask__reads_weights_again_the_next_time(towers: cocoax.Encoder) -> None:
    (before,) = ask(towers, IMAGE, Question([picture(1)]), RISE)
    assert isinstance(towers.module, SmallNet)
    with torch.no_grad():
        towers.module.fc.weight.mul_(2)
    (after,) = ask(towers, IMAGE, Question([picture(1)]), RISE)
    assert after.score != before.score


# --- similarities of one's own ----------------------------------------------------------------------------------------


def slow_score(similarity: Similarity, own: Tensor, like: Tensor, unlike: Tensor) -> float:
    corpus, foil = (similarity.pairwise(own, rows).mean() for rows in (like, unlike))
    return float(corpus - foil)


@pytest.mark.parametrize("similarity", [Signs(), Overlap()], ids=["linear", "kernel"])
@pytest.mark.parametrize("kind", ["captions", "pictures"])
def test_ask__similarity_of_ones_own(similarity: Similarity, kind: str, towers: cocoax.Encoder) -> None:
    likes: list[Any] = ["a cat", "a dog"] if kind == "captions" else [picture(1), picture(2)]
    unlikes: list[Any] = ["a rocket"] if kind == "captions" else [picture(3)]
    tower = towers.text if kind == "captions" else towers
    (answer,) = ask(towers, IMAGE, Question(likes, unlikes, similarity=similarity), RISE)
    own, like, unlike = towers.represent([IMAGE]), tower.represent(likes), tower.represent(unlikes)
    assert answer.score == pytest.approx(slow_score(similarity, own, like, unlike), abs=1e-5)
    assert answer.score == pytest.approx(answer.corpus_score - (answer.foil_score or 0), abs=1e-5)
    assert float(answer.attribution.values.std()) > 0


def test_ask__comparison_of_equal_similarities(towers: cocoax.Encoder) -> None:
    """A similarity by its name and as an object is the same one; captions of another are not comparable."""
    questions = [Question("a cat"), Question("a dog", similarity=Cosine()), Question("a cup", similarity="rbf")]
    first, second, third = ask(towers, IMAGE, questions, RISE)
    assert {rival.name for rival in first.comparison} == {rival.name for rival in second.comparison} == {"a cat", "a dog"}
    assert {rival.name for rival in third.comparison} == {"a cup"}


# --- questions as people hold them ------------------------------------------------------------------------------------------


def test_ask__targets_references_and_texts(towers: cocoax.Encoder) -> None:
    corpus, foil = (towers.reference([picture(seed)], name=name) for seed, name in ((1, "this"), (2, "that")))
    target = cocoax.contrastive_corpus_similarity(corpus, foil)
    answers = ask(towers, IMAGE, [target, corpus, "a cat rather than a dog", Question(corpus, foil)], RISE)
    assert [answer.name for answer in answers] == ["this rather than that", "this", "a cat rather than a dog", target.name]
    for answer, asked in zip(answers, (target, corpus, "a cat rather than a dog"), strict=False):
        (alone,) = ask(towers, IMAGE, asked, RISE)
        torch.testing.assert_close(alone.attribution.values, answer.attribution.values)
    expected = RISE.explain(towers, IMAGE, target)
    for answer in (answers[0], answers[3]):
        torch.testing.assert_close(answer.attribution.values, expected.values)
        assert answer.score == pytest.approx(expected.score)


def test_ask__compares_references_and_targets_in_play(towers: cocoax.Encoder) -> None:
    corpus, foil = (towers.reference([picture(seed)], name=name) for seed, name in ((1, "this"), (2, "that")))
    (answer,) = ask(towers, IMAGE, Question([corpus, "a cat"], foil), RISE)
    x = towers.represent([IMAGE])
    scores = {rival.name: rival.score for rival in answer.comparison}
    assert scores == pytest.approx(
        {
            "this": float(cocoax.similarity_to(corpus).score(x)),
            "that": float(cocoax.similarity_to(foil).score(x)),
            "a cat": float(cocoax.similarity_to(towers.text.reference("a cat")).score(x)),
        }
    )
    assert {rival.name: rival.side for rival in answer.comparison} == {"this": "like", "a cat": "like", "that": "unlike"}
    assert [rival.name for rival in answer.captions] == ["a cat"]


def test_ask__function_of_representations(towers: cocoax.Encoder) -> None:
    target = cocoax.FunctionTarget(lambda z: z[:, 0], "the first number")
    (answer,) = ask(towers, IMAGE, target, RISE)
    assert answer.name == "the first number"
    assert answer.score == answer.corpus_score == pytest.approx(float(towers.represent([IMAGE])[0, 0]))


def test_ask__reference_of_another_encoder(towers: cocoax.Encoder) -> None:
    other = cocoax.Encoder(SmallNet(seed=4).eval()).reference(images(2))
    with pytest.raises(ValueError, match="another representation space"):
        ask(towers, IMAGE, Question(other), RISE)


def test_ask__about_what_is_no_picture(tmp_path: Path) -> None:
    encoder = recording_encoder()
    like, unlike = recordings(3, seed=1), recordings(4, seed=2)
    (answer,) = ask(encoder, cocoax.Rise(samples=60).run(encoder, recordings(1)[0]), Question(list(like), list(unlike)))
    target = cocoax.contrastive_corpus_similarity(encoder.reference(like), encoder.reference(unlike))
    expected = cocoax.Rise(samples=60).explain(encoder, recordings(1)[0], target)
    torch.testing.assert_close(answer.attribution.values, expected.values)
    assert (answer.regions, answer.against) == ((), ())
    plain = answer.to_dict()
    assert plain["names"] == list(expected.names or ())
    assert plain["values"] == pytest.approx(expected.relative.tolist(), rel=1e-5)
    files = write_answers(tmp_path, "a recording", [answer])
    assert {file.suffix for file in files} == {".html", ".json", ".png", ".safetensors"}
