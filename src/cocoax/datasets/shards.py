"""Shards: the Parquet files that an index consists of, and the manifest beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocoax.attribution.plain import to_plain
from cocoax.datasets.entries import Entry, Making
from cocoax.datasets.items import Item, Scalar
from cocoax.inputs import Display
from cocoax.inputs.display import load_display, save_display
from cocoax.inputs.kind import plural
from cocoax.storage import digest, sealed, to_json, unsealed, whole_file, write_text
from cocoax.version import __version__

MANIFEST = "manifest.json"
ROWS = 32  # in a group of rows of a shard, which is read as a whole
MEAN = b"cocoax_mean_field"
ORIGIN = b"cocoax_origin"
FORMAT = 1
WORDS = {  # of what is noted only where there is something to note: what it is called, and what else it is
    "view": ("view of its inputs", "what the encoder itself sees"),
    "tensors": ("content of the method's tensors", "not noted"),
}
OWN = ("id", "digest", "error", "representation", "emptied", "noise", "shape", "scale", "field", "shown")


@dataclass(frozen=True)
class Manifest:
    """What all entries of an index have in common.

    Attributes:
        encoder: what :func:`cocoax.load` takes, or the name of an encoder that was made by hand.
        space: identifies its representation space.
        making: method, similarity and grid, as plain values; the view, where it is not the encoder's own, and a digest of
            the method's tensors, where it has any.
        noun: what one input is called.
        source: where the inputs come from.
        columns: the types of what is known about inputs, by name.
        version: of Cocoax.
        format: of the files.

    """

    encoder: str
    space: str
    making: Mapping[str, Any]
    noun: str
    source: str
    columns: Mapping[str, str]
    version: str = __version__
    format: int = FORMAT

    def save(self, folder: Path) -> None:
        """Write it."""
        write_text(folder / MANIFEST, sealed(to_json({"kind": "index", **asdict(self)}, indent=1)) + "\n")

    @classmethod
    def load(cls, folder: str | Path) -> Manifest:
        """Read it; raise if the folder is no index, or one of another version."""
        path = Path(folder) / MANIFEST
        if not path.is_file():
            raise FileNotFoundError(
                f"{folder} is no index: it has no {MANIFEST}. Make one with 'cocoax index DATA --out INDEX'."
            )
        try:
            text = path.read_text(encoding="utf-8").removesuffix("\n")
            plain = json.loads(unsealed(text) or text)
            if plain.pop("kind") != "index" or plain["format"] != FORMAT:
                raise ValueError("it is of another version")
            return cls(**plain)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(f"{path} cannot be read ({error}); make the index anew.") from error

    @property
    def nouns(self) -> str:
        """What several inputs are called."""
        return plural(self.noun)

    @property
    def origin(self) -> bytes:
        """A digest of encoder and method, by which shards are known to belong together."""
        return digest(self.space, to_json(self.making)).encode()

    def check_begun(self, folder: str | Path) -> None:
        """Raise if there is no shard beside it yet."""
        if not shard_files(folder):
            raise ValueError(
                f"The index {folder} is unfinished: it has no {self.nouns} yet. Run the same 'cocoax index' command again."
            )

    def check(self, other: Manifest) -> None:
        """Raise if an index that is there was made in another way than is asked for now."""
        if self.space != other.space:
            raise ValueError(
                f"The index was made by the encoder {self.encoder!r}, and {other.encoder!r} is another one, or its weights "
                "or preprocessing have changed; write to another folder."
            )
        for name in {**self.making, **other.making}:
            what, usual = WORDS.get(name, (name, None))
            before, now = (making.get(name, usual) for making in (self.making, other.making))
            if before != now:
                raise ValueError(
                    f"The index was made with another {what} ({_short(before)}) than is asked for now ({_short(now)}); write "
                    "to another folder, or ask for the same."
                )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 120 else text[:117] + "…"


def plain_making(making: Making, view: tuple[object, ...] = ()) -> dict[str, Any]:
    """Return how entries are made, as JSON has it; ``view`` says how much of an input is explained, if not what is usual.

    A method's tensors, such as pictures that removed parts become, are told by their shapes there, and by a digest of all.
    """
    tensors: dict[str, Tensor] = {}
    to_plain(making, tensors)
    plain: dict[str, Any] = json.loads(json.dumps(to_plain(making)))
    plain.pop("type")
    if view:
        plain["view"] = digest(*view) if any(not isinstance(part, str) for part in view) else " ".join(map(str, view))
    if tensors:
        plain["tensors"] = digest(*tensors.values())
    return plain


def shard_name(number: int, ids: Sequence[str]) -> str:
    """Return the name of a shard: the place of its first input among all, and a digest of which they are."""
    return f"{number:08d}-{digest(list(ids))[:8]}.parquet"


def shard_files(folder: str | Path) -> list[Path]:
    """Return the shards of an index, in order."""
    return sorted((Path(folder) / "shards").glob("*.parquet"))


def schema_of(columns: Mapping[str, str]) -> Any:
    """Return the columns of a shard."""
    import pyarrow as pa

    numbers = pa.list_(pa.float32())
    own = {
        "id": pa.string(),
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
    names = {f"column_{name}" if name in own else name: getattr(pa, _arrow(kind))() for name, kind in columns.items()}
    return pa.schema({**own, **names})


def _arrow(kind: str) -> str:
    return {"bool": "bool_", "double": "float64"}.get(kind, kind)


def table_of(entries: Sequence[Entry], columns: Mapping[str, str]) -> Any:
    """Return entries as an Arrow table."""
    import pyarrow as pa

    return pa.Table.from_pylist([_row(entry, columns) for entry in entries], schema=schema_of(columns))


def with_columns(table: Any, items: Sequence[Item], columns: Mapping[str, str]) -> Any:
    """Return a table of entries with what is known about their inputs now in place of what was known before."""
    import pyarrow as pa

    schema = schema_of(columns)
    known = [_known(item.columns, columns) for item in items]
    arrays = [
        table[name].combine_chunks() if name in OWN else pa.array([row[name] for row in known], schema.field(name).type)
        for name in schema.names
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _known(values: Mapping[str, Scalar], columns: Mapping[str, str]) -> dict[str, Scalar]:
    """Return what is known about one input, by the names and in the types of a shard's columns."""
    row: dict[str, Scalar] = {}
    for name, kind in columns.items():
        value = values.get(name)
        row[f"column_{name}" if name in OWN else name] = str(value) if kind == "string" and value is not None else value
    return row


def _row(entry: Entry, columns: Mapping[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {"id": entry.id, "digest": entry.digest, "error": entry.error, **_known(entry.columns, columns)}
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

    table = table.replace_schema_metadata({MEAN: _mean_field(table), ORIGIN: manifest.origin})
    kinds = {name: "zstd" if name in ("shown", "id", "digest", "error") else "none" for name in table.column_names}
    with whole_file(path) as part:
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


def mean_field(paths: Sequence[Path], cells: tuple[int, ...]) -> Tensor:
    """Return the mean of all fields of some shards, ``[*cells, d]``, from their heads alone."""
    import pyarrow.parquet as pq

    heads = []
    for path in paths:
        metadata = pq.read_schema(path, memory_map=True).metadata or {}
        heads.append(torch.from_numpy(np.frombuffer(metadata.get(MEAN, b""), np.float32).copy()).double())
    together = torch.stack([head for head in heads if len(head)]).sum(0)
    return (together[1:] / together[0]).float().view(*cells, -1)


def read_shard(
    path: Path, columns: Sequence[str] | None = None, rows: np.ndarray | None = None, manifest: Manifest | None = None
) -> Any:
    """Return columns of a shard as an Arrow table, or of some rows (in order) of it.

    Raise if the file is damaged, or if it was made in another way than the ``manifest`` of its index says.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path, memory_map=True, page_checksum_verification=True)
        if manifest is not None and (file.schema_arrow.metadata or {}).get(ORIGIN) != manifest.origin:
            raise ValueError("it was made by another encoder or method")
        missing = sorted({*(columns or ())} - {*file.schema_arrow.names})
        if missing:
            raise ValueError(f"it has no column {missing[0]!r}")
        if rows is None:
            return file.read(columns=columns)
        groups = np.unique(rows // ROWS)
        table = file.read_row_groups(groups.tolist(), columns=columns)
        if np.array_equal(rows, np.arange(len(table))):
            return table
        starts = np.searchsorted(groups, rows // ROWS) * ROWS
        return table.take(starts + rows % ROWS)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"The shard {path} is damaged, or none of this index ({str(error).splitlines()[0]}); delete it and build the "
            "index again, which makes what is missing."
        ) from error


def field_values(column: Any) -> Tensor:
    """Return the numbers of a ``field`` column, all rows after one another, ``[rows x cells x d]``, without a copy."""
    chunk = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    chunk = chunk.chunk(0) if hasattr(chunk, "num_chunks") else chunk
    _, offsets, data = chunk.buffers()
    ends = np.frombuffer(offsets, np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
    numbers = np.frombuffer(data, np.float16, count=int(ends[-1] - ends[0]) // 2, offset=int(ends[0]))
    return torch.from_numpy(numbers) if numbers.flags.writeable else _shared(numbers)


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
