"""Files are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cocoax.storage import whole_file, write_safetensors, write_text


def test_write_text__is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_text(tmp_path / "new" / "table.md", "first")
    assert path.read_text() == "first"

    def killed(*_paths: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_text(path, "second")
    assert path.read_text() == "first"


def test_whole_file__error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = write_text(tmp_path / "table.md", "first")

    def interrupted() -> None:
        with whole_file(path) as part:
            part.write_text("sec")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [file.name for file in tmp_path.iterdir()] == ["table.md"]
    assert path.read_text() == "first"


def test_whole_file__two_writers_do_not_share_a_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "table.md"
    with whole_file(path) as first, whole_file(path) as second:
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"  # the last to finish
    assert [file.name for file in tmp_path.iterdir()] == ["table.md"]


def test_write_safetensors__others_can_read_it(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "tensors", {"a": torch.zeros(1)}, "test", {})
    assert path.stat().st_mode & 0o777 == 0o644


def test_write_safetensors__a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        write_safetensors(tmp_path / "file" / "x.safetensors", {"a": torch.zeros(1)}, "test", {})
