"""Progress of long work: a bar on a terminal and in notebooks, a line now and then where the output goes into a file."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from time import monotonic
from types import TracebackType
from typing import Any, Protocol, Self

SILENT_SECONDS = 5.0  # work that is done by then needs no lines
SECONDS_BETWEEN_LINES = 10.0


class Bar(Protocol):
    """What is told how far the work is; used as ``with bar(...) as shown: ... shown.update()``."""

    total: Any

    def update(self, n: int = 1) -> object:
        """Tell that ``n`` more are done."""

    def set_postfix_str(self, s: str = "") -> None:
        """Say something beside the numbers."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> object: ...


def bar(total: int | None, description: str, progress: bool | None = None) -> Bar:
    """Return what shows how far the work is.

    On a terminal and in a notebook that is a bar, which appears after a second. Where standard error goes into a file or a
    pipe, it is a line now and then, for work of more than five seconds. ``progress=True`` shows the bar at once, wherever
    the output goes, ``False`` shows nothing; ``COCOAX_PROGRESS=0`` silences all.
    """
    if progress is False or os.environ.get("COCOAX_PROGRESS") == "0" or sys.stderr is None:
        return Silence(total)
    notebook = _in_notebook()
    if progress is None and not notebook and not sys.stderr.isatty():
        return Lines(total, description)
    made: Bar = _bar_class(notebook)(
        total=total, desc=description, delay=0.0 if progress else 1.0, leave=False, dynamic_ncols=True
    )
    return made


def _in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config


def _bar_class(notebook: bool) -> Any:
    """Return the class of bars: tqdm's widget in a notebook that can show it, else its text; both end full."""
    if notebook and find_spec("ipywidgets") is not None:  # tqdm.auto would warn on import where it is missing
        from tqdm.notebook import tqdm
    else:
        from tqdm import tqdm

    class FullBar(tqdm):  # type: ignore[misc]
        def __exit__(self, kind: type[BaseException] | None, *details: Any) -> None:
            if kind is None and self.total and self.n < self.total:
                self.update(self.total - self.n)
            if kind is None and not self.disable and self.last_print_t >= self.start_t + self.delay:
                self.refresh()  # what was shown last may be a tenth of a second old
            super().__exit__(kind, *details)

    return FullBar


class Silence:
    """Progress that nobody wants to see."""

    def __init__(self, total: int | None) -> None:
        self.total: Any = total
        self.n = 0

    def update(self, n: int = 1) -> None:
        """Count ``n`` more."""
        self.n += n

    def set_postfix_str(self, s: str = "") -> None:
        """Say nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass


class Lines(Silence):
    """Progress as lines, for a file that is read later: ``encoding: 25 % (250 of 1000), 63 a second, 12 s left``.

    There is none within the first five seconds; then one every quarter of the work or every ten seconds, and fewer where the
    work takes minutes; and one at the end, if there were others.
    """

    def __init__(self, total: int | None, description: str) -> None:
        super().__init__(total)
        self.description = description
        self.began = monotonic()
        self._spoke = self.began  # when the last line was written
        self._quarters = 0
        self._since = (self.began, 0)  # the pace is that since then
        self._remark = ""

    def update(self, n: int = 1) -> None:
        """Count ``n`` more, and write a line if one is due."""
        super().update(n)
        now = monotonic()
        elapsed = now - self.began
        if elapsed < 1.0:
            self._since = (now, self.n)  # what is done at once was done before, and says nothing about the pace
        if elapsed < SILENT_SECONDS or (self.total and self.n >= self.total):
            return
        quarters = int(4 * self.n / self.total) if self.total else 0
        if quarters > self._quarters or now - self._spoke >= max(SECONDS_BETWEEN_LINES, elapsed / 10):
            self._quarters, self._spoke = quarters, now
            self._write(self._left(now))

    def set_postfix_str(self, s: str = "") -> None:
        """Say something at the end of the next lines."""
        self._remark = s

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        now = monotonic()
        if kind is None and now - self.began >= SILENT_SECONDS:
            self.n = self.total or self.n
            self._write(duration(now - self.began))

    def _left(self, now: float) -> str:
        """Return the pace, and how much time the rest will take, in words; empty if that cannot be known."""
        start, done = self._since
        if not self.total or self.n <= done:
            return ""
        each = (now - start) / (self.n - done)
        pace = f"{1 / each:.3g} a second" if each < 1 else f"{60 / each:.3g} a minute"
        return f"{pace}, {duration(each * (self.total - self.n))} left"

    def _write(self, time: str) -> None:
        far = f"{100 * self.n // self.total} % ({self.n} of {self.total})" if self.total else f"{self.n} done"
        print(f"{self.description}: {', '.join(filter(None, (far, time, self._remark)))}", file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Return a time in words: ``12 s``, ``3 min``, ``2 h 5 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
