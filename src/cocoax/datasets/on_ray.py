"""Building an index on Ray: the same work, by as many processes and machines as there are.

Ray Data hands shards to actors, each of which has loaded the encoder once; what they make comes back here and is written by
one process. An actor that dies is started again and its shard with it.
"""

from __future__ import annotations

import io
import logging
import os
import pickle
import socket
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cocoax.datasets.entries import Maker, Making
from cocoax.datasets.shards import Manifest, table_of
from cocoax.encoders import Encoder, load

if TYPE_CHECKING:
    from cocoax.datasets.building import Chunk

PATIENCE = 10.0  # seconds in which a Ray answers
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # of HTTP/2, which Ray speaks
Recipe = tuple[Encoder | str, str | None, Making, Manifest]


class Worker:
    """An actor: an encoder, loaded once, that makes shards."""

    def __init__(self, recipe: bytes, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        encoder, device, making, manifest = pickle.loads(recipe)
        self.columns = manifest.columns
        self.maker = Maker(load(encoder, device=device) if isinstance(encoder, str) else encoder, making, manifest.space)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the shards of a batch of chunks."""
        import pyarrow as pa

        from cocoax.datasets.building import entries_of

        names, tables = [], []
        for packed in batch["chunk"]:
            chunk = pickle.loads(packed)
            file = io.BytesIO()
            table = table_of(list(entries_of(self.maker, chunk.items)), self.columns)
            with pa.ipc.new_stream(file, table.schema) as stream:
                stream.write_table(table)
            names.append(chunk.name)
            tables.append(file.getvalue())
        return {"name": names, "table": tables}


def made_on_ray(chunks: Sequence[Chunk], recipe: Recipe, workers: int, address: str | None) -> Iterator[tuple[str, Any]]:
    """Yield the name and the table of each shard, as they are done; raise in the end if some could not be made."""
    try:
        import ray
        import ray.data
        from ray import cloudpickle
    except ImportError as error:
        raise ImportError("Workers are processes of Ray: pip install 'cocoax[ray]'.") from error
    import pyarrow as pa

    if not chunks:
        return
    unit = "GPU" if (recipe[1] or "").startswith("cuda") else "CPU"
    own = not ray.is_initialized()
    if own:
        _connect(ray, workers, address)
    try:
        count = workers or max(1, int(ray.cluster_resources().get(unit, 0)))
        check_room(count, float(ray.cluster_resources().get(unit, 0)), _free(ray, unit, count), unit)
        logging.getLogger("ray.data").setLevel(logging.ERROR)  # how far it is, is told here
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.max_errored_blocks = -1  # a shard that kills its worker is left out, and the rest goes on
        packed = [{"chunk": cloudpickle.dumps(chunk)} for chunk in chunks]
        done = ray.data.from_items(packed, override_num_blocks=len(packed)).map_batches(
            Worker,
            fn_constructor_args=(cloudpickle.dumps(recipe), 1),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=min(count, len(chunks))),
            num_cpus=1,
            num_gpus=1 if unit == "GPU" else 0,
            ray_remote_args_fn=lambda: {"max_task_retries": 3},  # so that what kills its process is not tried for ever
        )
        left = {chunk.name: chunk for chunk in chunks}
        for row in done.iter_rows():
            del left[str(row["name"])]
            yield str(row["name"]), pa.ipc.open_stream(row["table"]).read_all()
    finally:
        if own:
            ray.shutdown()
    if left:
        first = next(iter(left.values()))
        raise RuntimeError(
            f"{len(left)} of {len(chunks)} shards could not be made: their workers died again and again, for lack of memory "
            f"or of an input that crashes the encoder. All others are written. The first has the inputs from "
            f"{first.items[0].id!r} to {first.items[-1].id!r}; the same call tries what is missing, and a smaller shard= "
            "finds the one."
        )


def _connect(ray: Any, workers: int, address: str | None) -> None:
    """Join a cluster, or start one here with a processor for each worker."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "ignore_reinit_error": True}
    if address is None:
        processors = os.cpu_count() or 1
        check_room(workers, processors, processors)
        try:  # one of its own, whatever else is running here
            ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
        except Exception as error:  # Ray has no better name for it
            raise RuntimeError(
                f"Ray could not be started here ({_reason(error)}); try again, or leave out --workers."
            ) from error
        return
    try:
        _knock(address)
        ray.init(address=address, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        raise ConnectionError(
            f"No Ray answers at {address!r} ({_reason(error)}); start one with 'ray start --head', or use --workers for "
            "processes on this machine."
        ) from error


def _reason(error: Exception) -> str:
    """Return what an error says in the end; Ray's are many lines."""
    return next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)


def _knock(address: str) -> None:
    """Raise if nobody listens at HOST:PORT, or says nothing; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as line:
            line.sendall(GREETING)
            line.recv(1)


def _free(ray: Any, unit: str, wanted: int) -> float:
    """Return how many processors nobody uses; what a build before this one had may take some seconds to come free."""
    free = 0.0
    for _ in range(20):
        free = float(ray.available_resources().get(unit, 0))
        if free >= wanted:
            break
        time.sleep(0.5)
    return free


def check_room(workers: int, processors: float, free: float, unit: str = "CPU") -> None:
    """Raise if there are fewer processors than workers, or fewer free ones: Ray would wait for more of them for ever."""
    if workers > processors:
        raise ValueError(
            f"There are {processors:g} {unit}s for {workers} workers of one each, and Ray would wait for ever; ask for at "
            f"most {int(processors)} workers."
        )
    if workers > free:
        raise ValueError(
            f"Only {free:g} of {processors:g} {unit}s of this Ray are free for {workers} workers of one each, and it would "
            "wait until others end; ask for fewer workers, or later."
        )
