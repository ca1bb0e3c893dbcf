"""cocoax reproduce: names, scale and errors; killed, it goes on where it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cocoax
from cocoax.paper.studies import NAMES
from cocoax.paper.studies.curves import CurveStudy
from tests.cli.support import interrupt_after, invoke
from tests.paper.studies.tiny import write_checkpoint, write_folders

SCALE = ["--runs", "1", "--explicands", "1", "--corpus", "4", "--foil", "6", "--samples", "10", "--grid", "3"]


def test_reproduce__lists_every_table_and_figure() -> None:
    result = invoke("reproduce", "--list")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines() if not line.startswith(" ")] == list(NAMES)
    assert invoke("reproduce").output == result.output


def test_reproduce__main_from_folders_and_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cocoax.paper.studies.insertion_deletion.curve_figure", lambda *_arguments: [])
    data, checkpoint = write_folders(tmp_path / "data"), write_checkpoint(tmp_path / "net.safetensors")
    arguments = ["--data", str(data), "--encoder", f"cifar-resnet:{checkpoint}", "--out", str(tmp_path / "out"), *SCALE]
    result = invoke("reproduce", "main", *arguments, "--classes", "red,0")
    assert result.exit_code == 0, result.output
    folder = tmp_path / "out" / "cifar-resnet-net" / "main"
    assert f"wrote {folder / 'results.json'}" in result.output
    assert len(list((folder / "units").iterdir())) == 2


@pytest.mark.parametrize(("preset", "expected"), [("paper", (20_000, "paper")), ("small", (1000, "efficient"))])
def test_reproduce__localisation_at_the_scale_of_the_preset(
    monkeypatch: pytest.MonkeyPatch, preset: str, expected: tuple[int, str]
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(cocoax, "load", lambda name, device: name)
    monkeypatch.setattr(
        "cocoax.paper.studies.reproduce.run_localisation", lambda *arguments: asked.append(arguments[-1]) or []
    )
    result = invoke("reproduce", "localisation", "--preset", preset, "--picture", "a.png:cat:dog")
    assert result.exit_code == 0, result.output
    assert [(options.samples, options.estimator) for options in asked] == [expected]


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
    assert message in complaint("reproduce", *arguments)


def test_reproduce__interrupted_says_what_was_kept_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interruption: Callable[..., str]
) -> None:
    monkeypatch.setattr("cocoax.paper.studies.insertion_deletion.curve_figure", lambda *_arguments: [])
    data, checkpoint = write_folders(tmp_path / "data"), write_checkpoint(tmp_path / "net.safetensors")
    arguments = ("reproduce", "main", "--data", str(data), "--encoder", f"cifar-resnet:{checkpoint}", *SCALE)
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
        command = [sys.executable, "-m", "cocoax", "reproduce", "main", "--data", str(data), *scale]
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
