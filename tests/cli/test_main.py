"""The command line as a whole: help, version, and errors in a sentence."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import cocoax
from cocoax.cli.main import COMMANDS, EXAMPLES, PAPER_COMMANDS, help_of, load_command, main
from tests.cli.support import invoke, picture, run_main

EVERY = [*COMMANDS, *(f"paper {name}" for name in PAPER_COMMANDS)]

# --- help and version -------------------------------------------------------------------------------------------------


def test_version__is_printed() -> None:
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.output.strip() == cocoax.__version__


@pytest.mark.parametrize(
    "command", [[str(Path(sys.executable).parent / "cocoax")], [sys.executable, "-m", "cocoax"]], ids=["script", "module"]
)
def test_version__of_the_installed_command(command: list[str]) -> None:
    result = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stdout.strip(), result.stderr) == (0, cocoax.__version__, "")


def test_help__lists_the_commands_in_their_order() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    assert "What in an input makes its representation similar" in result.output
    options, commands = result.output.split("─ Commands ─")
    assert "--version" in options
    rows = [line.removeprefix("│ ") for line in commands.splitlines() if line.startswith("│ ")]
    assert [row.split()[0] for row in rows if not row.startswith(" ")] == list(COMMANDS)


@pytest.mark.parametrize("command", [None, *EVERY])
@pytest.mark.parametrize("width", [80, 140])
def test_help__has_examples_and_no_types_of_python(command: str | None, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERMINAL_WIDTH", str(width))
    output = invoke(*(command or "").split(), "--help").output
    examples = EXAMPLES if command is None else examples_of_command(command)
    assert command == "paper" or 2 <= len(examples) <= 4
    for example in examples:
        assert f" {example} ".rstrip() in output.replace("\n", " \n")
    assert not re.search(r"<\w+(\[\w+\])?( range)?>", output)
    assert max(map(len, output.splitlines())) <= width


@pytest.mark.parametrize("command", [name for name in EVERY if name != "paper"])
def test_help__examples_parse_and_many_options_are_in_panels(command: str) -> None:
    for example in examples_of_command(command):
        program, *arguments = shlex.split(example.partition(" < ")[0])
        words = len(command.split())
        assert (program, " ".join(arguments[:words])) == ("cocoax", command)
        assert not command_of(command).make_context(command, arguments[words:]).args
    parameters = [parameter for parameter in command_of(command).params if parameter.param_type_name == "option"]
    loose = [parameter.name for parameter in parameters if parameter.rich_help_panel is None]
    assert len(parameters) <= 6 or len(loose) <= 2


def place_of(command: str) -> str:
    return {**COMMANDS, **PAPER_COMMANDS}[command.split()[-1]][0]


def examples_of_command(command: str) -> list[str]:
    module, function = place_of(command).split(":")
    return [] if command == "paper" else help_of(getattr(import_module(f"cocoax.cli.{module}"), function))[1]


def command_of(command: str) -> Any:
    return load_command(command, place_of(command))


def test_help__without_arguments() -> None:
    assert invoke().output.rstrip() == invoke("--help").output.rstrip()


@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["--help"], ["encoders", "--json"], ["cache"], ["paper", "--help"], ["paper", "reproduce", "--list"]],
)
def test_start__imports_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    program = """
import atexit, sys
heavy = ("torch", "numpy", "scipy", "sklearn", "matplotlib", "transformers", "PIL", "tqdm")
atexit.register(lambda: print(*(name for name in heavy if name in sys.modules), file=sys.stderr))
sys.argv[0] = "cocoax"
from cocoax.cli.main import main
main()
"""
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=120, check=True
    )
    assert result.stdout
    assert result.stderr.split() == []


def test_start__help_of_every_command_imports_nothing_heavy() -> None:
    program = """
import sys
from typer.testing import CliRunner
from cocoax.cli.main import app
for command in sys.argv[1:]:
    assert CliRunner().invoke(app, [*command.split(), "--help"]).exit_code == 0
    assert not {"torch", "numpy", "matplotlib"} & {*sys.modules}, command
"""
    subprocess.run([sys.executable, "-c", program, *EVERY], timeout=120, check=True)


def test_start__help_imports_no_command() -> None:
    program = """
import sys
from typer.testing import CliRunner
from cocoax.cli.main import app
assert CliRunner().invoke(app, ["--help"]).exit_code == 0
print(*sorted(name for name in sys.modules if name.startswith("cocoax.cli.")))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert result.stdout.split() == ["cocoax.cli.main", "cocoax.cli.terminal"]


def test_ask__an_index_has_a_command_of_its_own(tmp_path: Path, complaint: Callable[..., str]) -> None:
    (tmp_path / "shards").mkdir()
    (tmp_path / "manifest.json").write_text("{}")
    assert f"cocoax survey {tmp_path}" in complaint("ask", str(tmp_path), "--like", "a cat")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["demo", "--samples", "5"], "Invalid value for '--samples'"),
        (["demo", "--samples", "many"], "Invalid value for '--samples'"),
        (["demo", "--sample", "20"], "No such option: --sample"),
        (["cache", "--all"], "No such option: --all"),
        (["dance"], "No such command 'dance'"),
        (["paper", "dance"], "No such command 'dance'"),
        (["reprodoce"], "No such command"),
    ],
)
def test_wrong_usage__is_told(
    arguments: list[str], complaint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, *arguments).code == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("Usage: ")
    assert complaint in shown.err
    assert shown.out == ""


# --- errors -----------------------------------------------------------------------------------------------------------


def fail_with(error: BaseException) -> Callable[..., None]:
    def fail(**_options: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("kind", [ValueError, TypeError, OSError, FileNotFoundError, ImportError, MemoryError, RuntimeError])
def test_main__errors_are_one_sentence(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch, complaint: Callable[..., str]
) -> None:
    sentence = "corpus has 0 inputs; pass at least one, " + "and so on, " * 30 + "until it is long."
    monkeypatch.setattr(cocoax, "cache_info", fail_with(kind(sentence)))
    assert complaint("cache") == sentence


@pytest.mark.parametrize(
    "sentence",
    [
        "'representations' must have shape [n, d] with n >= 1. Got [8] instead.",
        "install it with: pip install 'cocoax[starter]'.",
        "No file at /tmp/[/bold]/x.png; check the path.",
        "A picture is FILE:P:Q, as in photo.jpg:cat:dog.",
    ],
)
def test_main__brackets_and_colons_in_errors_are_kept(
    sentence: str, monkeypatch: pytest.MonkeyPatch, complaint: Callable[..., str]
) -> None:
    monkeypatch.setattr(cocoax, "cache_info", fail_with(ValueError(sentence)))
    assert complaint("cache") == sentence


def test_main__bugs_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cocoax, "cache_info", fail_with(ZeroDivisionError("a bug")))
    monkeypatch.setattr(sys, "argv", ["cocoax", "cache"])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # typer puts its own in place
    with pytest.raises(ZeroDivisionError, match="a bug"):
        main()


def test_main__interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cocoax, "cache_info", fail_with(KeyboardInterrupt()))
    assert run_main(monkeypatch, "cache").code == 130
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "interrupted: nothing was kept\n")


def test_main__interrupted_by_a_real_signal(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a run of a real process: a sentence, exit code 130, and the samples are there."""
    picture(1, 40).save(tmp_path / "photo.png")
    picture(2, 40).save(tmp_path / "other.png")
    command = [sys.executable, "-m", "cocoax", "ask", "photo.png", "--like-image", "other.png", "--samples", "1000000"]
    environment = {**os.environ, "COCOAX_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*command, "--encoder", "simclr-cifar10-small", "--out", "out"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # it is ignored where the tests run in background
    )
    begun = time.monotonic()
    while not list((tmp_path / "cache").glob("references/*.safetensors")) and time.monotonic() - begun < 100:
        time.sleep(0.05)
    time.sleep(2)  # so that it is in the middle of the run
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=100)
    finally:
        process.kill()
    assert (process.returncode, out) == (130, "")
    assert re.fullmatch(r"interrupted: (kept \d+ of 1000000 samples; the same|nothing was kept but) .*\n", err)


def test_main__good_end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(monkeypatch, "cache").code == 0
    assert "holds 0 files" in capsys.readouterr().out
