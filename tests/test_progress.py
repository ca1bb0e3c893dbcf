"""Progress: bars on terminals and in notebooks, lines in files, nothing where nobody wants any."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from cocoax import progress
from cocoax.progress import Lines, Silence, bar, duration


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "monotonic", clock)
    monkeypatch.delenv("COCOAX_PROGRESS", raising=False)
    return clock


def at_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard error a terminal; to be called in the test itself, for pytest redirects it between the phases."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.delenv("COCOAX_PROGRESS", raising=False)
    return terminal


def work(clock: Clock, seconds: float, total: int | None, steps: int, **options: Any) -> None:
    """Do ``steps`` steps of work that take so many seconds together."""
    with bar(total, "encoding with starter", **options) as shown:
        for _ in range(steps):
            clock.time += seconds / steps
            shown.update()


# --- lines ------------------------------------------------------------------------------------------------------------


def test_lines__every_quarter_with_the_time_left(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    work(clock, 24, 1000, 1000)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "encoding with starter: 25 % (250 of 1000), 41.7 a second, 18 s left",
        "encoding with starter: 50 % (500 of 1000), 41.7 a second, 12 s left",
        "encoding with starter: 75 % (750 of 1000), 41.7 a second, 6 s left",
        "encoding with starter: 100 % (1000 of 1000), 24 s",
    ]


def test_lines__every_ten_seconds(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    work(clock, 80, 1000, 1000)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 8
    assert lines[0] == "encoding with starter: 12 % (125 of 1000), 12.5 a second, 70 s left"


def test_lines__fewer_where_work_takes_hours(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    work(clock, 5 * 3600, 10_000, 10_000)
    lines = capsys.readouterr().err.splitlines()
    assert 20 < len(lines) < 100
    assert lines[1].endswith("5 h 0 min left")


@pytest.mark.parametrize("total", [100, None])
def test_lines__none_for_short_work(total: int | None, clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    work(clock, 4.9, total, 100)
    assert capsys.readouterr().err == ""


def test_lines__without_a_total(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    work(clock, 25, None, 50)
    assert capsys.readouterr().err.splitlines() == [
        "encoding with starter: 20 done",
        "encoding with starter: 40 done",
        "encoding with starter: 50 done, 25 s",
    ]


def test_lines__what_was_done_before_says_nothing_about_the_pace(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with bar(1000, "study") as shown:
        shown.update(500)  # found on disk
        for _ in range(30):
            clock.time += 1
            shown.update(10)
    assert capsys.readouterr().err.splitlines()[0] == "study: 55 % (550 of 1000), 10 a second, 45 s left"


def test_lines__end_full_even_if_some_was_not_counted(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    work(clock, 6, 102, 100)
    assert capsys.readouterr().err.splitlines()[-1] == "encoding with starter: 100 % (102 of 102), 6 s"


def test_lines__an_error_has_no_last_line(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with bar(100, "study") as shown:
            clock.time += 30
            shown.update(10)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert capsys.readouterr().err.splitlines() == ["study: 10 % (10 of 100), 20 a minute, 4 min left"]


def test_lines__a_total_that_grows_and_a_remark(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with bar(100, "Rise on starter") as shown:
        clock.time += 6
        shown.update(100)
        shown.total = 200
        shown.set_postfix_str("relative error 0.2")
        clock.time += 3
        shown.update(50)
    assert capsys.readouterr().err.splitlines() == [
        "Rise on starter: 75 % (150 of 200), 16.7 a second, 3 s left, relative error 0.2",
        "Rise on starter: 100 % (200 of 200), 9 s, relative error 0.2",
    ]


# --- silence ----------------------------------------------------------------------------------------------------------


def test_silence__progress_false_and_the_variable(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work(clock, 60, 100, 100, progress=False)
    monkeypatch.setenv("COCOAX_PROGRESS", "0")
    work(clock, 60, 100, 100)
    work(clock, 60, 100, 100, progress=True)
    assert capsys.readouterr().err == ""


def test_silence__without_standard_error(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert type(bar(1, "work", progress=True)) is Silence


# --- bars -------------------------------------------------------------------------------------------------------------


def test_bar__on_a_terminal_ends_full(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_terminal(monkeypatch)
    with bar(102, "curves", progress=True) as shown:
        shown.update(100)
    assert "100%" in terminal.getvalue()
    assert "102/102" in terminal.getvalue()


def test_bar__short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_terminal(monkeypatch)
    with bar(10, "short") as shown:
        assert not isinstance(shown, Silence)
        shown.update(5)
    assert terminal.getvalue() == ""


def test_bar__one_that_was_interrupted_does_not_end_full(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_terminal(monkeypatch)

    def fail() -> None:
        with bar(10, "study", progress=True) as shown:
            shown.update(5)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert "0/10" in terminal.getvalue()
    assert "10/10" not in terminal.getvalue()


def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process look like the kernel of a notebook."""
    ipython = ModuleType("IPython")
    shell = SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setattr(ipython, "get_ipython", lambda: shell, raising=False)
    monkeypatch.setitem(sys.modules, "IPython", ipython)


def test_bar__in_a_notebook_without_widgets_is_text_and_no_warning(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel(monkeypatch)
    monkeypatch.setattr(progress, "find_spec", lambda _name: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with bar(10, "work", progress=True) as shown:
            shown.update(10)
    assert "10/10" in capsys.readouterr().err
    assert not isinstance(bar(10, "work"), Lines)


def test_bar__in_a_notebook_with_widgets_is_a_widget(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel(monkeypatch)
    monkeypatch.setattr(progress, "find_spec", lambda _name: object())
    widgets = ModuleType("tqdm.notebook")

    class Widget:
        def __init__(self, **options: Any) -> None:
            self.options = options

    widgets.tqdm = Widget  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tqdm.notebook", widgets)
    shown: Any = bar(10, "work")
    assert isinstance(shown, Widget)
    assert shown.options["total"] == 10


def test_import__warns_about_nothing_and_loads_no_bar() -> None:
    program = "import sys, cocoax.progress; print([name for name in sys.modules if name.startswith(('tqdm', 'torch'))])"
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert (result.stdout.strip(), result.stderr) == ("[]", "")


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "0 s"), (89, "89 s"), (90, "2 min"), (3600, "60 min"), (7500, "2 h 5 min")]
)
def test_duration(seconds: float, words: str) -> None:
    assert duration(seconds) == words
