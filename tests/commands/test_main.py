"""The command line as a whole: help, version, and errors in a sentence."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import cocoax
from cocoax.commands.main import COMMANDS, main
from tests.commands.support import invoke, run_main

NAMES = ["demo", "ask-text", "match", "why", "bench", "app", "cache", "encoders"]
NAMES += ["ask", "localise", "augmentations", "convert-simclr", "train", "reproduce"]

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
    assert [row.split()[0] for row in rows if not row.startswith(" ")] == NAMES


def test_help__without_arguments() -> None:
    assert invoke().output.rstrip() == invoke("--help").output.rstrip()


@pytest.mark.parametrize("command", COMMANDS)
def test_help__of_every_command(command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"Usage: root {command} [OPTIONS]" in result.output


def test_start__imports_nothing_heavy() -> None:
    """The commands themselves load neither torch nor any other room, whatever the package does when it is imported."""
    program = """
import sys, types
package = types.ModuleType("cocoax")
package.__path__ = [sys.argv[1]]
sys.modules["cocoax"] = package
import cocoax.commands.main
print(*sorted({".".join(name.split(".")[:2]) for name in sys.modules if name.split(".")[0] in ("cocoax", "torch", "numpy")}))
"""
    folder = str(Path(cocoax.__file__).parent)
    result = subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True, timeout=120, check=True)
    assert result.stdout.split() == ["cocoax", "cocoax.commands", "cocoax.version"]


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
    assert run_main(monkeypatch, *arguments).code == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("Usage: ")
    assert complaint in shown.err
    assert shown.out == ""


# --- errors -----------------------------------------------------------------------------------------------------------


def fail_with(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
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
    assert "Traceback" not in capsys.readouterr().err


def test_main__good_end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(monkeypatch, "cache").code == 0
    assert "holds 0 chunks" in capsys.readouterr().out
