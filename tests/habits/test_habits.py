"""What people type from habit runs, except what is listed as not yet; whoever mends one takes it off the list."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from tests.habits import things
from tests.habits.catalogue import missing, snippets

NOT_YET = {
    "move_and_cast": "an Encoder has no to()",
    "question_of_references": "a Question's sides are inputs, not references",
    "class_of_the_head": "a number or a name is no target",
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(reason=NOT_YET[name], strict=True) if name in NOT_YET else ())
        for name in snippets()
    ],
)
def test_habit(name: str, tmp_path: Path) -> None:
    if absent := missing(name):
        pytest.skip(f"{', '.join(absent)} not installed")
    things.run(snippets()[name], tmp_path)


def test_not_yet__names_snippets_that_are_there() -> None:
    assert set(NOT_YET) <= set(snippets())


def test_snippets__are_short_and_say_whose_habit_they_are() -> None:
    assert len(snippets()) == 36
    for name, snippet in snippets().items():
        assert ":" in (snippet.__doc__ or ""), name
        source = inspect.getsource(snippet)
        body = [line for line in source.partition(snippet.__doc__ or "")[2].splitlines()[1:] if line.strip()]
        assert 3 <= len(body) <= 10, (name, len(body))
