"""A studio of the small encoder, and a served page; without gradio there is nothing here to test."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("gradio") else ["test_*.py"]


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A page with the small encoder, served by a process of its own."""
    folder = tmp_path_factory.mktemp("server")
    with (folder / "errors").open("w") as errors:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.app.serve"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "COCOAX_PROGRESS": "0", "TMPDIR": str(folder)},
            cwd=Path(__file__).parents[2],
        )
        assert server.stdout is not None
        found = server.stdout.readline().strip()
        assert found.startswith("http://127.0.0.1:"), (folder / "errors").read_text()
        yield found
        server.terminate()
        server.wait(20)
        server.stdout.close()
