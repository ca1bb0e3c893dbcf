"""--device: every command that runs a network takes it, and hands it on."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import pytest

from cocoax.cli.main import COMMANDS
from tests.cli.support import run_main
from tests.paper.studies.tiny import write_checkpoint, write_folders

# What runs no network; and bench, whose goals are those of a CPU.
WITHOUT = {"cache", "encoders", "convert-simclr", "compare"}
ARGUMENTS = {
    "ask": ["IMAGE", "--like", "a cat"],
    "ask-text": ["a cat sat", "--like", "a dog"],
    "match": ["a cat", "a dog"],
    "why": ["a cat", "--index", "TEXTS"],
    "index": ["FOLDER", "--out", "index"],
    "localise": ["FOLDER", "--collages", "1"],
    "augmentations": ["IMAGE", "--foil", "FOLDER"],
    "reproduce": ["main", "--data", "DATA"],
    "knows": ["FOLDER", "FOLDER"],
    "discover": ["FOLDER"],
    "minimal": ["IMAGE", "--like", "a cat"],
    "counterfactual": ["IMAGE", "--like", "a cat", "--unlike", "FOLDER"],
    "examples": ["IMAGE", "--member", "FOLDER"],
    "demo": [],
    "app": ["--no-browser"],
    "train": ["simclr", "--data", "DATA", "--out", "out", "--batch-size", "4"],
}


def test_device__of_all_commands_that_run_a_network() -> None:
    functions = {name: import_module(f"cocoax.cli.{place.split(':')[0]}") for name, place in COMMANDS.items()}
    taking = {
        name
        for name, module in functions.items()
        if "device" in inspect.signature(getattr(module, COMMANDS[name].split(":")[1])).parameters
    }
    assert taking == set(COMMANDS) - WITHOUT == set(ARGUMENTS)


@pytest.mark.parametrize("command", [*ARGUMENTS, "train linear"])
def test_device__one_that_is_not_there_is_told(
    command: str, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if command == "app":
        pytest.importorskip("gradio")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("one text\nanother")
    places = {"IMAGE": image, "TEXTS": "texts.txt", "FOLDER": str(tmp_path)}
    if "DATA" in (arguments := ARGUMENTS.get(command, [])):
        places["DATA"] = str(write_folders(tmp_path / "data"))
    if command in ("localise", "discover"):  # a collage takes four photos, and some are held out
        for number in range(4):
            (tmp_path / f"{number}.png").write_bytes(Path(image).read_bytes())
    if command == "train linear":
        source = write_checkpoint(tmp_path / "net.safetensors", "simclr", classes=None)
        data = str(write_folders(tmp_path / "data"))
        arguments = ["--data", data, "--encoder", f"simclr:{source}", "--out", "out.safetensors"]
    typed = [places.get(argument, argument) for argument in arguments]
    stopped = run_main(monkeypatch, *command.split(), *typed, "--device", "gpu")
    assert stopped.code == 1
    assert str(stopped.__cause__) == "No device is called 'gpu'; write 'cpu', 'cuda', 'cuda:1', 'mps' or 'auto'."
