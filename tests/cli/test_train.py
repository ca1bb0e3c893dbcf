"""cocoax train: a classifier on an encoder, recipes, and what is said about wrong options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import cocoax
from cocoax.cli.terminal import Kept
from cocoax.cli.train import Trained, recipe_of, run_training
from cocoax.paper.training.recipes import RECIPES
from tests.cli.support import invoke
from tests.paper.studies.tiny import write_checkpoint, write_folders


def test_train__linear(tmp_path: Path) -> None:
    data = write_folders(tmp_path / "data")
    source = write_checkpoint(tmp_path / "net.safetensors", "simclr", classes=None)
    arguments = ["--data", str(data), "--encoder", f"simclr:{source}", "--solver", "logistic"]
    result = invoke("train", "linear", *arguments, "--out", str(tmp_path / "out.safetensors"))
    assert result.exit_code == 0, result.output
    assert "held-out accuracy" in result.output
    assert f"wrote {tmp_path / 'out.safetensors'}" in result.output
    assert cocoax.load(f"simclr:{tmp_path / 'out.safetensors'}").classes == ["blue", "green", "red"]


def test_recipe_of__the_small_one_with_changes() -> None:
    recipe = recipe_of(Trained.simclr, True, None, {"epochs": 3})
    assert recipe.epochs == 3
    assert recipe.batch_size == RECIPES["simclr-small"].batch_size
    assert recipe.architecture == RECIPES["simclr-small"].architecture
    assert recipe_of(Trained.simclr, False, "cifar-resnet18", {}).architecture == "cifar-resnet18"


def test_run_training__goes_on_and_says_where_it_was_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    training: Any = SimpleNamespace(step=3, steps=10)

    def run(held_out: str, say: Callable[[str], None]) -> Path:
        say(f"looked at {held_out}")
        training.step = 5
        raise KeyboardInterrupt

    training.run = run
    with pytest.raises(Kept, match=r"^kept 5 of 10 steps; the same command goes on from there$"):
        run_training(training, "the data")  # type: ignore[arg-type]
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("looked at the data\n", "going on from step 3 of 10\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["linear", "--out", "x.safetensors"], "Say which encoder gets the classifier"),
        (["linear", "--out", "x", "--encoder", "a:b", "--small"], "choose a new network"),
        (["simclr", "--out", "x", "--encoder", "a:b"], "--encoder is for 'linear'"),
        (["classifier", "--out", "x", "--small"], "There is no small recipe for classifier"),
    ],
)
def test_train__errors_are_sentences(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: Callable[..., str]
) -> None:
    data = write_folders(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    assert message in complaint("train", *arguments, "--data", str(data))
