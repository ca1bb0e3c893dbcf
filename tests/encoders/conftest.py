"""Fixtures of encoders."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.encoders.streams import write_pictures


@pytest.fixture
def four_files(tmp_path: Path) -> list[Path]:
    """Four files, of which number 2 is no picture."""
    paths = write_pictures(tmp_path / "four", ["a.png", "b.png", "bad.png", "d.png"])
    paths[2].write_bytes(b"no picture")
    return paths
