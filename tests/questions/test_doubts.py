"""Questions that the encoder cannot answer: said once, and only where the sides are known to be alike to it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator

import pytest

import cocoax
from cocoax.cautions import Caution, forget_cautions
from cocoax.evaluation.separability import Separability
from cocoax.questions import answers as doubts
from tests.conftest import images


@pytest.fixture(autouse=True)
def nothing_said_yet() -> Iterator[None]:
    forget_cautions()
    with warnings.catch_warnings():
        warnings.simplefilter("error", Caution)
        warnings.filterwarnings("ignore", "With everything removed", Caution)  # about the map, not about the question
        yield
    forget_cautions()


@pytest.fixture
def run(encoder: cocoax.Encoder) -> cocoax.Run:
    return cocoax.Rise(samples=40, grid=3).run(encoder, images(1)[0])


def test_ask__says_once_where_the_sides_cannot_be_told_apart(encoder: cocoax.Encoder, run: cocoax.Run) -> None:
    question = cocoax.Question(list(images(60, seed=1)), list(images(60, seed=2)))
    (answer,) = cocoax.ask(encoder, run, question)
    assert re.search(r"does not separate '60 pictures' from '60 pictures': AUC .*may be noise", answer.doubts[0])
    assert answer.remarks.count(answer.doubts[0]) == 1
    assert answer.doubts[0] in answer.to_dict()["remarks"]


def test_ask__says_where_sides_are_the_other_way_round(
    encoder: cocoax.Encoder, run: cocoax.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    reversed_ = Separability(0.2, 0.1, 0.3, 1.0, (20, 20))
    monkeypatch.setattr(doubts, "separability", lambda *_given, **_options: reversed_)
    (answer,) = cocoax.ask(encoder, run, cocoax.Question(list(images(6, seed=1)), list(images(6, seed=2))))
    assert re.search(r"takes '6 pictures' for '6 pictures': AUC 0.20 \[0.10, 0.30\].* may be the opposite", answer.doubts[0])


def test_ask__says_nothing_where_they_are_told_apart(encoder: cocoax.Encoder, run: cocoax.Run) -> None:
    question = cocoax.Question(encoder.reference(images(20, seed=1) + 2), encoder.reference(images(20, seed=2) - 2))
    assert cocoax.ask(encoder, run, question)[0].doubts == ()


@pytest.mark.parametrize("counts", [(4, 60), (60, 4), (1, 1)])
def test_ask__says_nothing_of_few(encoder: cocoax.Encoder, run: cocoax.Run, counts: tuple[int, int]) -> None:
    sides = [encoder.reference(images(count, seed=seed)) for seed, count in enumerate(counts, 1)]
    assert cocoax.ask(encoder, run, cocoax.Question(*sides))[0].doubts == ()


def test_ask__says_nothing_where_nothing_can_be_tested(encoder: cocoax.Encoder, run: cocoax.Run) -> None:
    corpus, foil = (encoder.reference(images(60, seed=seed)) for seed in (1, 2))
    means = encoder.reference(images(60, seed=3), keep_samples=False)
    equal = encoder.reference(images(1, seed=4).repeat(6, 1, 1, 1))
    questions = [
        cocoax.Question(),
        cocoax.Question(corpus),
        cocoax.Question(corpus, means),
        cocoax.Question(equal, foil),
        cocoax.Question(cocoax.similarity_to(corpus), foil),
    ]
    assert all(answer.doubts == () for answer in cocoax.ask(encoder, run, questions))


class Known:
    """A tokenizer that knows two words."""

    unknown = 0

    def __call__(self, text: str) -> list[int]:
        return self.places(text)[0]

    def places(self, text: str) -> tuple[list[int], list[tuple[int, int] | None]]:
        found = list(re.finditer(r"\S+", text))
        return [{"a": 1, "cat": 2}.get(word[0], 0) for word in found], [word.span() for word in found]


def test_ask__says_which_words_are_unknown(towers: cocoax.Encoder) -> None:
    text = cocoax.TextEncoder(towers.text.module, Known(), limit=8)
    encoder = cocoax.Encoder(towers.module, towers.inputs.preprocess, text=text)  # type: ignore[attr-defined]
    questions = [cocoax.Question("a cat", "a ψ"), cocoax.Question("a cat")]
    with pytest.warns(Caution, match="does not know 'ψ' in 'a ψ'"):
        answers = cocoax.ask(encoder, images(1)[0], questions, cocoax.Rise(samples=20, grid=3))
    assert answers[0].doubts == (
        f"The encoder {text.name!r} does not know 'ψ' in 'a ψ': all unknown words are the same to it.",
    )
    assert answers[0].doubts[0] in answers[0].to_dict()["remarks"]
    assert not any("unknown" in sentence for sentence in answers[1].doubts)


def test_ask__says_every_doubt_once(towers: cocoax.Encoder) -> None:
    text = cocoax.TextEncoder(towers.text.module, Known(), limit=8)
    encoder = cocoax.Encoder(towers.module, towers.inputs.preprocess, text=text)  # type: ignore[attr-defined]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        (answer,) = cocoax.ask(encoder, images(1)[0], cocoax.Question("a ψ", ["a ω", "χ"]), cocoax.Rise(samples=20, grid=3))
    assert len(answer.doubts) == 3
    known = sorted(sentence for each in said if "know" in (sentence := str(each.message)))
    assert len(known) == len(set(known))
    assert set(known) <= set(answer.doubts)


def test_ask__captions_are_no_examples(towers: cocoax.Encoder) -> None:
    many = [[f"word{number} {side}" for number in range(40)] for side in ("a", "b")]
    answer = cocoax.ask(towers, images(1)[0], cocoax.Question(*many), cocoax.Rise(samples=20, grid=3))[0]
    assert not any("AUC" in sentence for sentence in answer.doubts)
