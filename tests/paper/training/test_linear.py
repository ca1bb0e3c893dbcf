from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import nn

import cocoax
from cocoax.evaluation import LinearProbe, accuracy
from cocoax.paper.networks.resnet import ResNet
from cocoax.paper.training.trainer import train_linear
from cocoax.store import write_safetensors
from tests.paper.studies.tiny import CLASSES, HELD_OUT, TRAIN, write_checkpoint


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "encoder.safetensors", "simclr", classes=None)


@pytest.mark.parametrize("solver", ["sgd", "logistic"])
def test_train_linear__keeps_a_head_with_the_encoder(source: Path, tmp_path: Path, solver: str) -> None:
    options: dict[str, Any] = {"epochs": 5, "learning_rate": 1.0} if solver == "sgd" else {}
    out = tmp_path / "new" / "with-head.safetensors"
    right = train_linear(f"simclr:{source}", TRAIN, HELD_OUT, out, solver, **options)
    bare, found = cocoax.load(f"simclr:{source}"), cocoax.load(f"simclr:{out}")
    assert bare.head is None
    assert found.classes == CLASSES
    assert found.space == bare.space  # the encoder is as it was
    probe = LinearProbe(solver, **options)  # type: ignore[arg-type]
    expected = probe.fit(bare.represent(TRAIN.images), TRAIN.labels)
    assert found.head is not None
    torch.testing.assert_close(found.head.weight, expected.weight)  # type: ignore[arg-type]
    assert right == accuracy(expected, bare.represent(HELD_OUT.images), HELD_OUT.labels)
    with safe_open(out, framework="pt") as file:
        header = json.loads(file.metadata()["cocoax"])
    assert header["linear accuracy"] == right
    assert (header["trained"], header["side"]) == ("simclr", 12)


def test_train_linear__head_of_a_half_precision_file_is_half(source: Path, tmp_path: Path) -> None:
    with safe_open(source, framework="pt") as file:
        header = json.loads(file.metadata()["cocoax"])
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    half = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in weights.items()}
    header.pop("kind")
    write_safetensors(tmp_path / "half.safetensors", half, "encoder", header)
    out = tmp_path / "out.safetensors"
    train_linear(f"simclr:{tmp_path / 'half.safetensors'}", TRAIN, HELD_OUT, out, "logistic")
    with safe_open(out, framework="pt") as file:
        assert file.get_tensor("head.weight").dtype == torch.float16


def test_train_linear__an_old_head_is_replaced(tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path / "encoder.safetensors", "classifier", classes=[*CLASSES, "old"])
    out = tmp_path / "out.safetensors"
    train_linear(f"cifar-resnet:{source}", TRAIN, HELD_OUT, out, "logistic")
    found = cocoax.load(f"cifar-resnet:{out}")
    assert found.head is not None
    assert found.head.weight.shape == (3, 8)  # type: ignore[union-attr]


@pytest.mark.parametrize("family", ["simsiam", "simclr", "cifar-resnet", "resnet18"])
def test_train_linear__checkpoints_of_others(tmp_path: Path, family: str) -> None:
    """What they do not say of themselves, such as preprocessing and pooling, is the family's before and after."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        network = (
            ResNet(widths=(4, 6, 8, 10)) if family in ("simclr", "resnet18") else ResNet((1, 1, 1, 1), (4, 6, 8, 10), (3, 1))
        )
        head = nn.Linear(10, 7)
    weights = network.state_dict()
    weights |= {} if family == "simsiam" else {f"fc.{name}": tensor for name, tensor in head.state_dict().items()}
    torch.save({"state_dict": {f"module.{name}": tensor for name, tensor in weights.items()}}, tmp_path / "net.pth")
    out = tmp_path / "out.safetensors"
    train_linear(f"{family}:{tmp_path / 'net.pth'}", TRAIN, HELD_OUT, out, "logistic")
    before, after = (cocoax.load(f"{family}:{path}") for path in (tmp_path / "net.pth", out))
    assert after.classes == CLASSES
    assert after.head is not None
    assert after.head.weight.shape == (3, 10)  # type: ignore[union-attr]
    assert after.space == before.space
    torch.testing.assert_close(after.represent(TRAIN.images[:4]), before.represent(TRAIN.images[:4]))


@pytest.mark.parametrize("name", ["starter", "simclr:missing.safetensors", "clip:openai/clip-vit-base-patch32"])
def test_train_linear__encoder_that_is_no_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"as simsiam:FILE. Got"):
        train_linear(name, TRAIN, HELD_OUT, tmp_path / "out.safetensors")


def test_train_linear__other_errors_come_before_the_encoding(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cocoax.Encoder, "represent", lambda *_arguments: pytest.fail("encoded already"))
    with pytest.raises(ValueError, match=r"something.safetensors. Got"):
        train_linear(f"simclr:{source}", TRAIN, HELD_OUT, tmp_path / "out.pt")
    with pytest.raises(ValueError, match="'sgd' or 'logistic'"):
        train_linear(f"simclr:{source}", TRAIN, HELD_OUT, tmp_path / "out.safetensors", "adam")
    assert not (tmp_path / "out.safetensors").exists()
    before = source.read_bytes()
    with pytest.raises(FileExistsError, match=r"encoder.safetensors exists already; delete it first"):
        train_linear(f"simclr:{source}", TRAIN, HELD_OUT, source)
    assert source.read_bytes() == before
