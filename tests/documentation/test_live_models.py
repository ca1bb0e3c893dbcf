"""The examples of the pages live-models and gpus run as they stand, with small models in place of those on the hub."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

import cocoax
from cocoax.encoders.families.torchvision import import_library
from tests.documentation.blocks import DOCS, blocks_of, run_blocks
from tests.encoders.families import tiny
from tests.tiny import save_bert

LIVE_MODELS, GPUS = DOCS / "how-to" / "live-models.md", DOCS / "how-to" / "gpus.md"


@pytest.fixture
def small(tmp_path: Path) -> dict[str, str]:
    """What stands in the examples, and what is run instead."""
    with tiny.making():
        tiny.VISION["dinov2"](tmp_path / "dinov2")
    tiny.sentences(tmp_path / "sentences", save_bert(tmp_path / "bert"))
    return {
        '"all-MiniLM-L6-v2"': f"{str(tmp_path / 'sentences')!r}, device='cpu'",
        'AutoImageProcessor.from_pretrained("facebook/dinov2-small")': (
            f"AutoImageProcessor.from_pretrained({str(tmp_path / 'dinov2')!r}, backend='pil')"
        ),
        '"facebook/dinov2-small"': repr(str(tmp_path / "dinov2")),
        "layer[5]": "layer[1]",
        '"convnext_tiny.fb_in22k", pretrained=True': '"test_convnext"',
        "samples=1000": "samples=20",
        "samples=300": "samples=30",
        "steps=50": "steps=5",
    }


@pytest.mark.parametrize("number", range(4))
def test_live_models__example(number: int, small: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    code = blocks_of(LIVE_MODELS)[number]
    if "import timm" in code:
        if find_spec("timm") is None:
            pytest.skip("timm is not installed")
        import_library("timm")
    for there, here in small.items():
        code = code.replace(there, here)
    given: dict[str, Any] = {}
    with tiny.making():
        exec(compile(code, f"live-models.md: {number}", "exec"), given)
    assert torch.isfinite(given["result"].values).all()
    assert float(given["result"].values.std()) > 0


def test_live_models__every_example_is_run() -> None:
    assert len(blocks_of(LIVE_MODELS)) == 4


def test_gpus__examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    load = cocoax.load
    monkeypatch.setattr(cocoax, "load", lambda _name, **options: load("simclr-cifar10-small", **options))
    given = run_blocks(GPUS)
    assert given["encoder"].represent(torch.ones(1, 3, 32, 32)).dtype == torch.float32
