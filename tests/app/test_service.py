"""The encoder's work for sessions: runs that take turns, answers without encoder work, curves."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import cocoax
from cocoax.app import service as module
from cocoax.app.service import MAX_CHUNK, MAX_SAMPLES, MIN_CHUNK, REFERENCE_AREA, EncoderService, captions
from cocoax.app.sessions import Progress, Session, Sessions
from cocoax.masking.removals import DEFAULT_PRESET, PRESETS
from cocoax.methods.rise import relative_error
from tests.app.colours import Colours, Names, encoder, flag

SAMPLES = 4 * MIN_CHUNK
PROBES = 8  # inputs by which an encoder is recognised when a question is asked


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns as short as they get, however fast the machine is."""
    monkeypatch.setattr(module, "TURN_SECONDS", 0)


@pytest.fixture
def service() -> EncoderService:
    return EncoderService(encoder(), cocoax.Rise(samples=SAMPLES, grid=4))


@pytest.fixture
def patient() -> EncoderService:
    """A service whose runs end when their answers are known."""
    return EncoderService(encoder(), cocoax.Rise(samples=2 * MIN_CHUNK, grid=4, tolerance=0.1, max_samples=40 * MIN_CHUNK))


def encoded(service: EncoderService) -> int:
    assert isinstance(service.encoder.module, Colours)
    return service.encoder.module.inputs


def sampled(service: EncoderService, session: Session | None = None, **options: Any) -> Session:
    session = session or Session()
    service.choose(session, flag(), **options)
    list(service.sample(session))
    return session


def progress(service: EncoderService, session: Session) -> list[Progress]:
    return [session.progress for _ in service.sample(session) if session.progress]


def halves(session: Session, panel: int = 0) -> tuple[float, float]:
    answer = session.answers[panel]
    assert answer is not None
    shown = answer.attribution.relative
    middle = shown.shape[1] // 2
    return float(shown[:, :middle].mean()), float(shown[:, middle:].mean())


# --- runs -------------------------------------------------------------------------------------------------------------


def test_warm_up__encodes_and_never_fails(service: EncoderService) -> None:
    service.warm_up()
    assert encoded(service) > 0
    service.encoder.module = None  # type: ignore[assignment]
    service.warm_up()


def test_sample__is_the_run_that_the_method_makes(service: EncoderService) -> None:
    session = Session()
    service.choose(session, flag())
    told = progress(service, session)
    assert [one.samples for one in told] == [0, MIN_CHUNK, 2 * MIN_CHUNK, 3 * MIN_CHUNK, SAMPLES, SAMPLES]
    assert [one.running for one in told] == [True] * 5 + [False]
    assert {one.goal for one in told} == {SAMPLES}
    assert [one.seconds is not None for one in told] == [False, *[True] * 4, False]
    assert session.run is not None
    whole = cocoax.Rise(samples=SAMPLES, grid=4).run(encoder(), flag())
    torch.testing.assert_close(session.run.representations, whole.representations)
    assert session.run.method == whole.method


def test_sample__takes_longer_turns_where_they_are_quick(service: EncoderService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TURN_SECONDS", 1e9)
    session = Session()
    service.choose(session, flag())
    assert [one.samples for one in progress(service, session)] == [0, MIN_CHUNK, MIN_CHUNK + MAX_CHUNK, SAMPLES]


def test_sample__without_a_photo_or_beside_another_worker_does_nothing(service: EncoderService) -> None:
    session = Session()
    assert list(service.sample(session)) == []
    service.choose(session, flag())
    run = service.sample(session)
    next(run)
    assert list(service.sample(session)) == []
    list(run)
    assert list(service.sample(session)) == []


def test_more__adds_samples_up_to_an_end(service: EncoderService) -> None:
    session, more = sampled(service), module.MORE_SAMPLES
    before = encoded(service)
    service.more(session)
    assert progress(service, session)[-1] == Progress(SAMPLES + more, SAMPLES + more, running=False)
    assert more <= encoded(service) - before < 1.1 * more  # and a probe in each turn
    for _ in range(12):
        service.more(session)
        list(service.sample(session))
    assert session.progress == Progress(MAX_SAMPLES, MAX_SAMPLES, running=False)


def test_stop__keeps_the_samples_and_more_goes_on(service: EncoderService) -> None:
    session = Session()
    service.choose(session, flag(), ("red", "blue"))
    run = service.sample(session)
    for _ in range(3):
        next(run)
    service.stop(session)
    list(run)
    assert session.progress == Progress(2 * MIN_CHUNK, SAMPLES, running=False)
    left, right = halves(session)
    assert left > 0 > right
    service.ask(session, 0, "blue", "red")
    assert list(service.sample(session)) == []  # it stays stopped
    service.more(session)
    before = encoded(service)
    list(service.sample(session))
    assert module.MORE_SAMPLES <= encoded(service) - before < 1.1 * module.MORE_SAMPLES


@pytest.mark.parametrize("what", ["photo", "baseline", "nothing"])
def test_worker__goes_on_with_what_is_chosen_while_the_encoder_works(service: EncoderService, what: str) -> None:
    network = service.encoder.module
    assert isinstance(network, Colours)
    session = Session()
    service.choose(session, flag(), ("red", "blue"))
    gate = network.gate = threading.Semaphore(0)
    worker = threading.Thread(target=lambda: list(service.sample(session)))
    worker.start()
    while not network.inside:
        pass
    if what == "photo":
        service.choose(session, flag("blue", "red"))
    elif what == "baseline":
        service.set_baseline(session, cocoax.Mean())
    else:
        session.drop()
    network.gate = None
    gate.release(1000)
    worker.join(60)
    assert not worker.is_alive()
    assert session.worker is None
    if what == "nothing":
        assert session.run is None
        assert session.expired
        return
    assert session.run is not None
    assert len(session.run) == SAMPLES
    assert session.run.method.baseline == (cocoax.Mean() if what == "baseline" else PRESETS[DEFAULT_PRESET])
    left, right = halves(session)
    assert (left > right) == (what == "baseline")


def test_choose__the_last_choice_counts_whatever_the_order_of_arrival(service: EncoderService) -> None:
    session = Session()
    for choice in (5, 1, 4):
        service.choose(session, flag(*(("red", "blue") if choice == 5 else ("blue", "red"))), ("red", "blue"), choice)
    list(service.sample(session))
    left, right = halves(session)
    assert left > 0 > right


def test_baseline__starts_the_run_again(service: EncoderService) -> None:
    session = Session()
    service.set_baseline(session, cocoax.Mean())  # before there is a photo
    assert session.progress is None
    sampled(service, session, words=("red", "blue"))
    answer = session.answers[0]
    assert answer is not None
    method = cocoax.Rise(samples=SAMPLES, grid=4, baseline=cocoax.Mean())
    expected = method.explain(encoder(), flag(), answer.question.target(encoder()))
    torch.testing.assert_close(answer.attribution.values, expected.values)
    service.set_baseline(session, cocoax.Mean())  # the same one changes nothing
    assert session.answers[0] is answer


@pytest.mark.parametrize("how", ["error", "client left"])
def test_worker__that_ends_early_leaves_the_run_to_the_next(
    service: EncoderService, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session()
    service.choose(session, flag())
    run: Any = service.sample(session)
    next(run)
    if how == "error":
        monkeypatch.setattr(Colours, "forward", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            next(run)
        monkeypatch.undo()
    run.close()
    assert session.worker is None
    assert not session.running
    list(service.sample(session))
    assert session.run is not None
    assert len(session.run) == SAMPLES


def test_twenty_sessions__take_turns_and_lose_no_question(service: EncoderService) -> None:
    sessions, failures = Sessions(20), []

    def visit(number: int) -> None:
        try:
            session = sessions.get(str(number))
            sessions.take_place(session)
            colours = [("red", "green", "blue")[(number + step) % 3] for step in range(2)]
            service.choose(session, flag(*colours))
            for _ in service.sample(session):
                service.ask(session, 0, *colours)
            for turn in range(6):
                words = colours[:: 1 if turn % 2 else -1]
                service.ask(session, 0, *words)
                left, right = halves(session)
                answer = session.answers[0]
                assert answer is not None
                assert answer.name == " rather than ".join(words)
                assert (left > 0 > right) == (words == colours)
        except BaseException as error:  # of a thread, which would be lost
            failures.append(error)

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert not failures


# --- until the answers are known --------------------------------------------------------------------------------------


def test_known__ends_the_run_and_a_harder_question_goes_on(patient: EncoderService) -> None:
    session = Session()
    patient.choose(session, flag(), ("red", "blue"))
    told = progress(patient, session)
    assert session.run is not None
    had = len(session.run)
    assert 2 * MIN_CHUNK <= had < patient.most
    assert told[-1] == Progress(had, had, running=False, tolerance=0.1)
    assert all(one.samples <= one.goal <= patient.most for one in told)
    target = cocoax.Question("red", "blue").target(encoder())
    whole = cocoax.Rise(samples=had, grid=4).run(encoder(), flag())
    assert relative_error(whole.explain(target)) <= 0.1
    assert relative_error(whole.first(int(had / module.ANSWER_EVERY) - MIN_CHUNK).explain(target)) > 0.1
    assert list(patient.sample(session)) == []
    before = encoded(patient)
    patient.method = replace(patient.method, tolerance=0.05)  # as a harder question would
    list(patient.sample(session))
    assert session.error is not None
    assert session.error <= 0.05
    assert len(session.run) - had <= encoded(patient) - before < 1.1 * (len(session.run) - had)


def test_known__not_within_the_most_samples() -> None:
    service = EncoderService(encoder(), cocoax.Rise(samples=MIN_CHUNK, grid=4, tolerance=1e-4, max_samples=3 * MIN_CHUNK))
    session = sampled(service, words=("red", "blue"))
    assert session.progress == Progress(3 * MIN_CHUNK, 3 * MIN_CHUNK, running=False, tolerance=1e-4)
    assert list(service.sample(session)) == []  # nothing goes on for ever


# --- questions --------------------------------------------------------------------------------------------------------


def test_ask__without_encoder_work(service: EncoderService) -> None:
    session = Session()
    service.ask(session, 0, "red", "blue")  # before there is a run
    assert session.answers == [None, None]
    sampled(service, session)
    left, right = halves(session)
    assert left > 0 > right
    names = service.encoder.text.module
    assert isinstance(names, Names)
    before, words = encoded(service), names.inputs
    service.ask(session, 1, "blue", "red")
    left, right = halves(session, 1)
    assert left < 0 < right
    assert encoded(service) - before <= PROBES
    assert names.inputs - words <= PROBES
    service.remove_question(session, 1)
    assert session.answers[1] is session.questions[1] is None


def test_ask__nothing_is_about_the_photo_itself(service: EncoderService) -> None:
    session = sampled(service)
    answer = session.answers[0]
    assert answer is not None
    assert answer.score == pytest.approx(1)
    assert session.answers[1] is None


def test_ask__with_pictures(service: EncoderService, tmp_path: Path) -> None:
    session = sampled(service)
    for name in ("red", "blue"):
        flag(name, name, (2000, 1000)).save(tmp_path / f"{name}.png")
    red, blue = (service.read(tmp_path / f"{name}.png", REFERENCE_AREA) for name in ("red", "blue"))
    assert red.width * red.height <= 1.01 * REFERENCE_AREA
    session.pictures[0] = {"like": [blue], "unlike": [red]}
    service.ask(session, 0, "", "")
    left, right = halves(session)
    assert left < 0 < right
    answer = session.answers[0]
    assert answer is not None
    assert answer.question.describe()["like"]["images"] == ["blue.png"]  # not where it lies
    before = encoded(service)
    service.ask(session, 0, "green", "")  # the photo is not sampled again
    assert encoded(service) - before <= PROBES


@pytest.mark.parametrize(("like", "unlike", "word"), [("red", "red", "Both sides"), ("red " * 33, "", "shorten")])
def test_ask__bad_question_leaves_the_old_answer(service: EncoderService, like: str, unlike: str, word: str) -> None:
    session = sampled(service, words=("red", "blue"))
    answer = session.answers[0]
    with pytest.raises(ValueError, match=word):
        service.ask(session, 0, like, unlike)
    assert session.answers[0] is answer


def test_ask__an_encoder_without_words() -> None:
    service = EncoderService(cocoax.Encoder(Colours(), cocoax.ImagePreprocess(resize=32, crop=32), name="sight"))
    assert not service.takes_words
    with pytest.raises(ValueError, match="'sight' knows no words"):
        service.ask(Session(), 0, "red", "")


@pytest.mark.parametrize("meanwhile", ["question", "photo", "removed", "dropped"])
def test_answer__that_comes_too_late_is_not_kept(
    service: EncoderService, meanwhile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = sampled(service)

    def late(*arguments: Any) -> list[cocoax.Answer]:
        found = cocoax.ask(*arguments)
        if meanwhile == "question":
            session.questions[0], session.answers[0] = cocoax.Question("red"), None
        elif meanwhile == "photo":
            service.choose(session, flag("blue", "red"))
        elif meanwhile == "removed":
            service.remove_question(session, 0)
        else:
            session.drop()
        return found

    monkeypatch.setattr(module, "ask", late)
    service.answer(session)
    assert session.answers == [None, None]


def test_curves__are_those_of_the_library(service: EncoderService) -> None:
    with pytest.raises(ValueError, match="There is no run yet"):
        service.curves(Session())
    session = sampled(service, words=("red", "blue"))
    answer = session.answers[0]
    assert answer is not None
    ((name, (own, random)),) = service.curves(session)
    assert name == "red rather than blue"
    target = answer.question.target(service.encoder)
    for kind, function in (("insertion", cocoax.insertion), ("deletion", cocoax.deletion)):
        torch.testing.assert_close(own[kind].y, function(service.encoder, flag(), answer.attribution, target, 20).y)
    assert own["insertion"].auc > random["insertion"].auc


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" / ", []),
        (" a cat /  a dog ", ["a cat", "a dog"]),
        ("a cat\na dog / a fox", ["a cat", "a dog", "a fox"]),
        ("a black/white cat, sitting", ["a black/white cat, sitting"]),
    ],
)
def test_captions(text: str, expected: list[str]) -> None:
    assert captions(text) == expected
