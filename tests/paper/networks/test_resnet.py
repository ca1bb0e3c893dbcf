from __future__ import annotations

import pytest
import torch
from torch import nn

from cocoax.paper.networks.resnet import ARCHITECTURES, BasicBlock, CifarResNet, small_resnet


def built(name: str) -> nn.Module:
    with torch.random.fork_rng():
        return ARCHITECTURES[name]().eval()


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_cifar_resnet18__has_the_known_size() -> None:
    # ResNet-18 has 11,689,512 weights, 513,000 of them in its classifier; the 3x3 stem has 7,680 fewer than the 7x7 one.
    assert parameters(built("cifar-resnet18")) == 11_689_512 - 513_000 - 7_680


def test_small_resnet__has_the_announced_size() -> None:
    network = built("resnet14-small")
    assert round(parameters(network) / 1e6, 1) == 1.6
    convolutions = [part for part in network.modules() if isinstance(part, nn.Conv2d) and part.kernel_size != (1, 1)]
    assert len(convolutions) + 1 == 14  # and the classifier, which is not here


@pytest.mark.parametrize(("side", "last"), [(24, 2), (32, 2), (33, 2)])
def test_small_resnet__takes_several_sizes(side: int, last: int) -> None:
    with torch.random.fork_rng():
        network = small_resnet().eval()
    with torch.no_grad():
        x = torch.zeros(2, 3, side, side)
        stem = network.conv1(x)
        assert stem.shape == (2, 32, side // 2, side // 2)
        assert network.stages(stem).shape == (2, 256, last, last)
        assert network(x).shape == (2, 256)


def test_cifar_resnet18__keeps_the_size_in_its_stem() -> None:
    network = built("cifar-resnet18")
    with torch.no_grad():
        assert network.conv1(torch.zeros(1, 3, 32, 32)).shape == (1, 64, 32, 32)  # type: ignore[operator]
        assert network(torch.zeros(1, 3, 32, 32)).shape == (1, 512)


def test_resnet__equals_its_layers_one_after_the_other() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = CifarResNet((1, 2), (4, 8)).eval()
        x = torch.randn(2, 3, 8, 8)
    weights = network.state_dict()

    def normalised(x: torch.Tensor, name: str) -> torch.Tensor:
        mean, var, scale, shift = (
            weights[f"{name}.{part}"][:, None, None] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / torch.sqrt(var + 1e-5) * scale + shift

    def convolved(x: torch.Tensor, name: str, stride: int) -> torch.Tensor:
        weight = weights[f"{name}.weight"]
        return nn.functional.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)

    out = normalised(convolved(x, "conv1", 1), "bn1").clamp(min=0)
    for block, stride in (("stages.0.0", 1), ("stages.1.0", 2), ("stages.1.1", 1)):
        shortcut = out
        if stride == 2:
            shortcut = normalised(convolved(out, f"{block}.shortcut.0", 2), f"{block}.shortcut.1")
        inner = normalised(convolved(out, f"{block}.conv1", stride), f"{block}.bn1").clamp(min=0)
        out = (normalised(convolved(inner, f"{block}.conv2", 1), f"{block}.bn2") + shortcut).clamp(min=0)
    with torch.no_grad():
        torch.testing.assert_close(network(x), out.mean((2, 3)), atol=1e-5, rtol=1e-4)


def test_basic_block__has_a_shortcut_of_its_own_only_where_shapes_change() -> None:
    with torch.random.fork_rng():
        kinds = [type(BasicBlock(*shape).shortcut) for shape in ((4, 4, 1), (4, 8, 1), (4, 4, 2))]
    assert kinds == [nn.Identity, nn.Sequential, nn.Sequential]
