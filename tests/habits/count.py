"""Print how many of the snippets run: ``python -m tests.habits.count``."""

from __future__ import annotations

import logging
import tempfile
import traceback
from pathlib import Path

import pytest
import torch
from transformers.utils.logging import disable_progress_bar

import cocoax
from tests.habits import things
from tests.habits.catalogue import missing, snippets


def outcome(name: str) -> str:
    """Return "runs", "skipped: …" or "fails: …", with the error in a line."""
    if absent := missing(name):
        return f"skipped: {', '.join(absent)} not installed"
    with tempfile.TemporaryDirectory() as folder:
        try:
            things.run(snippets()[name], Path(folder))
        except (Exception, pytest.fail.Exception) as error:
            lines = str(error).strip().splitlines() or [traceback.extract_tb(error.__traceback__)[-1].line]
            return f"fails: {type(error).__name__}: {lines[0]}"
    return "runs"


def main() -> None:
    logging.disable(logging.WARNING)
    disable_progress_bar()
    torch.set_num_threads(1)
    outcomes = {name: outcome(name) for name in snippets()}
    for name, said in outcomes.items():
        print(f"{name:38} {said}")
    counts = {word: sum(said.startswith(word) for said in outcomes.values()) for word in ("runs", "fails", "skipped")}
    print(f"\n{counts['runs']} of {len(outcomes)} run, {counts['fails']} fail, {counts['skipped']} are skipped", end="; ")
    print(f"with {Path(cocoax.__file__).parent}")


if __name__ == "__main__":
    main()
