"""SimCLR's TensorFlow checkpoints: converted, they give the features and logits that TensorFlow gave.

``data/simclr-width-1`` was written by TensorFlow 2.21: SimCLR's ResNet-50 with a stem of one channel rather than 64 and
random weights, with its outputs for random images.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import cocoax
from cocoax.cli.main import app
from cocoax.encoders.families.starter import imagenet_classes
from cocoax.paper.networks.simclr import convert_simclr
from tests.paper.networks.bundles import write_bundle

CHECKPOINT = Path(__file__).parent / "data" / "simclr-width-1"
Shapes = dict[str, tuple[int, ...]]


def shapes(width: int, classes: int) -> Shapes:
    """All variables of SimCLR's ResNet-50 after training, as its code makes them one after the other."""
    made: Shapes = {}
    count = 0

    def convolution(kernel: int, channels_in: int, channels: int) -> None:
        nonlocal count
        number = f"_{count}" if count else ""
        made[f"base_model/conv2d{number}/kernel"] = (kernel, kernel, channels_in, channels)
        made[f"base_model/conv2d{number}/kernel/Momentum"] = (kernel, kernel, channels_in, channels)
        for statistic in ("gamma", "beta", "moving_mean", "moving_variance"):
            made[f"base_model/batch_normalization{number}/{statistic}"] = (channels,)
        count += 1

    convolution(7, 3, width)
    before = width
    for inner, blocks in ((width, 3), (2 * width, 4), (4 * width, 6), (8 * width, 3)):
        convolution(1, before, 4 * inner)
        for _ in range(blocks):
            convolution(1, before, inner)
            convolution(3, inner, inner)
            convolution(1, inner, 4 * inner)
            before = 4 * inner
    made["head_supervised/linear_layer/dense/kernel"] = (before, classes)
    made["head_supervised/linear_layer/dense/bias"] = (classes,)
    made["global_step"] = ()
    return made


def written(folder: Path, made: Shapes) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    tensors = {name: generator.uniform(0.1, 1, shape).astype(np.float32) for name, shape in made.items()}
    folder.mkdir(exist_ok=True)
    write_bundle(folder / "model.ckpt-225206", tensors, per_block=20)
    return tensors


@pytest.mark.parametrize("side", [64, 62])  # the max pooling pads one pixel for the first, two for the second
def test_convert_simclr__gives_what_tensorflow_gave(side: int, tmp_path: Path) -> None:
    encoder = cocoax.load(f"simclr:{convert_simclr(CHECKPOINT, tmp_path / 'simclr.safetensors')}")
    images = np.random.default_rng(7).uniform(0, 1, (2, side, side, 3)).astype(np.float32)
    found = encoder.represent(torch.from_numpy(images.transpose(0, 3, 1, 2).copy()))
    expected = json.loads((CHECKPOINT / "expected.json").read_text())[str(side)]
    torch.testing.assert_close(found, torch.tensor(expected["features"]), rtol=0, atol=2e-5)
    assert encoder.head is not None
    torch.testing.assert_close(encoder.head(found).detach(), torch.tensor(expected["logits"]), rtol=0, atol=2e-5)
    assert encoder.classes is None  # three outputs: nobody knows of what


def test_convert_simclr__every_variable_lands_in_its_place(tmp_path: Path) -> None:
    tensors = written(tmp_path / "ResNet50_1x", shapes(2, 1000))
    encoder = cocoax.load(f"simclr:{convert_simclr(tmp_path / 'ResNet50_1x', tmp_path / 'out.safetensors')}")
    assert encoder.owner is not None
    state = encoder.owner.state_dict()
    # Counted by hand: the stem, then a shortcut and three convolutions for each stage's first block, then three for each.
    places = {
        "": "conv1",
        "_1": "layer1.0.downsample.0",
        "_2": "layer1.0.conv1",
        "_4": "layer1.0.conv3",
        "_5": "layer1.1.conv1",
    }
    places |= {
        "_11": "layer2.0.downsample.0",
        "_12": "layer2.0.conv1",
        "_43": "layer4.0.downsample.0",
        "_52": "layer4.2.conv3",
    }
    for number, name in places.items():
        expected = torch.from_numpy(tensors[f"base_model/conv2d{number}/kernel"]).permute(3, 2, 0, 1)
        assert torch.equal(state[f"{name}.weight"], expected), name
        norm = name.replace("conv", "bn").replace("downsample.0", "downsample.1")
        for ours, theirs in (("weight", "gamma"), ("bias", "beta"), ("running_mean", "moving_mean")):
            expected = torch.from_numpy(tensors[f"base_model/batch_normalization{number}/{theirs}"])
            assert torch.equal(state[f"{norm}.{ours}"], expected), norm
    assert encoder.head is not None
    kernel = torch.from_numpy(tensors["head_supervised/linear_layer/dense/kernel"])
    assert torch.equal(encoder.head.weight, kernel.T)  # type: ignore[arg-type]
    assert encoder.classes == imagenet_classes()


def test_convert_simclr__input_is_pixels_without_normalisation(tmp_path: Path) -> None:
    encoder = cocoax.load(f"simclr:{convert_simclr(CHECKPOINT, tmp_path / 'simclr.safetensors')}")
    picture = np.full((300, 400, 3), 51, np.uint8)
    prepared = encoder.prepare(picture)
    assert prepared.shape == (3, 224, 224)
    torch.testing.assert_close(prepared, torch.full((3, 224, 224), 0.2))


def test_convert_simclr__without_a_classifier(tmp_path: Path) -> None:
    made = {name: shape for name, shape in shapes(1, 10).items() if not name.startswith("head")}
    written(tmp_path / "folder", made)
    encoder = cocoax.load(f"simclr:{convert_simclr(tmp_path / 'folder', tmp_path / 'out.safetensors')}")
    assert encoder.head is None


# --- what is wrong ------------------------------------------------------------------------------------------------------


def selective(made: Shapes) -> Shapes:
    return made | {"base_model/conv2d/kernel": (3, 3, 3, 1)}


def deeper(made: Shapes) -> Shapes:
    return made | {"base_model/conv2d_53/kernel": (1, 1, 8, 8)}


def shallower(made: Shapes) -> Shapes:
    return {name: shape for name, shape in made.items() if "conv2d_52/" not in name}


def another(_made: Shapes) -> Shapes:
    return {"resnet/conv1/w": (7, 7, 3, 64)}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (selective, r"53 convolutions, of which number 0 has kernel \[3, 3, 3, 1\] where \[7, 7, 3, 1\] is expected"),
        (deeper, r"54 convolutions, of which number 53 has kernel \[1, 1, 8, 8\] where none is expected"),
        (shallower, r"52 convolutions, of which number 52 has kernel none where \[1, 1, 8, 32\] is expected"),
        (another, r"no variables base_model/conv2d…/kernel; the first are resnet/conv1/w"),
    ],
)
def test_convert_simclr__another_architecture(change: Callable[[Shapes], Shapes], found: str, tmp_path: Path) -> None:
    written(tmp_path / "folder", change(shapes(1, 10)))
    with pytest.raises(ValueError, match=rf"Expected SimCLR's ResNet-50 \(53 convolutions.*found {found}"):
        convert_simclr(tmp_path / "folder", tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()


def test_convert_simclr__nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out.safetensors").write_text("precious")
    with pytest.raises(FileExistsError, match=r"out\.safetensors exists already; delete it first"):
        convert_simclr(CHECKPOINT, tmp_path / "out.safetensors")
    assert (tmp_path / "out.safetensors").read_text() == "precious"


def test_convert_simclr__name_of_the_output(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must be named \*\.safetensors. Got out\.pth instead"):
        convert_simclr(CHECKPOINT, tmp_path / "out.pth")


def test_convert_simclr__weights_that_are_not_finite(tmp_path: Path) -> None:
    tensors = written(tmp_path / "folder", shapes(1, 10))
    tensors["base_model/batch_normalization_3/beta"][0] = np.nan
    write_bundle(tmp_path / "folder" / "model.ckpt-225206", tensors)
    with pytest.raises(ValueError, match=r"'layer1\.0\.bn2\.bias' .* are not finite; the checkpoint is damaged"):
        convert_simclr(tmp_path / "folder", tmp_path / "out.safetensors")


def test_convert_simclr__command_line(tmp_path: Path) -> None:
    out = tmp_path / "simclr.safetensors"
    result = CliRunner().invoke(app, ["convert-simclr", str(CHECKPOINT), str(out)])
    assert result.exit_code == 0
    assert f"load it with cocoax.load('simclr:{out}')" in result.output
    assert cocoax.load(f"simclr:{out}").name == "simclr:simclr"
