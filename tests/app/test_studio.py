"""Visitors, their runs and their questions."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import cocoax
from cocoax.app import parts
from cocoax.app import studio as module
from cocoax.app.studio import CHUNK, MOST, MOST_AT_ONCE, Studio, captions, reference_picture
from cocoax.app.visitors import Progress, Visitor
from cocoax.methods.rise import relative_error
from tests.app.colours import Colours, Names, encoder, flag

SAMPLES = 4 * CHUNK


@pytest.fixture
def studio() -> Studio:
    return Studio(encoder(), cocoax.Rise(samples=SAMPLES, grid=4))


def seen(studio: Studio) -> int:
    assert isinstance(studio.encoder.module, Colours)
    return studio.encoder.module.inputs


def looked_at(studio: Studio, key: str = "a", **options: Any) -> Visitor:
    visitor = studio.visitor(key)
    studio.choose(visitor, flag(**options))
    list(studio.sample(visitor))
    return visitor


def halves(visitor: Visitor, panel: int = 0) -> tuple[float, float]:
    answer = visitor.answers[panel]
    assert answer is not None
    shown = answer.attribution.values - answer.attribution.neutral
    middle = shown.shape[1] // 2
    return float(shown[:, :middle].mean()), float(shown[:, middle:].mean())


# --- runs -------------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns as short as they get, however fast the machine is."""
    monkeypatch.setattr("cocoax.app.studio.TURN", 0)


def test_warm_up__what_is_made_once_is_there_before_the_first_visitor(studio: Studio) -> None:
    studio.warm_up()
    assert seen(studio) > 0
    studio.encoder.module = None  # type: ignore[assignment]
    studio.warm_up()  # is no reason not to open


def test_sample__takes_longer_turns_where_they_are_quick(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cocoax.app.studio.TURN", 1e9)
    visitor = studio.visitor("a")
    studio.choose(visitor, flag())
    assert [one.samples for one in studio.sample(visitor)] == [0, CHUNK, CHUNK + MOST_AT_ONCE, SAMPLES]


def test_sample__tells_how_far_it_is(studio: Studio) -> None:
    visitor = studio.visitor("a")
    studio.choose(visitor, flag())
    told = list(studio.sample(visitor))
    assert [one.samples for one in told] == [0, CHUNK, 2 * CHUNK, 3 * CHUNK, SAMPLES, SAMPLES]
    assert all(one.goal == SAMPLES for one in told)
    assert [one.running for one in told] == [True] * 5 + [False]
    assert told[1].seconds is not None
    assert visitor.error is not None
    assert told[-2].seconds == 0


def test_sample__is_the_run_that_the_method_makes(studio: Studio) -> None:
    visitor = looked_at(studio)
    assert visitor.run is not None
    whole = cocoax.Rise(samples=SAMPLES, grid=4).run(encoder(), flag())
    torch.testing.assert_close(visitor.run.representations, whole.representations)
    assert visitor.run.method == whole.method  # what the JSON says about the number of samples is true
    target = cocoax.representation_similarity()
    torch.testing.assert_close(visitor.run.explain(target).values, whole.explain(target).values)


def test_sample__without_a_photo(studio: Studio) -> None:
    with pytest.raises(ValueError, match="There is no photo yet; choose one or upload your own"):
        next(studio.sample(studio.visitor("a")))


def test_sample__more(studio: Studio) -> None:
    visitor = looked_at(studio)
    before = seen(studio)
    told = list(studio.sample(visitor, more=30))
    assert told[-1] == Progress(SAMPLES + 30, SAMPLES + 30, running=False)
    assert seen(studio) == before + 30


def test_sample__more_has_an_end(studio: Studio) -> None:
    visitor = looked_at(studio)
    progress = next(studio.sample(visitor, more=MOST))
    assert progress.goal == MOST


def test_stopped_run__keeps_what_it_has_and_goes_on(studio: Studio) -> None:
    visitor = studio.visitor("a")
    studio.choose(visitor, flag())
    studio.ask(visitor, 0, "red", "blue")
    run = studio.sample(visitor)
    next(run), next(run), next(run)
    studio.stop(visitor)
    (end,) = list(run)
    assert (end.samples, end.goal, end.running) == (2 * CHUNK, SAMPLES, False)
    left, right = halves(visitor)
    assert left > 0 > right
    studio.ask(visitor, 0, "blue", "red")  # it still answers
    left, right = halves(visitor)
    assert left < 0 < right
    before = seen(studio)
    assert list(studio.sample(visitor))[-1].samples == SAMPLES
    assert seen(studio) == before + SAMPLES - 2 * CHUNK


def test_second_photo_during_a_run__ends_the_first(studio: Studio) -> None:
    visitor = studio.visitor("a")
    studio.choose(visitor, flag("red", "blue"))
    studio.ask(visitor, 0, "red", "blue")
    first = studio.sample(visitor)
    next(first), next(first)
    studio.choose(visitor, flag("blue", "red"))
    second = studio.sample(visitor)
    next(second), next(second)
    assert list(first) == []  # nothing of the first photo is shown any more
    list(second)
    assert visitor.run is not None
    assert len(visitor.run) == SAMPLES
    left, right = halves(visitor)
    assert left < 0 < right


def test_second_photo_while_the_encoder_works__is_not_overwritten(studio: Studio) -> None:
    assert isinstance(studio.encoder.module, Colours)
    visitor = studio.visitor("a")
    studio.choose(visitor, flag())
    gate = studio.encoder.module.gate = threading.Semaphore(0)
    told: list[Progress] = []
    thread = threading.Thread(target=lambda: told.extend(studio.sample(visitor)))
    thread.start()
    while not studio.encoder.module.inside:
        pass
    studio.choose(visitor, flag("blue", "red"))
    studio.encoder.module.gate = None
    gate.release(1000)
    thread.join(20)
    assert not thread.is_alive()
    assert visitor.run is None
    assert [one.samples for one in told] == [0]


def test_two_visitors_at_once__take_turns_and_have_their_own(studio: Studio) -> None:
    assert isinstance(studio.encoder.module, Colours)
    photos = {"a": ("red", "blue"), "b": ("blue", "red"), "c": ("green", "red")}
    failures: list[BaseException] = []

    def visit(key: str, left: str, right: str) -> None:
        try:
            visitor = studio.visitor(key)
            studio.choose(visitor, flag(left, right))
            for _ in studio.sample(visitor):
                studio.ask(visitor, 0, left, right)
        except BaseException as error:  # of a thread, which would be lost
            failures.append(error)

    threads = [threading.Thread(target=visit, args=(key, *sides)) for key, sides in photos.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert studio.encoder.module.most_inside == 1
    for key in photos:
        left, right = halves(studio.visitor(key))
        assert left > 0 > right


def test_kept__must_be_positive() -> None:
    with pytest.raises(ValueError, match=r"The 'kept' parameter must be at least 1\. Got 0 instead"):
        Studio(encoder(), kept=0)


def test_leave__ends_the_run(studio: Studio) -> None:
    visitor = studio.visitor("a")
    studio.choose(visitor, flag())
    run = studio.sample(visitor)
    next(run), next(run)
    studio.leave("a")
    assert list(run) == []
    assert visitor.run is None
    studio.leave("a")  # twice does no harm


def test_failed_run__can_be_tried_again(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor = studio.visitor("a")
    studio.choose(visitor, flag())
    forward = Colours.forward

    def fail(_self: Colours, _images: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("out of order")

    monkeypatch.setattr(Colours, "forward", fail)
    run = studio.sample(visitor)
    next(run)
    with pytest.raises(RuntimeError, match="out of order"):
        next(run)
    monkeypatch.setattr(Colours, "forward", forward)
    assert list(studio.sample(visitor))[-1].samples == SAMPLES


# --- questions --------------------------------------------------------------------------------------------------------


def test_ask__without_encoder_work(studio: Studio) -> None:
    visitor = looked_at(studio)
    before = seen(studio)
    studio.ask(visitor, 0, "red", "blue")
    studio.ask(visitor, 1, "blue", "red / green")
    left, right = halves(visitor)
    assert left > 0 > right
    left, right = halves(visitor, 1)
    assert left < 0 < right
    assert seen(studio) == before


def test_ask__words_are_encoded_once(studio: Studio) -> None:
    visitor = looked_at(studio)
    names = studio.encoder.text.module
    assert isinstance(names, Names)
    studio.ask(visitor, 0, "a red thing", "blue")
    before = names.inputs
    studio.ask(visitor, 0, "blue", "a red thing")
    assert names.inputs == before


def test_ask__before_there_is_a_run(studio: Studio) -> None:
    visitor = studio.visitor("a")
    studio.ask(visitor, 0, "red", "blue")
    assert visitor.answers == [None, None]
    studio.choose(visitor, flag())
    list(studio.sample(visitor))
    answer = visitor.answers[0]
    assert answer is not None
    assert answer.name == "red rather than blue"


def test_ask__nothing_is_about_the_photo_itself(studio: Studio) -> None:
    visitor = looked_at(studio)
    answer = visitor.answers[0]
    assert answer is not None
    assert answer.score == pytest.approx(1)
    assert visitor.answers[1] is None


def test_ask__with_pictures(studio: Studio, tmp_path: Path) -> None:
    visitor = looked_at(studio)
    for name in ("red", "blue"):
        flag(name, name).save(tmp_path / f"{name}.png")
    red, blue = (reference_picture(tmp_path / f"{name}.png") for name in ("red", "blue"))
    visitor.pictures[0] = {"like": [blue], "unlike": [red]}
    studio.ask(visitor, 0, "", "")
    left, right = halves(visitor)
    assert left < 0 < right
    before = seen(studio)
    studio.ask(visitor, 0, "green", "")  # words beside them; the pictures are not encoded again
    assert seen(studio) == before


def test_reference_picture__is_small_and_has_no_place(tmp_path: Path) -> None:
    flag(size=(2000, 1000)).save(tmp_path / "a flag.png")
    image = reference_picture(tmp_path / "a flag.png")
    assert image.size == (512, 256)
    question = cocoax.Question(images_only(image))
    assert question.name == "the picture a flag"
    assert question.describe()["like"]["images"] == ["a flag.png"]  # not where it lies
    with pytest.raises(ValueError, match="Both sides of the question are 'the picture a flag'"):
        cocoax.Question(images_only(image), images_only(reference_picture(tmp_path / "a flag.png")))


def images_only(image: Image.Image) -> cocoax.Side:
    return cocoax.Side(images=[image])


@pytest.mark.parametrize(
    ("like", "unlike", "complaint"),
    [
        ("red", "red", "Both sides of the question are 'red'"),
        ("red " * 13, "", "The text has 13 tokens but 'names' takes at most 12; shorten it"),
    ],
)
def test_ask__bad_question_leaves_the_old_answer(studio: Studio, like: str, unlike: str, complaint: str) -> None:
    visitor = looked_at(studio)
    studio.ask(visitor, 0, "red", "blue")
    answer = visitor.answers[0]
    with pytest.raises(ValueError, match=complaint):
        studio.ask(visitor, 0, like, unlike)
    assert visitor.answers[0] is answer


def test_ask__an_encoder_without_words() -> None:
    studio = Studio(cocoax.Encoder(Colours(), cocoax.ImagePreprocess(resize=32, crop=32), name="sight"))
    assert not studio.takes_words
    with pytest.raises(ValueError, match="The encoder 'sight' knows no words; drop pictures instead"):
        studio.ask(studio.visitor("a"), 0, "red", "")


@pytest.mark.parametrize("meanwhile", ["another question", "another photo", "dropped", "left"])
def test_answer__that_comes_too_late_is_not_kept(studio: Studio, meanwhile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor = looked_at(studio)

    def late(*what: Any) -> list[cocoax.Answer]:
        found = cocoax.ask(*what)
        if meanwhile == "another question":
            visitor.questions[0], visitor.answers[0] = cocoax.Question("red"), None
        elif meanwhile == "another photo":
            studio.choose(visitor, flag("blue", "red"))
        elif meanwhile == "dropped":
            studio.drop(visitor, 0)
        else:
            studio.leave("a")
        return found

    monkeypatch.setattr(module, "ask", late)
    studio.answer(visitor)
    assert visitor.answers == [None, None]


def test_drop__forgets_a_question(studio: Studio) -> None:
    visitor = looked_at(studio)
    studio.ask(visitor, 1, "red", "")
    studio.drop(visitor, 1)
    assert visitor.answers[1] is None
    assert visitor.pictures[1] == {"like": [], "unlike": []}


def test_curves__are_those_of_the_library(studio: Studio) -> None:
    visitor = looked_at(studio)
    studio.ask(visitor, 0, "red", "blue")
    answer = visitor.answers[0]
    assert answer is not None
    ((name, (own, random)),) = studio.curves(visitor)
    assert name == "red rather than blue"
    target = answer.question.target(studio.encoder)
    for kind, function in (("insertion", cocoax.insertion), ("deletion", cocoax.deletion)):
        expected = function(studio.encoder, flag(), answer.attribution, target, 20)
        torch.testing.assert_close(own[kind].y, expected.y)
    assert own["insertion"].auc > random["insertion"].auc
    assert own["deletion"].auc < random["deletion"].auc


def test_curves__without_a_run(studio: Studio) -> None:
    with pytest.raises(ValueError, match="There is no run yet; choose a photo first"):
        studio.curves(studio.visitor("a"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  ", []),
        (" / ", []),
        ("a cat", ["a cat"]),
        (" a cat /  a dog ", ["a cat", "a dog"]),
        ("a cat\na dog / a fox", ["a cat", "a dog", "a fox"]),
        ("a black/white cat, sitting", ["a black/white cat, sitting"]),
    ],
)
def test_captions(text: str, expected: list[str]) -> None:
    assert captions(text) == expected


# --- until the answers are known ----------------------------------------------------------------------------------------


@pytest.fixture
def patient() -> Studio:
    """A studio that looks until answers are known, at most so many times."""
    return Studio(encoder(), cocoax.Rise(samples=2 * CHUNK, grid=4, tolerance=0.1, max_samples=40 * CHUNK))


def test_known__ends_the_run_by_itself(patient: Studio) -> None:
    visitor = patient.visitor("a")
    patient.choose(visitor, flag(), ("red", "blue"))
    told = list(patient.sample(visitor))
    assert visitor.run is not None
    assert visitor.error is not None
    assert 2 * CHUNK <= len(visitor.run) < patient.most
    assert visitor.error <= 0.1
    assert told[-1] == Progress(len(visitor.run), len(visitor.run), running=False, tolerance=0.1)
    assert all(one.samples <= one.goal <= patient.most for one in told)
    assert all(one.seconds is not None for one in told[1:-1])  # how long it will take
    assert visitor.run.method == cocoax.Rise(samples=len(visitor.run), grid=4, max_samples=40 * CHUNK, baseline=cocoax.Blur())
    answer = visitor.answers[0]
    assert answer is not None
    assert answer.attribution.metadata["samples"] == len(visitor.run)


def test_known__is_the_question_asked_not_the_photo_itself(patient: Studio) -> None:
    for words in (("red", "blue"), ("blue", "green")):
        visitor = patient.visitor(words[0])
        patient.choose(visitor, flag(), words)
        list(patient.sample(visitor))
        assert visitor.run is not None
        whole = cocoax.Rise(samples=len(visitor.run), grid=4).run(encoder(), flag())
        assert relative_error(whole.explain(cocoax.Question(*words).target(encoder()))) <= 0.1
        shorter = whole.first(int(len(whole) / 1.25) - CHUNK)
        assert relative_error(shorter.explain(cocoax.Question(*words).target(encoder()))) > 0.1


def test_known__another_question_goes_on_where_the_first_ended(patient: Studio) -> None:
    visitor = patient.visitor("a")
    patient.choose(visitor, flag(), ("red", "blue"))
    list(patient.sample(visitor))
    assert not patient.lacks(visitor)
    assert visitor.run is not None
    had, before = len(visitor.run), seen(patient)
    patient.method = replace(patient.method, tolerance=0.05)  # as a question would that is harder to answer
    assert patient.lacks(visitor)
    list(patient.sample(visitor))
    assert not patient.lacks(visitor)
    assert visitor.error is not None
    assert visitor.error <= 0.05
    assert seen(patient) == before + len(visitor.run) - had


def test_known__not_at_the_most_copies_says_what_was_reached() -> None:
    studio = Studio(encoder(), cocoax.Rise(samples=CHUNK, grid=4, tolerance=1e-4, max_samples=3 * CHUNK))
    visitor = studio.visitor("a")
    studio.choose(visitor, flag(), ("red", "blue"))
    end = list(studio.sample(visitor))[-1]
    assert (end.samples, end.goal, end.running) == (3 * CHUNK, 3 * CHUNK, False)
    assert visitor.error is not None
    assert f"error {visitor.error:.0%} of the signal instead of 0%: more copies tell" in parts.progress_bar(
        end, visitor.error
    )
    assert not studio.lacks(visitor)  # nothing goes on for ever
    assert list(studio.sample(visitor, more=30))[-1].samples == 3 * CHUNK + 30


def test_known__who_stops_a_run_has_it_stopped(patient: Studio) -> None:
    visitor = patient.visitor("a")
    patient.choose(visitor, flag(), ("red", "blue"))
    run = patient.sample(visitor)
    next(run), next(run)
    patient.stop(visitor)
    list(run)
    patient.ask(visitor, 0, "green", "red")
    assert not patient.lacks(visitor)


def test_most__of_a_method_without_tolerance_is_its_number(studio: Studio) -> None:
    assert studio.most == SAMPLES
    visitor = looked_at(studio)
    studio.ask(visitor, 0, "green", "red")
    assert not studio.lacks(visitor)


# --- what removed parts become ------------------------------------------------------------------------------------------


def test_replace_by__looks_at_the_photo_again(studio: Studio) -> None:
    visitor = looked_at(studio)
    studio.ask(visitor, 0, "red", "blue")
    assert visitor.run is not None
    assert visitor.run.method.baseline == cocoax.Blur()
    assert studio.replace_by(visitor, cocoax.Mean())
    assert visitor.run is None
    list(studio.sample(visitor))
    answer = visitor.answers[0]
    assert answer is not None
    assert answer.name == "red rather than blue"
    expected = cocoax.Rise(samples=SAMPLES, grid=4, baseline=cocoax.Mean()).explain(
        encoder(), flag(), answer.question.target(encoder())
    )
    torch.testing.assert_close(answer.attribution.values, expected.values)
    assert not studio.replace_by(visitor, cocoax.Mean())  # nothing changes, so nothing is looked at again


def test_replace_by__before_there_is_a_photo(studio: Studio) -> None:
    visitor = studio.visitor("a")
    assert not studio.replace_by(visitor, cocoax.Mean())
    studio.choose(visitor, flag())
    list(studio.sample(visitor))
    assert visitor.run is not None
    assert visitor.run.method.baseline == cocoax.Mean()
