"""Encoders from checkpoints: every layout gives the network it was written from; what does not fit is told apart."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.numpy import load_file
from torch import Tensor, nn

import cocoax
from cocoax.data import LabelledImages
from cocoax.encoders.families.starter import imagenet_classes
from cocoax.encoders.families.torchvision import import_library
from cocoax.paper.networks.resnet import ResNet
from cocoax.paper.networks.simclr_converter import convert_simclr
from cocoax.paper.training.recipes import RECIPES
from cocoax.paper.training.trainer import Training, _Pixels
from cocoax.store import write_safetensors
from tests.conftest import images

WIDTHS = (4, 6, 8, 10)
NETWORKS: dict[str, Callable[[], ResNet]] = {
    "basic 7x7": lambda: ResNet((2, 2, 2, 2), WIDTHS),
    "bottleneck 7x7": lambda: ResNet((3, 4, 6, 3), WIDTHS, bottleneck=True),
    "padded 3x3": lambda: ResNet((3, 3, 3), (16, 32, 64), (3, 1), padded=True),
    "basic 3x3": lambda: ResNet((2, 2, 2, 2), WIDTHS, (3, 1)),
    "strided stem": lambda: ResNet((1, 2, 1, 1), WIDTHS, (4, 2)),
}
FOUND = {
    "basic 7x7": "a ResNet-18 (7x7 stem, 2-2-2-2 basic blocks, 4-6-8-10 channels)",
    "bottleneck 7x7": "a ResNet-50 (7x7 stem, 3-4-6-3 bottleneck blocks, 4-6-8-10 channels)",
    "padded 3x3": "a CIFAR ResNet-20 (3x3 stem, 3-3-3 basic blocks, 16-32-64 channels, shortcuts without weights)",
    "basic 3x3": "a CIFAR ResNet-18 (3x3 stem, 2-2-2-2 basic blocks, 4-6-8-10 channels)",
    "strided stem": "a CIFAR ResNet-12 (4x4 stem, 1-2-1-1 basic blocks, 4-6-8-10 channels)",
}
FITS = {
    "simsiam": {"basic 3x3", "strided stem"},
    "simclr": {"basic 7x7", "bottleneck 7x7", "basic 3x3", "strided stem"},
    "resnet18": {"basic 7x7"},
    "resnet50": {"bottleneck 7x7"},
    "cifar-resnet": {"padded 3x3", "basic 3x3", "strided stem"},
}


def made(build: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """A network with random weights and random statistics, so that no layer is trivial."""
    with torch.random.fork_rng():
        network = build().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if tensor.is_floating_point():
                noise = torch.randn(tensor.shape, generator=generator)
                tensor.copy_(noise.abs() + 0.5 if name.endswith("running_var") else noise * 0.2)
    return network


def state(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in network.state_dict().items()}


def under(name: str, module: nn.Module) -> dict[str, Tensor]:
    return {f"{name}.{key}": tensor for key, tensor in state(module).items()}


def saved(path: Path, content: Mapping[str, Any]) -> Path:
    torch.save(dict(content), path)
    return path


def small() -> ResNet:
    return ResNet((1, 2, 1, 1), WIDTHS, (3, 1))


def linear(outputs: int, features: int) -> nn.Linear:
    return made(lambda: nn.Linear(features, outputs), 1)  # type: ignore[return-value]


def renamed(weights: Mapping[str, Tensor], prefix: str = "", shortcut: str = "downsample") -> dict[str, Tensor]:
    """Weights by torchvision's names."""
    names = {name: re.sub(r"^stages\.(\d)", lambda found: f"layer{int(found[1]) + 1}", name) for name in weights}
    return {prefix + names[name].replace("shortcut", shortcut): tensor for name, tensor in weights.items()}


def slow_resnet(weights: Mapping[str, Tensor], batch: Tensor) -> Tensor:
    """A ResNet from its definition, by torchvision's names; shortcuts are padded where shapes change without weights."""

    def layer(x: Tensor, conv: str, norm: str, stride: int, padding: int, relu: bool = True) -> Tensor:
        x = F.conv2d(x, weights[f"{conv}.weight"], stride=stride, padding=padding)
        mean, var, gain, shift = (
            weights[f"{norm}.{part}"][:, None, None] for part in ("running_mean", "running_var", "weight", "bias")
        )
        x = (x - mean) / (var + 1e-5).sqrt() * gain + shift
        return x.clamp(min=0) if relu else x

    stem = weights["conv1.weight"].shape[-1]
    x = layer(batch, "conv1", "bn1", {3: 1, 4: 2, 7: 2}[stem], {3: 1, 4: 1, 7: 3}[stem])
    x = F.max_pool2d(x, 3, 2, 1) if stem == 7 else x
    blocks = dict.fromkeys(re.findall(r"layer\d+\.\d+", " ".join(weights)))
    for name in blocks:
        stride = 2 if name.endswith(".0") and not name.startswith("layer1.") else 1
        if f"{name}.conv3.weight" in weights:
            y = layer(x, f"{name}.conv1", f"{name}.bn1", 1, 0)
            y = layer(y, f"{name}.conv2", f"{name}.bn2", stride, 1)
            y = layer(y, f"{name}.conv3", f"{name}.bn3", 1, 0, relu=False)
        else:
            y = layer(x, f"{name}.conv1", f"{name}.bn1", stride, 1)
            y = layer(y, f"{name}.conv2", f"{name}.bn2", 1, 1, relu=False)
        if f"{name}.downsample.0.weight" in weights:
            x = layer(x, f"{name}.downsample.0", f"{name}.downsample.1", stride, 0, relu=False)
        elif stride == 2:
            zeros = torch.zeros(len(y), y.shape[1] // 4, *y.shape[2:])
            x = torch.cat([zeros, x[:, :, ::2, ::2], zeros], 1)
        x = (x + y).clamp(min=0)
    return x.mean((2, 3))


# --- what fits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "kind"), [(family, kind) for family, kinds in FITS.items() for kind in sorted(kinds)])
def test_load__computes_what_the_definition_says(family: str, kind: str, tmp_path: Path) -> None:
    network = made(NETWORKS[kind])
    with torch.no_grad():
        head = linear(10, network(images(1, 32, 32)).shape[1])
    weights = renamed(state(network), "module.") | under("module.fc", head)
    header = {"architecture": "own"} if family == "simclr" else {}  # or else its pooling is TensorFlow's
    path = write_safetensors(tmp_path / "net.safetensors", weights, "encoder", header)
    encoder = cocoax.load(f"{family}:{path}")
    batch = images(2, 70, 70)
    found = encoder.represent(batch)
    plain = {name.removeprefix("module."): tensor for name, tensor in weights.items()}
    expected = slow_resnet(plain, batch)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))
    assert encoder.head is not None
    torch.testing.assert_close(encoder.head(found), head(found))
    assert encoder.name == f"{family}:net"
    assert (encoder.classes is not None and encoder.classes[3] == "cat") == ("7x7" not in kind)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed")
@pytest.mark.parametrize("family", ["resnet18", "resnet50"])
def test_load__computes_what_timm_does(family: str, tmp_path: Path) -> None:
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


def projector(prefix: str) -> dict[str, Tensor]:
    """Weights of a projector and a predictor, whose names look a little like those of an encoder."""
    sizes = {"layer1.0.weight": (12, 10), "layer1.1.running_mean": (12,), "layer2.weight": (12, 12), "0.weight": (12, 10)}
    return {prefix + name: torch.ones(size) for name, size in sizes.items()}


LAYOUTS: dict[str, Callable[[dict[str, Tensor]], dict[str, Any]]] = {
    "our own names": lambda own: own,
    "shortcut instead of downsample": lambda own: renamed(own, shortcut="shortcut"),
    "official: module.encoder, projector in its fc": lambda own: {
        "epoch": 800,
        "state_dict": renamed(own, "module.encoder.") | projector("module.encoder.fc.") | projector("module.predictor."),
        "optimizer": {"state": {0: {"momentum_buffer": torch.ones(3)}}, "param_groups": [{"lr": 0.03}]},
    },
    "backbone, and again as part of an encoder": lambda own: {
        "model": renamed(own, "backbone.") | renamed(own, "encoder.0.") | projector("projector.") | projector("encoder.1.")
    },
    "deeper": lambda own: {"net": renamed(own, "module.online_network.encoder.net.")},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_load__every_layout_gives_the_same_encoder(layout: str, tmp_path: Path) -> None:
    network = made(small)
    path, before = saved(tmp_path / "net.pth", LAYOUTS[layout](state(network))), torch.random.get_rng_state()
    first, second = (cocoax.load(f"simsiam:{path}") for _ in range(2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert first.fingerprint == second.fingerprint
    assert first.head is None
    batch = images(3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(first.represent(batch), network(batch), rtol=1e-4, atol=1e-5)


def prepared_by_hand(picture: np.ndarray, resize: int, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    border = (resize - 32) // 2
    pixels = np.asarray(Image.fromarray(picture).resize((resize, resize), Image.Resampling.BICUBIC)) / 255
    normal = (pixels[border : border + 32, border : border + 32] - np.array(mean)) / np.array(std)
    return torch.from_numpy(normal).permute(2, 0, 1).float()


CIFAR = ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@pytest.mark.parametrize(
    ("family", "kind", "resize", "moments"),
    [
        ("cifar-resnet", "padded 3x3", 32, IMAGENET),
        ("cifar-resnet", "basic 3x3", 32, CIFAR),
        ("simsiam", "basic 3x3", 36, CIFAR),
    ],
)
def test_load__preprocessing_is_the_papers(family: str, kind: str, resize: int, moments: Any, tmp_path: Path) -> None:
    weights = state(made(NETWORKS[kind])) | under("fc", linear(7, 64 if kind == "padded 3x3" else 10))
    encoder = cocoax.load(f"{family}:{saved(tmp_path / 'net.pth', weights)}")
    picture = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    torch.testing.assert_close(encoder.prepare(picture), prepared_by_hand(picture, resize, *moments))


@pytest.mark.parametrize(
    ("kind", "family", "outputs", "first"),
    [
        ("basic 3x3", "cifar-resnet", 10, "airplane"),
        ("basic 3x3", "cifar-resnet", 1000, None),
        ("basic 7x7", "resnet18", 10, None),
        ("basic 7x7", "resnet18", 1000, "tench"),
    ],
)
def test_load__classes_that_the_file_does_not_name(
    kind: str, family: str, outputs: int, first: str | None, tmp_path: Path
) -> None:
    weights = state(made(NETWORKS[kind])) | under("fc", linear(outputs, 10))
    classes = cocoax.load(f"{family}:{saved(tmp_path / 'net.pth', weights)}").classes
    assert (None if classes is None else classes[0]) == first


@pytest.mark.parametrize(
    ("recipe", "family", "architecture", "side"),
    [
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
    changed = replace(RECIPES[recipe], side=side, architecture=architecture, epochs=1, batch_size=8)
    with torch.random.fork_rng():
        training = Training(changed, data, tmp_path / "training")
    for half in (False, True):
        encoder = cocoax.load(f"{family}:{training.export(tmp_path / f'{half}.safetensors', half=half)}")
        expected = training.represent(_Pixels(data, side), np.arange(16))
        tolerance = 1e-2 if half else 1e-4
        torch.testing.assert_close(encoder.represent(pictures), expected, rtol=tolerance, atol=tolerance)
        assert encoder.classes == (["cat", "dog"] if recipe == "classifier" else None)


def test_small_simclr__comes_with_the_package() -> None:
    encoder = cocoax.load("simclr-cifar10-small")
    assert encoder.name == "simclr-cifar10-small"
    assert encoder.head is not None
    representations = encoder.represent(images(4, 32, 32))
    assert representations.shape == (4, 256)
    assert encoder.classes is not None
    assert encoder.head(representations).shape == (4, len(encoder.classes)) == (4, 10)
    assert bool((representations >= 0).all())  # after a ReLU
    assert len(files("cocoax.paper.networks").joinpath("simclr_cifar10_small.safetensors").read_bytes()) < 5e6


# --- what does not fit --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "kind"), [(family, kind) for family in FITS for kind in NETWORKS if kind not in FITS[family]]
)
def test_load__another_architecture_says_what_was_expected_and_found(family: str, kind: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "net.pth", state(made(NETWORKS[kind])))
    with pytest.raises(ValueError, match=rf"net\.pth does not fit '{family}:'. Expected a .*ResNet") as caught:
        cocoax.load(f"{family}:{path}")
    assert f"found {FOUND[kind]}." in str(caught.value)


def test_load__what_is_wrong_with_a_file(tmp_path: Path) -> None:
    weights = state(made(small))
    header = {"trained": "simclr"}
    path = write_safetensors(tmp_path / "trained.safetensors", weights, "encoder", header)
    with pytest.raises(ValueError, match=r"Expected one trained as simsiam; found simclr"):
        cocoax.load(f"simsiam:{path}")
    named = weights | under("head", linear(3, 10))
    path = write_safetensors(tmp_path / "classes.safetensors", named, "encoder", {"classes": ["cat", "dog"]})
    with pytest.raises(ValueError, match=r"'classes' names 2 classes but the head has 3 outputs"):
        cocoax.load(f"simsiam:{path}")
    with pytest.raises(ValueError, match=r"has no classifier; load it with 'simsiam:' or 'simclr:'"):
        cocoax.load(f"cifar-resnet:{saved(tmp_path / 'headless.pth', weights)}")
    with pytest.raises(ValueError, match=r"'simsiam:' does not say which encoder to load; write simsiam:FILE"):
        cocoax.load("simsiam:")
    cases: dict[str, dict[str, Tensor]] = {
        r"weights that are no ResNet's: patch_embed\.weight": {"patch_embed.weight": torch.ones(3, 3)},
        r"has no weights 'stages\.1\.1\.bn2\.bias'; it is incomplete": {
            name: tensor for name, tensor in weights.items() if name != "stages.1.1.bn2.bias"
        },
        r"has weights 'stages\.0\.0\.se\.weight' that such a network": weights | {"stages.0.0.se.weight": torch.ones(2)},
        r"has weights 'stages\.3\.0\.conv2\.weight' of shape \[10, 5, 3, 3\]; expected \[10, 10, 3, 3\]": weights
        | {"stages.3.0.conv2.weight": torch.ones(10, 5, 3, 3)},
    }
    for expected, given in cases.items():
        with pytest.raises(ValueError, match=expected):
            cocoax.load(f"simsiam:{saved(tmp_path / 'net.pth', given)}")


# --- SimCLR's TensorFlow checkpoints --------------------------------------------------------------------------------------

DATA = Path(__file__).parent / "data"
# Variables that TensorFlow 2.21 wrote: SimCLR's ResNet-50 with a stem of one channel rather than 64 and random weights.
VARIABLES = load_file(DATA / "simclr-width-1.safetensors")


@pytest.fixture
def tensorflow(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A stand-in for TensorFlow, whose only checkpoint holds these variables; ``asked`` is where it was looked for."""
    variables: dict[str, Any] = dict(VARIABLES)

    def load_checkpoint(place: str) -> Any:
        variables["asked"] = place
        if "nothing" in place:
            raise RuntimeError("Unsuccessful TensorSliceReader\nmore")
        tensors = {name: array for name, array in variables.items() if name != "asked"}
        shapes = {name: list(array.shape) for name, array in tensors.items()}
        return SimpleNamespace(get_variable_to_shape_map=lambda: shapes, get_tensor=tensors.__getitem__)

    library = SimpleNamespace(train=SimpleNamespace(load_checkpoint=load_checkpoint))
    monkeypatch.setitem(sys.modules, "tensorflow", library)
    return variables


@pytest.mark.parametrize("side", [64, 62])  # the max pooling pads one pixel for the first, two for the second
def test_convert_simclr__gives_what_tensorflow_gave(side: int, tensorflow: dict[str, Any], tmp_path: Path) -> None:
    encoder = cocoax.load(f"simclr:{convert_simclr('checkpoint', tmp_path / 'simclr.safetensors')}")
    pixels = np.random.default_rng(7).uniform(0, 1, (2, side, side, 3)).astype(np.float32)
    found = encoder.represent(torch.from_numpy(pixels.transpose(0, 3, 1, 2).copy()))
    expected = json.loads((DATA / "simclr-width-1.json").read_text())[str(side)]
    torch.testing.assert_close(found, torch.tensor(expected["features"]), rtol=0, atol=2e-5)
    assert encoder.head is not None
    torch.testing.assert_close(encoder.head(found).detach(), torch.tensor(expected["logits"]), rtol=0, atol=2e-5)
    assert encoder.classes is None  # three outputs: nobody knows of what
    prepared = encoder.prepare(np.full((300, 400, 3), 51, np.uint8))
    torch.testing.assert_close(prepared, torch.full((3, 224, 224), 0.2))  # pixels without normalisation


def test_convert_simclr__head_and_classes(tensorflow: dict[str, Any], tmp_path: Path) -> None:
    kernel, bias = (f"head_supervised/linear_layer/dense/{kind}" for kind in ("kernel", "bias"))
    tensorflow |= {kernel: np.ones((32, 1000), np.float32), bias: np.zeros(1000, np.float32)}
    encoder = cocoax.load(f"simclr:{convert_simclr('checkpoint', tmp_path / 'head.safetensors')}")
    assert encoder.classes == imagenet_classes()
    for name in (kernel, bias):
        del tensorflow[name]
    assert cocoax.load(f"simclr:{convert_simclr('checkpoint', tmp_path / 'none.safetensors')}").head is None


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "selective": ({"base_model/conv2d/kernel": np.ones((3, 3, 3, 1))}, r"conv2d/kernel has shape \(3, 3, 3, 1\)"),
    "deeper": ({"base_model/conv2d_53/kernel": np.ones((1, 1, 8, 8))}, "found 54 convolutions"),
    "shallower": ({"base_model/conv2d_52/kernel": None}, "found 52 convolutions"),
    "another": (dict.fromkeys(VARIABLES), "found 0 convolutions"),
    "not finite": ({"base_model/batch_normalization_3/beta": np.full(1, np.nan)}, r"'stages\.0\.0\.bn2\.bias' .* not finite"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_convert_simclr__other_variables(change: str, tensorflow: dict[str, Any], tmp_path: Path) -> None:
    changes, said = CHANGES[change]
    for name, array in changes.items():
        tensorflow[name] = array
        if array is None:
            del tensorflow[name]
    with pytest.raises(ValueError, match=said):
        convert_simclr("checkpoint", tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()


def test_convert_simclr__what_is_wrong(tensorflow: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there.safetensors").write_text("precious")
    with pytest.raises(FileExistsError, match=r"there\.safetensors exists already; delete it first"):
        convert_simclr("checkpoint", tmp_path / "there.safetensors")
    assert (tmp_path / "there.safetensors").read_text() == "precious"
    with pytest.raises(ValueError, match=r"must be named \*\.safetensors. Got out\.pth instead"):
        convert_simclr("checkpoint", tmp_path / "out.pth")
    with pytest.raises(ValueError, match=r"nothing cannot be read as a TensorFlow checkpoint \(Unsuccessful .*Reader\)"):
        convert_simclr("nothing", tmp_path / "out.safetensors")
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ImportError, match="pip install tensorflow"):
        convert_simclr("checkpoint", tmp_path / "out.safetensors")
