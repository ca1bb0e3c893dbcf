"""The files of an index: a manifest, and shards in Parquet format, which hold the entries of some hundred inputs each.

A shard is written whole or not at all, its pages have checksums, and types and shapes in it are checked when it is read.
"""

from __future__ import annotations

import errno
import io
import json
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocoax.inputs import Display
from cocoax.inputs.base import plural
from cocoax.inputs.explicand import load_display, save_display
from cocoax.inputs.features import Features
from cocoax.methods import Rise
from cocoax.methods.run import RemovalMethod
from cocoax.methods.serialise import to_json_value
from cocoax.similarity import LinearSimilarity, get_similarity
from cocoax.spaces import same_space, space_digest
from cocoax.store import Layout, UnitFolder, as_path, atomic_write, corrupt_file_errors, digest, to_json, write_tensors
from cocoax.survey.items import Item, Scalar, natural_key
from cocoax.version import versions

MANIFEST = "manifest.json"
_FORMAT = 3
USUAL_VIEW = "what the encoder itself sees"
_OPTIONAL = {  # entries of a recipe that may be absent, and what their absence means
    "view": USUAL_VIEW,
    "tensors": "none",
    "features": "the method's own",
}


SHARD_NAME = r"\d{8,}-[0-9a-f]{8}\.parquet"  # a pattern of what shard_name returns
_HEAD = {"encoder": str, "space": str, "recipe": dict, "noun": str, "source": str, "columns": dict}
_LAYOUT = Layout("index", {}, {**_HEAD, "rounding": int | float, "made_by": dict, "format": int})


def index_folder(folder: str | Path) -> UnitFolder:
    """Return the folder of an index: its manifest is the head, its shards are the units."""
    return UnitFolder(Path(folder), _LAYOUT, MANIFEST, "shards", SHARD_NAME)


@dataclass(frozen=True)
class IndexRecipe:
    """The options by which the entries of an index are made.

    Attributes:
        method: explains every input; its seed is mixed with the input's id.
        similarity: cosine or dot; the questions that can be asked are of this one.
        grid: cells that the pixels of pictures are pooled to; by default those of the method's masks.
        features: what inputs are divided into, see :meth:`cocoax.Encoder.explicand`; None is what the method chooses.

    """

    method: RemovalMethod = field(default_factory=lambda: Rise(samples=200))
    similarity: str = "cosine"
    grid: int | tuple[int, int] | None = None
    features: Features | None = None


def linear_similarity(name: str) -> LinearSimilarity:
    """Return the similarity of this name; raise unless it is a dot product of feature vectors."""
    similarity = get_similarity(name)
    if not isinstance(similarity, LinearSimilarity):
        raise ValueError(f"An index needs a similarity that is a dot product, cosine or dot. Got {similarity.name} instead.")
    return similarity


@dataclass(frozen=True)
class Manifest:
    """The head of an index: what all of its entries have in common.

    Attributes:
        encoder: what :func:`cocoax.load` takes, or the name of an encoder that was made by hand.
        space: identifies its representation space.
        recipe: method, similarity and grid, as plain values; the view, if it is not the encoder's own, and a digest of the
            method's tensors, if it has any.
        noun: what one input is called.
        source: where the inputs come from.
        columns: the types of what is known about inputs, by name.
        rounding: how far rounding moves scores of the encoder, relative to the terms that they are sums of.
        made_by: versions of the packages that made the first entries.
        format: of the files.

    """

    encoder: str
    space: str
    recipe: Mapping[str, Any]
    noun: str
    source: str
    columns: Mapping[str, str]
    rounding: float = 0.0
    made_by: Mapping[str, str] = field(default_factory=versions)
    format: int = _FORMAT

    def save(self, folder: Path) -> None:
        """Write it as the head of the index."""
        index_folder(folder).write_head(asdict(self))

    @classmethod
    def load(cls, folder: str | Path) -> Manifest:
        """Read it; raise if the folder is no index, or one of another version."""
        plain = index_folder(as_path(folder)).read_head()
        if plain is None:
            raise FileNotFoundError(
                f"{folder} is no index: it has no {MANIFEST}. Make one with 'cocoax index DATA --out INDEX'."
            )
        path = Path(folder) / MANIFEST
        if plain["format"] != _FORMAT:
            raise ValueError(f"{path} is that of an index of another version; make the index anew.")
        with corrupt_file_errors(path):
            manifest = cls(**plain)
            _schema_of(manifest.columns)
            linear_similarity(manifest.recipe["similarity"])
            str(manifest.recipe["method"]["type"])
            return manifest

    @property
    def nouns(self) -> str:
        """The plural of the noun."""
        return plural(self.noun)

    @property
    def origin(self) -> bytes:
        """A digest of encoder and method, by which shards are known to belong together."""
        return digest(space_digest(self.space), to_json(self.recipe)).encode()

    def check_begun(self, folder: str | Path) -> None:
        """Raise if there is no shard beside it yet."""
        if not shard_files(folder):
            raise ValueError(
                f"The index {folder} is unfinished: it has no {self.nouns} yet. Run the same 'cocoax index' command again."
            )

    def check(self, other: Manifest) -> None:
        """Raise if an index that is there was made in another way than is asked for now."""
        if not same_space(self.space, other.space):
            raise ValueError(
                f"The index was made by the encoder {self.encoder!r}, and {other.encoder!r} is another one, or its weights "
                "or preprocessing have changed; write to another folder."
            )
        if differ := list(_differences({**_OPTIONAL, **self.recipe}, {**_OPTIONAL, **other.recipe})):
            before, now = (", ".join(sides) for sides in zip(*differ, strict=True))
            raise ValueError(
                f"The index was made with {before}, and now {now} is asked for; use another folder (out=, --out), or ask "
                "for the same."
            )


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the options that differ, as ``name=value`` on both sides; those of two methods or baselines of one type each."""
    for name in {**before, **now}:
        own, other = before.get(name), now.get(name)
        if isinstance(own, Mapping) and isinstance(other, Mapping) and own.get("type") == other.get("type"):
            yield from _differences(own, other)
        elif own != other:
            yield f"{name}={_short(own)}", f"{name}={_short(other)}"


def _short(value: object) -> str:
    text = str(value["type"]) if isinstance(value, Mapping) and "type" in value else str(value)
    return text if len(text) <= 60 else text[:57] + "…"


def plain_recipe(recipe: IndexRecipe, view: tuple[object, ...] = ()) -> dict[str, Any]:
    """Return a recipe as plain values; ``view`` says how much of an input is explained, if that is not the usual part.

    Of a method's tensors, such as baseline pictures, it has the shapes, and one digest of all.
    """
    tensors: dict[str, Tensor] = {}
    to_json_value(recipe.method, tensors)
    entries = {"method": to_json_value(recipe.method), "similarity": recipe.similarity, "grid": recipe.grid}
    plain: dict[str, Any] = json.loads(json.dumps(entries))
    if recipe.features is not None:
        plain["features"] = _name_of_features(recipe.features)
    if view:
        plain["view"] = digest(*view) if any(not isinstance(part, str) for part in view) else " ".join(map(str, view))
    if tensors:
        plain["tensors"] = digest(*tensors.values())
    return plain


def _name_of_features(features: Features) -> str:
    """Return a unique name of features: class and options, of label maps and masks a digest."""
    tensors = [value for value in vars(features).values() if isinstance(value, Tensor)]
    return f"{type(features).__name__}({digest(*tensors)})" if tensors else repr(features)


def shard_files(folder: str | Path) -> list[Path]:
    """Return the shards of an index, in order."""
    return index_folder(folder).files()


# --- shards -----------------------------------------------------------------------------------------------------------

_DATA_PREFIX = "column_"  # begins the names of columns that the data bring
_ROWS_PER_GROUP = 32  # in a group of rows of a shard, which is read as a whole
VECTORS_PER_BLOCK = 2048  # vectors that are multiplied at a time
_MEAN_FIELD_KEY = b"cocoax_mean_field"
_ORIGIN_KEY = b"cocoax_origin"
_HEAD_DIGEST_KEY = (
    b"cocoax_head"  # a digest of those two and of the columns: pages have checksums, but what describes them has none
)
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, eq=False)
class Entry:
    """One input of an index.

    Attributes:
        id, source, digest: which input it is, where it lies (the path of its file, or the number of its row), and of which
            content.
        columns: what is known about it.
        error: why it could not be explained; the rest is empty then.
        representation: ``[d]``.
        emptied: the representation of the emptied input, ``[d]``; the mean over several baselines.
        field: one vector for each cell, ``[*cells, d]``: what keeping it, not removing it, does to the feature vector.
        labels: of a picture whose cells are parts of it, the part at each place of a small map ``[h, w]``, or -1.
        noise: random sums of the field's sampling error over all cells, ``[4, d]``: the mean square of their products with a
            direction is the mean squared error of the map in that direction. Empty where nothing is left to chance.
        display: how it is shown, small.

    """

    id: str
    source: str
    digest: str
    columns: Mapping[str, Scalar]
    error: str | None = None
    representation: Tensor | None = None
    emptied: Tensor | None = None
    field: Tensor | None = None
    noise: Tensor | None = None
    display: Display | None = None
    labels: Tensor | None = None


class _UnfinishedError(ValueError):
    """Raised where files of an index do not fit its manifest, since a build was interrupted between the two."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(
            f"The last build of the index {folder} was interrupted ({why}); run the same call again, which goes on with it."
        )


def shard_name(number: int, ids: Sequence[str]) -> str:
    """Return the name of a shard: the place of its first input among all, and a digest of which they are."""
    return f"{number:08d}-{digest(list(ids))[:8]}.parquet"


def _own_types() -> dict[str, Any]:
    """Return the columns that every shard has, and their types."""
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
        "parts": pa.bool_(),
        "scale": pa.float32(),
        "field": pa.large_binary(),
        "shown": pa.large_binary(),
    }


def _schema_of(columns: Mapping[str, str]) -> Any:
    """Return the columns of a shard; columns of the data have a prefix."""
    import pyarrow as pa

    types = {"bool": pa.bool_(), "int64": pa.int64(), "double": pa.float64(), "string": pa.string()}
    return pa.schema({**_own_types(), **{_DATA_PREFIX + name: types[kind] for name, kind in columns.items()}})


def table_of(entries: Sequence[Entry], columns: Mapping[str, str]) -> Any:
    """Return entries as an Arrow table."""
    import pyarrow as pa

    return pa.Table.from_pylist([_row(entry, columns) for entry in entries], schema=_schema_of(columns))


def metadata_table(items: Sequence[Item], columns: Mapping[str, str]) -> Any:
    """Return the metadata of inputs, their sources and the columns of the data, as columns of a shard."""
    import pyarrow as pa

    schema = _schema_of(columns)
    rows = [{"source": item.source, **_metadata_row(item.columns, columns)} for item in items]
    return pa.Table.from_pylist(rows, schema=pa.schema([each for each in schema if _is_metadata(each.name)]))


def with_metadata(table: Any, known: Any) -> Any:
    """Return a table of entries with other metadata."""
    order = [name for name in _own_types() if name != "source"]
    table = table.select(order)
    for each in known.schema:
        table = table.append_column(each, known[each.name])
    return table.select([*_own_types(), *(name for name in known.column_names if name != "source")]).combine_chunks()


def _is_metadata(name: str) -> bool:
    return name == "source" or name.startswith(_DATA_PREFIX)


def _metadata_row(values: Mapping[str, Scalar], columns: Mapping[str, str]) -> dict[str, Scalar]:
    """Return the metadata of one input, by the names and in the types of a shard's columns."""
    convert: dict[str, Any] = {"string": str, "double": float}
    row = {}
    for name, kind in columns.items():
        value = values.get(name)
        row[_DATA_PREFIX + name] = value if value is None or kind not in convert else convert[kind](value)
    return row


def _row(entry: Entry, columns: Mapping[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(entry, name) for name in ("id", "source", "digest", "error")}
    row |= _metadata_row(entry.columns, columns)
    if entry.field is None or entry.representation is None or entry.emptied is None or entry.noise is None:
        return row
    scale = max(float(entry.field.abs().max()), 1e-30) if entry.field.numel() else 1.0
    row |= {name: getattr(entry, name).flatten().numpy() for name in ("representation", "emptied", "noise")}
    row |= {"shape": list(entry.field.shape[:-1]), "scale": scale, "parts": entry.labels is not None}
    # Relative to its largest number, so that half precision loses 0.05 % of a number at most, or next to nothing.
    row["field"] = (entry.field / scale).half().contiguous().numpy().tobytes()
    row["shown"] = None if entry.display is None else _pack_display(entry.display, entry.labels)
    return row


def write_shard(path: Path, table: Any, manifest: Manifest, left: int = 0) -> Path:
    """Write a shard, whole or not at all; on a full disk, say how much is needed for it and the ``left`` inputs to follow.

    Every page has a checksum. Rows are in small groups, so that single ones can be read; the head has the mean of all fields.
    """
    import pyarrow.parquet as pq

    head = {_MEAN_FIELD_KEY: _mean_field(table), _ORIGIN_KEY: manifest.origin}
    table = table.replace_schema_metadata({**head, _HEAD_DIGEST_KEY: _head_digest(table.schema, head)})
    kinds = {name: "zstd" if name in ("shown", "id", "digest", "error") else "none" for name in table.column_names}
    try:
        with atomic_write(path) as part:
            pq.write_table(
                table,
                part,
                compression=kinds,
                use_dictionary=False,
                write_statistics=False,
                row_group_size=_ROWS_PER_GROUP,
                data_page_size=2**26,
                write_page_checksum=True,
            )
    except OSError as error:
        if error.errno not in _DISK_FULL:
            raise
        needed = table.nbytes / len(table) * left
        raise OSError(
            error.errno,
            f"The disk is full: about {needed / 1e6:.1f} MB are needed for the {left} inputs that are missing. What was "
            "written before is kept; make room, and the same call goes on",
            str(path.parent),
        ) from error
    return path


def _head_digest(schema: Any, head: Mapping[bytes, bytes]) -> bytes:
    columns = [
        (field.name, str(field.type).partition("<")[0]) for field in schema
    ]  # Parquet has other words for what is in lists
    return digest(columns, head.get(_MEAN_FIELD_KEY), head.get(_ORIGIN_KEY)).encode()


def _mean_field(table: Any) -> bytes:
    """Return the sum of all fields of a table and their number, as float32; nothing if cells are not the same places."""
    shapes = {tuple(shape) for shape in table["shape"].to_pylist() if shape is not None}
    if len(shapes) != 1 or any(table["parts"].to_pylist()):
        return b""
    scales = torch.tensor([scale for scale in table["scale"].to_pylist() if scale is not None])
    fields = field_values(table["field"].drop_null()).view(len(scales), -1)
    total = torch.zeros(fields.shape[1], dtype=torch.float64)
    for part, scale in zip(torch.split(fields, _ROWS_PER_GROUP), torch.split(scales, _ROWS_PER_GROUP), strict=True):
        total += (part.double() * scale[:, None]).sum(0)
    return np.array([len(scales), *total.tolist()], np.float32).tobytes()


def mean_field(paths: Sequence[Path], cells: tuple[int, ...]) -> tuple[int, Tensor]:
    """Return how many fields some shards have and their mean, ``[*cells, d]``, from their heads alone."""
    heads = []
    for path in paths:
        with _opened(path) as file:
            heads.append(np.frombuffer(file.schema_arrow.metadata[_MEAN_FIELD_KEY], np.float32).astype(np.float64))
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
            if manifest is not None and head.get(_ORIGIN_KEY) != manifest.origin:
                raise ValueError("it was made by another encoder or method")
            if head.get(_HEAD_DIGEST_KEY) != _head_digest(file.schema_arrow, head):
                raise ValueError("its head is damaged")
            for name, kind in _own_types().items():
                if (own := file.schema_arrow.field(name).type) != kind:
                    raise ValueError(f"its column {name!r} holds {own} rather than {kind}")
            yield file
    except _UnfinishedError:
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
            raise _UnfinishedError(path.parent.parent, f"{path.name} has no column {missing[0]!r}")
        if rows is None:
            return file.read(columns=columns)
        groups = np.unique(rows // _ROWS_PER_GROUP)
        table = file.read_row_groups(groups.tolist(), columns=columns)
        if np.array_equal(rows, np.arange(len(table))):
            return table
        starts = np.searchsorted(groups, rows // _ROWS_PER_GROUP) * _ROWS_PER_GROUP
        return table.take(starts + rows % _ROWS_PER_GROUP)


def _check_vectors(path: Path, table: Any, cells: np.ndarray, dimension: int) -> None:
    """Raise unless vectors in rows of a shard have the sizes that ``cells`` in each row and the dimension ask for."""
    import pyarrow.compute as pc

    sizes = {"field": 2 * cells * dimension, "emptied": np.full(len(cells), dimension)}
    for name in {*table.column_names} & {"field", "emptied", "noise"}:
        count = pc.binary_length if name == "field" else pc.list_value_length
        found = count(table[name]).to_numpy()
        if table[name].null_count or (found % dimension if name == "noise" else found - sizes[name]).any():
            raise ValueError(f"The shard {path} is damaged: sizes in its column {name!r} do not fit; build the index again.")


def read_metadata(path: Path) -> Any:
    """Return what a shard knows about its inputs, as :func:`metadata_table` has it, and their ids."""
    with _opened(path) as file:
        names = [name for name in file.schema_arrow.names if _is_metadata(name)]
        return file.read(columns=["id", *names]).replace_schema_metadata(None)


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
    block = torch.empty(min(VECTORS_PER_BLOCK, len(vectors)), vectors.shape[1])
    rows = None if len(directions) == 1 else torch.repeat_interleave(torch.arange(len(directions)), sizes)
    for start in range(0, len(vectors), VECTORS_PER_BLOCK):
        part = block[: len(vectors) - start].copy_(vectors[start : start + VECTORS_PER_BLOCK])
        own = products[start : start + VECTORS_PER_BLOCK]
        if rows is None:
            torch.mv(part, directions[0], out=own)
        else:
            torch.sum(part.mul_(directions[rows[start : start + VECTORS_PER_BLOCK]]), 1, out=own)
    return products


def _shared(numbers: np.ndarray) -> Tensor:
    """Return a tensor on memory that nobody writes to; torch would warn about it."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(numbers)


def _pack_display(display: Display, labels: Tensor | None = None) -> bytes:
    """Return a display, and the label map of its parts, as bytes."""
    tensors, header = save_display(display)
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    if labels is not None:
        tensors["labels"] = labels.to(torch.int16).contiguous()
    file = io.BytesIO()
    write_tensors(file, tensors, {"display": json.dumps(header)})
    return file.getvalue()


def _unpack_display(packed: bytes) -> tuple[Display, Tensor | None]:
    """Return the display and the label map that :func:`_pack_display` was given."""
    from safetensors.torch import load

    size = int.from_bytes(packed[:8], "little")
    header = json.loads(packed[8 : 8 + size])["__metadata__"]
    tensors = load(packed)
    labels = tensors.pop("labels", None)
    return load_display(tensors, json.loads(header["display"])), None if labels is None else labels.long()


# --- rows -------------------------------------------------------------------------------------------------------------

_COLUMNS_IN_MEMORY = ("id", "digest", "error", "representation", "shape", "scale", "parts")


@dataclass(frozen=True, eq=False)
class StoredRows:
    """The rows of an index, in the order of the ids: small columns in memory, fields and displays read from the shards."""

    files: Sequence[Path]
    ids: list[str]
    digests: list[str]  # of what the inputs were
    failed: dict[str, str]
    columns: dict[str, np.ndarray]
    representations: Tensor
    shapes: list[tuple[int, ...]]
    parts: np.ndarray  # whether cells are parts of a picture, [n]
    scales: np.ndarray
    places: np.ndarray  # shard and row of it, [n, 2]

    @classmethod
    def read(cls, files: Sequence[Path], manifest: Manifest) -> StoredRows:
        """Read all files of an index, but not the fields in them."""
        import pyarrow as pa

        names = {name: _DATA_PREFIX + name for name in manifest.columns}
        with ThreadPoolExecutor(2) as pool:
            stored = [*_COLUMNS_IN_MEMORY, *names.values()]
            tables = list(pool.map(lambda path: read_shard(path, stored, None, manifest), files))
        if not tables:
            return cls([], [], [], {}, {}, torch.empty(0, 0), [], np.empty(0, bool), np.empty(0), np.empty((0, 2), int))
        places = [np.stack([np.full(len(table), shard), np.arange(len(table))], 1) for shard, table in enumerate(tables)]
        for path, other in zip(files, tables, strict=True):
            if not other.schema.equals(tables[0].schema):
                raise _UnfinishedError(path.parent.parent, f"{path.name} has columns of other types than {files[0].name}")
        _check_entries(files, tables)
        table = pa.concat_tables(tables)
        everything, digests, errors = (table[name].to_pylist() for name in ("id", "digest", "error"))
        done = [row for row, error in enumerate(errors) if error is None]
        once = _once(done, everything, digests)
        fine = np.array(sorted(once, key=lambda row: natural_key(everything[row])), int)
        failed = {everything[row]: error for row, error in enumerate(errors) if error is not None}
        kept = table.select(["shape", "scale", "parts", *names.values()]).take(fine)
        # Not by take: lists of numbers would be taken one by one.
        numbers = np.concatenate([part.flatten().to_numpy() for part in table["representation"].drop_null().chunks])
        order = np.empty(len(errors), int)
        order[done] = np.arange(len(done))
        vectors = torch.from_numpy(numbers.astype(np.float32, copy=False)).view(len(done), len(numbers) // max(len(done), 1))
        return cls(
            files,
            [everything[row] for row in fine],
            [digests[row] for row in fine],
            failed,
            {name: _values(kept[stored]) for name, stored in names.items()},
            vectors[torch.from_numpy(order[fine])],
            [tuple(shape) for shape in kept["shape"].to_pylist()],
            kept["parts"].to_numpy(),
            kept["scale"].to_numpy().astype(np.float32),
            np.concatenate(places)[fine],
        )

    def tables(self, rows: Sequence[int] | np.ndarray, columns: Sequence[str]) -> Iterator[tuple[np.ndarray, Any]]:
        """Yield columns of some rows, shard by shard: places among ``rows``, and an Arrow table of those."""
        numbers = np.asarray(rows, int)
        places = self.places[numbers]
        shards = np.unique(places[:, 0])

        def read_one(shard: int) -> tuple[np.ndarray, Any]:
            own = np.flatnonzero(places[:, 0] == shard)
            own = own[np.argsort(places[own, 1], kind="stable")]
            table = read_shard(self.files[shard], columns, places[own, 1])
            cells = np.array([math.prod(self.shapes[row]) for row in numbers[own]], int)
            _check_vectors(self.files[shard], table, cells, self.representations.shape[1])
            return own, table

        with ThreadPoolExecutor(2) as pool:  # the next file is read while this one is worked on
            waiting: deque[Future[tuple[np.ndarray, Any]]] = deque()
            for shard in shards.tolist():
                waiting.append(pool.submit(read_one, shard))
                if len(waiting) > 2:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def column(self, rows: Sequence[int] | np.ndarray, name: str) -> list[Any]:
        """Return the values of one column of the shards for some rows."""
        found: list[Any] = [None] * len(rows)
        for places, table in self.tables(rows, [name]):
            for place, value in zip(places, table[name].to_pylist(), strict=True):
                found[place] = value
        return found

    def shown(self, rows: Sequence[int] | np.ndarray) -> list[tuple[Display | None, Tensor | None]]:
        """Return the displays of rows, and the label maps of rows that are divided into parts."""
        shown: list[tuple[Display | None, Tensor | None]] = []
        with corrupt_file_errors(self.files[0].parent):
            for row, packed in zip(rows, self.column(rows, "shown"), strict=True):
                display, labels = (None, None) if packed is None else _unpack_display(packed)
                if display is not None:
                    display.check_names(self.shapes[row])
                if labels is not None and not -1 <= int(labels.min()) <= int(labels.max()) < self.shapes[row][0]:
                    raise ValueError(f"the label map of {self.ids[row]!r} names parts that its field does not have")
                shown.append((display, labels))
        return shown

    def field_vectors(self, rows: np.ndarray) -> list[Tensor]:
        """Return the vectors of the fields of some rows, ``[*cells, d]`` each, in single precision."""
        vectors: list[Tensor] = [torch.empty(0)] * len(rows)
        dimension = self.representations.shape[1]
        for places, table in self.tables(rows, ["field"]):
            shapes = [self.shapes[row] for row in rows[places]]
            parts = torch.split(field_values(table["field"]), [math.prod(shape) * dimension for shape in shapes])
            for place, shape, part in zip(places, shapes, parts, strict=True):
                vectors[place] = part.float().view(*shape, dimension) * float(self.scales[rows[place]])
        return vectors


def _check_entries(files: Sequence[Path], tables: Sequence[Any]) -> None:
    """Raise if an entry without an error lacks a representation, shape or scale, or if representations differ in length."""
    import pyarrow.compute as pc

    dimension = None
    for path, table in zip(files, tables, strict=True):
        done = table.filter(pc.is_null(table["error"]))
        lengths = pc.unique(pc.list_value_length(done["representation"])).to_pylist()
        dimension = next(iter(lengths), None) if dimension is None else dimension
        lacking = [name for name in ("id", "digest", "representation", "shape", "scale", "parts") if done[name].null_count]
        if lacking or any(length != dimension or not length for length in lengths) or table["id"].null_count:
            what = lacking[0] if lacking else "representation"
            raise ValueError(f"The shard {path} is damaged: its column {what!r} does not fit; delete it and build again.")
        if any(size is None or size < 0 for shape in done["shape"].to_pylist() for size in shape):
            raise ValueError(f"The shard {path} is damaged: its column 'shape' does not fit; delete it and build again.")


def _once(rows: Sequence[int], ids: Sequence[str], digests: Sequence[str]) -> list[int]:
    """Return rows without repetitions, which a build that was killed may leave; raise if two of one id differ."""
    first: dict[str, int] = {}
    for row in rows:
        other = first.setdefault(ids[row], row)
        if digests[other] != digests[row]:
            raise ValueError(
                f"The id {ids[row]!r} is in two shards with different contents, so one of them is from another run; build "
                "the index again, which keeps what is true."
            )
    return list(first.values())


def _values(column: Any) -> np.ndarray:
    """Return a column as an array; one with gaps as Python's own values, since NumPy's whole numbers have none."""
    return np.array(column.to_pylist(), object) if column.null_count else np.asarray(column.to_numpy())
