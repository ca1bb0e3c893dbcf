"""Encoders from checkpoints: what does not fit is told apart, and the error says what it is instead."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

import cocoax
from cocoax.store import write_safetensors
from tests.paper.networks.networks import NETWORKS, linear, made, saved, small, state, under

FOUND = {
    "basic 7x7": "a ResNet-18 (7x7 stem, 2-2-2-2 basic blocks, 4-6-8-10 channels)",
    "bottleneck 7x7": "a ResNet-50 (7x7 stem, 3-4-6-3 bottleneck blocks, 4-6-8-10 channels)",
    "padded 3x3": "a CIFAR ResNet-20 (3x3 stem, 3-3-3 basic blocks, 16-32-64 channels, shortcuts without weights)",
    "basic 3x3": "a CIFAR ResNet-18 (3x3 stem, 2-2-2-2 basic blocks, 4-6-8-10 channels)",
}
WRONG = [
    ("simsiam", "basic 7x7"),
    ("simsiam", "bottleneck 7x7"),
    ("simsiam", "padded 3x3"),
    ("simclr", "padded 3x3"),
    ("resnet18", "bottleneck 7x7"),
    ("resnet18", "basic 3x3"),
    ("resnet50", "basic 7x7"),
    ("cifar-resnet", "basic 7x7"),
    ("cifar-resnet", "bottleneck 7x7"),
]


@pytest.mark.parametrize(("family", "other"), WRONG)
def test_load__another_architecture_says_what_was_expected_and_found(family: str, other: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "net.pth", state(made(NETWORKS[other])))
    with pytest.raises(ValueError, match=rf"net\.pth does not fit '{family}:'. Expected a .*ResNet") as caught:
        cocoax.load(f"{family}:{path}")
    assert f"found {FOUND[other]}." in str(caught.value)


@pytest.mark.parametrize("family", ["simsiam", "simclr", "resnet18", "resnet50", "cifar-resnet"])
def test_load__no_resnet_at_all(family: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "vit.pth", {"patch_embed.weight": torch.ones(3, 3), "blocks.0.qkv.weight": torch.ones(2)})
    with pytest.raises(ValueError, match=r"found weights that are no ResNet's: patch_embed\.weight, blocks\.0\.qkv\.weight"):
        cocoax.load(f"{family}:{path}")


def test_load__trained_as_something_else(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "net.safetensors", state(made(small)), "encoder", {"trained": "simclr"})
    with pytest.raises(ValueError, match=r"does not fit 'simsiam:'. Expected one trained as simsiam; found simclr"):
        cocoax.load(f"simsiam:{path}")


def test_load__weights_that_are_missing_left_over_or_of_another_shape(tmp_path: Path) -> None:
    weights = state(made(small))
    cases: dict[str, dict[str, Tensor]] = {
        r"has no weights 'stages\.1\.1\.bn2\.bias'; it is incomplete": {
            name: tensor for name, tensor in weights.items() if name != "stages.1.1.bn2.bias"
        },
        r"has weights 'stages\.0\.0\.se\.fc\.weight' that such a network": weights
        | {"stages.0.0.se.fc.weight": torch.ones(2)},
        r"has weights 'stages\.3\.0\.conv2\.weight' of shape \[10, 5, 3, 3\]; expected \[10, 10, 3, 3\]": weights
        | {"stages.3.0.conv2.weight": torch.ones(10, 5, 3, 3)},
    }
    for expected, given in cases.items():
        path = saved(tmp_path / "net.pth", given)
        with pytest.raises(ValueError, match=expected):
            cocoax.load(f"simsiam:{path}")


def test_load__classes_that_do_not_match_the_head(tmp_path: Path) -> None:
    weights = state(made(small)) | under("head", linear(3, 10))
    path = write_safetensors(tmp_path / "net.safetensors", weights, "encoder", {"classes": ["cat", "dog"]})
    with pytest.raises(ValueError, match=r"'classes' names 2 classes but the head has 3 outputs"):
        cocoax.load(f"simsiam:{path}")
