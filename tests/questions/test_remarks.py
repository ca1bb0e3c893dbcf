"""Remarks of answers: each where it must appear and where it must not, once, in Python, JSON, terminal and page alike."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

import cocoax
from cocoax.app.parts import remarks as on_page
from cocoax.inputs import Picture
from tests.towers import picture, two_towers


@pytest.fixture(scope="module")
def plain() -> cocoax.Answer:
    """An answer without remarks: a large effect, no noise, all of the picture seen."""
    (answer,) = cocoax.ask(two_towers(), picture(), cocoax.Question("a cat"), cocoax.Rise(samples=40), features=(2, 2))
    values = torch.zeros_like(answer.attribution.values)
    values[:8] = 0.2
    display = answer.attribution.display
    assert isinstance(display, Picture)
    attribution = replace(
        answer.attribution,
        values=values,
        neutral=0.0,
        unit=1.0,
        score=0.4,
        baseline_score=0.05,
        standard_error=torch.full_like(values, 0.01),
        display=replace(display, box=(0.0, 0.0, 1.0, 1.0)),
    )
    return replace(answer, attribution=attribution, doubts=())


def test_remarks__none_where_there_is_nothing_to_say(plain: cocoax.Answer) -> None:
    assert plain.remarks == ()
    assert on_page(plain) == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"score": 0.081, "baseline_score": 0.222}, "no less than the input's +0.081"),  # a blurred pug
        ({"score": 0.4, "baseline_score": 0.39}, "explains the last 2.5 %"),
        ({"score": 0.4, "baseline_score": 0.4, "values": 0.0}, "No part of the input makes a difference"),
        ({"standard_error": 0.2}, "within noise: take more samples"),
        ({"box": (0.2, 0.0, 0.8, 1.0)}, "cuts out 60% of the picture"),
        ({"doubts": ("'asdf' is no more similar to the input than random letters are.",)}, "random letters"),
        ({"doubts": ("The encoder does not know 'asdf': all unknown words are the same to it.",)}, "does not know"),
        ({"doubts": ("The encoder does not separate 'cats' from 'dogs'.",)}, "does not separate"),
    ],
)
def test_remarks__are_the_same_in_every_medium(
    plain: cocoax.Answer, changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    attribution, doubts = plain.attribution, changes.pop("doubts", ())
    if box := changes.pop("box", None):
        attribution = replace(attribution, display=replace(attribution.display, box=box))  # type: ignore[type-var]
    full = {name: value for name, value in changes.items() if name in ("values", "standard_error")}
    tensors = {name: torch.full_like(attribution.values, value) for name, value in full.items()}
    answer = replace(plain, attribution=replace(attribution, **changes | tensors), doubts=doubts)
    (said,) = [sentence for sentence in answer.remarks if words in sentence]
    assert json.loads(answer.to_json())["remarks"].count(said) == 1
    terminal = Console(file=StringIO(), width=1000)
    terminal.print(answer)
    assert terminal.file.getvalue().count(said) == 1  # type: ignore[attr-defined]
    for page in (answer.save(tmp_path / "answer.html").read_text(), answer._repr_html_(), on_page(answer)):
        assert unescape(page).count(said) == 1


def test_remarks__no_alarm_in_a_run_that_goes_on() -> None:
    """A map that is noise after the first copies, and known at the end, is not remarked on."""
    encoder, method = two_towers(), cocoax.Rise(samples=12, tolerance=0.1, max_samples=4000)
    question = cocoax.Question("a cat")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = method.run(encoder, picture(3), [question.target(encoder)], features=(4, 4))
        (early,), (answer,) = (cocoax.ask(encoder, each, question) for each in (run.first(12), run))
    assert any("within noise" in sentence for sentence in early.remarks)
    assert not any("within noise" in sentence for sentence in answer.remarks)
