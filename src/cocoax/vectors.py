"""Vectors that exist already, read batch by batch: arrays, Parquet and Arrow files, or any iterable of vectors.

A batch is a few megabytes, so that a reference can be made of ten million vectors in the memory of one batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from functools import reduce
from itertools import groupby, islice
from operator import and_
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocoax.checks import as_numbers, check_plain, import_optional
from cocoax.store import as_path, prefix_errors, readable

AT_ONCE = 1_000_000  # numbers in a batch of an array
ROWS = 8192  # rows in a batch of a table, or of an iterable
ARROW = (".arrow", ".feather", ".ipc")
Batch = tuple[Any, np.ndarray | None]  # vectors, an array [n, d] or a column of Arrow, and weights [n]


def read_vectors(
    source: Any, where: Any = None, weights: Any = None, column: str | None = None
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Yield the selected vectors ``[n, d]`` as float64, and their weights ``[n]``, batch by batch.

    Arguments are those of :meth:`cocoax.Reference.from_vectors`. Raise for vectors that are not finite, zero or of different
    lengths, and for negative weights; a file is named.
    """
    by_row = isinstance(where, np.ndarray | list | tuple | Tensor)
    mask = as_numbers("'where'", where).numpy() if by_row else None
    given = None if weights is None or isinstance(weights, str) else as_numbers("'weights'", weights).double().numpy()
    _check_per_row(mask, given, filtered=where is not None and not by_row)
    counted = "" if where is None or by_row else " of those that are selected"
    dimension, count = None, 0
    with prefix_errors(source):
        for vectors, own in _batches(source, None if by_row else where, weights, column):
            first, count = count, count + len(vectors)
            _check_count(mask, given, count, "at least ")
            places = np.arange(len(vectors)) if mask is None else np.flatnonzero(mask[first:count])
            if not len(places):
                continue
            part = _as_array(vectors, places, first)
            if part.ndim != 2 or part.shape[1] == 0:
                raise ValueError(f"Vectors must have shape [n, d] with d >= 1. Got {list(part.shape)} instead.")
            dimension = part.shape[1] if dimension is None else dimension
            if part.shape[1] != dimension:
                raise ValueError(_other_length(first + places[0], part.shape[1], dimension))
            own = given[first:count] if given is not None else own
            own = None if own is None else own[places]
            _check_values(first + places, part, own, counted)
            yield torch.from_numpy(part), None if own is None else torch.from_numpy(own)
        _check_count(mask, given, count)


def _check_per_row(mask: np.ndarray | None, weights: np.ndarray | None, filtered: bool) -> None:
    """Raise unless a selection and weights are one boolean and one number for each row."""
    if weights is not None and filtered:
        raise ValueError(
            "A filter by columns leaves row numbers unknown; name a column of weights, or give booleans in where=."
        )
    if weights is not None and weights.ndim != 1:
        raise ValueError(f"'weights' has shape {list(weights.shape)}; give one number for each row.")
    if mask is not None and (mask.ndim != 1 or (len(mask) and mask.dtype != bool)):
        raise ValueError(f"'where' must be one boolean for each row. Got {mask.dtype}, {list(mask.shape)} instead.")


def _check_count(mask: np.ndarray | None, weights: np.ndarray | None, count: int, more: str = "") -> None:
    """Raise unless selection and weights fit the ``count`` rows that there are (or at least are, if ``more``)."""
    for name, given in (("where", mask), ("weights", weights)):
        if given is not None and (len(given) < count or (not more and len(given) > count)):
            raise ValueError(f"{name!r} has {len(given)} entries but there are {more}{count} rows; give one for each row.")


def _check_values(rows: np.ndarray, vectors: np.ndarray, weights: np.ndarray | None, counted: str) -> None:
    infinite, zero = ~np.isfinite(vectors).all(1), (vectors == 0).all(1)
    for bad, what in ((infinite, "not finite (NaN or infinite)"), (zero, "zero, so it has no direction")):
        if bad.any():
            raise ValueError(f"The vector of row {rows[bad.argmax()]}{counted} is {what}; leave that row out.")
    if weights is not None and (wrong := ~(np.isfinite(weights) & (weights >= 0))).any():
        raise ValueError(
            f"The weight of row {rows[wrong.argmax()]} is {weights[wrong][0]}; weights must be finite and not negative."
        )


def _other_length(row: int, length: int, before: int) -> str:
    return f"Row {row} has a vector of {length} dimensions, but those before have {before}; all must come from one encoder."


# --- sources --------------------------------------------------------------------------------------------------------------


def _batches(source: Any, where: Any, weights: Any, column: str | None) -> Iterator[Batch]:
    """Return the rows of a source in batches; ``where`` and the name of ``weights`` are about its columns."""
    path = as_path(source) if isinstance(source, str | Path) else None
    if path is not None and not path.exists():
        raise FileNotFoundError(f"No file at {path}; check the path.")
    if where is not None and not isinstance(where, Mapping) and not _from_pyarrow(where):
        raise TypeError(
            "'where' must be {column: value}, a boolean for each row, or an expression of pyarrow. "
            f"Got {where!r:.80} instead."
        )
    if _from_pyarrow(source) or (path and (path.suffix in (".parquet", *ARROW) or any(path.glob("**/*.parquet")))):
        return _read_arrow(source if path is None else path, where, weights, column)
    array = isinstance(source, np.ndarray | Tensor) or (path is not None and path.suffix == ".npy")
    if not array and (path or not isinstance(source, Iterable) or isinstance(source, Mapping | Set | bytes)):
        got = type(source).__name__ if path is None else path.suffix or "a folder without Parquet files"
        raise TypeError(
            "Vectors come from an array, a .npy file, a Parquet or Arrow file (.parquet, .arrow, .feather), a folder of "
            f"Parquet files, a pyarrow table, or an iterable of vectors or of (vectors, weights). Got {got} instead."
        )
    if where is not None or column is not None or isinstance(weights, str):
        raise ValueError(
            f"{'An array' if array else 'An iterable of vectors'} has no columns: select rows by booleans in where=, and "
            "give weights as numbers."
        )
    return _read_array(source) if array else _read_iterable(source, weights is not None)


def _from_pyarrow(value: Any) -> bool:
    return any(kind.__module__.split(".")[0] == "pyarrow" for kind in type(value).__mro__)


def _read_array(source: Any) -> Iterator[Batch]:
    """Read an array or memory map ``[n, d]``, a tensor, or a .npy file, which is mapped and never read as a whole."""
    with readable(source):
        array = np.load(source, mmap_mode="r") if isinstance(source, str | Path) else source
    if isinstance(array, Tensor):
        check_plain(array)
        array = array.detach()
    if array.ndim != 2:
        raise ValueError(f"An array of vectors must have shape [n, d]. Got {list(array.shape)} instead.")
    step = max(1, AT_ONCE // max(array.shape[1], 1))
    for start in range(0, len(array), step):
        part = array[start : start + step]
        yield part.cpu().double().numpy() if isinstance(part, Tensor) else part, None


def _read_iterable(source: Iterable[Any], weighted: bool) -> Iterator[Batch]:
    """Read an iterable whose items are vectors ``[d]``, batches of them ``[n, d]``, or pairs of such and their weights."""
    for (shape, own), alike in groupby(map(_vectors_and_weights, source), lambda item: (item[0].shape, item[1] is not None)):
        if own and weighted:
            raise ValueError("The vectors come with weights; leave out weights=.")
        while len(shape) == 1 and (some := list(islice(alike, ROWS))):
            yield np.stack([vector for vector, _ in some]), np.stack([weight for _, weight in some]) if own else None
        for vectors, weights in alike:
            if own and weights.shape != (len(vectors),):
                raise ValueError(
                    f"{len(vectors)} vectors come with weights of shape {list(weights.shape)}; give one for each."
                )
            yield vectors, weights


def _vectors_and_weights(item: Any) -> tuple[np.ndarray, Any]:
    """Return an item of an iterable as vectors and their weights, None where it has none."""
    if isinstance(item, tuple) and len(item) == 2 and np.ndim(item[0]) > 0:
        return as_numbers("Vectors", item[0]).numpy(), as_numbers("Weights", item[1]).double().numpy()
    return as_numbers("Vectors", item).numpy(), None


def _read_arrow(source: Any, where: Any, weights: Any, column: str | None) -> Iterator[Batch]:
    """Read a Parquet or Arrow file, a folder of them, or a pyarrow table or data set."""
    dataset = import_optional("pyarrow.dataset", "Reading this needs", "vectors")
    with readable(source):
        kind = ("ipc" if source.suffix in ARROW else "parquet") if isinstance(source, Path) else None
        data = source if isinstance(source, dataset.Dataset) else dataset.dataset(source, format=kind)
        names = data.schema.names  # which a damaged file may have as bytes that are no text
    named = [weights] if isinstance(weights, str) else []
    for wanted in (column or "vector", *named, *(where if isinstance(where, Mapping) else ())):
        if wanted not in names:
            hint = "; say which holds the vectors by column=" if column is None and wanted == "vector" else ""
            raise ValueError(f"There is no column {wanted!r}; the columns are {', '.join(names)}{hint}.")
    if isinstance(where, Mapping):
        where = reduce(and_, [dataset.field(name).isin(_several(values)) for name, values in where.items()])
    scanner = data.scanner(columns=[column or "vector", *named], batch_size=ROWS, filter=where, use_threads=False)
    parts = scanner.to_batches()
    while True:
        with readable(source):
            part = next(parts, None)
        if part is None:
            return
        try:
            yield part.column(0), np.asarray(part.column(1), np.float64) if named else None
        except (TypeError, ValueError) as error:
            raise ValueError(f"The column {weights!r} cannot be weights, since it does not hold numbers: {error}.") from error


def _several(values: Any) -> list[Any]:
    return list(values) if isinstance(values, Collection) and not isinstance(values, str | bytes) else [values]


def _as_array(vectors: Any, places: np.ndarray, first: int) -> np.ndarray:
    """Return the vectors at some places of a batch, whose ``first`` row has this number, as float64 ``[n, d]``."""
    if isinstance(vectors, np.ndarray):
        return np.array(vectors[places], dtype=np.float64)
    from pyarrow import compute

    column = getattr(vectors, "storage", vectors).take(places)  # of a column of tensors
    if column.null_count:
        missing = column.is_null().to_numpy(zero_copy_only=False)
        raise ValueError(f"Row {first + places[missing.argmax()]} has no vector; leave that row out.")
    if not hasattr(column, "flatten"):
        raise ValueError(f"The column of vectors holds {column.type}; it must hold lists of numbers.")
    lengths = compute.list_value_length(column).to_numpy(zero_copy_only=False)
    if len(other := np.flatnonzero(lengths != lengths[0])):
        raise ValueError(_other_length(first + places[other[0]], lengths[other[0]], lengths[0]))
    return np.array(column.flatten().to_numpy(zero_copy_only=False), dtype=np.float64).reshape(len(column), -1)
