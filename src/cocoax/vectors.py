"""Stores of vectors, read batch by batch: arrays, Parquet and Arrow files, FAISS, LanceDB, Qdrant.

Nothing here searches. A store gives its vectors, and columns beside them if it has any, a few megabytes at a time, so that a
reference can be made of ten million of them in the memory of one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocoax.checks import as_numbers
from cocoax.store import as_path, each_readable, prefix_errors, readable

AT_ONCE = 1_000_000  # numbers in a batch; some copies of it are in memory at a time
ROWS = 8192  # of a batch, where a store does not say how long its vectors are before they are read
COLUMN = "vector"
ARROW = (".arrow", ".feather", ".ipc")


@dataclass(frozen=True)
class Selection:
    """What is read of a store.

    Attributes:
        column: of the vectors; ``"vector"`` if not given.
        where: which rows: ``{column: value}`` or ``{column: [values]}``; a boolean for each row, or row numbers; or the
            store's own kind of filter (a pyarrow expression, SQL for LanceDB, a Filter of Qdrant).
        weights: of the rows: a column, or a number for each row of the store.

    """

    column: str | None = None
    where: Any = None
    weights: Any = None

    @property
    def columns(self) -> list[str]:
        """The columns that are needed beside the vectors."""
        filters = list(self.where) if isinstance(self.where, Mapping) else []
        return list(dict.fromkeys([*filters, *([self.weights] if isinstance(self.weights, str) else [])]))


@dataclass(frozen=True)
class Batch:
    """Some rows of a store: their numbers, vectors ``[n, d]`` of those of them that are kept, and columns by name."""

    rows: np.ndarray
    vectors: Callable[[np.ndarray], np.ndarray]
    columns: Mapping[str, np.ndarray]


def read_vectors(source: Any, selection: Selection) -> Iterator[tuple[np.ndarray, Tensor, Tensor | None]]:
    """Go through the selected vectors: row numbers, vectors ``[n, d]`` as float64, and their weights.

    Raise for vectors that are not finite or zero, of different lengths, and for weights that cannot be; a file is named.
    """
    by_store = _is_own(selection.where)
    if by_store and selection.weights is not None and not isinstance(selection.weights, str):
        raise ValueError(
            "A filter of the store's own leaves row numbers unknown; name a column of weights, or give booleans in where=."
        )
    where, weights = _chosen(selection.where), _weights(selection.weights)
    dimension, count = None, 0
    with prefix_errors(source):
        for batch in _reader(source)(source, selection):
            if not len(batch.rows):
                continue
            count += len(batch.rows)
            _check_count(where, weights, count, "at least ")
            keep = _kept(batch, where)
            rows = batch.rows[keep]
            if not len(rows):
                continue
            vectors = torch.from_numpy(np.array(batch.vectors(keep), dtype=np.float64))
            if vectors.ndim != 2 or vectors.shape[1] == 0:
                raise ValueError(f"Vectors must have shape [n, d] with d >= 1. Got {list(vectors.shape)} instead.")
            if dimension is not None and vectors.shape[1] != dimension:
                raise ValueError(
                    f"Row {rows[0]} has a vector of {vectors.shape[1]} dimensions, but those before have {dimension}; "
                    "all must come from one encoder."
                )
            dimension = vectors.shape[1]
            _check_rows(rows, vectors, " of those that are selected" if by_store else "")
            yield rows, vectors, _weights_of(batch, keep, weights)
        _check_count(where, weights, count)


def _is_list(where: Any) -> bool:
    return isinstance(where, np.ndarray | list | tuple | range | Tensor)


def _is_own(where: Any) -> bool:
    """Return whether it is a filter of the store's own kind."""
    return where is not None and not isinstance(where, Mapping) and not _is_list(where)


def _own_filter(where: Any, recognised: Callable[[Any], bool], called: str) -> Any:
    """Return a filter that the store applies, None where there is none; raise if it is of another kind."""
    if not _is_own(where):
        return None
    if not recognised(where):
        raise TypeError(
            f"'where' must be {{column: value}}, a boolean for each row, row numbers, or {called}. Got {where!r} instead."
        )
    return where


def _check_rows(rows: np.ndarray, vectors: Tensor, counted: str) -> None:
    infinite, zero = ~torch.isfinite(vectors).all(1), (vectors == 0).all(1)
    for bad, what in ((infinite, "not finite (NaN or infinite)"), (zero, "zero, so it has no direction")):
        if bool(bad.any()):
            row = f"{rows[int(bad.nonzero()[0])]}{counted}"
            raise ValueError(f"The vector of row {row} is {what}; leave that row out by where=.")


def _chosen(where: Any) -> Any:
    """Return rows that are given by booleans or numbers as an array, numbers in order; what else there is as it is."""
    if not _is_list(where):
        return where
    chosen = as_numbers("'where'", np.asarray(where) if isinstance(where, range) else where).numpy()
    if chosen.ndim != 1 or (len(chosen) and chosen.dtype.kind not in "biu"):
        raise ValueError(
            f"'where' must be one boolean for each row, or row numbers. Got {chosen.dtype}, {list(chosen.shape)} instead."
        )
    if chosen.dtype == bool:
        return chosen
    numbers, times = np.unique(chosen.astype(np.int64), return_counts=True)
    if len(numbers) and numbers[0] < 0:
        raise ValueError(f"Rows in 'where' are counted from 0. Got {numbers[0]} instead.")
    if len(numbers) < len(chosen):
        raise ValueError(f"'where' names row {numbers[times > 1][0]} more than once; count it so by weights=.")
    return numbers


def _weights(weights: Any) -> Any:
    """Return weights that are given as numbers as an array; the name of a column, and None, as they are."""
    if weights is None or isinstance(weights, str):
        return weights
    every = as_numbers("'weights'", weights).double().numpy()
    if every.ndim != 1:
        raise ValueError(f"'weights' has shape {list(every.shape)}; give one number for each row of the store.")
    return every


def _check_count(where: Any, weights: Any, count: int, more: str = "") -> None:
    """Raise unless what is given for each row of a store fits the ``count`` rows that it has (or at least has, if more)."""
    for name, given in (("where", where), ("weights", weights)):
        if not isinstance(given, np.ndarray) or (name == "where" and given.dtype != bool):
            continue
        if len(given) < count or (not more and len(given) > count):
            raise ValueError(
                f"{name!r} has {len(given)} entries but the store has {more}{count} rows; give one for each row."
            )
    if not more and isinstance(where, np.ndarray) and where.dtype != bool and len(where) and where[-1] >= count:
        raise ValueError(f"'where' names row {where[-1]}, but the store has {count} rows, counted from 0.")


def _kept(batch: Batch, where: Any) -> np.ndarray:
    """Return which rows of a batch are selected."""
    keep = np.ones(len(batch.rows), dtype=bool)
    if isinstance(where, Mapping):
        for name, allowed in where.items():
            values = allowed if isinstance(allowed, Collection) and not isinstance(allowed, str | bytes) else [allowed]
            keep &= np.isin(batch.columns[name], list(values))
    elif isinstance(where, np.ndarray) and where.dtype == bool:
        keep = where[batch.rows]
    elif isinstance(where, np.ndarray):
        keep[:] = False
        first, last = np.searchsorted(where, (batch.rows[0], batch.rows[-1] + 1))
        keep[where[first:last] - batch.rows[0]] = True
    return keep  # else the store has filtered by itself


def _weights_of(batch: Batch, keep: np.ndarray, weights: Any) -> Tensor | None:
    """Return the weights of the kept rows of a batch."""
    if weights is None:
        return None
    if isinstance(weights, str):
        try:
            values = np.asarray(batch.columns[weights], dtype=np.float64)[keep]
        except (TypeError, ValueError) as error:
            raise ValueError(f"The column {weights!r} cannot be weights, since it does not hold numbers: {error}.") from error
    else:
        values = weights[batch.rows[keep]]
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(wrong):
        row = batch.rows[keep][wrong[0]]
        raise ValueError(f"The weight of row {row} is {values[wrong[0]]}; weights must be finite and not negative.")
    return torch.from_numpy(values)


# --- one reader for each kind of store ------------------------------------------------------------------------------------

Reader = Callable[[Any, Selection], Iterator[Batch]]


def _reader(source: Any) -> Reader:
    """Return the function that reads a store; raise if it is of no kind that is known."""
    for recognised, reader in READERS:
        if recognised(source):
            return reader
    path = isinstance(source, str | Path)
    source = as_path(source) if path else source
    if path and not Path(source).exists():
        raise FileNotFoundError(f"No file at {source}; check the path.")
    ending = "a folder without Parquet files" if path and Path(source).is_dir() else "a file without an ending"
    got = Path(source).suffix or ending if path else type(source).__name__
    raise TypeError(
        "Vectors come from an array, a .npy file, a Parquet or Arrow file (.parquet, .arrow, .feather), a folder of Parquet "
        f"files, a pyarrow table, a FAISS index, a LanceDB table, or (client, collection) of Qdrant. Got {got} instead."
    )


def _is_file(*endings: str) -> Callable[[Any], bool]:
    return lambda source: isinstance(source, str | Path) and Path(source).suffix in endings and Path(source).exists()


def _from(module: str, *names: str) -> Callable[[Any], bool]:
    """Return whether a thing's class, or one it inherits from, is of a package and has one of the names, if any are given."""
    return lambda source: any(
        kind.__module__.split(".")[0] == module and (not names or kind.__name__ in names) for kind in type(source).__mro__
    )


def read_array(source: Any, selection: Selection) -> Iterator[Batch]:
    """Read an array or memory map ``[n, d]``, a tensor, or a .npy file, which is mapped and never read as a whole."""
    with readable(source):
        array = np.load(source, mmap_mode="r") if isinstance(source, str | Path) else source
    if isinstance(array, Tensor):
        array = as_numbers("Vectors", array).numpy()
    if array.ndim != 2:
        raise ValueError(f"An array of vectors must have shape [n, d]. Got {list(array.shape)} instead.")
    _without_columns(selection, "An array")
    step = max(1, AT_ONCE // max(array.shape[1], 1))
    for start in range(0, len(array), step):
        part = array[start : start + step]
        yield Batch(np.arange(start, start + len(part)), part.__getitem__, {})


def read_faiss(source: Any, selection: Selection) -> Iterator[Batch]:
    """Read a FAISS index, rows in the order in which they were added; one that compresses gives what it remembers."""
    faiss = _needed("faiss", "faiss-cpu")
    _without_columns(selection, "A FAISS index")
    if isinstance(source, faiss.IndexBinary):
        raise TypeError("The FAISS index holds bits, which are no vectors to compare by cosine or dot product.")
    index = source
    while hasattr(index, "id_map"):  # names for the rows of another index
        index = faiss.downcast_index(index.index)
    try:
        if hasattr(index, "make_direct_map"):  # inverted lists: fails where rows have numbers of their own
            index.make_direct_map()
        if index.ntotal:
            index.reconstruct(0)  # where one row cannot be had, asking for many ends the process
    except RuntimeError as error:
        if hasattr(index, "make_direct_map"):
            index.make_direct_map(False)
        kind = type(index).__name__
        raise ValueError(f"The FAISS index {kind} does not give its vectors back by row numbers: {error}.") from error
    step = max(1, AT_ONCE // index.d)
    for start in range(0, index.ntotal, step):
        number = min(step, index.ntotal - start)
        yield Batch(np.arange(start, start + number), index.reconstruct_n(start, number).__getitem__, {})


def read_arrow(source: Any, selection: Selection) -> Iterator[Batch]:
    """Read a Parquet or Arrow file, a folder of them, or a pyarrow table or data set."""
    with readable(source):
        dataset = arrow_dataset(source)
        names = dataset.schema.names  # which a damaged file may have as bytes that are no text
    column = _vector_column(names, selection)
    own = _own_filter(selection.where, _from("pyarrow"), "an expression of pyarrow")
    scanner = dataset.scanner(columns=[column, *selection.columns], batch_size=ROWS, filter=own, use_threads=False)
    yield from _arrow_batches(each_readable(scanner.to_batches(), source), column, selection)


def arrow_dataset(source: Any) -> Any:
    """Return a file, a table or a data set as a data set of pyarrow."""
    dataset = _needed("pyarrow.dataset", "pyarrow")
    if isinstance(source, str | Path):
        arrow = Path(source).suffix in ARROW
        return dataset.dataset(source, format="ipc" if arrow else "parquet")
    return source if isinstance(source, dataset.Dataset) else dataset.dataset(source)


def _arrow_batches(parts: Iterable[Any], column: str, selection: Selection) -> Iterator[Batch]:
    """Return record batches of Arrow as batches, whose vectors are looked at once it is known which are kept."""
    start = 0
    for part in parts:
        rows = np.arange(start, start + len(part))
        columns = {name: np.asarray(part.column(name).to_pylist(), dtype=object) for name in selection.columns}
        yield Batch(rows, partial(_stacked, part.column(column), rows), columns)
        start += len(part)


def _stacked(column: Any, rows: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Return the kept rows of a column of lists as an array ``[n, d]``."""
    column = getattr(column, "storage", column)  # of a tensor of Arrow's
    column, rows = column.filter(_needed("pyarrow", "pyarrow").array(keep)), rows[keep]
    if column.null_count:
        row = next(index for index, value in enumerate(column) if not value.is_valid)
        raise ValueError(f"Row {rows[row]} has no vector; leave that row out by where=.")
    if not hasattr(column, "flatten"):
        raise ValueError(f"The column of vectors holds {column.type}; it must hold lists of numbers.")
    lengths = _needed("pyarrow.compute", "pyarrow").list_value_length(column).to_numpy(zero_copy_only=False)
    other = np.flatnonzero(lengths != lengths[0])
    if len(other):
        raise ValueError(
            f"Row {rows[other[0]]} has a vector of {lengths[other[0]]} dimensions, but those before have {lengths[0]}; all "
            "must come from one encoder."
        )
    flat: np.ndarray = column.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(column), -1)


def read_lancedb(source: Any, selection: Selection) -> Iterator[Batch]:
    """Read a LanceDB table."""
    column = _vector_column(source.schema.names, selection)
    query = source.search().select([column, *selection.columns])
    own = _own_filter(selection.where, lambda where: isinstance(where, str), "a condition in SQL")
    if own is not None:
        query = query.where(own)
    yield from _arrow_batches(query.limit(max(source.count_rows(), 1)).to_batches(ROWS), column, selection)


def read_qdrant(source: Any, selection: Selection) -> Iterator[Batch]:
    """Read a collection of Qdrant, given as (client, name); rows are counted in the order of its identifiers."""
    client, name = source
    own = _own_filter(selection.where, _from("qdrant_client"), "a Filter of Qdrant")
    start, offset = 0, None
    while True:
        points, offset = client.scroll(
            name, scroll_filter=own, limit=ROWS, offset=offset, with_payload=selection.columns, with_vectors=True
        )
        if points:
            vectors = np.asarray([_named_vector(point, selection) for point in points])
            columns = {key: np.asarray([_payload(point, key) for point in points], dtype=object) for key in selection.columns}
            yield Batch(np.arange(start, start + len(points)), vectors.__getitem__, columns)
            start += len(points)
        if offset is None:
            return


def _named_vector(point: Any, selection: Selection) -> Any:
    """Return the vector of a point, by name where a point has several."""
    vector = point.vector
    return vector[_vector_column(list(vector), selection)] if isinstance(vector, Mapping) else vector


def _payload(point: Any, key: str) -> Any:
    if key not in (point.payload or {}):
        raise ValueError(f"The point {point.id} has no {key!r} in its payload.")
    return point.payload[key]


def _vector_column(names: Collection[str], selection: Selection) -> str:
    """Return the name of the column of vectors; an error lists the columns that there are."""
    column = COLUMN if selection.column is None else selection.column
    for wanted in (column, *selection.columns):
        if wanted not in names:
            hint = "; say which holds the vectors by column=" if selection.column is None and wanted == column else ""
            raise ValueError(f"There is no column {wanted!r}; the columns are {', '.join(names)}{hint}.")
    return column


def _without_columns(selection: Selection, store: str) -> None:
    if selection.column is not None or selection.columns or _is_own(selection.where):
        raise ValueError(
            f"{store} has no columns: select rows by booleans or row numbers in where=, and give weights as numbers."
        )


def _needed(module: str, package: str) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"Reading this needs {package}: pip install 'cocoax[vectors]'.") from error


READERS: list[tuple[Callable[[Any], bool], Reader]] = [
    (lambda source: isinstance(source, np.ndarray | Tensor), read_array),
    (_is_file(".npy"), read_array),
    (_is_file(".parquet", *ARROW), read_arrow),
    (lambda source: isinstance(source, str | Path) and any(Path(source).glob("**/*.parquet")), read_arrow),
    (_from("pyarrow"), read_arrow),
    (lambda source: hasattr(source, "reconstruct_n"), read_faiss),
    (_from("lancedb"), read_lancedb),
    (lambda source: isinstance(source, tuple) and len(source) == 2 and _from("qdrant_client")(source[0]), read_qdrant),
]
