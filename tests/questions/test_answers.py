"""Answers: what they say about the score, and all of it as plain values."""

from __future__ import annotations

import json

import numpy as np
import pytest

import cocoax
from cocoax import Question, Side, ask
from tests.towers import picture

IMAGE = picture(100)
RISE = cocoax.Rise(samples=40, grid=4)


def test_split__score_is_corpus_minus_foil(towers: cocoax.Encoder) -> None:
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


def test_rank__is_among_captions_only(towers: cocoax.Encoder) -> None:
    (answer,) = ask(towers, IMAGE, Question("a cat", Side("a dog", [IMAGE])), RISE)
    assert answer.comparison[0].name == "a picture"  # the picture itself is on the other side
    assert answer.rank in (1, 2)
    (alone,) = ask(towers, IMAGE, Question("a cat", picture(3)), RISE)
    assert alone.rank is None


def test_to_dict__holds_everything(towers: cocoax.Encoder) -> None:
    (answer,) = ask(towers, IMAGE, Question(Side("a cat", picture(1)), "a dog"), RISE)
    plain = json.loads(json.dumps(answer.to_dict()))
    assert plain["question"] == "a cat / a picture rather than a dog"
    assert plain["like"] == {"name": "a cat / a picture", "captions": ["a cat"], "images": ["Image"], "encoded": []}
    assert plain["score"] == answer.score
    np.testing.assert_allclose(plain["values"], answer.attribution.relative.numpy(), rtol=1e-5)
    assert answer.attribution.standard_error is not None
    np.testing.assert_allclose(plain["standard_error"], answer.attribution.standard_error.numpy(), rtol=1e-5)
    assert plain["options"]["samples"] == 40
    assert plain["versions"]["cocoax"] == cocoax.__version__
    assert len(plain["regions"]) == len(answer.regions) >= 1
    assert plain["comparison"][0].keys() == {"name", "score", "side", "is_caption"}
    assert "values" not in answer.facts(values=False)
