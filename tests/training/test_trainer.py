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
from cocoax.encoders.load.resnet import ARCHITECTURES, CifarResNet
from cocoax.inputs.images import ImagePreprocess
from cocoax.storage import read_safetensors
from cocoax.training import trainer
from cocoax.training.augment import Augmentation
from cocoax.training.trainer import RECIPES, Pixels, Recipe, Training, learning_rate, plain_view

AUGMENTATION = Augmentation(8, mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3))
RECIPE = Recipe("simclr", "tiny", AUGMENTATION, side=8, epochs=3, batch_size=8, learning_rate=0.05, projection=8)
STEPS = 9  # three epochs of 27 // 8 batches


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ARCHITECTURES, "tiny", lambda: CifarResNet((1, 1), (8, 16)))


def noise(number: int = 27, side: int = 8, seed: int = 0) -> LabelledImages:
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 256, (number, side, side, 3), dtype=np.uint8)
    return LabelledImages(pixels, random.integers(0, 3, number), ["a", "b", "c"])  # type: ignore[arg-type]


def patterns(number: int, seed: int = 0) -> LabelledImages:
    """Rows, columns and checks in every colour, in which an untrained network sees the colours first."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, number)
    rows, columns = np.mgrid[:8, :8] // 2
    shapes = np.stack([rows % 2, columns % 2, (rows + columns) % 2])[labels][..., None]
    pixels = 70 * shapes + random.integers(0, 30, (number, 8, 8, 3)) + random.integers(0, 150, (number, 1, 1, 3))
    return LabelledImages(pixels.astype(np.uint8), labels, ["rows", "columns", "checks"])  # type: ignore[arg-type]


def quiet(_line: str) -> None:
    pass


def weights(training: Training) -> dict[str, Tensor]:
    """Everything that the rest of a training depends on."""
    momenta = {
        f"{number} {name}": value
        for number, state in training.optimizer.state_dict()["state"].items()
        for name, value in state.items()
        if isinstance(value, Tensor)
    }
    return {name: tensor.clone() for name, tensor in (training.objective.state_dict() | momenta).items()}


def assert_same(one: Training, other: Training) -> None:
    assert one.step == other.step
    ours, theirs = weights(one), weights(other)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []


# The recipe and the schedule


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("epochs", 0, "'epochs' parameter must be at least 1. Got 0"),
        ("batch_size", 1, "'batch_size' parameter must be at least 2. Got 1"),
        ("learning_rate", math.nan, "'learning_rate' parameter must be above 0. Got nan"),
        ("learning_rate", 0.0, "'learning_rate' parameter must be above 0. Got 0.0"),
        ("kind", "byol", "'kind' parameter must be one of simclr, simsiam, classifier. Got 'byol'"),
        ("optimizer", "adamw", "'optimizer' parameter must be one of sgd, lars, adam. Got 'adamw'"),
        ("schedule", "linear", "'schedule' parameter must be one of cosine, step. Got 'linear'"),
        ("seed", -1, "'seed' parameter must be an integer of at least 0. Got -1"),
    ],
)
def test_recipe__refuses_what_makes_no_sense(name: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(RECIPE, **{name: value})


def test_recipes__simsiam_is_the_published_one() -> None:
    recipe = RECIPES["simsiam"]
    assert (recipe.architecture, recipe.epochs, recipe.batch_size, recipe.weight_decay) == ("cifar-resnet18", 800, 512, 5e-4)
    assert recipe.learning_rate == pytest.approx(0.03 * 512 / 256)
    assert (recipe.optimizer, recipe.momentum, recipe.schedule, recipe.warmup) == ("sgd", 0.9, "cosine", 0)
    views = recipe.augmentation
    assert (views.size, views.scale, views.flip, views.grey) == (32, (0.2, 1.0), 0.5, 0.2)
    assert (views.jitter, views.jitter_probability) == ((0.4, 0.4, 0.4, 0.1), 0.8)


def test_recipes__simclr_is_the_published_one() -> None:
    recipe = RECIPES["simclr"]
    assert (recipe.architecture, recipe.epochs, recipe.batch_size, recipe.weight_decay) == ("cifar-resnet18", 1000, 512, 1e-6)
    assert recipe.learning_rate == pytest.approx(1.0 * 512 / 256)
    assert (recipe.optimizer, recipe.schedule, recipe.warmup, recipe.temperature) == ("lars", "cosine", 10, 0.5)
    strength = 0.5
    assert recipe.augmentation.jitter == pytest.approx((0.8 * strength, 0.8 * strength, 0.8 * strength, 0.2 * strength))
    assert recipe.augmentation.scale == (0.08, 1.0)


def test_recipes__classifier_is_the_papers_for_mura() -> None:
    recipe = RECIPES["classifier"]
    assert (recipe.architecture, recipe.side, recipe.batch_size, recipe.optimizer) == ("resnet18", 224, 256, "adam")
    assert (recipe.learning_rate, recipe.schedule, recipe.weight_decay) == (1e-3, "step", 1e-3)
    views = recipe.augmentation
    assert (views.size, views.scale, views.flip, views.vertical_flip, views.rotation) == (224, None, 0.5, 0.5, 30)
    assert (views.jitter_probability, views.grey) == (0, 0)
    assert (views.mean, views.std) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def test_learning_rate__cosine() -> None:
    recipe = replace(RECIPE, epochs=4, learning_rate=2.0)
    rates = [learning_rate(recipe, step, 5) for step in range(20)]
    assert rates[0] == 2
    assert rates[5] == pytest.approx(1 + math.sqrt(0.5))
    assert rates[10] == pytest.approx(1)
    assert rates[15] == pytest.approx(1 - math.sqrt(0.5))
    assert 0 < rates[19] < 0.02
    assert rates == sorted(rates, reverse=True)


def test_learning_rate__warms_up_to_the_highest() -> None:
    recipe = replace(RECIPE, epochs=6, learning_rate=2.0, warmup=2)
    rates = [learning_rate(recipe, step, 2) for step in range(12)]
    assert rates[:5] == pytest.approx([0.5, 1.0, 1.5, 2.0, 2.0])
    assert rates[8] == pytest.approx(1)  # half of what is left


def test_learning_rate__never_passes_the_highest() -> None:
    recipe = replace(RECIPE, learning_rate=2.0, warmup=0.5)
    assert [learning_rate(recipe, step, 3) for step in range(2)] == pytest.approx([2 / 1.5, 2.0])


def test_learning_rate__steps() -> None:
    recipe = replace(RECIPE, epochs=30, learning_rate=1e-3, schedule="step")
    for step, expected in ((0, 1e-3), (69, 1e-3), (70, 1e-4), (139, 1e-4), (140, 1e-5), (209, 1e-5)):
        assert learning_rate(recipe, step, 7) == pytest.approx(expected)


def test_training__uses_the_schedule_and_every_image_once_an_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(RECIPE, noise(24), tmp_path)
    seen, rates = [], []
    pixels, step = training.pixels, training.optimizer.step
    monkeypatch.setattr(training, "pixels", lambda chosen: seen.append(chosen) or pixels(chosen))
    monkeypatch.setattr(training.optimizer, "step", lambda: rates.append(training.optimizer.param_groups[0]["lr"]) or step())
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
    assert isinstance(training.objective, trainer.Classifier)
    torch.testing.assert_close(training.objective.head.weight, head.weight, atol=2e-4, rtol=1e-3)


# Stopping and going on


@pytest.mark.parametrize(
    "recipe",
    [
        RECIPE,
        replace(RECIPE, kind="simsiam", projection=16),
        replace(RECIPE, optimizer="lars", warmup=1),
        replace(RECIPE, kind="classifier", optimizer="adam", projection=None),
    ],
    ids=["simclr", "simsiam", "lars", "classifier"],
)
def test_training__stopped_and_continued_is_bit_identical(tmp_path: Path, recipe: Recipe) -> None:
    data = noise()
    whole = Training(recipe, data, tmp_path / "whole")
    finished = whole.run(say=quiet)
    for until in (1, 4, 6, None):
        parts = Training(recipe, data, tmp_path / "parts")
        last = parts.run(until=until, say=quiet)
        assert (last is None) == (until is not None)
    assert_same(whole, parts)
    assert finished is not None
    assert last is not None
    assert finished.read_bytes() == last.read_bytes()
    assert (tmp_path / "whole/log.jsonl").read_text() == (tmp_path / "parts/log.jsonl").read_text()


def interrupt(training: Training, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C at the fifth step: while views are made, inside the network, or between two weights of an update."""
    if where == "views":
        pixels = training.pixels
        monkeypatch.setattr(training, "pixels", lambda chosen: _raise() if training.step == 4 else pixels(chosen))
    elif where == "forward":
        training.objective.projector.register_forward_hook(  # type: ignore[union-attr]
            lambda *_: _raise() if training.step == 4 else None
        )
    else:
        step = training.optimizer.step

        def half() -> None:
            step()
            if training.step == 4:
                _raise()

        monkeypatch.setattr(training.optimizer, "step", half)


def _raise() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["views", "forward", "update"])
def test_training__interrupted_anywhere_goes_on_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    data = noise()
    whole = Training(RECIPE, data, tmp_path / "whole")
    whole.run(say=quiet)
    broken = Training(RECIPE, data, tmp_path / "parts")
    with monkeypatch.context() as patch:
        interrupt(broken, where, patch)
        with pytest.raises(KeyboardInterrupt):
            broken.run(say=quiet)
    parts = Training(RECIPE, data, tmp_path / "parts")
    assert parts.step == 4  # what was learned is kept
    assert_same(parts, broken)
    parts.run(say=quiet)
    assert_same(whole, parts)
    assert (tmp_path / "whole/log.jsonl").read_text() == (tmp_path / "parts/log.jsonl").read_text()


def test_training__interrupted_and_continued_in_the_same_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = noise()
    whole = Training(RECIPE, data, tmp_path / "whole")
    whole.run(say=quiet)
    training = Training(RECIPE, data, tmp_path / "parts")
    with monkeypatch.context() as patch:
        interrupt(training, "update", patch)
        with pytest.raises(KeyboardInterrupt):
            training.run(say=quiet)
    training.run(say=quiet)
    assert_same(whole, training)


@pytest.mark.filterwarnings("ignore:The representations")
def test_training__interrupted_while_an_epoch_is_examined_logs_it_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, held_out = noise(), noise(10, seed=1)
    Training(RECIPE, data, tmp_path / "whole").run(held_out, say=quiet)
    for epoch in (1, 3):
        training = Training(RECIPE, data, tmp_path / "parts")
        with monkeypatch.context() as patch:
            examine = training.examine
            patch.setattr(
                training,
                "examine",
                lambda held: _raise() if training.step == epoch * 3 else examine(held),  # noqa: B023
            )
            with pytest.raises(KeyboardInterrupt):
                training.run(held_out, say=quiet)
    Training(RECIPE, data, tmp_path / "parts").run(held_out, say=quiet)
    assert (tmp_path / "whole/log.jsonl").read_text() == (tmp_path / "parts/log.jsonl").read_text()


def test_training__killed_between_log_and_checkpoint_logs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = noise()
    training = Training(RECIPE, data, tmp_path)
    training.run(until=2, say=quiet)
    with monkeypatch.context() as patch:
        patch.setattr(training, "_save", _raise)  # what comes after the log is never written
        with pytest.raises(KeyboardInterrupt):
            training.run(say=quiet)
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 1
    Training(RECIPE, data, tmp_path).run(say=quiet)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [(line["epoch"], line["images"]) for line in lines] == [(1, 24), (2, 48), (3, 72)]


def test_training__finished_stays_as_it_is(tmp_path: Path) -> None:
    data = noise()
    first = Training(RECIPE, data, tmp_path)
    path = first.run(say=quiet)
    again = Training(RECIPE, data, tmp_path)
    before = weights(again)
    assert again.run(say=quiet) == path
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights(again).items())
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 3


def test_training__depends_on_the_seed_alone(tmp_path: Path) -> None:
    data = noise()
    one = Training(RECIPE, data, tmp_path / "one")
    one.run(until=2, say=quiet)
    with torch.random.fork_rng():
        torch.manual_seed(123)
        np_state = np.random.get_state()
        two = Training(RECIPE, data, tmp_path / "two")
        before = torch.random.get_rng_state()
        two.run(until=2, say=quiet)
        assert torch.equal(before, torch.random.get_rng_state())
        assert np.array_equal(np_state[1], np.random.get_state()[1])
    assert_same(one, two)
    other = Training(replace(RECIPE, seed=1), data, tmp_path / "other")
    assert not torch.equal(
        other.encoder.state_dict()["conv1.weight"],
        Training(RECIPE, data, tmp_path / "fresh").encoder.state_dict()["conv1.weight"],
    )


# Folders that do not fit


@pytest.mark.parametrize(
    ("recipe", "data", "message"),
    [
        (replace(RECIPE, learning_rate=0.1), noise(), r"learning_rate 0\.05, not 0\.1"),
        (replace(RECIPE, augmentation=replace(AUGMENTATION, flip=0.0)), noise(), "augmentation"),
        (RECIPE, noise(30), "other images"),
        (RECIPE, LabelledImages(noise(seed=1).images, noise().labels, ["a", "b", "c"]), "other images"),
        (RECIPE, LabelledImages(noise().images, noise(seed=1).labels, ["a", "b", "c"]), "other images"),
    ],
    ids=["rate", "augmentation", "number", "images", "labels"],
)
def test_training__refuses_a_folder_with_another_training(
    tmp_path: Path, recipe: Recipe, data: LabelledImages, message: str
) -> None:
    Training(RECIPE, noise(), tmp_path).run(until=1, say=quiet)
    before = (tmp_path / "checkpoint.pt").read_bytes()
    with pytest.raises(ValueError, match=f"another recipe or other data \\({message}.*pass another folder"):
        Training(recipe, data, tmp_path)
    assert (tmp_path / "checkpoint.pt").read_bytes() == before


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "other", "incomplete"])
def test_training__refuses_a_damaged_checkpoint_and_leaves_it(tmp_path: Path, damage: str) -> None:
    Training(RECIPE, noise(), tmp_path).run(until=1, say=quiet)
    path = tmp_path / "checkpoint.pt"
    if damage == "other":
        torch.save([1, 2], path)
    elif damage == "incomplete":
        state = torch.load(path, weights_only=True)
        del state["objective"]["encoder.conv1.weight"]
        torch.save(state, path)
    else:
        whole = path.read_bytes()
        path.write_bytes({"cut": whole[: len(whole) // 2], "empty": b"", "text": b"not a checkpoint"}[damage])
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"checkpoint\.pt cannot be read .*move it away to start anew"):
        Training(RECIPE, noise(), tmp_path)
    assert path.read_bytes() == before


def test_training__refuses_pickled_code(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return Path.touch, (Path(tmp_path / "owned"),)  # type: ignore[return-value]

    torch.save({"recipe": Evil()}, tmp_path / "checkpoint.pt")
    with pytest.raises(ValueError, match="cannot be read"):
        Training(RECIPE, noise(), tmp_path)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("left", ["encoder.safetensors", "log.jsonl"])
def test_training__refuses_to_replace_what_one_without_its_checkpoint_left(tmp_path: Path, left: str) -> None:
    Training(RECIPE, noise(), tmp_path).run(say=quiet)
    for path in [path for path in tmp_path.iterdir() if path.name != left]:
        path.unlink()
    with pytest.raises(FileExistsError, match=r"holds a training without the checkpoint\.pt to go on from"):
        Training(RECIPE, noise(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [left]


def test_training__killed_before_its_first_checkpoint_starts_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(RECIPE, noise(), tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(training, "_save", _raise)
        with pytest.raises(KeyboardInterrupt):
            training.run(say=quiet)
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]
    Training(RECIPE, noise(), tmp_path).run(say=quiet)
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 3


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
    assert all(set(line) == {"epoch", "images", "loss", "knn", "effective_rank", "spread"} for line in logged)
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
    assert isinstance(training.objective, trainer.Classifier)
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


# Pixels


def test_pixels__arrays_come_as_they_are() -> None:
    data = noise(5)
    chosen = np.array([3, 0, 3])
    expected = np.asarray(data.images)[chosen].transpose(0, 3, 1, 2)
    assert np.array_equal(Pixels(data, 8)(chosen).numpy(), expected)


def test_pixels__read_only_and_grey_arrays() -> None:
    data = noise(5)
    data.images.setflags(write=False)  # type: ignore[attr-defined]
    assert Pixels(data, 8)(np.arange(2)).shape == (2, 3, 8, 8)
    grey = LabelledImages(np.asarray(data.images)[..., 0], data.labels, data.classes)  # type: ignore[arg-type]
    pixels = Pixels(grey, 8)(np.arange(5)).numpy()
    assert all(np.array_equal(pixels[:, channel], np.asarray(grey.images)) for channel in range(3))


def test_pixels__floats_are_refused() -> None:
    data = noise(5)
    floats = LabelledImages(np.asarray(data.images) / 255, data.labels, data.classes)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be uint8"):
        Pixels(floats, 8)(np.arange(2))


@pytest.mark.parametrize(("side", "resize"), [(8, 8), (70, 80)])
def test_pixels__files_are_resized_and_cropped(tmp_path: Path, side: int, resize: int) -> None:
    files = []
    for number, mode in enumerate(("RGB", "L", "RGBA")):
        picture = np.random.default_rng(number).integers(0, 256, (100, 130, 4), dtype=np.uint8)
        files.append(tmp_path / f"{number}.png")
        Image.fromarray(picture).convert(mode).save(files[-1])
    data = LabelledImages(files, np.zeros(3, int), ["a"])
    pixels = Pixels(data, side)(np.array([2, 0]))
    assert pixels.dtype == torch.uint8
    expected = ImagePreprocess(resize, side)(Image.open(files[0]))
    assert torch.equal(pixels[1], (expected * 255).round().to(torch.uint8))
    assert pixels.shape == (2, 3, side, side)


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
    images = plain_view(trained.recipe)(trained.pixels(np.arange(5)))
    with torch.no_grad():
        found, expected = network.eval()(images), trained.represent(trained.pixels, np.arange(5))
    torch.testing.assert_close(found, expected, atol=5e-3 if half else 1e-5, rtol=0)
    assert isinstance(trained.objective, trainer.Classifier)
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


def test_spread__takes_numbers_evenly() -> None:
    assert trainer._spread(5, 10).tolist() == [0, 1, 2, 3, 4]
    assert trainer._spread(9, 3).tolist() == [0, 4, 8]
    numbers = trainer._spread(50_000, 5_000)
    assert len(numbers) == 5_000
    assert set(np.diff(numbers)) <= {10, 11}
