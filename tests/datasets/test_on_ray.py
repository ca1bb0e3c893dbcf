from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import cocoax
from cocoax.datasets import build
from cocoax.datasets.on_ray import check_room
from cocoax.datasets.shards import shard_files
from tests.datasets import photos

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
    "ignore::ResourceWarning",
    "ignore::UserWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)  # of Ray

METHOD = cocoax.Rise(samples=40, grid=4)
RAY = str(Path(sys.executable).with_name("ray"))
HERE = str(Path(__file__).parents[2])


def contents(index: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in shard_files(index)}


def test_check_room__fewer_processors_than_workers() -> None:
    with pytest.raises(ValueError, match=r"There are 2 processors for 5 workers.*at most 2 workers"):
        check_room(5, 2)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start a real cluster with two processors."""
    monkeypatch.setenv("PYTHONPATH", f"{HERE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    started = [RAY, "start", "--head", "--num-cpus=2", "--port=0", "--include-dashboard=false", "--disable-usage-stats"]
    subprocess.run(started, check=True, capture_output=True)
    yield "auto"
    subprocess.run([RAY, "stop", "--force"], check=False, capture_output=True)


@pytest.mark.slow
def test_build__on_a_cluster_is_the_same_to_the_byte(cluster: str, tmp_path: Path) -> None:
    folder = photos.write(tmp_path / "photos")
    (folder / "dawn" / "bad.png").write_bytes(b"no picture")
    build(photos.encoder(), folder, tmp_path / "here", METHOD, shard=3)
    index = build(photos.encoder(), folder, tmp_path / "there", METHOD, shard=3, workers=2, ray=cluster)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert list(index.failed) == ["dawn/bad.png"]


@pytest.mark.slow
def test_build__a_worker_that_is_killed_is_started_again(cluster: str, tmp_path: Path) -> None:
    folder = photos.write(tmp_path / "photos", 30)
    build(photos.encoder(), folder, tmp_path / "here", METHOD, shard=3)
    script = (
        "import cocoax; from cocoax.datasets import build; from tests.datasets import photos\n"
        f"build(photos.encoder(), {str(folder)!r}, {str(tmp_path / 'there')!r}, cocoax.Rise(samples=40, grid=4), shard=3, "
        "workers=2, ray='auto')"
    )
    building = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE)
    killed = 0
    until = time.monotonic() + 240
    while building.poll() is None and time.monotonic() < until:
        if len(shard_files(tmp_path / "there")) >= 2 and killed < 1:
            found = subprocess.run(
                ["pgrep", "-f", "ray::MapWorker"], capture_output=True, text=True, check=False
            ).stdout.split()
            for process in found[:1]:
                os.kill(int(process), 9)
                killed += 1
        time.sleep(0.05)
    _, errors = building.communicate(timeout=10)
    assert building.returncode == 0, errors.decode()[-2000:]
    assert killed == 1
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


@pytest.mark.slow
def test_build__no_ray_at_that_address(tmp_path: Path) -> None:
    folder = photos.write(tmp_path / "photos", 1)
    with pytest.raises(ConnectionError, match=r"No Ray answers at '127\.0\.0\.1:1'"):
        build(photos.encoder(), folder, tmp_path / "index", METHOD, ray="127.0.0.1:1")
