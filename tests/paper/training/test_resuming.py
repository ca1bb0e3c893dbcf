"""A training that was stopped goes on exactly; a folder of another training is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cocoax.data.labelled import LabelledImages
from cocoax.paper.training.recipes import Recipe
from cocoax.paper.training.trainer import Training
from tests.paper.training.tiny import AUGMENTATION, RECIPE, assert_same, noise, quiet, weights


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

        def once(*_: object) -> None:
            if training.step == 4:
                hook.remove()
                _raise()

        hook = training.optimizer.register_step_post_hook(once)


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


@pytest.mark.parametrize("damage", [b"\xff", b"7"], ids=["no text", "another number"])
def test_training__damaged_log_is_put_aside_and_the_training_goes_on(damage: bytes, tmp_path: Path) -> None:
    data = noise()
    Training(RECIPE, data, tmp_path).run(until=6, say=quiet)  # two of three epochs
    log = tmp_path / "log.jsonl"
    first, second = log.read_bytes().splitlines()
    log.write_bytes(first[:-3] + damage + first[-2:] + b"\n" + second + b"\n")
    with pytest.warns(
        UserWarning, match=r"1 of 2 lines of .*log\.jsonl are damaged\. It was put aside as log\.jsonl\.damaged"
    ):
        Training(RECIPE, data, tmp_path).run(say=quiet)
    assert [json.loads(line)["epoch"] for line in log.read_text().splitlines()] == [2, 3]
    assert (tmp_path / "log.jsonl.damaged").read_bytes().splitlines()[1] == second


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
    first = Training(RECIPE, data, tmp_path / "one")
    first.run(until=2, say=quiet)
    with torch.random.fork_rng():
        torch.manual_seed(123)
        np_state = np.random.get_state()
        second = Training(RECIPE, data, tmp_path / "two")
        before = torch.random.get_rng_state()
        second.run(until=2, say=quiet)
        assert torch.equal(before, torch.random.get_rng_state())
        assert np.array_equal(np_state[1], np.random.get_state()[1])
    assert_same(first, second)
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
    with pytest.raises(ValueError, match=r"checkpoint\.pt cannot be read .*Move it away to start anew"):
        Training(RECIPE, noise(), tmp_path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("until", [4, 6, 9], ids=["in an epoch", "after an epoch", "at the end"])
def test_training__damaged_checkpoint_is_put_aside_and_the_one_before_gives_the_same(tmp_path: Path, until: int) -> None:
    data = noise()
    whole = Training(RECIPE, data, tmp_path / "whole")
    finished = whole.run(say=quiet)
    stopped = Training(RECIPE, data, tmp_path / "parts")
    stopped.run(until=until, say=quiet)
    path = stopped.checkpoint
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2 : len(damaged) // 2 + 200] = b"\7" * 200  # more than there is between two tensors
    path.write_bytes(damaged)
    with pytest.warns(UserWarning, match=r"checkpoint\.pt cannot be read .* put aside as checkpoint\.pt\.damaged"):
        parts = Training(RECIPE, data, tmp_path / "parts")
    assert (tmp_path / "parts/checkpoint.pt.damaged").read_bytes() == damaged
    assert 0 < parts.step <= until
    again = parts.run(say=quiet)
    assert_same(whole, parts)
    assert finished is not None
    assert again is not None
    assert finished.read_bytes() == again.read_bytes()
    for name in ("log.jsonl", "checkpoint.pt", "checkpoint-previous.pt"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()


def test_training__killed_between_two_checkpoints_goes_on_from_the_one_before(tmp_path: Path) -> None:
    data = noise()
    whole = Training(RECIPE, data, tmp_path / "whole")
    whole.run(say=quiet)
    stopped = Training(RECIPE, data, tmp_path / "parts")
    stopped.run(until=4, say=quiet)
    stopped.checkpoint.replace(stopped.previous)  # as it is before the new one takes its place
    parts = Training(RECIPE, data, tmp_path / "parts")
    assert parts.step == 4
    parts.run(say=quiet)
    assert_same(whole, parts)


def test_training__both_checkpoints_damaged(tmp_path: Path) -> None:
    training = Training(RECIPE, noise(), tmp_path)
    training.run(until=4, say=quiet)
    for path in (training.checkpoint, training.previous):
        path.write_bytes(path.read_bytes()[:1000])
    with (
        pytest.warns(UserWarning, match=r"checkpoint\.pt\.damaged"),
        pytest.raises(ValueError, match=r"checkpoint-previous\.pt cannot be read .* Move it away to start anew"),
    ):
        Training(RECIPE, noise(), tmp_path)
    assert training.previous.exists()


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
