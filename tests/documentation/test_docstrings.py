"""The examples in docstrings run, and print what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import numpy as np
import pytest

import cocoax

SOURCE = Path(cocoax.__file__).parent
WITH_EXAMPLES = [file for file in sorted(SOURCE.rglob("*.py")) if ">>> " in file.read_text(encoding="utf-8")]
EXAMPLES = [
    example
    for file in WITH_EXAMPLES
    for example in doctest.DocTestFinder(recurse=True).find(
        importlib.import_module(
            ".".join(["cocoax", *file.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")
        ),
        extraglobs={"cocoax": cocoax, "np": np},
    )
    if example.examples
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_docstring__example_prints_what_it_says(example: doctest.DocTest, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = doctest.DocTestRunner().run(example, clear_globs=False)
    assert outcome.attempted > 0
    assert not outcome.failed, capsys.readouterr().out


def test_docstrings__the_first_calls_have_one() -> None:
    shown = {example.name.rpartition(".")[2] for example in EXAMPLES}
    assert shown >= {"ask", "wrap", "explain_match", "explain_hits", "contrastive_corpus_similarity", "knows", "discover"}
    assert {file.stem for file in WITH_EXAMPLES} >= {"__init__", "references"}
