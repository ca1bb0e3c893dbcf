"""The command line: a thin layer, and errors in a sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from typer.testing import CliRunner

import cocoax
from cocoax.commands import cli, demo
from cocoax.studies import NAMES
from tests.commands.test_demo import load_starter
from tests.conftest import images
from tests.studies.tiny import write_checkpoint, write_folders


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(autouse=True)
def plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "200")


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, arguments)


def run_main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """As the ``cocoax`` script does; returns its exit code."""
    monkeypatch.setattr(sys, "argv", ["cocoax", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return int(stopped.value.code or 0)


# --- help and version -------------------------------------------------------------------------------------------------


def test_version__is_printed() -> None:
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.output.strip() == cocoax.__version__


def test_version__of_the_installed_command() -> None:
    command = Path(sys.executable).parent / "cocoax"
    found = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=120, check=False)
    assert (found.returncode, found.stdout.strip(), found.stderr) == (0, cocoax.__version__, "")


def test_help__lists_the_commands() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    assert "What in an input makes its representation similar" in result.output
    for command in ("demo", "cache", "--version"):
        assert command in result.output


def test_help__without_arguments() -> None:
    assert "Usage" in invoke().output


@pytest.mark.parametrize(("command", "options"), [("demo", ["--out", "--samples", "--seed"]), ("cache", ["--clear"])])
def test_help__of_a_command(command: str, options: list[str]) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert all(option in result.output for option in options)


# --- cache ------------------------------------------------------------------------------------------------------------


def test_cache__empty(tmp_path: Path) -> None:
    result = invoke("cache")
    assert result.exit_code == 0
    assert result.output.strip() == f"{tmp_path / 'cache'}: holds 0 chunks of references, 0 runs, 0.0 MB"


def test_cache__filled_and_cleared(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    encoder.reference(images(3))
    encoder.reference(images(2, seed=1))
    assert "holds 2 chunks" in invoke("cache").output
    assert invoke("cache", "--clear").output.startswith(f"{tmp_path / 'cache'}: deleted 2 chunks")
    assert "holds 0 chunks" in invoke("cache").output
    assert cocoax.cache_info().files == 0


def test_cache__folder_with_brackets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich takes what is in brackets for a style, unless it is told not to."""
    monkeypatch.setenv("COCOAX_CACHE", str(tmp_path / "cache [mine]"))
    assert f"{tmp_path / 'cache [mine]'}: holds" in invoke("cache").output


# --- demo -------------------------------------------------------------------------------------------------------------


def test_demo__prints_quadrants_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starter = load_starter()
    monkeypatch.setattr(demo, "load", lambda _name: starter)
    result = invoke("demo", "--samples", "20", "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert "Encoding 20 masked copies" in result.output
    rows = [line for line in result.output.splitlines() if " rather than the other " in line]
    assert len(rows) == 8
    assert all(any(quadrant in row for quadrant in demo.QUADRANTS) for row in rows)
    assert all(("yes" in row) or ("expected" in row) for row in rows)
    for name in ("collage.png", "astronaut.png", "report.html"):
        assert f"wrote {tmp_path / 'out' / name}" in result.output
        assert (tmp_path / "out" / name).stat().st_size > 1000


def test_demo__options_are_passed_on_and_answers_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    attribution = cocoax.Attribution(images(1)[0, 0], 0.25, 0.0, metadata={"target": "a cat rather than [dogs]"})

    def run_demo(folder: Path, samples: int, seed: int) -> tuple[list[demo.Answer], list[Path]]:
        asked.append((folder, samples, seed))
        answers = [demo.Answer(attribution, "top left", found) for found in ("top left", "bottom right")]
        return answers, [folder / "report.html"]

    monkeypatch.setattr(demo, "run_demo", run_demo)
    folder = tmp_path / "out [new]"
    result = invoke("demo", "--out", str(folder), "--samples", "10", "--seed", "7")
    assert result.exit_code == 0, result.output
    assert asked == [(folder, 10, 7)]
    right, wrong = [line for line in result.output.splitlines() if "a cat" in line]
    assert "+0.250" in right
    assert "yes" in right
    assert "bottom right" in wrong
    assert "expected top left" in wrong
    assert "a cat rather than [dogs]" in right
    assert f"wrote {folder / 'report.html'}" in result.output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["demo", "--samples", "5"], "Invalid value for '--samples'"),
        (["demo", "--samples", "many"], "Invalid value for '--samples'"),
        (["demo", "--sample", "20"], "No such option: --sample"),
        (["cache", "--all"], "No such option: --all"),
        (["dance"], "No such command 'dance'"),
    ],
)
def test_wrong_usage__is_told(
    arguments: list[str], complaint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, *arguments) == 2
    shown = capsys.readouterr()
    assert complaint in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ValueError, TypeError, OSError, FileNotFoundError, ImportError, MemoryError])
def test_main__errors_are_one_sentence(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = "corpus has 0 inputs; pass at least one, " + "and so on, " * 30 + "until it is long."

    def fail() -> None:
        raise kind(sentence)

    monkeypatch.setattr(cocoax, "cache_info", fail)
    assert run_main(monkeypatch, "cache") == 1
    shown = capsys.readouterr()
    assert shown.err == f"error: {sentence}\n"
    assert shown.out == ""


@pytest.mark.parametrize(
    "sentence",
    [
        "'representations' must have shape [n, d] with n >= 1. Got [8] instead.",
        "install it with: pip install 'cocoax[starter]'.",
        "No file at /tmp/[/bold]/x.png; check the path.",
    ],
)
def test_main__brackets_in_errors_are_kept(
    sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ValueError(sentence)

    monkeypatch.setattr(cocoax, "cache_info", fail)
    assert run_main(monkeypatch, "cache") == 1
    assert capsys.readouterr().err == f"error: {sentence}\n"


def test_main__runtime_errors_of_an_encoder_are_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise RuntimeError("The encoder 'mine' failed on a batch of 3 inputs: wrong size.")

    monkeypatch.setattr(cocoax, "cache_info", fail)
    assert run_main(monkeypatch, "cache") == 1
    assert capsys.readouterr().err == "error: The encoder 'mine' failed on a batch of 3 inputs: wrong size.\n"


def test_main__bugs_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(cocoax, "cache_info", fail)
    monkeypatch.setattr(sys, "argv", ["cocoax", "cache"])
    hook = sys.excepthook
    try:
        with pytest.raises(ZeroDivisionError, match="a bug"):
            cli.main()
    finally:
        sys.excepthook = hook  # typer puts its own in place


def test_main__good_end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(monkeypatch, "cache") == 0
    assert "holds 0 chunks" in capsys.readouterr().out


# --- train and reproduce ----------------------------------------------------------------------------------------------

SCALE = ["--runs", "1", "--explicands", "1", "--corpus", "4", "--foil", "6", "--samples", "10", "--grid", "3"]


def test_reproduce__lists_every_table_and_figure() -> None:
    result = invoke("reproduce", "--list")
    assert result.exit_code == 0
    for name in NAMES:
        assert name in result.output
    assert invoke("reproduce").output == result.output


def test_reproduce__main_from_folders_and_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cocoax.studies.main.curve_figure", lambda *_arguments: [])  # plots take longer than the study
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
    monkeypatch.setattr(cocoax, "load", lambda name: name)
    monkeypatch.setattr("cocoax.studies.reproduce.run_localisation", lambda *arguments: asked.append(arguments[-1]) or [])
    result = invoke("reproduce", "localisation", "--preset", preset, "--picture", "a.png:cat:dog")
    assert result.exit_code == 0, result.output
    assert [(options.samples, options.estimator) for options in asked] == [expected]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "mian", "--data", "DATA"], "No study is called 'mian'; close are main"),
        (["reproduce", "main"], "Say where the data are: --data FOLDER"),
        (["reproduce", "main", "--data", "DATA", "--preset", "huge"], "'preset' parameter must be one of paper, small"),
        (["reproduce", "main", "--data", "DATA", "--classes", "pink"], "The data have no class 'pink'"),
        (["reproduce", "main", "--data", "nowhere"], "No folder at nowhere"),
        (["train", "linear", "--data", "DATA", "--out", "x.safetensors"], "Say which encoder gets the classifier"),
        (["train", "linear", "--data", "DATA", "--out", "x", "--encoder", "a:b", "--small"], "choose a new network"),
        (["train", "simclr", "--data", "DATA", "--out", "x", "--encoder", "a:b"], "--encoder is for 'linear'"),
        (["train", "classifier", "--data", "DATA", "--out", "x", "--small"], "There is no small recipe for classifier"),
    ],
)
def test_studies__errors_are_sentences(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "DATA" in arguments:
        data = str(write_folders(tmp_path / "data"))
        arguments = [data if argument == "DATA" else argument for argument in arguments]
    monkeypatch.chdir(tmp_path)
    assert run_main(monkeypatch, *arguments) == 1
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err


def test_train__linear(tmp_path: Path) -> None:
    data = write_folders(tmp_path / "data")
    source = write_checkpoint(tmp_path / "net.safetensors", "simclr", classes=None)
    arguments = ["--data", str(data), "--encoder", f"simclr:{source}", "--solver", "logistic"]
    result = invoke("train", "linear", *arguments, "--out", str(tmp_path / "out.safetensors"))
    assert result.exit_code == 0, result.output
    assert "held-out accuracy" in result.output
    assert cocoax.load(f"simclr:{tmp_path / 'out.safetensors'}").classes == ["blue", "green", "red"]


@pytest.mark.slow
def test_reproduce__killed_three_times_equals_uninterrupted(tmp_path: Path) -> None:
    """SIGKILL at random moments; the same command goes on, and the results are the same bit for bit."""
    data, checkpoint = write_folders(tmp_path / "data"), write_checkpoint(tmp_path / "net.safetensors")
    scale = ["--runs", "1", "--explicands", "4", "--corpus", "4", "--foil", "6", "--samples", "10", "--grid", "3"]

    def start(out: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "cocoax.commands.cli", "reproduce", "main", "--data", str(data), *scale]
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


# --- the web page -----------------------------------------------------------------------------------------------------


def test_app__serves_and_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    web = pytest.importorskip("cocoax.app")
    asked: list[Any] = []
    waited: list[str] = []
    blocks = SimpleNamespace(block_thread=lambda: waited.append("until interrupted"))
    page = SimpleNamespace(blocks=blocks, close=lambda: waited.append("closed"))

    def launch(encoder: str, **options: Any) -> tuple[Any, str]:
        asked.append((encoder, options))
        return page, "http://127.0.0.1:7861/"

    monkeypatch.setattr(web, "launch", launch)
    result = invoke("app", "--samples", "200", "--kept", "3", "--no-browser")
    assert result.exit_code == 0, result.output
    assert asked == [("starter", {"samples": 200, "port": None, "kept": 3, "browser": False, "wait": False})]
    assert "http://127.0.0.1:7861/" in result.output
    assert waited == ["until interrupted", "closed"]


@pytest.mark.parametrize("port", ["0", "65536", "-1"])
def test_app__port_out_of_range(port: str) -> None:
    result = invoke("app", "--port", port)
    assert result.exit_code == 2
    assert "Invalid value for '--port'" in result.output
