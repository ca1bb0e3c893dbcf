"""Vectors that exist already, read batch by batch: arrays, Parquet and Arrow files, or any iterable of vectors.

A source gives its vectors, and columns beside them if it has any, a few megabytes at a time, so that a reference can be made
of ten million of them in the memory of one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocoax.checks import as_numbers
from cocoax.store import as_path, prefix_errors, readable

AT_ONCE = 1_000_000  # numbers in a batch; some copies of it are in memory at a time
ROWS = 8192  # of a batch, where a store does not say how long its vectors are before they are read
COLUMN = "vector"
ARROW = (".arrow", ".feather", ".ipc")


@dataclass(frozen=True)
class Selection:
    """What is read of a store.

    Attributes:
        column: of the vectors; ``"vector"`` if not given.
        where: which rows: ``{column: value}`` or ``{column: [values]}``; a boolean for each row, or row numbers; or, for
            tables, an expression of pyarrow.
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
    """Some rows: their numbers, vectors ``[n, d]`` of those of them that are kept, columns by name, and weights, if any."""

    rows: np.ndarray
    vectors: Callable[[np.ndarray], np.ndarray]
    columns: Mapping[str, np.ndarray]
    weights: np.ndarray | None = None


def read_vectors(source: Any, selection: Selection) -> Iterator[tuple[np.ndarray, Tensor, Tensor | None]]:
    """Go through the selected vectors: row numbers, vectors ``[n, d]`` as float64, and their weights.

    Raise for vectors that are not finite or zero, of different lengths, and for weights that cannot be; a file is named.
    """
    by_expression = _is_expression(selection.where)
    if by_expression and selection.weights is not None and not isinstance(selection.weights, str):
        raise ValueError(
            "An expression of pyarrow leaves row numbers unknown; name a column of weights, or give booleans in where=."
        )
    where, weights = _chosen(selection.where), _weights(selection.weights)
    dimension, count = None, 0
    with prefix_errors(source):
        for batch in _batches(source, selection):
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
            _check_rows(rows, vectors, " of those that are selected" if by_expression else "")
            yield rows, vectors, _weights_of(batch, keep, weights)
        _check_count(where, weights, count)


def _is_list(where: Any) -> bool:
    return isinstance(where, np.ndarray | list | tuple | range | Tensor)


def _is_expression(where: Any) -> bool:
    """Return whether rows are selected by an expression of pyarrow; raise if they are selected by something unknown."""
    if where is None or isinstance(where, Mapping) or _is_list(where):
        return False
    if not _from_pyarrow(where):
        raise TypeError(
            "'where' must be {column: value}, a boolean for each row, row numbers, or an expression of pyarrow. "
            f"Got {where!r:.80} instead."
        )
    return True


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
    return keep  # else pyarrow has filtered by the expression


def _weights_of(batch: Batch, keep: np.ndarray, weights: Any) -> Tensor | None:
    """Return the weights of the kept rows of a batch."""
    if weights is None and batch.weights is None:
        return None
    if batch.weights is not None:
        if weights is not None:
            raise ValueError("The vectors come with weights; leave out weights=.")
        values = batch.weights[keep]
    elif isinstance(weights, str):
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


# --- one reader for each kind of source -----------------------------------------------------------------------------------


def _batches(source: Any, selection: Selection) -> Iterator[Batch]:
    """Return the rows of a source in batches; raise if it is of no kind that is known."""
    if isinstance(source, str | Path):
        path = as_path(source)
        if not path.exists():
            raise FileNotFoundError(f"No file at {path}; check the path.")
        if path.suffix == ".npy":
            return _read_array(path, selection)
        if path.suffix in (".parquet", *ARROW) or any(path.glob("**/*.parquet")):
            return _read_arrow(path, selection)
        got = path.suffix or ("a folder without Parquet files" if path.is_dir() else "a file without an ending")
    elif isinstance(source, np.ndarray | Tensor):
        return _read_array(source, selection)
    elif _from_pyarrow(source):
        return _read_arrow(source, selection)
    elif isinstance(source, Iterable) and not isinstance(source, Mapping | Set | bytes):
        return _read_iterable(source, selection)
    else:
        got = type(source).__name__
    raise TypeError(
        "Vectors come from an array, a .npy file, a Parquet or Arrow file (.parquet, .arrow, .feather), a folder of Parquet "
        f"files, a pyarrow table, or an iterable of vectors or of (vectors, weights). Got {got} instead."
    )


def _from_pyarrow(value: Any) -> bool:
    """Return whether the class of a value, or one it inherits from, is of pyarrow."""
    return any(kind.__module__.split(".")[0] == "pyarrow" for kind in type(value).__mro__)


def _read_array(source: Any, selection: Selection) -> Iterator[Batch]:
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


def _read_iterable(source: Iterable[Any], selection: Selection) -> Iterator[Batch]:
    """Read an iterable whose items are vectors ``[d]``, batches of them ``[n, d]``, or pairs of such and their weights."""
    _without_columns(selection, "An iterable of vectors")
    start = 0
    for vectors, weights in _stacked_items(source):
        if weights is not None and weights.shape != (len(vectors),):
            raise ValueError(f"{len(vectors)} vectors come with weights of shape {list(weights.shape)}; give one for each.")
        yield Batch(np.arange(start, start + len(vectors)), vectors.__getitem__, {}, weights)
        start += len(vectors)


def _stacked_items(source: Iterable[Any]) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Return batches of vectors ``[n, d]`` and their weights ``[n]``; single vectors are collected to batches."""
    items = map(_vectors_and_weights, source)
    for (shape, weighted), alike in groupby(items, lambda item: (item[0].shape, item[1] is not None)):
        while len(shape) == 1 and (some := list(islice(alike, ROWS))):
            yield np.stack([vector for vector, _ in some]), np.stack([own for _, own in some]) if weighted else None
        yield from alike


def _vectors_and_weights(item: Any) -> tuple[np.ndarray, Any]:
    """Return an item of an iterable as vectors and their weights, None where it has none."""
    if isinstance(item, tuple) and len(item) == 2 and np.ndim(item[0]) > 0:
        return as_numbers("Vectors", item[0]).numpy(), as_numbers("Weights", item[1]).double().numpy()
    return as_numbers("Vectors", item).numpy(), None


def _read_arrow(source: Any, selection: Selection) -> Iterator[Batch]:
    """Read a Parquet or Arrow file, a folder of them, or a pyarrow table or data set."""
    with readable(source):
        dataset = arrow_dataset(source)
        names = dataset.schema.names  # which a damaged file may have as bytes that are no text
    column = _vector_column(names, selection)
    expression = selection.where if _is_expression(selection.where) else None
    scanner = dataset.scanner(columns=[column, *selection.columns], batch_size=ROWS, filter=expression, use_threads=False)
    yield from _arrow_batches(_each_readable(scanner.to_batches(), source), column, selection)


def arrow_dataset(source: Any) -> Any:
    """Return a file, a table or a data set as a data set of pyarrow."""
    dataset = _needed("pyarrow.dataset", "pyarrow")
    if isinstance(source, str | Path):
        arrow = Path(source).suffix in ARROW
        return dataset.dataset(source, format="ipc" if arrow else "parquet")
    return source if isinstance(source, dataset.Dataset) else dataset.dataset(source)


def _each_readable(parts: Iterable[Any], source: Any) -> Iterator[Any]:
    """Give parts of a file one by one; one that cannot be read is an error that names the file."""
    following = iter(parts)
    while True:
        with readable(source):
            part = next(following, None)
        if part is None:
            return
        yield part


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


def _vector_column(names: Collection[str], selection: Selection) -> str:
    """Return the name of the column of vectors; an error lists the columns that there are."""
    column = COLUMN if selection.column is None else selection.column
    for wanted in (column, *selection.columns):
        if wanted not in names:
            hint = "; say which holds the vectors by column=" if selection.column is None and wanted == column else ""
            raise ValueError(f"There is no column {wanted!r}; the columns are {', '.join(names)}{hint}.")
    return column


def _without_columns(selection: Selection, store: str) -> None:
    if selection.column is not None or selection.columns or _is_expression(selection.where):
        raise ValueError(
            f"{store} has no columns: select rows by booleans or row numbers in where=, and give weights as numbers."
        )


def _needed(module: str, package: str) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"Reading this needs {package}: pip install 'cocoax[vectors]'.") from error
