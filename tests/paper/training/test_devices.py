"""Trainings on another device: the same numbers, and files that any device goes on from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import cocoax
from cocoax.paper.training.recipes import Recipe
from cocoax.paper.training.trainer import Training, on_cpu, train_linear
from tests.paper.studies.tiny import write_checkpoint
from tests.paper.training.tiny import RECIPE, noise, quiet, weights
from tests.second_device import ELSEWHERE, SecondDevice

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
        learned = on_cpu(weights(there))
        assert (8, 3, 8, 8) in device.arrivals  # batches of pixels are sent there, and become views there
        assert (16, 3, 8, 8) not in device.arrivals
    for name, expected in weights(here).items():
        torch.testing.assert_close(learned[name], expected, rtol=1e-4, atol=1e-6)
    logs = [json.loads((tmp_path / place / "log.jsonl").read_text()) for place in ("here", "there")]
    assert logs[0].pop("digest")
    assert logs[1].pop("digest")
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


def test_training__writes_its_encoder_from_another_device(tmp_path: Path) -> None:
    with SecondDevice():
        training = Training(RECIPE, noise(), tmp_path, ELSEWHERE)
        training.export()
    torch.testing.assert_close(
        cocoax.store.read_safetensors(tmp_path / "encoder.safetensors", "encoder")[0],
        on_cpu(dict(Training(RECIPE, noise(), tmp_path / "again").encoder.state_dict())),
    )


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
