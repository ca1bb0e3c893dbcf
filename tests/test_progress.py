"""Progress: bars on terminals and in notebooks, lines in files, nothing where nobody wants any."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings
from types import ModuleType, SimpleNamespace

import pytest

from cocoax import progress
from cocoax.progress import bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COCOAX_PROGRESS", raising=False)


def test_log__a_line_for_each_state_of_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    with bar(100, "encoding") as shown:
        shown.start_t -= 20  # as if it had begun 20 seconds ago
        shown.last_print_t -= 20
        shown.update(25)
        shown.set_postfix_str("relative error 0.2")
    lines = log.getvalue().splitlines()
    assert lines[0].startswith("encoding: 25 % (25 of 100), ")
    assert not any("\r" in line for line in lines)


@pytest.mark.parametrize("total", [100, None])
def test_log__nothing_for_short_work(total: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    with bar(total, "encoding") as shown:
        for _ in range(100):
            shown.update()
    assert log.getvalue() == ""


def test_silence__progress_false_the_variable_and_no_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bar(1, "work", progress=False).disable
    monkeypatch.setenv("COCOAX_PROGRESS", "0")
    assert bar(1, "work", progress=True).disable
    monkeypatch.delenv("COCOAX_PROGRESS")
    monkeypatch.setattr(sys, "stderr", None)
    assert bar(1, "work", progress=True).disable


def test_terminal__a_bar_at_once_only_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with bar(10, "short") as shown:
        shown.update(5)
    assert terminal.getvalue() == ""
    with bar(10, "curves", progress=True) as shown:
        shown.update(5)
    assert "0/10" in terminal.getvalue()


def test_notebook__without_widgets_is_text_and_no_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ipython = ModuleType("IPython")
    monkeypatch.setattr(ipython, "get_ipython", lambda: SimpleNamespace(config={"IPKernelApp": {}}), raising=False)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr(progress, "find_spec", lambda _name: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with bar(10, "work", progress=True) as shown:
            shown.update(10)
    assert "work" in capsys.readouterr().err


def test_import__warns_about_nothing_and_loads_no_bar() -> None:
    program = "import sys, cocoax.progress; print([name for name in sys.modules if name.startswith(('tqdm', 'torch'))])"
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert (result.stdout.strip(), result.stderr) == ("[]", "")
