"""A training that was stopped goes on exactly; a folder of another training is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cocoax.data.labelled import LabelledImages
from cocoax.paper.training.recipes import Recipe
from cocoax.paper.training.trainer import Training
from tests.paper.training.tiny import RECIPE, assert_same, noise, quiet, weights


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
        (replace(RECIPE, learning_rate=0.1), noise(), r"learning_rate was 0\.05"),
        (RECIPE, LabelledImages(noise(seed=1).images, noise().labels, ["a", "b", "c"]), "data was"),
    ],
    ids=["recipe", "images"],
)
def test_training__refuses_a_folder_with_another_training(
    tmp_path: Path, recipe: Recipe, data: LabelledImages, message: str
) -> None:
    Training(RECIPE, noise(), tmp_path).run(until=1, say=quiet)
    with pytest.raises(ValueError, match=message):
        Training(recipe, data, tmp_path)
    assert Training(RECIPE, noise(), tmp_path).step == 1


@pytest.mark.parametrize("until", [4, 6, 9], ids=["in an epoch", "after an epoch", "at the end"])
def test_training__damaged_checkpoint_is_put_aside_and_the_one_before_gives_the_same(tmp_path: Path, until: int) -> None:
    data = noise()
    whole = Training(RECIPE, data, tmp_path / "whole")
    finished = whole.run(say=quiet)
    Training(RECIPE, data, tmp_path / "parts").run(until=until, say=quiet)
    units = tmp_path / "parts" / "units"
    newest = max(units.iterdir())
    damaged = bytearray(newest.read_bytes())
    damaged[-200:-100] = b"\7" * 100
    newest.write_bytes(damaged)
    with pytest.warns(UserWarning, match=r"put aside as .*\.damaged"):
        parts = Training(RECIPE, data, tmp_path / "parts")
    assert newest.with_name(f"{newest.name}.damaged").read_bytes() == damaged
    assert 0 < parts.step < until
    again = parts.run(say=quiet)
    assert_same(whole, parts)
    assert finished is not None
    assert again is not None
    for name in ("encoder.safetensors", "log.jsonl", *(f"units/step-{step:09}.safetensors" for step in (6, 9))):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()
    assert len(list((tmp_path / "whole" / "units").iterdir())) == 2


@pytest.mark.parametrize("left", ["encoder.safetensors", "log.jsonl"])
def test_training__refuses_to_replace_what_one_without_its_checkpoints_left(tmp_path: Path, left: str) -> None:
    Training(RECIPE, noise(), tmp_path / "old").run(say=quiet)
    (tmp_path / "new").mkdir()
    before = (tmp_path / "old" / left).rename(tmp_path / "new" / left).read_bytes()
    with pytest.raises(ValueError, match="is not empty, and no folder of results"):
        Training(RECIPE, noise(), tmp_path / "new")
    assert (tmp_path / "new" / left).read_bytes() == before
