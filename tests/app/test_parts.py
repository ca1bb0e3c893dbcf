"""The parts of the page, as HTML."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import cocoax
from cocoax import Answer
from cocoax.app import parts
from cocoax.app.drawing import Look
from cocoax.app.service import REFERENCE_AREA, EncoderService
from cocoax.app.sessions import Progress, Session
from tests.app.colours import encoder, flag


@pytest.fixture(scope="module")
def service() -> EncoderService:
    return EncoderService(encoder(), cocoax.Rise(samples=48, grid=4))


@pytest.fixture
def session(service: EncoderService) -> Session:
    session = Session()
    service.choose(session, flag())
    service.ask(session, 0, "red", "blue / green")
    list(service.sample(session))
    return session


def answer_of(session: Session, panel: int = 0) -> Answer:
    answer = session.answers[panel]
    assert answer is not None
    return answer


# --- figures ----------------------------------------------------------------------------------------------------------


def test_figure__has_map_scale_and_score(session: Session) -> None:
    shown = parts.figure(session, 0)
    answer = answer_of(session)
    assert 'src="data:image/jpeg;base64,' in shown
    assert "<b>red</b> <i>rather than</i> <b>blue / green</b>" in shown
    assert parts.number(answer.score) in shown
    assert parts.number(answer.corpus_score) in shown
    limit = parts.scale_of(session, 0)
    assert f"<span>−{limit:.2g}</span>" in shown
    assert f"<span>+{limit:.2g}</span>" in shown
    assert len(re.findall(r'<path d="M[^"]+" tabindex="(?:0|-1)" role="img" aria-label="[^"]+ ± [^"]+">', shown)) > 3
    assert "Similarity of the whole photo" in shown
    assert "http" not in shown  # nothing is loaded from anywhere


def test_figure__before_anything(session: Session) -> None:
    assert "Choose a photo" in parts.figure(Session(), 0)
    assert "Write a question above" in parts.figure(session, 1)
    session.run = session.answers[0] = None
    session.progress = Progress(0, 48)
    assert "waits for its turn" in parts.figure(session, 0)
    session.worker = object()
    assert "Analysing the photo" in parts.figure(session, 0)
    session.drop()
    assert "another visitor needed the place. Choose the photo again" in parts.figure(session, 0)


def test_notice__is_text() -> None:
    expected = '<p class="cx-notice" role="alert">That &lt;b&gt;went&lt;/b&gt; wrong.</p>'
    assert parts.notice("That <b>went</b> wrong.") == expected
    assert parts.notice("") == ""


def test_figure__text_cannot_become_markup(service: EncoderService, session: Session) -> None:
    service.ask(session, 0, "<img src=x onerror=alert(1)> ${alert(1)} {{x}}", "")
    shown = parts.figure(session, 0)
    assert "<img src=x" not in shown
    assert "${" not in shown
    assert "{{" not in shown


def test_scale__one_for_both(service: EncoderService, session: Session) -> None:
    service.ask(session, 1, "red", "")
    own = [parts.scale_of(session, panel) for panel in range(2)]
    assert own[0] != own[1]
    session.look = Look(same_scale=True)
    assert [parts.scale_of(session, panel) for panel in range(2)] == [max(own)] * 2


def test_comparison__says_how_many_more(service: EncoderService, session: Session) -> None:
    service.ask(session, 0, "red", " / ".join(f"blue {'green ' * count}" for count in range(8)))
    assert "and 3 more" in parts.comparison(answer_of(session))


def test_legend__names_the_colours() -> None:
    assert "<b>Red</b> raises" in parts.legend(Look())
    orange = parts.legend(Look(palette="Orange and purple"))
    assert "<b>Orange</b> raises" in orange
    assert "<b>Purple</b> lowers" in orange


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        (0.12345, None, "+0.123"),
        (-0.12345, None, "−0.123"),
        (0.012345, 0.0041, "+0.0123 ± 0.0041"),
        (123.4, 56.0, "+123 ± 56"),
        (0.0, 0.0, "+0.000 ± 0.000"),
    ],
)
def test_number(value: float, error: float | None, expected: str) -> None:
    assert parts.number(value, error) == expected


# --- the photo --------------------------------------------------------------------------------------------------------


def test_status__running_stopped_finished(session: Session) -> None:
    def status(*progress: Any, **options: Any) -> str:
        session.progress = Progress(*progress, **options)
        return parts.status(session)

    running = status(24, 48, 12.4)
    assert "<b>24</b> of 48 masked copies seen" in running
    assert f"error {session.error:.0%} of the signal" in running
    assert "12 s left" in running
    assert "width:50.0%" in running
    assert 'aria-label="masked copies seen" aria-valuemin="0" aria-valuemax="48" aria-valuenow="24"' in running
    assert "stopped" in status(24, 48, running=False)
    assert "finished" in status(48, 48, running=False)


@pytest.mark.parametrize("error", [None, float("inf"), float("nan")])
def test_progress__no_error_yet(error: float | None) -> None:
    assert "signal" not in parts.progress_bar(Progress(0, 48), error)
    assert "error 31% of the signal" in parts.progress_bar(Progress(24, 48), 0.31)


def test_progress__until_the_answers_are_known() -> None:
    running = parts.progress_bar(Progress(48, 300, 12.4, tolerance=0.1), 0.31)
    assert "<b>48</b> of about 300 masked copies seen" in running
    assert "error 31% of the signal, until 10%" in running
    assert "12 s left" in running
    known = parts.progress_bar(Progress(312, 312, running=False, tolerance=0.1), 0.098)
    assert "error 10% of the signal</span>" in known
    assert "finished" in known
    not_reached = parts.progress_bar(Progress(1000, 1000, running=False, tolerance=0.1), 0.23)
    assert "error 23% of the signal instead of 10%: take more copies" in not_reached
    stopped = parts.progress_bar(Progress(100, 300, running=False, tolerance=0.1), 0.23)
    assert "error 23% of the signal</span>" in stopped
    assert "not within 10%: take more copies" in parts.progress_bar(
        Progress(9, 9, running=False, tolerance=0.1), float("inf")
    )


def test_status__of_one_colour_is_no_error_of_zero(service: EncoderService) -> None:
    session = Session()
    service.choose(session, Image.new("RGB", (32, 32), "white"))
    service.ask(session, 0, "red", "blue")
    list(service.sample(session))
    assert session.error == 0
    assert "nothing to see" in parts.status(session)
    assert "of the signal" not in parts.status(session)
    assert "all there is to see is rounding" in parts.figure(session, 0)


def test_remarks__a_removal_that_leaves_most_of_the_score() -> None:
    question = cocoax.Question("red", "blue")
    for left, said in ((0.58, True), (0.1, False)):
        attribution = cocoax.Attribution(torch.rand(4, 4, generator=torch.Generator().manual_seed(0)), 0.6, left)
        answer = cocoax.Answer(question, attribution, 0.7, 0.1, (), (), ())
        shown = parts.remarks(answer)
        assert ("With everything removed it still scores +0.580 of +0.600: the map explains the last 3.3 %." in shown) == said


def test_remarks__sides_that_the_encoder_cannot_tell_apart() -> None:
    attribution = cocoax.Attribution(torch.rand(4, 4, generator=torch.Generator().manual_seed(0)), 0.6, 0.1)
    answer = cocoax.Answer(cocoax.Question("red", "blue"), attribution, 0.7, 0.1, (), (), (), doubts=("It <cannot> tell.",))
    assert parts.remarks(answer) == '<p class="cx-hint cx-remark">It &lt;cannot&gt; tell.</p>'


def test_status__without_a_photo() -> None:
    assert parts.status(Session()) == ""


def test_chooser__samples_and_drop_zone() -> None:
    shown = parts.chooser({"flag": flag()}, {"flag": ("red", "blue")}, 20)
    assert 'data-sample="flag"' in shown
    assert 'data-like="red" data-unlike="blue"' in shown
    assert "data-like" not in parts.chooser({"flag": flag()}, {}, 20)
    assert "up to 20 MB" in shown
    assert "or try one" not in parts.chooser({}, {}, 20)


def test_pictures__each_can_be_removed(service: EncoderService, tmp_path: Path) -> None:
    flag().save(tmp_path / 'a"b.png')
    shown = parts.pictures([service.read(tmp_path / 'a"b.png', REFERENCE_AREA)] * 2, "Looks like")
    assert 'data-remove="0"' in shown
    assert 'data-remove="1"' in shown
    assert 'title="a&quot;b"' in shown
    assert 'aria-label="Looks like: choose pictures"' in shown
    assert "or drop </span>pictures" in parts.pictures([], "rather than")


def test_assets__load_nothing_from_elsewhere() -> None:
    for name in ("style.css", "photo.js", "pictures.js", "figure.js", "radios.js", "download.js"):
        text = parts.asset(name)
        assert "http:" not in text
        assert "https:" not in text
        assert "@import" not in text
