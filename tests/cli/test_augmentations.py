"""cocoax augmentations: its table, its files, and what is said about bad input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import cocoax
from tests.cli.support import interrupt_after, invoke, picture
from tests.conftest import SmallNet


def classifier() -> cocoax.Encoder:
    """Return a small encoder with a head for three classes."""
    with torch.random.fork_rng():
        head = nn.Linear(8, 3)
    with torch.no_grad():
        head.weight.copy_(torch.arange(24.0).reshape(3, 8).sin())
    return cocoax.Encoder(SmallNet().eval(), cocoax.ImagePreprocess(resize=18, crop=16), head=head)


def test_augmentations__figure_and_table(image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cocoax, "load", lambda _name, device: classifier())
    (tmp_path / "foil").mkdir()
    for number in range(4):
        picture(number).save(tmp_path / "foil" / f"{number}.png")
    (tmp_path / "classes.txt").write_text("apple\nbread\ncheese\n")
    folder = tmp_path / "out"
    result = invoke(
        *("augmentations", image, image, "--foil", str(tmp_path / "foil"), "--most", "3", "--samples", "20"),
        *("--encoder", "mine", "--classes", str(tmp_path / "classes.txt"), "--out", str(folder)),
    )
    assert result.exit_code == 0, result.output
    rows = [line for line in result.output.splitlines() if "photo" in line]
    assert len(rows) == 16
    assert all(any(name in row for name in ("apple", "bread", "cheese")) for row in rows)
    assert len(list(folder.glob("*.safetensors"))) == 16
    assert (folder / "augmentations.png").stat().st_size > 10_000


def test_augmentations__bad_input(image: str, tmp_path: Path, complaint: Callable[..., str]) -> None:
    (tmp_path / "empty").mkdir()
    assert "No pictures below" in complaint("augmentations", image, "--foil", str(tmp_path / "empty"))
    assert "No file at nowhere.png" in complaint("augmentations", "nowhere.png", "--foil", str(tmp_path / "empty"))


def test_augmentations__interrupted(
    image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interruption: Callable[..., str]
) -> None:
    monkeypatch.setattr(cocoax, "load", lambda _name, device: classifier())
    (tmp_path / "foil").mkdir()
    picture(1).save(tmp_path / "foil" / "1.png")
    interrupt_after(monkeypatch, SmallNet, "forward", 6)
    said = interruption("augmentations", image, "--foil", str(tmp_path / "foil"), "--out", str(tmp_path / "out"))
    assert said == ("interrupted: runs and encoded pictures of the foil are kept; the same command goes on from there")
