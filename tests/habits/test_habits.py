"""What people type from habit runs."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from tests.habits import things
from tests.habits.catalogue import missing, snippets


@pytest.mark.parametrize("name", snippets())
def test_habit(name: str, tmp_path: Path) -> None:
    if absent := missing(name):
        pytest.skip(f"{', '.join(absent)} not installed")
    things.run(snippets()[name], tmp_path)


def test_snippets__are_short_and_say_whose_habit_they_are() -> None:
    assert len(snippets()) == 36
    for name, snippet in snippets().items():
        assert ":" in (snippet.__doc__ or ""), name
        source = inspect.getsource(snippet)
        body = [line for line in source.partition(snippet.__doc__ or "")[2].splitlines()[1:] if line.strip()]
        assert 3 <= len(body) <= 10, (name, len(body))
