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
from contextlib import contextmanager
from typing import Any

from cocoax.encoders import Encoder
from cocoax.survey.builder import Chunk, EntryBuilder, entries_of, load_with_view
from cocoax.survey.storage import IndexRecipe, Manifest, table_of

_PATIENCE = 10.0  # seconds in which a Ray answers
_THREADS = 1  # of a worker
_WorkerSetup = tuple[Encoder | str, str | None, IndexRecipe, Manifest]


class _Worker:
    """An actor: an encoder, loaded once, that makes shards. Errors are part of its answer: Ray would drop them."""

    def __init__(self, setup: bytes, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self.error: Exception | None = None
        try:
            encoder, device, recipe, self.manifest = pickle.loads(setup)
            if isinstance(encoder, str):
                encoder = load_with_view(encoder, device, self.manifest.recipe.get("view") == "whole")
                encoder = encoder if recipe.features is None else encoder.by(recipe.features)
            self.builder = EntryBuilder(encoder, recipe, self.manifest.space)
        except Exception as error:
            self.error = error

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the shards of a batch of chunks: their names, tables, and what went wrong."""
        made = [self._made(pickle.loads(packed)) for packed in batch["chunk"]]
        return {key: [answer[place] for answer in made] for place, key in enumerate(("name", "table", "error"))}

    def _made(self, chunk: Chunk) -> tuple[str, bytes, str]:
        import pyarrow as pa

        try:
            if self.error is not None:
                raise self.error
            file = io.BytesIO()
            table = table_of(list(entries_of(self.builder, chunk.items)), self.manifest.columns)
            with pa.ipc.new_stream(file, table.schema) as stream:
                stream.write_table(table)
            return chunk.name, file.getvalue(), ""
        except Exception as error:
            return chunk.name, b"", f"{type(error).__name__}: {error}"


def build_on_ray(
    chunks: Sequence[Chunk], setup: _WorkerSetup, workers: int, address: str | None
) -> Iterator[tuple[str, Any]]:
    """Yield the name and the table of each shard, as they are done; raise in the end if some could not be made."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ImportError("Workers are processes of Ray: pip install 'cocoax[ray]'.") from error
    import pyarrow as pa

    if not chunks:
        return
    own = not ray.is_initialized()
    if own:
        _connect(ray, workers, address)
    left, wrong = {chunk.name: chunk for chunk in chunks}, ""
    try:
        units = ("CPU", "GPU") if setup[1] == "cuda" else ("CPU",)  # an actor takes one of each
        count = min(_room(ray, unit, workers) for unit in units)
        with _quietly(ray):
            for row in _answers(ray, chunks, setup, count, "GPU" in units):
                if row["error"]:
                    wrong = wrong or str(row["error"])
                    continue
                del left[str(row["name"])]
                yield str(row["name"]), pa.ipc.open_stream(row["table"]).read_all()
    finally:
        if own:
            ray.shutdown()
    if left:
        first = next(iter(left.values()))
        why = wrong or "their workers died again and again, for lack of memory or of an input that crashes the encoder"
        raise RuntimeError(
            f"{len(left)} of {len(chunks)} shards could not be made: {why}. All others are written. The first has the inputs "
            f"from {first.items[0].id!r} to {first.items[-1].id!r}; the same call tries what is missing, and a smaller "
            "shard= finds the one."
        )


def _answers(ray: Any, chunks: Sequence[Chunk], setup: _WorkerSetup, count: int, on_gpus: bool) -> Iterator[dict[str, Any]]:
    """Yield what the workers say about each chunk, as they are done."""
    from ray import cloudpickle

    packed = ray.data.from_items([{"chunk": cloudpickle.dumps(chunk)} for chunk in chunks], override_num_blocks=len(chunks))
    made = packed.map_batches(
        _Worker,
        fn_constructor_args=(cloudpickle.dumps(setup), _THREADS),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=min(count, len(chunks))),
        num_cpus=1,
        num_gpus=1 if on_gpus else 0,
        ray_remote_args_fn=lambda: {"max_task_retries": 3},  # so that what kills its process is not tried for ever
    )
    yield from made.iter_rows()


@contextmanager
def _quietly(ray: Any) -> Iterator[None]:
    """Leave out shards that kill their worker, and report progress here; Ray's settings are restored at the end."""
    context, log = ray.data.DataContext.get_current(), logging.getLogger("ray.data")
    before = context.enable_progress_bars, context.max_errored_blocks, log.level
    context.enable_progress_bars, context.max_errored_blocks = False, -1
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        context.enable_progress_bars, context.max_errored_blocks = before[:2]
        log.setLevel(before[2])


def _connect(ray: Any, workers: int, address: str | None) -> None:
    """Join a cluster, or start one here with a processor for each worker."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "ignore_reinit_error": True}
    if address is None:
        processors = os.cpu_count() or 1
        _check_room(workers, processors, processors)
        try:  # one of its own, whatever else is running here
            ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
        except Exception as error:  # Ray has no better name for it
            raise RuntimeError(
                f"Ray could not be started here ({_reason(error)}); try again, or leave out --workers."
            ) from error
        return
    try:
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if host and port.isdigit():  # Ray itself would try for minutes where nobody listens
            socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
        ray.init(address=address, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        raise ConnectionError(
            f"No Ray answers at {address!r} ({_reason(error)}); start one with 'ray start --head', or use --workers for "
            "processes on this machine."
        ) from error


def _reason(error: Exception) -> str:
    """Return what an error says in the end; Ray's are many lines."""
    return next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)


def _room(ray: Any, unit: str, workers: int) -> int:
    """Return how many workers there is room for, at most as many as are asked for; raise if there is less."""
    processors = float(ray.cluster_resources().get(unit, 0))
    free = _free(ray, unit, workers or int(processors))
    count = workers or max(1, int(free))
    _check_room(count, processors, free, unit)
    return count


def _free(ray: Any, unit: str, wanted: int) -> float:
    """Return how many processors nobody uses; what a build before this one had may take some seconds to come free."""
    free = 0.0
    for _ in range(20):
        free = float(ray.available_resources().get(unit, 0))
        if free >= wanted:
            break
        time.sleep(0.5)
    return free


def _check_room(workers: int, processors: float, free: float, unit: str = "CPU") -> None:
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
