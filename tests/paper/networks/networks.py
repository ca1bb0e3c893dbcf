"""Small ResNets with random weights, and files of them by the names that others give the weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import cocoax
from cocoax.paper.networks.resnet import CifarResNet, ResNet
from tests.conftest import images

WIDTHS = (4, 6, 8, 10)
NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "basic 7x7": lambda: ResNet((2, 2, 2, 2), WIDTHS),
    "bottleneck 7x7": lambda: ResNet((3, 4, 6, 3), WIDTHS, bottleneck=True),
    "padded 3x3": lambda: CifarResNet((3, 3, 3), (16, 32, 64), padded=True),
    "basic 3x3": lambda: CifarResNet((2, 2, 2, 2), WIDTHS),
}


def small() -> CifarResNet:
    return CifarResNet((1, 2, 1, 1), WIDTHS)


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


def renamed(weights: Mapping[str, Tensor], prefix: str, shortcut: str = "downsample") -> dict[str, Tensor]:
    """Weights of a CifarResNet by the names that others give them."""
    names = {name: re.sub(r"^stages\.(\d)", lambda found: f"layer{int(found[1]) + 1}", name) for name in weights}
    return {prefix + names[name].replace("shortcut", shortcut): tensor for name, tensor in weights.items()}


def under(name: str, module: nn.Module) -> dict[str, Tensor]:
    return {f"{name}.{key}": tensor for key, tensor in state(module).items()}


def check(encoder: cocoax.Encoder, network: nn.Module, side: int = 32) -> None:
    batch = images(3, side, side)
    with torch.no_grad():
        torch.testing.assert_close(encoder.represent(batch), network(batch), rtol=1e-4, atol=1e-5)
