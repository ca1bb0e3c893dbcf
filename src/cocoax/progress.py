"""Progress of long work: tqdm's bar on a terminal and in notebooks, a line now and then where the output goes into a file."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import Any

Bar = Any  # a tqdm: update(n), total, set_postfix_str(text), and a context manager


class _LogLines:
    """Standard error as a log file: every state of a bar is a line of its own."""

    def write(self, text: str) -> None:
        """Write a line, without the carriage return that would overwrite the one before."""
        if line := text.strip("\r\n "):
            print(line, file=sys.stderr)

    def flush(self) -> None:
        """Write what is buffered."""
        sys.stderr.flush()


def bar(total: int | None, description: str, progress: bool | None = None) -> Bar:
    """Return a progress bar.

    On a terminal and in a notebook it appears after a second. Where standard error goes into a file or a pipe, there is a
    line every ten seconds, for work of more than five. ``progress=True`` shows the bar at once, wherever the output goes,
    ``False`` shows nothing; ``COCOAX_PROGRESS=0`` silences all.
    """
    notebook = "IPKernelApp" in getattr(getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)(), "config", {})
    if notebook and find_spec("ipywidgets") is not None:  # tqdm.auto would warn on import where it is missing
        from tqdm.notebook import tqdm
    else:
        from tqdm import tqdm

    options: dict[str, Any] = {"total": total, "desc": description, "leave": False}
    if progress is False or os.environ.get("COCOAX_PROGRESS") == "0" or sys.stderr is None:
        return tqdm(**options, disable=True)
    if progress or notebook or sys.stderr.isatty():
        return tqdm(**options, delay=0.0 if progress else 1.0, dynamic_ncols=True)
    return tqdm(
        **options,
        file=_LogLines(),
        delay=5.0,
        mininterval=10.0,
        bar_format="{desc}: {percentage:.0f} % ({n_fmt} of {total_fmt}), {rate_fmt}, {remaining} left{postfix}"
        if total
        else None,
    )
