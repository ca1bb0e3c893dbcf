"""Building an index: every input of a data set explained once, a shard at a time, so that nothing is done twice."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from cocoax.attribution.removal import RemovalMethod
from cocoax.data.labelled import Split
from cocoax.datasets.entries import Entry, Maker, Making, Ready, content_digest, linear_similarity
from cocoax.datasets.index import Index
from cocoax.datasets.items import Item, Reading, column_types, open_items
from cocoax.datasets.shards import (
    Manifest,
    plain_making,
    read_shard,
    shard_files,
    shard_name,
    table_of,
    with_columns,
    write_shard,
)
from cocoax.encoders import Encoder, load
from cocoax.progress import Bar, bar
from cocoax.storage import alone_in

GROUP = 32  # inputs that are read while the encoder is at work, and whose ends are encoded together
SHARD = 256
LAID_OUT = 20_000  # inputs whose neighbours are looked for at once, in seconds; of more they are when they are asked for


class Options(TypedDict, total=False):
    """Options of :func:`build`.

    Attributes:
        labels: one for each input, or a dict of columns; folders and tables bring their own.
        column, id_column: of a table: the inputs, and what tells them apart.
        split: of a data set that has several parts.
        similarity: the one whose questions can be asked: cosine (default) or dot.
        grid: cells that the pixels of pictures are pooled to; by default those of the masks.
        shard: inputs in a file; what is being worked on when the power fails is lost.
        workers: processes of a local Ray; 0 (default) works in this one.
        ray: the address of a running Ray, or "auto"; ``workers`` of it are used, by default all.
        device: where an encoder that is given by name runs, here or in each worker.
        retry: try inputs again that failed.
        progress: show how far it is (None: when it takes long).

    """

    labels: Any
    column: str | None
    id_column: str | None
    split: Split
    similarity: str
    grid: int | tuple[int, int] | None
    shard: int
    workers: int
    ray: str | None
    device: str | None
    retry: bool
    progress: bool | None


@dataclass(frozen=True, eq=False)
class Chunk:
    """Inputs that go into one shard."""

    name: str
    items: Sequence[Item]


def build(
    encoder: Encoder | str, inputs: Any, out: str | Path, method: RemovalMethod | None = None, **options: Unpack[Options]
) -> Index:
    """Explain every input of a data set once, so that questions to all of them can be asked afterwards; return the index.

    What is there already is not done again: a build that was stopped goes on, a file that has changed is done anew, one that
    was added is added, one that is gone is dropped. An input that cannot be explained is an entry with its error.

    Args:
        encoder: what explains them, or what :func:`cocoax.load` takes.
        inputs: a folder, a table (Parquet, Arrow, CSV, JSON lines, a data frame), a data set, or any sequence of inputs.
        out: the folder of the index.
        method: what explains an input: a removal method, by default ``Rise(samples=200)``.
        options: see :class:`Options`.

    """
    loaded = load(encoder, device=options.get("device")) if isinstance(encoder, str) else encoder
    folder, size = Path(out), options.get("shard", SHARD)
    if size < 1:
        raise ValueError(f"The 'shard' parameter must be at least 1. Got {size} instead.")
    linear_similarity(options.get("similarity", "cosine"))
    making = Making(method or Making().method, options.get("similarity", "cosine"), options.get("grid"))
    reading = Reading(options.get("column"), options.get("id_column"), options.get("split", "train"))
    items = open_items(inputs, loaded.inputs, reading, options.get("labels"))
    manifest = Manifest(
        encoder if isinstance(encoder, str) else loaded.name,
        loaded.space,
        plain_making(making, loaded.inputs.view_settings),
        loaded.inputs.noun,
        str(Path(inputs).resolve()) if isinstance(inputs, str | Path) else "",
        column_types(items),
    )
    with _alone(folder):
        _check_folder(folder, manifest)
        missing = _missing(loaded, items, folder, manifest, options.get("retry", False))
        manifest.save(folder)
        _make(encoder, _chunks(missing, size), loaded, making, manifest, folder / "shards", options)
    index = Index.open(folder)
    index.check_any()
    if len(index) <= LAID_OUT:
        index.positions  # noqa: B018 (which keeps them in the folder)
    return index


def _make(
    encoder: Encoder | str,
    chunks: Sequence[Chunk],
    loaded: Encoder,
    making: Making,
    manifest: Manifest,
    folder: Path,
    options: Options,
) -> None:
    """Make what is missing, here or on Ray."""
    total = sum(len(chunk.items) for chunk in chunks)
    with bar(total, f"indexing with {loaded.name}", options.get("progress")) as shown:
        tally = Tally(shown, total)
        workers, address = options.get("workers", 0), options.get("ray")
        if workers or address:
            from cocoax.datasets.on_ray import made_on_ray

            for name, table in made_on_ray(chunks, (encoder, options.get("device"), making, manifest), workers, address):
                store(folder / name, table, manifest, tally.left)
                tally.count(table["error"].to_pylist())
        else:
            make_here(Maker(loaded, making, manifest.space), chunks, manifest, folder, tally)


def _check_folder(folder: Path, manifest: Manifest) -> None:
    """Raise if the folder holds something else than an index that was made in this way; a killed build's leftovers go."""
    if any(path.suffix != ".part" for path in folder.iterdir()):
        Manifest.load(folder).check(manifest)
    for part in folder.rglob("*.part"):
        part.unlink(missing_ok=True)


def _missing(
    encoder: Encoder, items: Sequence[Item], folder: Path, manifest: Manifest, retry: bool
) -> list[tuple[int, Item]]:
    """Return the inputs that have no entry yet, with their numbers.

    Entries of inputs that are gone or have changed are dropped; what is known about the others is brought up to date.
    """
    by_id = {item.id: item for item in items}
    done: set[str] = set()
    kept: dict[Path, list[int]] = {}
    for path in shard_files(folder):
        table, kept[path] = read_shard(path, ["id", "digest", "error"], None, manifest), []
        for row, (name, content, error) in enumerate(zip(*(column.to_pylist() for column in table), strict=True)):
            again = name in done or (retry and error is not None)
            if name in by_id and not again and content_digest(encoder, by_id[name]) == content:
                kept[path].append(row)
                done.add(name)
    if kept and not done and not retry:
        raise ValueError(
            f"None of the inputs of the index in {folder} is among these: it is of other data. Write to another folder."
        )
    for path, rows in kept.items():
        table = read_shard(path)
        current = table.take(np.array(rows, int))
        current = with_columns(current, [by_id[name] for name in current["id"].to_pylist()], manifest.columns)
        if len(rows) == len(table) and current.equals(table):
            continue
        if rows:  # another file, since an index that is open would find other rows in this one
            number = int(path.name.split("-")[0])
            write_shard(path.with_name(shard_name(number, current["id"].to_pylist())), current, manifest)
        if len(rows) < len(table):
            path.unlink()
    return [(number, item) for number, item in enumerate(items) if item.id not in done]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a folder, so that two builds do not write the same entries."""
    try:
        with alone_in(folder, wait=False):
            yield
    except BlockingIOError:
        raise ValueError(f"Another build is at work in {folder}; wait until it is done.") from None


def _chunks(missing: Sequence[tuple[int, Item]], size: int) -> list[Chunk]:
    parts = [missing[start : start + size] for start in range(0, len(missing), size)]
    return [
        Chunk(shard_name(part[0][0], [item.id for _, item in part]), [item for _, item in part]) for part in parts if part
    ]


class Tally:
    """Tells how many inputs are done, and how many of them failed."""

    def __init__(self, shown: Bar, left: int) -> None:
        self.shown = shown
        self.left = left
        self.failed = 0

    def count(self, errors: Sequence[str | None]) -> None:
        """Count inputs, by what went wrong with each; None is fine."""
        self.shown.update(len(errors))
        self.left -= len(errors)
        self.failed += sum(error is not None for error in errors)
        if self.failed:
            self.shown.set_postfix_str(f"{self.failed} failed")


@contextmanager
def helper() -> Iterator[ThreadPoolExecutor]:
    """Give a thread that works beside the encoder.

    Its own torch work is done by it alone: more threads than processors make all of them sleep between any two steps, which
    costs the encoder 15 % of its speed.
    """
    import torch

    def alone() -> None:
        torch.get_num_threads()  # a new thread takes the common number when it first asks, and its own after that
        torch.set_num_threads(1)

    count = torch.get_num_threads()
    with ThreadPoolExecutor(1, initializer=alone) as pool:
        pool.submit(int).result()  # so that it has begun
        torch.set_num_threads(count)  # for this thread and those that begin later
        yield pool


def store(path: Path, table: Any, manifest: Manifest, left: int) -> Path:
    """Write a shard; on a full disk, raise saying what is needed for it and for all ``left`` inputs that follow."""
    try:
        return write_shard(path, table, manifest)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        needed = table.nbytes / len(table) * left
        raise OSError(
            errno.ENOSPC,
            f"The disk is full: about {needed / 1e6:.1f} MB are needed for the {left} inputs that are missing. What was "
            "written before is kept; make room, and the same call goes on",
            str(path.parent),
        ) from error


def make_here(maker: Maker, chunks: Sequence[Chunk], manifest: Manifest, folder: Path, tally: Tally) -> None:
    """Make and write shards in this process; files are read and written while the encoder is at work."""
    with helper() as pool:
        writing: Future[Path] | None = None
        for chunk in chunks:
            entries, left = [], tally.left
            for entry in entries_of(maker, chunk.items):
                entries.append(entry)
                tally.count([entry.error])
            if writing is not None:
                writing.result()  # what went wrong is told here
            writing = pool.submit(store, folder / chunk.name, table_of(entries, manifest.columns), manifest, left)
        if writing is not None:
            writing.result()


def entries_of(maker: Maker, items: Sequence[Item]) -> Iterator[Entry]:
    """Yield the entry of each input; the next ones are read meanwhile."""
    maker.begin()
    groups = [items[start : start + GROUP] for start in range(0, len(items), GROUP)]
    with helper() as pool:
        ahead: deque[Future[list[Ready]]] = deque()
        for group in groups:
            ahead.append(pool.submit(maker.read_all, group))
            if len(ahead) > 1:
                yield from maker.make(ahead.popleft().result())
        while ahead:
            yield from maker.make(ahead.popleft().result())
