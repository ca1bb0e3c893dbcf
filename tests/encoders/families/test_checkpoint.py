"""Checkpoints: weights are found wherever they are in the file, and nothing in it is run."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from cocoax.encoders.families.checkpoint import read_checkpoint
from cocoax.store import write_safetensors

WEIGHTS = {"a.weight": torch.arange(6.0).reshape(2, 3), "a.steps": torch.tensor(7)}


@pytest.mark.parametrize(
    "content",
    [
        WEIGHTS,
        {"state_dict": WEIGHTS, "epoch": 3},
        {"model": WEIGHTS, "optimizer": {"state": {0: {"x": torch.ones(2)}}}, "rng": torch.zeros(4)},
        {"config": {"width": 3}, "anything": WEIGHTS},
    ],
)
def test_read_checkpoint__finds_the_weights(content: Any, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "net.pth")
    checkpoint = read_checkpoint(str(tmp_path / "net.pth"))
    assert checkpoint.metadata == {}
    assert list(checkpoint.tensors) == list(WEIGHTS)
    assert all(torch.equal(checkpoint.tensors[name], tensor) for name, tensor in WEIGHTS.items())


def test_read_checkpoint__half_precision_becomes_single(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2).half(), "b": torch.tensor([1, 2])}, tmp_path / "net.safetensors")
    tensors = read_checkpoint(tmp_path / "net.safetensors").tensors
    assert tensors["a"].dtype == torch.float32
    assert tensors["b"].dtype == torch.int64


def test_read_checkpoint__metadata(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "net.safetensors", WEIGHTS, "encoder", {"classes": ["cat"], "side": 32})
    assert read_checkpoint(path).metadata == {"kind": "encoder", "classes": ["cat"], "side": 32}
    save_file(WEIGHTS, tmp_path / "other.safetensors", metadata={"format": "pt"})
    assert read_checkpoint(tmp_path / "other.safetensors").metadata == {"format": "pt"}


# --- what is wrong ------------------------------------------------------------------------------------------------------


def test_read_checkpoint__missing(tmp_path: Path) -> None:
    for path in (tmp_path / "none.pth", tmp_path):
        with pytest.raises(FileNotFoundError, match=r"No file at .*; pass the path of a checkpoint"):
            read_checkpoint(path)


class Attack:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("attacked",)


@pytest.mark.parametrize("save", [torch.save, lambda content, path: path.write_bytes(pickle.dumps(content))])
def test_read_checkpoint__code_is_not_run(save: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save({"state_dict": WEIGHTS, "extra": Attack()}, tmp_path / "net.pth")
    with pytest.raises(ValueError, match=r"net\.pth cannot be read as weights alone .*could run code when read"):
        read_checkpoint(tmp_path / "net.pth")
    assert not (tmp_path / "attacked").exists()


def test_read_checkpoint__whole_module(tmp_path: Path) -> None:
    with torch.random.fork_rng():
        torch.save(nn.Linear(2, 2), tmp_path / "net.pth")
    with pytest.raises(ValueError, match=r"save the model's state_dict\(\) and pass that"):
        read_checkpoint(tmp_path / "net.pth")


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"PK\x03\x04 cut off"])
@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_read_checkpoint__garbage(content: bytes, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"net.{suffix}"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"net\.{suffix} (cannot be read|is not a readable)"):
        read_checkpoint(path)


def test_read_checkpoint__no_weights_in_it(tmp_path: Path) -> None:
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(ValueError, match=r"holds a list; expected a dict of weights by name"):
        read_checkpoint(tmp_path / "list.pth")
    torch.save({"epoch": 3, "loss": 0.5}, tmp_path / "log.pth")
    with pytest.raises(ValueError, match=r"holds no weights: its entries are epoch, loss; expected a state_dict"):
        read_checkpoint(tmp_path / "log.pth")


def test_read_checkpoint__flipped_bits(tmp_path: Path) -> None:
    """In weights of ours, in the word that says that they are ours, and in a file of torch, which does not look itself."""
    ours = write_safetensors(tmp_path / "net.safetensors", WEIGHTS, "encoder", {"side": 32})
    torch.save(WEIGHTS, tmp_path / "net.pth")
    for path, place in ((ours, -1), (ours, ours.read_bytes().index(b"cocoax")), (tmp_path / "net.pth", None)):
        whole = bytearray(path.read_bytes())
        whole[whole.index(WEIGHTS["a.weight"].numpy().tobytes()) if place is None else place] ^= 1
        path.write_bytes(whole)
        with pytest.raises(ValueError, match=rf"{path.name} is damaged"):
            read_checkpoint(path)
        write_safetensors(ours, WEIGHTS, "encoder", {"side": 32})
