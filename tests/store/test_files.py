"""Files are written whole or not at all, by one process or by several; errors name them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch

from cocoax.store import atomic_write, folder_lock, write_figure, write_safetensors, write_text
from cocoax.store.files import as_path


def test_write_text__is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_text(tmp_path / "new" / "table.md", "first")
    assert path.read_text() == "first"

    def killed(*_paths: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_text(path, "second")
    assert path.read_text() == "first"


def test_atomic_write__error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = write_text(tmp_path / "table.md", "first")

    def interrupted() -> None:
        with atomic_write(path) as part:
            part.write_text("sec")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [file.name for file in tmp_path.iterdir()] == ["table.md"]
    assert path.read_text() == "first"


def test_atomic_write__two_writers_do_not_share_a_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "table.md"
    with atomic_write(path) as first, atomic_write(path) as second:
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"  # the last to finish
    assert [file.name for file in tmp_path.iterdir()] == ["table.md"]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_files__the_umask_is_respected(mask: int, tmp_path: Path) -> None:
    """A saved run contains the photo."""
    before = os.umask(mask)
    try:
        files = [
            write_text(tmp_path / "a.md", "text"),
            write_safetensors(tmp_path / "a.safetensors", {"a": torch.zeros(1)}, "test", {}),
            write_figure(tmp_path / "a.png", plt.figure(figsize=(1, 1))),
        ]
    finally:
        os.umask(before)
        plt.close()
    assert [file.stat().st_mode & 0o777 for file in files] == [0o666 & ~mask] * 3


def test_atomic_write__full_disk_names_the_file(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match=r"No space left on device: '.*table\.md'") as raised,
        atomic_write(tmp_path / "table.md"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert raised.value.errno == errno.ENOSPC
    with pytest.raises(FileNotFoundError, match="elsewhere"), atomic_write(tmp_path / "table.md"):
        (tmp_path / "elsewhere").read_bytes()  # what is wrong with another file is not said about this one
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", [".png", ".pdf"])
def test_write_figure__the_same_figure_is_the_same_file(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = []
    for name, then in (("first", "1000000000"), ("second", "1500000000")):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", then)  # what matplotlib takes for the time
        figure, ax = plt.subplots(figsize=(1, 1))
        ax.plot([0, 1], label="a line")
        files.append(write_figure(tmp_path / f"{name}{ending}", figure).read_bytes())
        plt.close(figure)
    assert files[0] == files[1]


TOGETHER = """
import sys, time
from pathlib import Path
from cocoax.store import folder_lock

folder, name = Path(sys.argv[1]), sys.argv[2]
for _ in range(20):
    with folder_lock(folder):
        count = int((folder / "count").read_text())
        time.sleep(0.001)
        (folder / "count").write_text(str(count + 1))
"""


def test_folder_lock__processes_wait_for_each_other(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    processes = [subprocess.Popen([sys.executable, "-c", TOGETHER, str(tmp_path), str(name)]) for name in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert (tmp_path / "count").read_text() == "60"


HOLDING = """
import sys, time
from pathlib import Path
from cocoax.store import folder_lock

with folder_lock(Path(sys.argv[1])):
    print("in", flush=True)
    time.sleep(600)
"""


def test_folder_lock__a_killed_process_keeps_nobody_waiting(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDING, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        process.kill()
        process.wait()
        begun = time.monotonic()
        with folder_lock(tmp_path):
            assert time.monotonic() - begun < 60


def test_as_path__an_empty_name_is_shown() -> None:
    with pytest.raises(TypeError, match=r"that names a file\. Got '' instead\.$"):
        as_path("")


def test_as_path__the_folder_one_is_in() -> None:
    assert as_path(".") == Path(".")
