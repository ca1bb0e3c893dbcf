"""The training loop: steps against torch, what is reported, what it exports; linear evaluation; other devices."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from torch import Tensor, nn

import cocoax
from cocoax.data.labelled import LabelledImages
from cocoax.evaluation import LinearProbe, accuracy
from cocoax.inputs.image import ImagePreprocess
from cocoax.paper.networks.resnet import ARCHITECTURES, ResNet
from cocoax.paper.training.objectives import Classifier
from cocoax.paper.training.recipes import Augmentation, Recipe, normalised
from cocoax.paper.training.trainer import Training, _Pixels, train_linear
from cocoax.store import read_safetensors
from tests.paper.studies.tiny import CLASSES, HELD_OUT, TRAIN, write_checkpoint
from tests.paper.training.tiny import AUGMENTATION, RECIPE, STEPS, assert_same, noise, patterns, quiet, weights
from tests.second_device import ELSEWHERE, SecondDevice


def test_training__uses_the_schedule_and_every_image_once_an_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(RECIPE, noise(24), tmp_path)
    seen, rates = [], []
    pixels = training.pixels
    monkeypatch.setattr(training, "pixels", lambda chosen: seen.append(chosen) or pixels(chosen))
    training.optimizer.register_step_pre_hook(lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"]))
    training.run(say=quiet)
    assert rates == pytest.approx([0.05 * 0.5 * (1 + math.cos(math.pi * step / STEPS)) for step in range(STEPS)])
    epochs = [np.concatenate(seen[start : start + 3]) for start in range(0, STEPS, 3)]
    assert all(sorted(epoch) == list(range(24)) for epoch in epochs)
    assert not np.array_equal(epochs[0], epochs[1])


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_training__steps_like_torch(tmp_path: Path, optimizer: Any) -> None:
    augmentation = Augmentation(8, None, flip=0, jitter_probability=0, grey=0)
    recipe = replace(
        RECIPE, kind="classifier", augmentation=augmentation, optimizer=optimizer, batch_size=27, epochs=3, weight_decay=0.1
    )
    data = noise()
    training = Training(recipe, data, tmp_path)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = ARCHITECTURES["tiny"]()
        head = nn.Linear(16, 3)
    both = nn.Sequential(network, head)
    plain = (
        torch.optim.SGD(both.parameters(), 0.05, momentum=0.9, weight_decay=0.1)
        if optimizer == "sgd"
        else torch.optim.Adam(both.parameters(), 0.05, weight_decay=0.1)
    )
    training.run(say=quiet, until=2)
    pixels = torch.from_numpy(np.asarray(data.images)).permute(0, 3, 1, 2) / 255
    for step in range(2):
        plain.param_groups[0]["lr"] = 0.05 * 0.5 * (1 + math.cos(math.pi * step / 3))
        plain.zero_grad()
        nn.functional.cross_entropy(both(pixels), torch.from_numpy(data.labels)).backward()
        plain.step()
    for name, expected in both[0].state_dict().items():
        torch.testing.assert_close(training.encoder.state_dict()[name], expected, atol=2e-4, rtol=1e-3, msg=name)
    assert isinstance(training.objective, Classifier)
    torch.testing.assert_close(training.objective.head.weight, head.weight, atol=2e-4, rtol=1e-3)


def test_training__a_loss_that_is_not_finite_is_an_error(tmp_path: Path) -> None:
    training = Training(replace(RECIPE, learning_rate=1e30), noise(), tmp_path)
    with pytest.raises(ValueError, match=r"loss became nan at step \d; lower the learning rate"):
        training.run(say=quiet)


def test_training__representations_that_are_not_finite_are_an_error(tmp_path: Path) -> None:
    training = Training(replace(RECIPE, learning_rate=1e30), noise(8), tmp_path)
    with pytest.raises(ValueError, match="Representations are not finite after step 1; lower the learning rate"):
        training.run(noise(10), say=quiet)


def test_training__reports_each_epoch(tmp_path: Path) -> None:
    lines: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Training(RECIPE, noise(), tmp_path).run(noise(12, seed=1), say=lines.append)
    logged = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in logged] == [1, 2, 3]
    assert all(set(line) == {"epoch", "images", "loss", "knn", "effective_rank", "spread"} for line in logged)
    assert len(lines) == 3
    assert lines[1].startswith("epoch 2  images 48  loss ")


class Cone(nn.Module):
    """Features in a few directions, or in many that hardly differ."""

    def __init__(self, directions: int, offset: float) -> None:
        super().__init__()
        self.directions, self.offset = directions, offset
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        features = x.flatten(1)[:, :64] * (torch.arange(64) < self.directions)
        return self.scale * features + self.offset


@pytest.mark.parametrize(
    ("directions", "offset", "warns"), [(64, 0.0, False), (2, 0.0, True), (64, 100.0, True)], ids=["fine", "rank", "cone"]
)
@pytest.mark.parametrize("kind", ["simsiam", "classifier"])
def test_training__warns_of_a_collapse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directions: int, offset: float, warns: bool, kind: Any
) -> None:
    monkeypatch.setitem(ARCHITECTURES, "cone", lambda: Cone(directions, offset))
    recipe = replace(RECIPE, kind=kind, architecture="cone", epochs=1, learning_rate=1e-6, projection=16)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Training(recipe, noise(), tmp_path).run(noise(50, seed=1), say=quiet)
    told = [str(warning.message) for warning in caught]
    assert len(told) == (1 if warns and kind == "simsiam" else 0)
    assert all("collapsing onto a few directions" in text for text in told)


def test_examine__of_the_training_images_themselves_and_of_even_directions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ARCHITECTURES, "cone", lambda: Cone(64, 0.0))
    recipe = replace(RECIPE, architecture="cone", augmentation=replace(AUGMENTATION, mean=(0.5,) * 3, std=(0.3,) * 3))
    data = noise(400)
    found = Training(recipe, data, tmp_path).examine(data)
    assert found["knn"] > 0.95  # each is its own nearest neighbour, with weight e^10
    assert found["effective_rank"] > 55
    assert found["spread"] == pytest.approx(1, abs=0.02)


def test_examine__accuracy_of_a_classifier(tmp_path: Path) -> None:
    training, held_out = Training(replace(RECIPE, kind="classifier"), noise(), tmp_path), noise(40, seed=1)
    assert isinstance(training.objective, Classifier)
    with torch.no_grad():
        training.objective.head.weight.zero_()
        training.objective.head.bias.copy_(torch.tensor([0.0, 1.0, 0.0]))  # always the second class
    found = training.examine(held_out)
    assert found["accuracy"] == pytest.approx(float((held_out.labels == 1).mean()))
    assert "accuracy" not in Training(RECIPE, noise(), tmp_path / "other").examine(held_out)


@pytest.mark.filterwarnings("ignore:The representations")  # three patterns are two directions
@pytest.mark.parametrize("kind", ["simclr", "simsiam", "classifier"])
def test_training__learns(tmp_path: Path, kind: Any) -> None:
    augmentation = Augmentation(8, (0.6, 1.0), jitter=(0.8, 0.4, 0.8, 0.3), mean=(0.5,) * 3, std=(0.25,) * 3)
    recipe = replace(
        RECIPE, kind=kind, augmentation=augmentation, batch_size=32, epochs=15, learning_rate=0.03, projection=64
    )
    data, held_out = patterns(128), patterns(200, seed=1)
    training = Training(recipe, data, tmp_path)
    before = training.examine(held_out)
    training.run(say=quiet)
    losses = [json.loads(line)["loss"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    if kind == "simsiam":  # slow to learn: only that it finds views alike
        assert losses[0] > -0.1
        assert losses[-1] < -0.15
    else:
        assert losses[-1] < 0.85 * losses[0]
        assert before["knn"] < 0.9
        assert training.examine(held_out)["knn"] > 0.97


def test_training__files_train_like_arrays(tmp_path: Path) -> None:
    data = noise(16)
    files = [tmp_path / f"{number}.png" for number in range(16)]
    for file, image in zip(files, data.images, strict=True):
        Image.fromarray(image).save(file)
    arrays = Training(RECIPE, data, tmp_path / "arrays")
    from_files = Training(RECIPE, LabelledImages(files, data.labels.astype(np.uint8), data.classes), tmp_path / "files")
    arrays.run(until=2, say=quiet)
    from_files.run(until=2, say=quiet)
    assert_same(arrays, from_files)


@pytest.fixture
def trained(tmp_path: Path) -> Training:
    training = Training(replace(RECIPE, kind="classifier"), noise(), tmp_path / "training")
    training.run(until=2, say=quiet)
    return training


@pytest.mark.parametrize("half", [False, True])
def test_export__reloads(trained: Training, tmp_path: Path, half: bool) -> None:
    path = trained.export(tmp_path / "encoder.safetensors", half=half)
    tensors, header = read_safetensors(path, "encoder")
    assert header["architecture"] == "tiny"
    assert header["trained"] == "classifier"
    assert (header["side"], header["mean"], header["std"]) == (8, [0.5, 0.4, 0.3], [0.2, 0.25, 0.3])
    assert header["classes"] == ["a", "b", "c"]
    assert header["recipe"] == trained.recipe.plain()
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16 if half else torch.float32, torch.int64}
    with torch.random.fork_rng():
        network, head = ARCHITECTURES["tiny"](), nn.Linear(16, 3)
    head.load_state_dict({name: tensors.pop(f"head.{name}") for name in ("weight", "bias")})
    network.load_state_dict(tensors)
    images = normalised(trained.pixels(np.arange(5)) / 255, AUGMENTATION.mean, AUGMENTATION.std)
    with torch.no_grad():
        found, expected = network.eval()(images), trained.represent(trained.pixels, np.arange(5))
    torch.testing.assert_close(found, expected, atol=5e-3 if half else 1e-5, rtol=0)
    assert isinstance(trained.objective, Classifier)
    torch.testing.assert_close(head.weight, trained.objective.head.weight, atol=1e-3 if half else 0, rtol=0)


@pytest.mark.parametrize(("side", "resize"), [(8, 8), (70, 80)])
def test_pixels__files_are_resized_and_cropped(tmp_path: Path, side: int, resize: int) -> None:
    files = []
    for number, mode in enumerate(("RGB", "L", "RGBA")):
        picture = np.random.default_rng(number).integers(0, 256, (100, 130, 4), dtype=np.uint8)
        files.append(tmp_path / f"{number}.png")
        Image.fromarray(picture).convert(mode).save(files[-1])
    data = LabelledImages(files, np.zeros(3, int), ["a"])
    pixels = _Pixels(data, side)(np.array([2, 0]))
    assert pixels.dtype == torch.uint8
    expected = ImagePreprocess(resize, side)(Image.open(files[0]))
    assert torch.equal(pixels[1], (expected * 255).round().to(torch.uint8))
    assert pixels.shape == (2, 3, side, side)


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


# Each kind once, with each optimizer.
RECIPES = [
    RECIPE,
    replace(RECIPE, kind="classifier", optimizer="lars"),
    replace(RECIPE, kind="simsiam", optimizer="adam", learning_rate=0.001),
]


@pytest.mark.filterwarnings("ignore:The representations have an effective rank")
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.kind)
def test_training__runs_on_its_device_and_learns_the_same(recipe: Recipe, tmp_path: Path) -> None:
    here = Training(recipe, noise(), tmp_path / "here")
    here.run(noise(12, seed=1), until=4, say=quiet)
    with SecondDevice() as device:
        there = Training(recipe, noise(), tmp_path / "there", ELSEWHERE)
        there.run(noise(12, seed=1), until=4, say=quiet)
        assert all(parameter.device == ELSEWHERE for parameter in there.objective.parameters())
        learned = {name: tensor.cpu() for name, tensor in weights(there).items()}
        assert (8, 3, 8, 8) in device.arrivals  # batches of pixels are sent there, and become views there
        assert (16, 3, 8, 8) not in device.arrivals
    for name, expected in weights(here).items():
        torch.testing.assert_close(learned[name], expected, rtol=1e-4, atol=1e-6)
    logs = [json.loads((tmp_path / place / "log.jsonl").read_text()) for place in ("here", "there")]
    assert logs[1] == pytest.approx(logs[0], rel=1e-4)


def test_training__goes_on_on_another_device(tmp_path: Path) -> None:
    whole = Training(RECIPE, noise(), tmp_path / "whole")
    whole.run(say=quiet)
    with SecondDevice():
        Training(RECIPE, noise(), tmp_path / "moved", ELSEWHERE).run(until=4, say=quiet)
    rest = Training(RECIPE, noise(), tmp_path / "moved")
    assert rest.step == 4
    file = rest.run(say=quiet)
    for name, expected in weights(whole).items():
        torch.testing.assert_close(weights(rest)[name], expected, rtol=1e-4, atol=1e-6)
    assert file is not None
    assert file.is_file()


def test_train_linear__encodes_on_a_device(tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path / "net.safetensors", "simclr", classes=None)
    data = noise(30)
    right = train_linear(f"simclr:{source}", data, data, tmp_path / "here.safetensors", "logistic")
    with SecondDevice() as device:
        there = train_linear(
            f"simclr:{source}", data, data, tmp_path / "there.safetensors", "logistic", device=str(ELSEWHERE)
        )
        assert device.operations > 0
    assert there == right
