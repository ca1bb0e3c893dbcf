"""Building an index: every input of a data set explained once, a shard at a time, so that nothing is done twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch

from cocoax.checks import check_count, check_kind
from cocoax.data.labelled import Split
from cocoax.encoders import Encoder, load
from cocoax.encoders.forward import rounding_of
from cocoax.methods.method import check_encoder
from cocoax.methods.removal import RemovalMethod
from cocoax.progress import Bar, bar
from cocoax.store import UnitFolder, as_path
from cocoax.survey.entries import Entry, Maker, Making, Ready, linear_similarity
from cocoax.survey.index import Index
from cocoax.survey.items import Item, Reading, column_types, open_items
from cocoax.survey.storage import Manifest, index_folder, makers, missing_items, plain_making, shard_name, store, table_of

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
        drop: let go of entries whose inputs are gone, or others where inputs are numbered, even if those are most of them.
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
    drop: bool
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
    was added is added, one that is gone is dropped; if those are most, only with ``drop=True``. An input that cannot be
    explained is an entry with its error.

    Args:
        encoder: what explains them, or what :func:`cocoax.load` takes.
        inputs: a folder, a table (Parquet, Arrow, CSV, JSON lines, a data frame), a data set, or any sequence of inputs.
        out: the folder of the index.
        method: what explains an input: a removal method, by default ``Rise(samples=200)``.
        options: see :class:`Options`.

    """
    loaded = load(encoder, device=options.get("device")) if isinstance(encoder, str) else encoder
    check_encoder(loaded)
    if method is not None:
        check_kind("The method", method, RemovalMethod, "must be one that removes parts, such as cocoax.Rise()")
    folder, size = as_path(out), options.get("shard", SHARD)
    check_count("shard", size, 1)
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
        rounding_of(loaded),
        makers(1 if options.get("workers") or options.get("ray") else torch.get_num_threads()),
    )
    place = index_folder(folder)
    _check_folder(place, manifest)  # before anything is written
    with place.lock():
        earlier = _check_folder(place, manifest)
        place.remove_leftovers()
        again = {name: bool(options.get(name, False)) for name in ("retry", "drop")}
        missing = missing_items(loaded, items, folder, manifest, **again, progress=options.get("progress"))
        manifest.after(earlier, bool(missing)).save(folder)
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
            from cocoax.survey.ray_workers import made_on_ray

            for name, table in made_on_ray(chunks, (encoder, loaded.device.type, making, manifest), workers, address):
                store(folder / name, table, manifest, tally.left)
                tally.count(table["error"].to_pylist())
        else:
            make_here(Maker(loaded, making, manifest.space), chunks, manifest, folder, tally)


def _check_folder(folder: UnitFolder, manifest: Manifest) -> Manifest | None:
    """Return the manifest that is there; raise if the folder holds something else than an index that was made in this way."""
    if not (folder.folder / folder.head).exists():
        if folder.foreign_files() or folder.files():
            raise ValueError(f"{folder.folder} is not empty and no index; choose an empty folder, or a new one.")
        return None
    earlier = Manifest.load(folder.folder)
    earlier.check(manifest)
    return earlier


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

    def alone() -> None:
        torch.get_num_threads()  # a new thread takes the common number when it first asks, and its own after that
        torch.set_num_threads(1)

    count = torch.get_num_threads()
    with ThreadPoolExecutor(1, initializer=alone) as pool:
        pool.submit(int).result()  # so that it has begun
        torch.set_num_threads(count)  # for this thread and those that begin later
        yield pool


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
