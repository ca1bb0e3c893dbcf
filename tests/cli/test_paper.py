"""cocoax paper: studies, training, localisation, augmentations, conversion."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import cocoax
from cocoax.paper.networks import simclr_converter
from cocoax.paper.studies import NAMES
from cocoax.paper.studies.curves import CurveStudy
from cocoax.paper.training.trainer import Training
from tests.cli.support import interrupt_after, invoke, picture
from tests.conftest import SmallNet
from tests.data.tiny import write_coco
from tests.paper.studies.tiny import write_checkpoint, write_folders

# --- reproduce ---


SCALE = ["--runs", "1", "--explicands", "1", "--corpus", "4", "--foil", "6", "--samples", "10", "--grid", "3"]


def test_reproduce__lists_every_table_and_figure() -> None:
    result = invoke("paper", "reproduce", "--list")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()[1:]] == list(NAMES)
    assert invoke("paper", "reproduce").output == result.output


def test_reproduce__main_from_folders_and_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "cocoax.paper.studies.insertion_deletion.mean_curves", lambda _records: []
    )  # plots take longer than the study
    data, checkpoint = write_folders(tmp_path / "data"), write_checkpoint(tmp_path / "net.safetensors")
    arguments = ["--data", str(data), "--encoder", f"cifar-resnet:{checkpoint}", "--out", str(tmp_path / "out"), *SCALE]
    result = invoke("paper", "reproduce", "main", *arguments, "--classes", "red,0")
    assert result.exit_code == 0, result.output
    folder = tmp_path / "out" / "cifar-resnet-net" / "main"
    assert f"wrote {folder / 'results.json'}" in result.output
    assert len(list((folder / "units").iterdir())) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mian", "--data", "DATA"], "No study is called 'mian'; close are main"),
        (["main"], "Say where the data are: --data FOLDER"),
        (["main", "--data", "DATA", "--preset", "huge"], "'preset' parameter must be one of paper, small"),
        (["main", "--data", "DATA", "--classes", "pink"], "The data have no class 'pink'"),
        (["main", "--data", "nowhere"], "No folder at nowhere"),
        (["localisation", "--picture", "a.png:cat"], "A picture for 'localisation' is FILE:P:Q"),
    ],
)
def test_reproduce__errors_are_sentences(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: Callable[..., str]
) -> None:
    if "DATA" in arguments:
        data = str(write_folders(tmp_path / "data"))
        arguments = [data if argument == "DATA" else argument for argument in arguments]
    monkeypatch.chdir(tmp_path)
    assert message in complaint("paper", "reproduce", *arguments)


def test_reproduce__interrupted_says_what_was_kept_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interruption: Callable[..., str]
) -> None:
    monkeypatch.setattr("cocoax.paper.studies.insertion_deletion.mean_curves", lambda _records: [])
    data, checkpoint = write_folders(tmp_path / "data"), write_checkpoint(tmp_path / "net.safetensors")
    arguments = ("paper", "reproduce", "main", "--data", str(data), "--encoder", f"cifar-resnet:{checkpoint}", *SCALE)
    arguments += ("--out", str(tmp_path / "out"))
    with monkeypatch.context() as patch:
        interrupt_after(patch, CurveStudy, "judge_explicand", 2)
        said = interruption(*arguments)
    kept = f"kept 2 explicands and encoded images in {tmp_path / 'out'}"
    assert said == f"interrupted: {kept}; the same command goes on from there"
    assert invoke(*arguments).exit_code == 0
    assert len(list((tmp_path / "out").rglob("units/*.safetensors"))) == 3


@pytest.mark.slow
def test_reproduce__killed_three_times_equals_uninterrupted(tmp_path: Path) -> None:
    """SIGKILL at random moments; the same command goes on, and the results are the same bit for bit."""
    data, checkpoint = write_folders(tmp_path / "data"), write_checkpoint(tmp_path / "net.safetensors")
    scale = ["--runs", "1", "--explicands", "4", "--corpus", "4", "--foil", "6", "--samples", "10", "--grid", "3"]

    def start(out: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "cocoax", "paper", "reproduce", "main", "--data", str(data), *scale]
        command += ["--encoder", f"cifar-resnet:{checkpoint}", "--out", str(tmp_path / out)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})

    def done(out: str) -> int:
        return len(list((tmp_path / out).rglob("units/*.safetensors")))

    assert start("whole").wait(600) == 0
    random = np.random.default_rng()
    counts = []
    for _ in range(3):
        before, process = done("parts"), start("parts")
        while done("parts") < before + 1 and process.poll() is None:
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.3))
        process.kill()
        assert process.wait() == -signal.SIGKILL
        counts.append(done("parts"))
    assert 0 < counts[0] < counts[1] < counts[2] < 12
    assert start("parts").wait(600) == 0
    whole, parts = (next((tmp_path / out).rglob("results.json")).parent for out in ("whole", "parts"))
    for path in [*whole.glob("*.json"), *whole.glob("*.md"), *whole.glob("*.tex"), *whole.glob("units/*.safetensors")]:
        assert (parts / path.relative_to(whole)).read_bytes() == path.read_bytes(), path.name


# --- train ---


def test_train__linear(tmp_path: Path) -> None:
    data = write_folders(tmp_path / "data")
    source = write_checkpoint(tmp_path / "net.safetensors", "simclr", classes=None)
    arguments = ["--data", str(data), "--encoder", f"simclr:{source}", "--solver", "logistic"]
    result = invoke("paper", "train", "linear", *arguments, "--out", str(tmp_path / "out.safetensors"))
    assert result.exit_code == 0, result.output
    assert "held-out accuracy" in result.output
    assert f"wrote {tmp_path / 'out.safetensors'}" in result.output
    assert cocoax.load(f"simclr:{tmp_path / 'out.safetensors'}").classes == ["blue", "green", "red"]


@pytest.mark.filterwarnings("ignore:The representations have an effective rank")  # of three colours
def test_train__interrupted_says_what_was_kept_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interruption: Callable[..., str]
) -> None:
    data, out = write_folders(tmp_path / "data"), tmp_path / "out"
    arguments = ("paper", "train", "simclr", "--small", "--data", str(data), "--out", str(out), "--epochs", "1")
    arguments += ("--batch-size", "12")
    with monkeypatch.context() as patch:
        interrupt_after(patch, Training, "_step", 1)
        said = interruption(*arguments)
    assert said == "interrupted: kept 1 of 2 steps; the same command goes on from there"
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith("going on from step 1 of 2\n")
    assert f"wrote {out / 'encoder.safetensors'}" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["linear", "--out", "x.safetensors"], "'linear' takes"),
        (["linear", "--out", "x", "--encoder", "a:b", "--small"], "'linear' takes"),
        (["simclr", "--out", "x", "--encoder", "a:b"], "'linear' takes"),
        (["classifier", "--out", "x", "--small"], "no recipe 'classifier-small'"),
    ],
)
def test_train__errors_are_sentences(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: Callable[..., str]
) -> None:
    data = write_folders(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    assert message in complaint("paper", "train", *arguments, "--data", str(data))


# --- localise ---


def test_localise__coco(towers: cocoax.Encoder, tmp_path: Path) -> None:
    annotations = write_coco(tmp_path)
    arguments = ("paper", "localise", str(tmp_path), "--annotations", str(annotations), "--samples", "20", "--crop")
    arguments += ("--out", str(tmp_path / "out"))
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    assert "about 1 pictures" in result.stdout
    assert result.stderr == "two.png: nothing that is annotated lies in the part that the encoder sees\n"
    assert all(target in result.output for target in ("contrastive", "corpus", "label-free"))
    content = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {(row["target"], row["class"]) for row in content["rows"]} >= {("contrastive", ""), ("corpus", "dog")}
    net = towers.module
    assert isinstance(net, SmallNet)
    net.inputs = 0
    assert invoke(*arguments).output == result.output
    assert net.inputs <= 1  # the probe that tells whether the encoder is still the same
    everything = invoke(*arguments, "--foil", "all")
    assert everything.exit_code == 0, everything.output
    assert net.inputs > 0  # another question
    net.inputs = 0
    whole = invoke(*(argument for argument in arguments if argument != "--crop"))
    assert "about 2 pictures" in whole.stdout  # nothing lies outside of what is seen
    assert net.inputs > 0  # what was found out about the crop does not serve


def test_localise__collages_and_masks(towers: cocoax.Encoder, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for number, name in enumerate(("n01440764_cat", "dog", "cup", "rocket", "bird")):
        picture(number).save(tmp_path / "photos" / f"{name}.png")
    result = invoke(
        "paper", "localise", str(tmp_path / "photos"), "--collages", "2", "--samples", "20", "--out", str(tmp_path / "a")
    )
    assert result.exit_code == 0, result.output
    questions = json.loads((tmp_path / "a" / "summary.json").read_text())["questions"]
    assert [len(question) for question in questions] == [9] * 24
    (tmp_path / "masks" / "cat").mkdir(parents=True)
    Image.new("L", (24, 24), 255).save(tmp_path / "masks" / "cat" / "dog.png")
    arguments = ("--masks", str(tmp_path / "masks"), "--samples", "20", "--out", str(tmp_path / "b"))
    result = invoke("paper", "localise", str(tmp_path / "photos"), *arguments)
    assert result.exit_code == 0, result.output
    assert "100.0%" in result.output  # the mask is everything


def test_localise__json_and_nothing_else_on_standard_output(towers: cocoax.Encoder, tmp_path: Path) -> None:
    arguments = ("--annotations", str(write_coco(tmp_path)), "--samples", "20", "--out", str(tmp_path / "out"))
    result = invoke("paper", "localise", str(tmp_path), *arguments, "--crop", "--json")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    written = json.loads((tmp_path / "out" / "summary.json").read_text(), parse_constant=lambda name: pytest.fail(name))
    assert content.pop("files") == [str(tmp_path / "out" / "summary.json")]
    assert content == written
    assert "two.png: nothing" in result.stderr


def test_localise__interrupted_says_what_was_kept_and_goes_on(
    towers: cocoax.Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interruption: Callable[..., str]
) -> None:
    (tmp_path / "photos").mkdir()
    for number in range(8):
        picture(number).save(tmp_path / "photos" / f"{number}.png")
    out = tmp_path / "out"
    arguments = ("paper", "localise", str(tmp_path / "photos"), "--collages", "3", "--samples", "100", "--out", str(out))
    with monkeypatch.context() as patch:
        interrupt_after(patch, cocoax.Encoder, "encode", 6)
        said = interruption(*arguments)
    kept = len(list((out / "units").iterdir()))
    assert 0 < kept < 3
    results = "picture" if kept == 1 else "pictures"
    assert said == f"interrupted: kept the results of {kept} {results} in {out}; the same command goes on from there"
    assert invoke(*arguments).exit_code == 0
    assert len(list((out / "units").iterdir())) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Say what is where, in one way"),
        (["--collages", "2", "--masks", "x"], "Say what is where, in one way"),
        (["--collages", "2", "--foil", "none"], "--foil is 'present' or 'all'"),
        (["--collages", "2"], "No pictures below"),
        (["--masks", "nowhere"], "No folder at nowhere"),
        (["--annotations", "nowhere.json"], "No file at nowhere.json"),
    ],
)
def test_localise__bad_input(arguments: list[str], message: str, tmp_path: Path, complaint: Callable[..., str]) -> None:
    (tmp_path / "empty").mkdir()
    assert message in complaint("paper", "localise", str(tmp_path / "empty"), *arguments, "--out", str(tmp_path / "out"))


# --- augmentations ---


def classifier() -> cocoax.Encoder:
    """Return a small encoder with a head for three classes."""
    with torch.random.fork_rng():
        head = nn.Linear(8, 3)
    with torch.no_grad():
        head.weight.copy_(torch.arange(24.0).reshape(3, 8).sin())
    classes = ["apple", "bread", "cheese"]
    return cocoax.Encoder(SmallNet().eval(), cocoax.ImagePreprocess(resize=18, crop=16), head=head, classes=classes)


def test_augmentations__figure_and_table(image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cocoax, "load", lambda _name, device: classifier())
    (tmp_path / "foil").mkdir()
    for number in range(4):
        picture(number).save(tmp_path / "foil" / f"{number}.png")
    folder = tmp_path / "out"
    result = invoke(
        *("paper", "augmentations", image, image, "--foil", str(tmp_path / "foil"), "--most", "3", "--samples", "20"),
        *("--encoder", "mine", "--out", str(folder)),
    )
    assert result.exit_code == 0, result.output
    for number in (1, 2):
        rows = json.loads((folder / f"{number}-photo" / "augmentations.json").read_text())["rows"]
        assert {row["prediction"] for row in rows} <= {"apple", "bread", "cheese"}
        assert len(list((folder / f"{number}-photo").glob("*.safetensors"))) == len(rows) == 8
        assert (folder / f"{number}-photo" / "augmentations.png").stat().st_size > 10_000


def test_augmentations__interrupted(
    image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interruption: Callable[..., str]
) -> None:
    monkeypatch.setattr(cocoax, "load", lambda _name, device: classifier())
    (tmp_path / "foil").mkdir()
    picture(1).save(tmp_path / "foil" / "1.png")
    interrupt_after(monkeypatch, SmallNet, "forward", 6)
    said = interruption("paper", "augmentations", image, "--foil", str(tmp_path / "foil"), "--out", str(tmp_path / "out"))
    assert said == ("interrupted: runs and encoded pictures of the foil are kept; the same command goes on from there")


# --- convert-simclr ---


def test_convert_simclr__says_how_to_load_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simclr_converter, "convert_simclr", lambda checkpoint, out: out / checkpoint.name)
    result = invoke("paper", "convert-simclr", "folder/checkpoint", "out [new]")
    assert result.exit_code == 0, result.output
    path = Path("out [new]", "checkpoint")
    assert result.output == f"wrote {path}; load it with cocoax.load('simclr:{path}')\n"
