from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pyarrow as pa
import pytest
import torch
from PIL import Image

import cocoax
from cocoax.survey import build
from cocoax.survey import ray_workers as on_ray
from cocoax.survey.builder import Chunk
from cocoax.survey.items import Item
from cocoax.survey.ray_workers import _check_room
from cocoax.survey.storage import IndexRecipe, Manifest, plain_recipe, shard_files, shard_name, write_shard
from tests.survey import photos

ray = pytest.importorskip("ray")
cloudpickle = pytest.importorskip("ray.cloudpickle")
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


def test_check_room__fewer_processors_than_workers() -> None:
    _check_room(2, 2, 2)
    with pytest.raises(ValueError, match=r"There are 2 CPUs for 5 workers.*at most 2 workers"):
        _check_room(5, 2, 2)
    with pytest.raises(ValueError, match=r"There are 0 GPUs for 1 workers"):
        _check_room(1, 0, 0, "GPU")


def test_check_room__processors_that_others_use(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"Only 1 of 4 CPUs of this Ray are free for 2 workers.*fewer workers, or later"):
        _check_room(2, 4, 1)
    monkeypatch.setattr(on_ray.time, "sleep", lambda _seconds: None)
    shown = iter([1.0, 1.0, 3.0])  # what an earlier build had comes free
    cluster = SimpleNamespace(available_resources=lambda: {"CPU": next(shown)})
    assert on_ray._free(cluster, "CPU", 2) == 3


def test_build__more_workers_than_this_machine_has(tmp_path: Path) -> None:
    folder = photos.write(tmp_path / "photos", 1)
    with pytest.raises(ValueError, match=r"CPUs for 1000 workers of one each, and Ray would wait for ever"):
        build(photos.encoder(), folder, tmp_path / "index", METHOD, workers=1000)


def test_build__no_ray_at_that_address(tmp_path: Path) -> None:
    folder = photos.write(tmp_path / "photos", 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"  # nobody listens there
        with pytest.raises(ConnectionError, match=rf"No Ray answers at '{address}'.*start one with 'ray start --head'"):
            build(photos.encoder(), folder, tmp_path / "index", METHOD, ray=address)


def test_room__as_many_as_are_free_unless_a_number_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_ray.time, "sleep", lambda _seconds: None)

    def resources(total: dict[str, float], free: dict[str, float]) -> SimpleNamespace:
        return SimpleNamespace(cluster_resources=lambda: total, available_resources=lambda: free)

    busy = resources({"CPU": 4, "GPU": 2}, {"CPU": 3, "GPU": 2})
    assert on_ray._room(busy, "CPU", 0) == 3
    assert on_ray._room(busy, "CPU", 2) == 2
    with pytest.raises(ValueError, match="Only 3 of 4 CPUs"):
        on_ray._room(busy, "CPU", 4)
    with pytest.raises(ValueError, match="Only 0 of 4 CPUs"):  # however many GPUs are
        on_ray._room(resources({"CPU": 4, "GPU": 2}, {"GPU": 2}), "CPU", 0)


def test_quietly__afterwards_ray_data_is_as_it_was() -> None:
    import ray.data

    context = ray.data.DataContext.get_current()
    before = context.max_errored_blocks, context.enable_progress_bars
    with suppress(KeyError), on_ray._quietly(ray):
        assert context.max_errored_blocks == -1
        raise KeyError
    assert (context.max_errored_blocks, context.enable_progress_bars) == before


def recipe(encoder: cocoax.Encoder, space: str | None = None) -> bytes:
    recipe = IndexRecipe(METHOD)
    manifest = Manifest("net", space or encoder.space, plain_recipe(recipe), "image", "", {})
    return cloudpickle.dumps((encoder, "cpu", recipe, manifest))


def answers(worker: on_ray._Worker, items: list[Item]) -> dict[str, Any]:
    return worker({"chunk": [cloudpickle.dumps(Chunk(shard_name(0, [item.id for item in items]), items))]})


def test_worker__a_convolutional_network_gives_the_same_bytes_as_the_plain_loop(tmp_path: Path) -> None:
    """On as many threads: some networks round the last bit otherwise on several."""
    with torch.random.fork_rng():
        first, last = torch.nn.Conv2d(3, 16, 3), torch.nn.Conv2d(16, 8, 3)
    net = torch.nn.Sequential(first, torch.nn.BatchNorm2d(16), torch.nn.ReLU(), last)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).sin().view(parameter.shape))
    encoder = cocoax.Encoder(net.eval(), photos.encoder().inputs.preprocess, pooling="mean", name="net")  # type: ignore[attr-defined]
    images = [photos.pixels("dawn", seed) for seed in range(40)]
    threads = torch.get_num_threads()
    torch.set_num_threads(on_ray._THREADS)
    build(encoder, images, tmp_path / "here", METHOD)
    answer = answers(
        on_ray._Worker(recipe(encoder), on_ray._THREADS), [Item(str(n), image) for n, image in enumerate(images)]
    )
    torch.set_num_threads(threads)
    assert answer["error"] == [""]
    table = pa.ipc.open_stream(answer["table"][0]).read_all()
    path = write_shard(tmp_path / answer["name"][0], table, Manifest.load(tmp_path / "here"))
    assert photos.contents(tmp_path / "here") == {path.name: path.read_bytes()}


def test_worker__what_goes_wrong_is_told_in_its_answer() -> None:
    threads = torch.get_num_threads()
    encoder = photos.encoder()
    failed = answers(on_ray._Worker(recipe(encoder, "another"), threads), [Item("0", photos.pixels("dawn", 1))])
    assert failed["table"] == [b""]
    assert "is another one here than where the index was begun" in failed["error"][0]


def test_made_on_ray__errors_of_workers_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_ray, "_connect", lambda *_: None)
    monkeypatch.setattr(on_ray, "_room", lambda *_: 1)
    monkeypatch.setattr(
        on_ray, "_answers", lambda _ray, chunks, *_: [{"name": chunks[0].name, "error": "OSError: no weights"}]
    )
    folder = photos.write(tmp_path / "photos", 1)
    with pytest.raises(RuntimeError, match="1 of 1 shards could not be made: OSError: no weights"):
        build(photos.encoder(), folder, tmp_path / "index", METHOD, workers=1)


@dataclass
class Cluster:
    """A Ray that is running: where, and the process that started it."""

    address: str
    pid: int

    def processes(self) -> list[psutil.Process]:
        """Return all of its processes but the first."""
        return psutil.Process(self.pid).children(recursive=True)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Start a real cluster with two processors; end it and what it started, and nothing else."""
    monkeypatch.setenv("PYTHONPATH", f"{HERE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # whether or not someone keeps a token here
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--num-cpus=2", f"--port={port}", "--include-dashboard=false", "--disable-usage-stats"]
    head = subprocess.Popen(
        [RAY, "start", "--head", "--block", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    started = Cluster(f"127.0.0.1:{port}", head.pid)
    until = time.monotonic() + 60
    while time.monotonic() < until and not any(process.name() == "raylet" for process in started.processes()):
        time.sleep(0.2)
    yield started
    left = [*started.processes(), psutil.Process(head.pid)]
    head.terminate()  # so that it takes its own files away
    with suppress(subprocess.TimeoutExpired):
        head.wait(timeout=30)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    head.wait(timeout=30)


@pytest.mark.slow
def test_build__on_a_cluster_is_the_same_to_the_byte(cluster: Cluster, tmp_path: Path) -> None:
    folder = photos.write(tmp_path / "photos")
    (folder / "dawn" / "bad.png").write_bytes(b"no picture")
    build(photos.encoder(), folder, tmp_path / "here", METHOD, shard=3)
    index = build(photos.encoder(), folder, tmp_path / "there", METHOD, shard=3, workers=2, ray=cluster.address)
    assert photos.contents(tmp_path / "there") == photos.contents(tmp_path / "here")
    assert list(index.failed) == ["dawn/bad.png"]
    with pytest.raises(ValueError, match="There are 2 CPUs for 3 workers"):
        build(photos.encoder(), folder, tmp_path / "more", METHOD, workers=3, ray=cluster.address)


@pytest.mark.slow
def test_build__a_worker_that_is_killed_is_started_again(cluster: Cluster, tmp_path: Path) -> None:
    folder = photos.write(tmp_path / "photos", 30)
    build(photos.encoder(), folder, tmp_path / "here", METHOD, shard=3)
    script = (
        "import cocoax; from cocoax.survey import build; from tests.survey import photos\n"
        f"build(photos.encoder(), {str(folder)!r}, {str(tmp_path / 'there')!r}, cocoax.Rise(samples=40, grid=4), shard=3, "
        f"workers=2, ray={cluster.address!r})"
    )
    building = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE)
    killed = 0
    until = time.monotonic() + 240
    while building.poll() is None and time.monotonic() < until:
        if len(shard_files(tmp_path / "there")) >= 2 and not killed:
            workers = [process for process in cluster.processes() if "MapWorker" in " ".join(process.cmdline())]
            if workers:
                workers[0].kill()
                killed += 1
        time.sleep(0.05)
    _, errors = building.communicate(timeout=10)
    assert building.returncode == 0, errors.decode()[-2000:]
    assert killed == 1
    assert photos.contents(tmp_path / "there") == photos.contents(tmp_path / "here")


class Fatal(photos.Halves):
    """An encoder that takes its process with it when it sees a picture that is all black."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if bool((images.flatten(1).amax(1) == 0).any()):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(images)


@pytest.mark.slow
def test_build__an_input_that_kills_its_worker_leaves_the_rest(cluster: Cluster, tmp_path: Path) -> None:
    folder = photos.write(tmp_path / "photos", 6)
    Image.new("RGB", (16, 16)).save(folder / "dawn" / "3.png")
    encoder = photos.encoder(Fatal())
    with pytest.raises(RuntimeError, match=r"1 of 4 shards could not be made.*from 'dawn/3.png' to 'dawn/5.png'"):
        build(encoder, folder, tmp_path / "index", METHOD, shard=3, workers=2, ray=cluster.address)
    assert len(shard_files(tmp_path / "index")) == 3
    Image.fromarray(photos.pixels("dawn", 3)).save(folder / "dawn" / "3.png")
    assert len(build(encoder, folder, tmp_path / "index", METHOD, shard=3)) == 12
