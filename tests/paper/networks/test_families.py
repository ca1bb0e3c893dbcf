"""Encoders from checkpoints: every layout gives the network it was written from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

import cocoax
from cocoax.data import LabelledImages
from cocoax.encoders.families.torchvision import import_library
from cocoax.paper.networks.resnet import CifarResNet, ResNet, cifar_resnet18
from cocoax.paper.training.recipes import RECIPES
from cocoax.paper.training.trainer import Pixels, Training
from cocoax.store import write_safetensors
from tests.conftest import images
from tests.paper.networks.networks import NETWORKS, WIDTHS, check, linear, made, renamed, saved, small, state, under

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
    weights = renamed(state(network), "module.") | under("module.linear", head)
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
    weights = renamed(state(network), "") | under("linear", linear(7, 64))
    encoder = cocoax.load(f"cifar-resnet:{saved(tmp_path / 'net.th', weights)}")
    picture = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    expected = (picture / 255 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
    torch.testing.assert_close(encoder.prepare(picture), torch.from_numpy(expected).permute(2, 0, 1).float())
    assert encoder.classes is None  # seven outputs: nobody knows of what


def test_cifar_resnet__classifier_that_was_trained_here(tmp_path: Path) -> None:
    network, head = made(small), linear(2, 10)
    header = {"architecture": "resnet14-small", "trained": "classifier", "side": 24, "mean": [0.5] * 3, "std": [0.25] * 3}
    header |= {"classes": ["cat", "dog"]}
    path = write_safetensors(tmp_path / "net.safetensors", state(network) | under("head", head), "encoder", header)
    encoder = cocoax.load(f"cifar-resnet:{path}")
    check(encoder, network)
    assert encoder.classes == ["cat", "dog"]
    prepared = encoder.prepare(np.full((48, 60, 3), 255, np.uint8))
    torch.testing.assert_close(prepared, torch.full((3, 24, 24), 2.0))


def test_cifar_resnet__without_a_classifier(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.pth", state(made(small)))
    with pytest.raises(ValueError, match=r"net\.pth has no classifier; load it with 'simsiam:' or 'simclr:'"):
        cocoax.load(f"cifar-resnet:{path}")


# --- SimSiam ------------------------------------------------------------------------------------------------------------


def projector(prefix: str) -> dict[str, Tensor]:
    """Weights of a projector and a predictor, whose names look a little like those of an encoder."""
    sizes = {"layer1.0.weight": (12, 10), "layer1.1.running_mean": (12,), "layer2.weight": (12, 12), "0.weight": (12, 10)}
    return {prefix + name: torch.ones(size) for name, size in sizes.items()}


LAYOUTS: dict[str, Callable[[dict[str, Tensor]], dict[str, Any]]] = {
    "our own names": lambda own: own,
    "state dict": lambda own: renamed(own, ""),
    "shortcut instead of downsample": lambda own: renamed(own, "", shortcut="shortcut"),
    "official: module.encoder, projector in its fc": lambda own: {
        "epoch": 800,
        "arch": "resnet18",
        "state_dict": renamed(own, "module.encoder.") | projector("module.encoder.fc.") | projector("module.predictor."),
        "optimizer": {"state": {0: {"momentum_buffer": torch.ones(3)}}, "param_groups": [{"lr": 0.03}]},
    },
    "backbone, and again as part of an encoder": lambda own: {
        "model": renamed(own, "backbone.") | renamed(own, "encoder.0.") | projector("projector.") | projector("encoder.1.")
    },
    "deeper": lambda own: {"net": renamed(own, "module.online_network.encoder.net.")},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_simsiam__every_layout(layout: str, tmp_path: Path) -> None:
    network = made(small)
    encoder = cocoax.load(f"simsiam:{saved(tmp_path / 'simsiam.pth', LAYOUTS[layout](state(network)))}")
    check(encoder, network)
    assert encoder.head is None


def test_simsiam__trained_here_in_half_precision(tmp_path: Path) -> None:
    network, head = made(small), linear(10, 10)
    weights = {name: tensor.half() for name, tensor in (state(network) | under("head", head)).items()}
    header = {"architecture": "x", "trained": "simsiam", "classes": [f"class {index}" for index in range(10)]}
    encoder = cocoax.load(f"simsiam:{write_safetensors(tmp_path / 'net.safetensors', weights, 'encoder', header)}")
    batch = images(2, 32, 32)
    with torch.no_grad():
        expected = network(batch)
    torch.testing.assert_close(encoder.represent(batch), expected, rtol=0.02, atol=0.02)
    assert encoder.classes is not None
    assert encoder.classes[9] == "class 9"


def test_simsiam__preprocessing_is_the_papers(tmp_path: Path) -> None:
    encoder = cocoax.load(f"simsiam:{saved(tmp_path / 'net.pth', state(made(small)))}")
    array = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    resized = np.asarray(Image.fromarray(array).resize((36, 36), Image.Resampling.BICUBIC))[2:34, 2:34] / 255
    expected = (resized - np.array([0.4914, 0.4822, 0.4465])) / np.array([0.2023, 0.1994, 0.2010])
    torch.testing.assert_close(encoder.prepare(array), torch.from_numpy(expected).permute(2, 0, 1).float())


def test_simsiam__full_size_has_512_features(tmp_path: Path) -> None:
    encoder = cocoax.load(f"simsiam:{saved(tmp_path / 'net.pth', renamed(state(made(cifar_resnet18)), 'backbone.'))}")
    assert encoder.represent(images(1, 32, 32)).shape == (1, 512)


# --- SimCLR that was trained here ---------------------------------------------------------------------------------------


def test_simclr__small_one_with_a_strided_stem(tmp_path: Path) -> None:
    network = made(lambda: CifarResNet((1, 1, 1, 1), WIDTHS, (4, 2)))
    header = {"architecture": "resnet14-small", "trained": "simclr", "side": 32}
    encoder = cocoax.load(f"simclr:{write_safetensors(tmp_path / 'net.safetensors', state(network), 'encoder', header)}")
    check(encoder, network)
    assert encoder.prepare(np.zeros((40, 40, 3), np.uint8)).shape == (3, 32, 32)


@pytest.mark.parametrize("architecture", ["resnet50", None])
def test_simclr__pooling_is_tensorflows_for_the_published_weights_alone(architecture: str | None, tmp_path: Path) -> None:
    header = {} if architecture is None else {"architecture": architecture, "trained": "simclr"}
    network = made(lambda: ResNet((1, 1, 1, 1), WIDTHS, bottleneck=True, tensorflow_pooling=architecture is None))
    encoder = cocoax.load(f"simclr:{write_safetensors(tmp_path / 'net.safetensors', state(network), 'encoder', header)}")
    check(encoder, network, 64)


# --- ResNets with torchvision's names -----------------------------------------------------------------------------------


def slow_resnet(weights: Mapping[str, Tensor], batch: Tensor) -> Tensor:
    """torchvision's ResNet, from its definition."""

    def layer(x: Tensor, conv: str, norm: str, stride: int, relu: bool) -> Tensor:
        kernel = weights[f"{conv}.weight"]
        x = F.conv2d(x, kernel, stride=stride, padding=kernel.shape[-1] // 2)
        parts = (weights[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        x = F.batch_norm(x, *parts, training=False, eps=1e-5)
        return x.clamp(min=0) if relu else x

    x = F.max_pool2d(layer(batch, "conv1", "bn1", 2, True), 3, 2, 1)
    for stage in (1, 2, 3, 4):
        block = 0
        while f"layer{stage}.{block}.conv1.weight" in weights:
            name = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            if f"{name}.conv3.weight" in weights:
                y = layer(x, f"{name}.conv1", f"{name}.bn1", 1, True)
                y = layer(y, f"{name}.conv2", f"{name}.bn2", stride, True)
                y = layer(y, f"{name}.conv3", f"{name}.bn3", 1, False)
            else:
                y = layer(x, f"{name}.conv1", f"{name}.bn1", stride, True)
                y = layer(y, f"{name}.conv2", f"{name}.bn2", 1, False)
            if f"{name}.downsample.0.weight" in weights:
                x = layer(x, f"{name}.downsample.0", f"{name}.downsample.1", stride, False)
            x = (x + y).clamp(min=0)
            block += 1
    return x.mean((2, 3))


@pytest.mark.parametrize(
    ("family", "blocks", "bottleneck", "features"),
    [("resnet18", (2, 2, 2, 2), False, 10), ("resnet50", (3, 4, 6, 3), True, 40)],
)
def test_resnet__computes_what_torchvision_does(
    family: str, blocks: tuple[int, ...], bottleneck: bool, features: int, tmp_path: Path
) -> None:
    network = made(lambda: ResNet(blocks, WIDTHS, bottleneck))
    head = linear(2, features)
    weights = {name: tensor * (0.3 if "conv" in name else 1) for name, tensor in (state(network) | under("fc", head)).items()}
    encoder = cocoax.load(f"{family}:{saved(tmp_path / 'net.pth', weights)}")
    batch = images(2, 70, 70)
    found = encoder.represent(batch)
    assert found.shape == (2, features)
    expected = slow_resnet(weights, batch)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))
    assert encoder.head is not None
    torch.testing.assert_close(encoder.head(found), head(found))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed")
@pytest.mark.parametrize("family", ["resnet18", "resnet50"])
def test_resnet__computes_what_timm_does(family: str, tmp_path: Path) -> None:
    """timm's ResNets have the names and the architecture of torchvision's."""
    timm = import_library("timm")
    model = made(lambda: timm.create_model(family, num_classes=5))
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if "conv" in name or "downsample.0" in name:
                tensor.mul_(0.1)  # so that what fifty layers give stays finite
    encoder = cocoax.load(f"{family}:{saved(tmp_path / 'net.pth', {'state_dict': state(model)})}")
    batch = images(1, 64, 64)
    with torch.no_grad():
        expected = model.forward_head(model.forward_features(batch), pre_logits=True)  # type: ignore[operator]
        logits = model(batch)
    found = encoder.represent(batch)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))
    assert encoder.head is not None
    torch.testing.assert_close(encoder.head(found), logits, rtol=1e-3, atol=1e-3 * float(logits.abs().max()))


def test_resnet18__names_and_shapes_are_torchvisions() -> None:
    """By the numbers that torchvision documents: 11 689 512 parameters in ResNet-18, 25 557 032 in ResNet-50."""
    for blocks, bottleneck, features, count, tensors in (
        ((2, 2, 2, 2), False, 512, 11_689_512, 62),
        ((3, 4, 6, 3), True, 2048, 25_557_032, 161),
    ):
        with torch.device("meta"):
            network, head = ResNet(blocks, bottleneck=bottleneck), nn.Linear(features, 1000)
        parameters = [*network.parameters(), *head.parameters()]
        assert sum(parameter.numel() for parameter in parameters) == count
        assert len(parameters) == tensors
    names = set(network.state_dict())
    assert {"layer1.0.downsample.0.weight", "layer4.2.bn3.running_var", "bn1.bias", "layer3.5.conv2.weight"} <= names


def test_resnet18__classes_and_preprocessing_of_one_trained_here(tmp_path: Path) -> None:
    network, head = made(lambda: ResNet((2, 2, 2, 2), WIDTHS)), linear(2, 10)
    header = {"architecture": "resnet18", "trained": "classifier", "side": 112, "classes": ["negative", "positive"]}
    path = write_safetensors(tmp_path / "mura.safetensors", state(network) | under("head", head), "encoder", header)
    encoder = cocoax.load(f"resnet18:{path}")
    assert encoder.classes == ["negative", "positive"]
    prepared = encoder.prepare(np.full((300, 200), 255, np.uint8))  # grey, as X-rays are
    assert prepared.shape == (3, 112, 112)
    torch.testing.assert_close(prepared[:, 0, 0], torch.tensor([2.2489, 2.4286, 2.6400]), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("network", "family", "outputs", "first"),
    [
        ("basic 3x3", "cifar-resnet", 10, "airplane"),
        ("basic 3x3", "cifar-resnet", 1000, None),
        ("basic 7x7", "resnet18", 10, None),
        ("basic 7x7", "resnet18", 1000, "tench"),
    ],
)
def test_load__classes_that_the_file_does_not_name(
    network: str, family: str, outputs: int, first: str | None, tmp_path: Path
) -> None:
    weights = state(made(NETWORKS[network])) | under("fc", linear(outputs, 10))
    classes = cocoax.load(f"{family}:{saved(tmp_path / 'net.pth', weights)}").classes
    assert (None if classes is None else classes[0]) == first


# --- all of them ----------------------------------------------------------------------------------------------------------


def test_load__leaves_the_global_random_state_alone_and_gives_the_same_fingerprint(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.pth", state(made(small)))
    before = torch.random.get_rng_state()
    first, second = (cocoax.load(f"simsiam:{path}") for _ in range(2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert first.fingerprint == second.fingerprint


def test_load__family_without_a_file() -> None:
    with pytest.raises(ValueError, match=r"'simsiam:' does not say which encoder to load; write simsiam:FILE"):
        cocoax.load("simsiam:")


@pytest.mark.parametrize(
    ("recipe", "family", "architecture", "side"),
    [
        ("simclr-small", "simclr", "resnet14-small", 32),
        ("simclr-small", "simclr", "resnet14-small", 64),
        ("simsiam-small", "simsiam", "resnet14-small", 32),
        ("classifier", "cifar-resnet", "resnet14-small", 32),
        ("classifier", "resnet18", "resnet18", 32),
    ],
)
@pytest.mark.parametrize("shape", [(32, 32), (80, 90)])
def test_load__gives_what_the_training_saw(
    recipe: str, family: str, architecture: str, side: int, shape: tuple[int, int], tmp_path: Path
) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (16, *shape, 3), dtype=np.uint8)
    data = LabelledImages(pictures, np.arange(16) % 2, ["cat", "dog"])  # type: ignore[arg-type]
    small = replace(RECIPES[recipe], side=side, architecture=architecture, epochs=1, batch_size=8)
    with torch.random.fork_rng():
        training = Training(small, data, tmp_path / "training")
    encoder = cocoax.load(f"{family}:{training.export()}")
    expected = training.represent(Pixels(data, side), np.arange(16))
    torch.testing.assert_close(encoder.represent(pictures), expected, rtol=1e-4, atol=1e-5)
    assert encoder.classes == (["cat", "dog"] if recipe == "classifier" else None)


def test_small_simclr__comes_with_the_package() -> None:
    encoder = cocoax.load("simclr-cifar10-small")
    assert encoder.name == "simclr-cifar10-small"
    assert encoder.classes is not None
    assert encoder.head is not None
    representations = encoder.represent(images(4, 32, 32))
    assert representations.shape == (4, 256)
    assert encoder.head(representations).shape == (4, len(encoder.classes)) == (4, 10)
    assert bool((representations >= 0).all())  # after a ReLU
    file = files("cocoax.paper.networks").joinpath("simclr_cifar10_small.safetensors")
    assert len(file.read_bytes()) < 5e6
