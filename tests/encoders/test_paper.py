"""Encoders from checkpoints: every layout gives the network it was written from; what does not fit is told apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

import cocoax
from cocoax.encoders.resnet import CifarResNet, ResNet
from cocoax.references import write_safetensors
from tests.conftest import images

WIDTHS = (4, 6, 8, 10)


def made(build: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """A network with random weights and random statistics, so that no layer is trivial."""
    with torch.random.fork_rng():
        network = build().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if tensor.is_floating_point():
                noise = torch.randn(tensor.shape, generator=generator)
                tensor.copy_(noise.abs() + 0.5 if name.endswith("running_var") else noise * 0.3)
    return network


def state(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in network.state_dict().items()}


def saved(path: Path, content: Mapping[str, Any]) -> Path:
    torch.save(dict(content), path)
    return path


def linear(outputs: int, features: int, seed: int = 1) -> nn.Linear:
    return made(lambda: nn.Linear(features, outputs), seed)  # type: ignore[return-value]


def renamed(
    weights: Mapping[str, Tensor], prefix: str, stage: str = "layer", shortcut: str = "downsample"
) -> dict[str, Tensor]:
    """Weights of a CifarResNet by the names that others give them."""
    names = {name: re.sub(r"^stages\.(\d)", lambda found: f"{stage}{int(found[1]) + 1}", name) for name in weights}
    return {prefix + names[name].replace("shortcut", shortcut): tensor for name, tensor in weights.items()}


def check(encoder: cocoax.Encoder, network: nn.Module, side: int = 32) -> None:
    batch = images(3, side, side)
    with torch.no_grad():
        torch.testing.assert_close(encoder.represent(batch), network(batch), rtol=1e-4, atol=1e-5)


# --- CIFAR ResNets ------------------------------------------------------------------------------------------------------


def slow_cifar_resnet(weights: Mapping[str, Tensor], batch: Tensor) -> Tensor:
    """He et al.'s ResNet with option A, from its definition."""

    def norm(x: Tensor, name: str) -> Tensor:
        mean, var, gain, shift = (weights[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        mean, var, gain, shift = (value[None, :, None, None] for value in (mean, var, gain, shift))
        return (x - mean) / (var + 1e-5).sqrt() * gain + shift

    x = F.conv2d(batch, weights["conv1.weight"], padding=1)
    x = norm(x, "bn1").clamp(min=0)
    for stage in (1, 2, 3):
        block = 0
        while f"layer{stage}.{block}.conv1.weight" in weights:
            name = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            y = norm(F.conv2d(x, weights[f"{name}.conv1.weight"], stride=stride, padding=1), f"{name}.bn1").clamp(min=0)
            y = norm(F.conv2d(y, weights[f"{name}.conv2.weight"], padding=1), f"{name}.bn2")
            if stride == 2:
                zeros = torch.zeros(len(y), y.shape[1] // 4, *y.shape[2:])
                x = torch.cat([zeros, x[:, :, ::2, ::2], zeros], 1)
            x = (x + y).clamp(min=0)
            block += 1
    return x.mean((2, 3))


@pytest.mark.parametrize("depth", [20, 32])
def test_cifar_resnet__depth_is_read_off_the_weights(depth: int, tmp_path: Path) -> None:
    blocks = (depth - 2) // 6
    network = made(lambda: CifarResNet((blocks,) * 3, (16, 32, 64), padded=True))
    head = linear(10, 64)
    weights = renamed(state(network), "module.") | {f"module.linear.{name}": tensor for name, tensor in state(head).items()}
    path = saved(tmp_path / "net.th", {"state_dict": weights, "best_prec1": 91.7})
    encoder = cocoax.load(f"cifar-resnet:{path}")
    plain = {name.removeprefix("module."): tensor for name, tensor in weights.items()}
    batch = images(2, 32, 32)
    found = encoder.represent(batch)
    torch.testing.assert_close(found, slow_cifar_resnet(plain, batch), rtol=1e-4, atol=1e-4)
    assert encoder.name == "cifar-resnet:net"
    assert encoder.head is not None
    torch.testing.assert_close(encoder.head(found), head(found))
    assert encoder.classes is not None
    assert encoder.classes[3] == "cat"


def test_cifar_resnet__preprocessing_is_imagenets_at_32_pixels(tmp_path: Path) -> None:
    network = made(lambda: CifarResNet((1,) * 3, (16, 32, 64), padded=True))
    encoder = cocoax.load(f"cifar-resnet:{saved(tmp_path / 'net.th', renamed(state(network), ''))}")
    picture = torch.randint(0, 256, (32, 32, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    expected = ((picture / 255 - mean) / std).permute(2, 0, 1)
    torch.testing.assert_close(encoder.prepare(picture.numpy()), expected)
    assert encoder.head is None
    assert encoder.classes is None
