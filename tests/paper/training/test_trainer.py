"""The training loop: steps against torch, what is reported, that it learns, and what it exports."""

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
from torch import Tensor, nn

from cocoax.data.labelled import LabelledImages
from cocoax.paper.networks.resnet import ARCHITECTURES
from cocoax.paper.training import trainer
from cocoax.paper.training.objectives import Classifier
from cocoax.paper.training.recipes import Augmentation, normalised
from cocoax.paper.training.trainer import Training
from cocoax.store import read_safetensors
from tests.paper.training.tiny import AUGMENTATION, RECIPE, STEPS, assert_same, noise, patterns, quiet


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


# A step against the same by hand


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


# Bad input


def test_training__needs_a_batch_of_images(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="data have 7 images but a batch takes 8; lower the batch size"):
        Training(RECIPE, noise(7), tmp_path)
    assert Training(RECIPE, noise(8), tmp_path).steps_per_epoch == 1


def test_training__unknown_architecture_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'vgg'; known are cifar-resnet18, resnet14-small"):
        Training(replace(RECIPE, architecture="vgg"), noise(), tmp_path)


def test_training__simsiam_of_a_network_that_could_not_be_loaded(tmp_path: Path) -> None:
    recipe = replace(RECIPE, kind="simsiam", architecture="resnet18", side=32)
    with pytest.raises(ValueError, match=r"networks with a small stem, such as cifar-resnet18. Got resnet18"):
        Training(recipe, noise(), tmp_path)
    assert Training(replace(recipe, kind="simclr"), noise(), tmp_path).step == 0


def test_training__a_loss_that_is_not_finite_is_an_error(tmp_path: Path) -> None:
    training = Training(replace(RECIPE, learning_rate=1e30), noise(), tmp_path)
    with pytest.raises(ValueError, match=r"loss became nan at step \d; lower the learning rate"):
        training.run(say=quiet)


def test_training__representations_that_are_not_finite_are_an_error(tmp_path: Path) -> None:
    training = Training(replace(RECIPE, learning_rate=1e30), noise(8), tmp_path)
    with pytest.raises(ValueError, match="Representations are not finite after step 1; lower the learning rate"):
        training.run(noise(10), say=quiet)


# What is reported


def test_training__reports_each_epoch(tmp_path: Path) -> None:
    lines: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Training(RECIPE, noise(), tmp_path).run(noise(12, seed=1), say=lines.append)
    logged = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in logged] == [1, 2, 3]
    assert all(set(line) == {"digest", "epoch", "images", "loss", "knn", "effective_rank", "spread"} for line in logged)
    assert len(lines) == 3
    assert lines[1].startswith("epoch 2  images 48  loss ")


def test_training__loss_in_the_log_is_the_mean_of_the_epoch(tmp_path: Path) -> None:
    training = Training(RECIPE, noise(), tmp_path)
    losses: list[float] = []
    training.objective.register_forward_hook(lambda _module, _inputs, loss: losses.append(loss.item()))
    training.run(until=6, say=quiet)
    logged = [json.loads(line)["loss"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert logged == pytest.approx([np.mean(losses[:3]), np.mean(losses[3:])])


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


# Learning


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


def test_training__labels_of_any_integer_type(tmp_path: Path) -> None:
    data = noise()
    recipe = replace(RECIPE, kind="classifier", epochs=1)
    small = LabelledImages(data.images, data.labels.astype(np.uint8), data.classes)
    Training(recipe, small, tmp_path).run(small, say=quiet)


# Export


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


def test_export__half_precision_halves_the_file_and_leaves_the_training(trained: Training, tmp_path: Path) -> None:
    whole, half = trained.export(tmp_path / "whole"), trained.export(tmp_path / "half", half=True)
    assert half.stat().st_size < 0.7 * whole.stat().st_size
    assert trained.encoder.state_dict()["conv1.weight"].dtype == torch.float32


def test_represent__plain_images_in_evaluation_mode(trained: Training) -> None:
    trained.objective.train()
    before = {name: tensor.clone() for name, tensor in trained.encoder.state_dict().items()}
    chosen = np.array([4, 1])
    found = trained.represent(trained.pixels, chosen)
    assert all(module.training for module in trained.encoder.modules())
    assert all(torch.equal(tensor, before[name]) for name, tensor in trained.encoder.state_dict().items())
    mean, std = np.array([0.5, 0.4, 0.3]), np.array([0.2, 0.25, 0.3])
    pixels = (np.asarray(trained.data.images)[chosen] / 255 - mean) / std
    trained.encoder.eval()
    with torch.no_grad():
        expected = trained.encoder(torch.from_numpy(pixels.transpose(0, 3, 1, 2)).float())
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_evenly__takes_numbers_evenly() -> None:
    assert trainer._evenly(5, 10).tolist() == [0, 1, 2, 3, 4]
    assert trainer._evenly(9, 3).tolist() == [0, 4, 8]
    numbers = trainer._evenly(50_000, 5_000)
    assert len(numbers) == 5_000
    assert set(np.diff(numbers)) <= {10, 11}
