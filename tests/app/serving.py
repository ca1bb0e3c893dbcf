"""A page with the small encoder, served by a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Give the process and its address; its temporary files lie in ``folder``, and so does what it says of errors.

    SIGTERM ends it; that it leaves nothing behind then is part of the test.
    """
    with (folder / "errors").open("w") as errors:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.app.serve", *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "COCOAX_PROGRESS": "0", "TMPDIR": str(folder)},
            cwd=Path(__file__).parents[2],
        )
        assert server.stdout is not None
        try:
            address = server.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:"), (folder / "errors").read_text()
            yield server, address
        finally:
            server.terminate()
            code = server.wait(20)
            server.stdout.close()
    assert code in (128 + signal.SIGTERM, 128 + signal.SIGHUP), (folder / "errors").read_text()
    assert list(folder.glob("cocoax-app-*")) == []
    assert "Traceback" not in (folder / "errors").read_text()
