"""The examples run, and say what the documentation says they say."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

import cocoax

EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_columns__methods_beat_random(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    means = example("columns", monkeypatch).main()
    for name in ("Rise", "KernelShap", "IntegratedGradients"):
        assert means[name]["insertion"] > means["random"]["insertion"] + 0.1
        assert means[name]["deletion"] < means["random"]["deletion"] - 0.1
    assert "class 0 rather than the rest" in capsys.readouterr().out


@pytest.mark.slow
def test_search_debugging__explains_the_top_hit(monkeypatch: pytest.MonkeyPatch) -> None:
    match = example("search_debugging", monkeypatch).main()
    assert match.similarity > match.others[0]
    assert match.query.score > 0
    assert match.query.tokens is not None
    assert "points" in match.query.tokens


@pytest.mark.slow
@pytest.mark.parametrize("removal", ["mask", "deletion", "attention"])
def test_measure_text__decisive_words_come_first(removal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = example("measure_text", monkeypatch)
    rates = measure.rates(cocoax.load("minilm"), measure.decisive_words(), removal)
    assert rates.contrastive >= 0.9
    assert rates.deletion_beats_random >= 0.9
    assert rates.label_free < 0.6  # it does not know the question, and one of two words can be right


@pytest.mark.slow
def test_measure_text__captum_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    measure = example("measure_text", monkeypatch)
    apart, incomplete = measure.captum_difference(cocoax.load("minilm"), measure.decisive_words()[:8])
    assert apart < 1e-5
    assert incomplete < 1e-4


def test_decisive_words__each_is_a_word_of_its_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = example("measure_text", monkeypatch).decisive_words()
    assert len(pairs) == 48
    for pair in pairs:
        assert pair.text.split().count(pair.word) == 1
        assert pair.topic != pair.rather_than
        assert pair.word.lower() not in pair.topic.lower().split()  # otherwise the question would contain the answer
    assert all(
        first.text == second.text and first.topic == second.rather_than
        for first, second in zip(pairs[::2], pairs[1::2], strict=True)
    )
