"""One progress bar for all long work: it appears when work is long, on a terminal, and can be silenced."""

from __future__ import annotations

import os

from tqdm.auto import tqdm


def bar(total: int | None, description: str, progress: bool | None = None) -> tqdm:
    """A progress bar that shows after a second on a terminal.

    ``progress=True`` shows it at once wherever the output goes, ``False`` never; ``COCOAX_PROGRESS=0`` silences all.
    """
    if os.environ.get("COCOAX_PROGRESS") == "0":
        progress = False
    return tqdm(
        total=total,
        desc=description,
        disable=None if progress is None else not progress,
        delay=1.0 if progress is None else 0.0,
        leave=False,
        dynamic_ncols=True,
    )
