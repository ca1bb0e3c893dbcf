"""The README's code runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib
import pytest
import torch
from torch import nn

import cocoax
from cocoax.data import photo

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    return tmp_path


def run(block: str, **given: object) -> dict[str, object]:
    import matplotlib.pyplot as plt

    names = dict(given)
    exec(compile(block.replace("samples=1000", "samples=20").replace("samples=500", "samples=20"), "README", "exec"), names)
    plt.close("all")
    return names


def test_readme__has_five_quickstarts() -> None:
    assert len(BLOCKS) == 5


def test_readme__own_encoder(here: Path) -> None:
    for folder in ("photos/cats", "photos/everything"):
        (here / folder).mkdir(parents=True)
    photo("cat").save(here / "photos/cats/1.jpg")
    photo("coffee").save(here / "photos/everything/1.jpg")
    photo("cat").save(here / "cat.jpg")
    with torch.random.fork_rng():
        model = nn.Sequential()
        model.add_module("conv", nn.Conv2d(3, 8, 7, 4))
        model.add_module("avgpool", nn.AdaptiveAvgPool2d(1))
        model.add_module("head", nn.Conv2d(8, 10, 1))
    names = run(BLOCKS[0], model=model, preprocess=cocoax.ImagePreprocess(resize=64, crop=64))
    assert names["result"].values.shape == (64, 64)  # type: ignore[attr-defined]


@pytest.mark.parametrize("block", BLOCKS[1:])
def test_readme__starter(here: Path, block: str) -> None:
    names = run(block)
    if "embed" in names:
        assert "similarity" in names["match"].summary  # type: ignore[attr-defined]
    elif "match" in names:
        assert [word for word, _ in names["match"].query.top(2)] == ["bicycle", "tyre"]  # type: ignore[attr-defined]
        assert [word for word, _ in names["match"].document.top(2)] == ["bike", "wheel"]  # type: ignore[attr-defined]
    if "run" in names:
        assert len(names["answers"]) == 12  # type: ignore[arg-type]
        assert len(names["run"]) == 520  # type: ignore[arg-type]
        assert (here / "astronaut.png").stat().st_size > 10_000
