"""The quickstarts of docs/how-to/encoders.md run as they stand, with small random models in place of those on the hub."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch
from torch import nn

import cocoax
from cocoax.data import photo
from cocoax.encoders.families.torchvision import import_library
from tests.documentation.blocks import DOCS
from tests.encoders.families import tiny

PAGE = (DOCS / "how-to" / "encoders.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^## ([^\n]+)\n+```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    load = cocoax.load

    def load_small(name: str, **options: Any) -> cocoax.Encoder:
        family = name.partition(":")[0]
        if family in ("clip", "hf") and not (tmp_path / family).exists():
            with tiny.making():
                {"clip": tiny.clip, "hf": tiny.VISION["dinov2"]}[family](tmp_path / family)
        if "layer" in options:
            options["layer"] = options["layer"].replace("5", "1")  # the small model has two layers
        if family == "open_clip" and not (tmp_path / family).exists():
            tiny.open_clip(tmp_path / family, import_library("open_clip"), {})
        if family == "timm":
            return load("timm:test_convnext", pretrained=False)
        return load(f"{family}:{tmp_path / family}" if family != "starter" else name, **options)

    def run_block(title: str, **given: Any) -> dict[str, Any]:
        monkeypatch.setattr(cocoax, "load", load_small)
        code = re.sub(r"samples=\d+", "samples=20", BLOCKS[title]).replace("steps=50", "steps=5")
        code = code.replace("grid=8", "grid=4")  # the small model has 4 x 4 patches
        exec(compile(code, f"encoders.md: {title}", "exec"), given)
        plt.close("all")
        assert torch.isfinite(given["result"].values).all()
        assert float(given["result"].values.std()) > 0
        return given

    return run_block


def test_page__has_a_quickstart_per_kind() -> None:
    assert [title.split()[0] for title in BLOCKS] == ["Your", "CLIP,", "DINOv2", "timm", "OpenCLIP", "Dropped", "The"]


def test_page__own_module(run: Any, tmp_path: Path) -> None:
    for name, folder in (("cat", "photos/cats"), ("coffee", "photos/everything")):
        (tmp_path / folder).mkdir(parents=True)
        photo(name).save(tmp_path / folder / "1.jpg")
    photo("cat").save(tmp_path / "cat.jpg")
    with torch.random.fork_rng():
        model = nn.Sequential()
        model.add_module("conv", nn.Conv2d(3, 8, 7, 8))
        model.add_module("avgpool", nn.AdaptiveAvgPool2d(1))
        model.add_module("head", nn.Conv2d(8, 10, 1))
    run("Your own module", model=model)


def test_page__clip(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny, "POSITIONS", 40)  # captions are spelled letter by letter
    found = run("CLIP, SigLIP and other image-and-text encoders")
    assert found["result"].name == "This is a photo of a cat rather than CIFAR-100"


def test_page__dinov2(run: Any) -> None:
    assert run("DINOv2 and other vision encoders")["middle"].pooling == "first"


def test_page__dropped_tokens(run: Any) -> None:
    names = run("Dropped tokens")
    assert names["result"].features.shape == (16,)
    assert len(names["curve"].x) == 17


@pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed")
def test_page__timm(run: Any) -> None:
    run("timm")


@pytest.mark.skipif(find_spec("open_clip") is None, reason="open_clip is not installed")
def test_page__open_clip(run: Any) -> None:
    assert run("OpenCLIP")["result"].name == "a photo of a cat rather than a photo of a cup of coffee"


def test_page__starter(run: Any) -> None:
    run("The starter")
