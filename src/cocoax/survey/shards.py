"""Shards: the Parquet files that an index consists of."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocoax.inputs import Display
from cocoax.inputs.display import load_display, save_display
from cocoax.store import atomic_write, digest
from cocoax.survey.entries import Entry
from cocoax.survey.items import Item, Scalar
from cocoax.survey.manifest import Manifest

ROWS = 32  # in a group of rows of a shard, which is read as a whole
BLOCK = 2048  # vectors that are multiplied at a time
MEAN = b"cocoax_mean_field"
ORIGIN = b"cocoax_origin"
HEAD = b"cocoax_head"  # a digest of those two and of the columns: pages have checksums, but what describes them has none
FULL = (errno.ENOSPC, errno.EDQUOT)


class UnfinishedError(ValueError):
    """Raised where files of an index do not fit its manifest, since a build was interrupted between the two."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(
            f"The last build of the index {folder} was interrupted ({why}); run the same call again, which goes on with it."
        )


def shard_name(number: int, ids: Sequence[str]) -> str:
    """Return the name of a shard: the place of its first input among all, and a digest of which they are."""
    return f"{number:08d}-{digest(list(ids))[:8]}.parquet"


def own_types() -> dict[str, Any]:
    """Return the columns of a shard beside those that the data bring, and their types."""
    import pyarrow as pa

    numbers = pa.list_(pa.float32())
    return {
        "id": pa.string(),
        "source": pa.string(),
        "digest": pa.string(),
        "error": pa.string(),
        "representation": numbers,
        "emptied": numbers,
        "noise": numbers,
        "shape": pa.list_(pa.int32()),
        "scale": pa.float32(),
        "field": pa.large_binary(),
        "shown": pa.large_binary(),
    }


def stored_name(column: str) -> str:
    """Return what a column that the data bring is called in a shard: otherwise than those of the shard itself."""
    return f"column_{column}" if column in own_types() or column.startswith("column_") else column


def schema_of(columns: Mapping[str, str]) -> Any:
    """Return the columns of a shard."""
    import pyarrow as pa

    types = {"bool": "bool_", "double": "float64"}
    brought = {stored_name(name): getattr(pa, types.get(kind, kind))() for name, kind in columns.items()}
    return pa.schema({**own_types(), **brought})


def table_of(entries: Sequence[Entry], columns: Mapping[str, str]) -> Any:
    """Return entries as an Arrow table."""
    import pyarrow as pa

    return pa.Table.from_pylist([_row(entry, columns) for entry in entries], schema=schema_of(columns))


def known_table(items: Sequence[Item], columns: Mapping[str, str]) -> Any:
    """Return what is known about inputs, as columns of a shard."""
    import pyarrow as pa

    schema = schema_of(columns)
    names = ["source", *(name for name in schema.names if name not in own_types())]
    rows = [{"source": item.source, **_known(item.columns, columns)} for item in items]
    return pa.Table.from_pylist(rows, schema=pa.schema([schema.field(name) for name in names]))


def with_known(table: Any, known: Any) -> Any:
    """Return a table of entries with what is known about their inputs now in place of what was known before."""
    for name in table.column_names:
        if name not in own_types():
            table = table.drop_columns([name])
    table = table.set_column(table.column_names.index("source"), "source", known["source"])
    for name in known.column_names[1:]:
        table = table.append_column(known.schema.field(name), known[name])
    return table.combine_chunks()


def _known(values: Mapping[str, Scalar], columns: Mapping[str, str]) -> dict[str, Scalar]:
    """Return what is known about one input, by the names and in the types of a shard's columns."""
    row: dict[str, Scalar] = {}
    for name, kind in columns.items():
        value = values.get(name)
        if value is not None:
            value = {"string": str, "double": float}.get(kind, lambda same: same)(value)
        row[stored_name(name)] = value
    return row


def _row(entry: Entry, columns: Mapping[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(entry, name) for name in ("id", "source", "digest", "error")}
    row |= _known(entry.columns, columns)
    if entry.field is None or entry.representation is None or entry.emptied is None or entry.noise is None:
        return row
    scale = max(float(entry.field.abs().max()), 1e-30) if entry.field.numel() else 1.0
    row |= {name: getattr(entry, name).flatten().numpy() for name in ("representation", "emptied", "noise")}
    row |= {"shape": list(entry.field.shape[:-1]), "scale": scale}
    # Relative to its largest number, so that half precision loses 0.05 % of a number at most, or next to nothing.
    row["field"] = (entry.field / scale).half().contiguous().numpy().tobytes()
    row["shown"] = None if entry.display is None else pack_display(entry.display)
    return row


def write_shard(path: Path, table: Any, manifest: Manifest) -> Path:
    """Write a shard, whole or not at all; every page of it has a checksum.

    Rows are in groups of a few, so that single ones can be read; the mean of all fields is in the file's head.
    """
    import pyarrow.parquet as pq

    head = {MEAN: _mean_field(table), ORIGIN: manifest.origin}
    table = table.replace_schema_metadata({**head, HEAD: _head_digest(table.schema, head)})
    kinds = {name: "zstd" if name in ("shown", "id", "digest", "error") else "none" for name in table.column_names}
    with atomic_write(path) as part:
        pq.write_table(
            table,
            part,
            compression=kinds,
            use_dictionary=False,
            write_statistics=False,
            row_group_size=ROWS,
            data_page_size=2**26,
            write_page_checksum=True,
        )
    return path


def _head_digest(schema: Any, head: Mapping[bytes, bytes]) -> bytes:
    columns = [
        (field.name, str(field.type).partition("<")[0]) for field in schema
    ]  # Parquet has other words for what is in lists
    return digest(columns, head.get(MEAN), head.get(ORIGIN)).encode()


def store(path: Path, table: Any, manifest: Manifest, left: int) -> Path:
    """Write a shard; on a full disk, raise saying what is needed for it and for all ``left`` inputs that follow."""
    try:
        return write_shard(path, table, manifest)
    except OSError as error:
        if error.errno not in FULL:
            raise
        needed = table.nbytes / len(table) * left
        raise OSError(
            error.errno,
            f"The disk is full: about {needed / 1e6:.1f} MB are needed for the {left} inputs that are missing. What was "
            "written before is kept; make room, and the same call goes on",
            str(path.parent),
        ) from error


def _mean_field(table: Any) -> bytes:
    """Return the sum of all fields of a table and their number, as float32; nothing where their shapes differ."""
    shapes = {tuple(shape) for shape in table["shape"].to_pylist() if shape is not None}
    if len(shapes) != 1:
        return b""
    scales = torch.tensor([scale for scale in table["scale"].to_pylist() if scale is not None])
    fields = field_values(table["field"].drop_null()).view(len(scales), -1)
    total = torch.zeros(fields.shape[1], dtype=torch.float64)
    for part, scale in zip(torch.split(fields, ROWS), torch.split(scales, ROWS), strict=True):
        total += (part.double() * scale[:, None]).sum(0)
    return np.array([len(scales), *total.tolist()], np.float32).tobytes()


def mean_field(paths: Sequence[Path], cells: tuple[int, ...]) -> tuple[int, Tensor]:
    """Return how many fields some shards have and their mean, ``[*cells, d]``, from their heads alone."""
    heads = []
    for path in paths:
        with _opened(path) as file:
            heads.append(np.frombuffer(file.schema_arrow.metadata[MEAN], np.float32).astype(np.float64))
    together = torch.from_numpy(np.sum([head for head in heads if len(head)], 0))
    return int(together[0]), (together[1:] / together[0]).float().view(*cells, -1)


@contextmanager
def _opened(path: Path, manifest: Manifest | None = None) -> Iterator[Any]:
    """Open a shard; raise if it is gone or damaged, or made in another way than the ``manifest`` of its index says."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, memory_map=True, page_checksum_verification=True) as file:
            head = file.schema_arrow.metadata or {}
            if manifest is not None and head.get(ORIGIN) != manifest.origin:
                raise ValueError("it was made by another encoder or method")
            if head.get(HEAD) != _head_digest(file.schema_arrow, head):
                raise ValueError("its head is damaged")
            yield file
    except UnfinishedError:
        raise
    except FileNotFoundError as error:
        raise ValueError(
            f"The shard {path} is gone: a build has changed the index since it was opened. Open it again."
        ) from error
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"The shard {path} is damaged, or none of this index ({str(error).splitlines()[0]}); delete it and build the "
            "index again, which makes what is missing."
        ) from error


def read_shard(
    path: Path, columns: Sequence[str] | None = None, rows: np.ndarray | None = None, manifest: Manifest | None = None
) -> Any:
    """Return columns of a shard as an Arrow table, or of some rows (in order) of it.

    Raise if the file is damaged, or if it was made in another way than the ``manifest`` of its index says.
    """
    with _opened(path, manifest) as file:
        missing = sorted({*(columns or ())} - {*file.schema_arrow.names})
        if missing:
            raise UnfinishedError(path.parent.parent, f"{path.name} has no column {missing[0]!r}")
        if rows is None:
            return file.read(columns=columns)
        groups = np.unique(rows // ROWS)
        table = file.read_row_groups(groups.tolist(), columns=columns)
        if np.array_equal(rows, np.arange(len(table))):
            return table
        starts = np.searchsorted(groups, rows // ROWS) * ROWS
        return table.take(starts + rows % ROWS)


def read_known(path: Path) -> Any:
    """Return what a shard knows about its inputs, as :func:`known_table` has it, after their ids."""
    with _opened(path) as file:
        brought = [name for name in file.schema_arrow.names if name not in own_types()]
        return file.read(columns=["id", "source", *brought]).replace_schema_metadata(None)


def field_values(column: Any) -> Tensor:
    """Return the numbers of a ``field`` column, all rows after one another, ``[rows x cells x d]``, without a copy."""
    chunk = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    chunk = chunk.chunk(0) if hasattr(chunk, "num_chunks") else chunk
    _, offsets, data = chunk.buffers()
    ends = np.frombuffer(offsets, np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
    numbers = np.frombuffer(data, np.float16, count=int(ends[-1] - ends[0]) // 2, offset=int(ends[0]))
    return torch.from_numpy(numbers) if numbers.flags.writeable else _shared(numbers)


def field_products(flat: Tensor, sizes: Tensor, directions: Tensor) -> Tensor:
    """Return fields times directions, one number per cell; fields are in half precision and stand one after another.

    A block at a time, in single precision: it stays in the processor's cache.
    """
    vectors = flat.view(-1, directions.shape[1])
    products = torch.empty(len(vectors))
    block = torch.empty(min(BLOCK, len(vectors)), vectors.shape[1])
    rows = None if len(directions) == 1 else torch.repeat_interleave(torch.arange(len(directions)), sizes)
    for start in range(0, len(vectors), BLOCK):
        part = block[: len(vectors) - start].copy_(vectors[start : start + BLOCK])
        own = products[start : start + BLOCK]
        if rows is None:
            torch.mv(part, directions[0], out=own)
        else:
            torch.sum(part.mul_(directions[rows[start : start + BLOCK]]), 1, out=own)
    return products


def _shared(numbers: np.ndarray) -> Tensor:
    """Return a tensor on memory that nobody writes to; torch would warn about it."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(numbers)


def pack_display(display: Display) -> bytes:
    """Return a display as bytes."""
    from safetensors.torch import save

    tensors, header = save_display(display)
    return bytes(save(tensors, {"display": json.dumps(header)}))


def unpack_display(packed: bytes) -> Display:
    """Return the display that :func:`pack_display` was given."""
    from safetensors.torch import load

    size = int.from_bytes(packed[:8], "little")
    header = json.loads(packed[8 : 8 + size])["__metadata__"]
    return load_display(load(packed), json.loads(header["display"]))
