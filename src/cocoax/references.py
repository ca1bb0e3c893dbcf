"""References: summaries of the representations of a corpus C or a foil F.

A reference holds the number of inputs and the means of raw and of unit representations, which suffice for the linear
similarities; the representations themselves are kept on request, for kernels. Inputs are encoded in chunks, each of which is
cached on disk under a key of the encoder and of the inputs: nothing is encoded twice, and an interrupted stream resumes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import groupby, islice
from numbers import Integral
from operator import and_
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocoax.cautions import caution
from cocoax.checks import as_numbers, check_kind, check_number, check_plain, import_optional, shown
from cocoax.similarity import Cosine, LinearSimilarity
from cocoax.spaces import same_space
from cocoax.store import (
    KeyedCache,
    Layout,
    as_path,
    corrupt_file_errors,
    prefix_errors,
    read_safetensors,
    readable,
    write_safetensors,
)

AT_ONCE = 1_000_000  # numbers in a batch of an array
ROWS = 8192  # rows in a batch of a table, or of an iterable
_ARROW = (".arrow", ".feather", ".ipc")
Batch = tuple[Any, np.ndarray | None]  # vectors, an array [n, d] or a column of Arrow, and weights [n]
CHUNKS = KeyedCache("references")  # of streams of inputs
KEPT = 10_000  # samples that a reference keeps by default
_OVERLAP = 0.1  # fraction of the smaller of corpus and foil that may be in the other one without a caution
_LAYOUT = Layout(
    "reference",
    {"mean": "d", "mean_unit": "d", "samples?": "count d", "weights?": "count"},
    {"count": int, "space": str | None, "name": str, "skipped": list},
)


@dataclass(frozen=True, eq=False)
class Reference:
    """The representations of a set of inputs, summarised.

    Attributes:
        count: how many inputs it stands for.
        mean: mean representation ``[d]``, for the dot product.
        mean_unit: mean of the unit representations ``[d]``, for the cosine.
        samples: the representations ``[count, d]``, if they were kept.
        space: identifies the representation space; two references fit together if their spaces are equal.
        name: what pictures and tables call it.
        skipped: index and reason of every input that was left out (``on_error="skip"``).
        weights: how much each sample counts ``[count]``, 1 on average, where they do not count the same.

    """

    count: int
    mean: Tensor
    mean_unit: Tensor
    samples: Tensor | None = None
    space: str | None = None
    name: str = "reference"
    skipped: tuple[tuple[int, str], ...] = field(default=(), repr=False)
    weights: Tensor | None = None

    @classmethod
    def from_representations(
        cls,
        representations: Any,
        *,
        name: str = "reference",
        space: str | None = None,
        keep_samples: bool | None = None,
        weights: Any = None,
    ) -> Reference:
        """Return a reference from representations ``[n, d]`` that exist already, say in an index of embeddings.

        Args:
            representations: a tensor, an array, a memory map, a list of lists, or a column of pandas or Arrow. A memory map
                is read a piece at a time.
            name: what pictures and tables call it.
            space: the representation space; without it the reference fits every encoder of the same dimension.
            keep_samples: keep every representation, as kernels and selections need; by default up to 10 000 of them.
            weights: how much each counts, ``[n]``; equal by default.

        """
        rows = _as_rows(representations)
        if rows.ndim != 2 or len(rows) == 0:
            raise ValueError(f"'representations' must have shape [n, d] with n >= 1. Got {list(rows.shape)} instead.")
        check_kind("The 'keep_samples' parameter", keep_samples, (bool, type(None)), "must be True, False or None")
        keep = len(rows) <= KEPT if keep_samples is None else keep_samples
        return _summarised(read_vectors(rows, weights=weights), name, space, keep)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, which: Any) -> Reference:
        """Return the reference of some of its samples: a mask, numbers or a slice."""
        samples = self.kept("a selection")
        if isinstance(which, int):
            which = [which]
        chosen = which if isinstance(which, slice) else as_numbers("What is chosen of a reference", which)
        if isinstance(chosen, Tensor) and chosen.dtype == torch.bool and tuple(chosen.shape) != (len(samples),):
            raise ValueError(f"A mask must have one entry for each of the {len(samples)} samples. Got {list(chosen.shape)}.")
        if isinstance(chosen, Tensor) and chosen.dtype != torch.bool:
            chosen = self._row_numbers(chosen)
        rows = samples[chosen]
        if len(rows) == 0:
            raise ValueError(f"Nothing of {self.name!r} was chosen; choose at least one of its {len(samples)} samples.")
        weights = None if self.weights is None else self.weights[chosen]
        made = Reference.from_representations(rows, name=self.name, space=self.space, keep_samples=True, weights=weights)
        return replace(made, name=f"{made.count} of {self.name}" if made.count < self.count else self.name)

    def _row_numbers(self, numbers: Tensor) -> Tensor:
        if numbers.ndim != 1 or (numbers.is_floating_point() and numbers.numel()):
            raise ValueError(
                f"Samples are chosen by a mask, a slice or a list of numbers. Got {numbers.dtype}, {numbers.ndim}-d."
            )
        beyond = [number for number in numbers.tolist() if not -self.count <= number < self.count]
        if beyond:
            raise ValueError(
                f"The reference {self.name!r} has {self.count} samples, counted from 0. Got {beyond[0]} instead."
            )
        return numbers.long()

    def where(self, mask: Any, name: str | None = None) -> Reference:
        """Return the reference of the samples for which a mask ``[n]`` holds, as in ``where(labels == "cat")``."""
        chosen = self[as_numbers("A mask", mask).bool()]
        return chosen if name is None else replace(chosen, name=name)

    def nearest(self, pool: Reference, count: int, name: str | None = None) -> Reference:
        """Return the ``count`` samples of a pool that are most similar (by the cosine) to this reference, as a foil.

        "Rather than the 50 closest others" is a harder question than "rather than anything".
        """
        check_same_space([self, pool])
        samples = pool.kept("nearest()")
        if not (isinstance(count, Integral) and 1 <= count <= len(samples)):
            raise ValueError(
                f"The 'count' parameter must lie between 1 and {len(samples)}, the pool's size. Got {shown(count)}."
            )
        scores = Cosine().features(samples.double()) @ self.mean_unit
        chosen = torch.topk(scores, count).indices
        return replace(pool[chosen.numpy()], name=name or f"the {count} of {pool.name} nearest to {self.name}")

    @classmethod
    def from_vectors(
        cls,
        source: Any,
        *,
        where: Any = None,
        weights: Any = None,
        column: str | None = None,
        name: str = "reference",
        space: str | None = None,
        keep_samples: bool = False,
    ) -> Reference:
        """Return a reference from a store of vectors, read batch by batch: ten million of them take the memory of one batch.

        Args:
            source: an array, memory map or .npy file ``[n, d]``; a Parquet or Arrow file or pyarrow table; or any iterable of
                vectors ``[d]``, of batches ``[n, d]``, or of pairs of such and their weights, as a generator over the answers
                of a vector database.
            where: which rows: ``{column: value}`` or ``{column: [values]}``; a boolean for each row; or, for tables, an
                expression of pyarrow.
            weights: a column, or a number for each row; by default every row counts the same.
            column: of the vectors, ``"vector"`` if not given.
            name: what pictures and tables call it.
            space: ``encoder.space``, if the vectors are known to be that encoder's. Without it the reference fits every
                encoder of the same dimension.
            keep_samples: keep every vector, as kernel similarities need.

        """
        chosen = "" if where is None else f" where {where!r:.80}"
        with prefix_errors(source):
            return _summarised(read_vectors(source, where, weights, column), name, space, keep_samples, chosen)

    def __repr__(self) -> str:
        kept = ", samples kept" if self.samples is not None else ""
        inputs = "1 input" if self.count == 1 else f"{self.count} inputs"
        return f"Reference({self.name!r}, {inputs}, {self.dimension} dimensions{kept})"

    @property
    def dimension(self) -> int:
        """The length d of its representations."""
        return len(self.mean)

    def mean_features(self, similarity: LinearSimilarity) -> Tensor:
        """Return the mean feature vector ``[d]`` for a linear similarity: of unit vectors (cosine) or of raw ones (dot)."""
        if similarity.summary is not None:
            return {"mean": self.mean, "mean_unit": self.mean_unit}[similarity.summary]
        features = similarity.features(self.points(similarity.name).double())
        return features.mean(0) if self.weights is None else (self.weights.double()[:, None] * features).mean(0)

    def points(self, similarity_name: str) -> Tensor:
        """Return the samples ``[n, d]`` for a similarity that needs them; raise if they were not kept."""
        return self.kept(f"the {similarity_name} similarity")

    def kept(self, purpose: str) -> Tensor:
        """Return the samples ``[n, d]``; raise, saying what they are for, if they were not kept."""
        if self.samples is None:
            raise ValueError(
                f"Reference {self.name!r} keeps only means, but {purpose} compares with every sample; "
                "encode it again with keep_samples=True."
            )
        return self.samples

    def merge(self, *others: Reference, name: str | None = None) -> Reference:
        """Return the reference of all inputs together; every part weighs as many inputs as it has."""
        parts = (self, *others)
        check_same_space(parts)
        count = sum(part.count for part in parts)
        kept = [part.samples for part in parts if part.samples is not None]
        weighted = len(kept) == len(parts) and any(part.weights is not None for part in parts)
        weights = [torch.ones(part.count) if part.weights is None else part.weights for part in parts] if weighted else []
        return replace(
            self,
            count=count,
            mean=sum((part.mean * (part.count / count) for part in parts), torch.zeros_like(self.mean)),
            mean_unit=sum((part.mean_unit * (part.count / count) for part in parts), torch.zeros_like(self.mean)),
            samples=torch.cat(kept) if len(kept) == len(parts) else None,
            weights=torch.cat(weights) if weighted else None,
            space=next((part.space for part in parts if part.space is not None), None),
            name=name if name is not None else " and ".join(dict.fromkeys(part.name for part in parts)),
            skipped=tuple(item for part in parts for item in part.skipped),
        )

    def save(self, path: str | Path) -> Path:
        """Write it as safetensors; return the path."""
        tensors = {"mean": self.mean, "mean_unit": self.mean_unit}
        if self.samples is not None:
            tensors["samples"] = self.samples
        if self.weights is not None:
            tensors["weights"] = self.weights
        header = {"count": self.count, "space": self.space, "name": self.name, "skipped": self.skipped}
        return write_safetensors(path, tensors, "reference", header)

    @classmethod
    def load(cls, path: str | Path) -> Reference:
        """Read a reference written by :meth:`save`."""
        tensors, header = read_safetensors(path, _LAYOUT)
        with corrupt_file_errors(path):
            skipped = tuple((int(index), str(reason)) for index, reason in header.pop("skipped"))
            if header["count"] < 1:
                raise ValueError(f"it is a reference of {header['count']} inputs.")
            return cls(**tensors, **header, skipped=skipped)


def _as_rows(representations: Any) -> Any:
    """Return representations as an array or a tensor ``[n, d]``, without reading what is on disk."""
    if isinstance(representations, Tensor):
        check_plain(representations)
    if isinstance(representations, Tensor | np.ndarray):
        return representations
    for method in ("to_numpy", "to_pylist"):  # columns of pandas, polars and Arrow
        if hasattr(representations, method):
            representations = getattr(representations, method)()
            break
    if isinstance(representations, np.ndarray) and representations.dtype != object:
        return representations
    try:
        return np.stack([np.asarray(row, dtype=np.float32) for row in representations])
    except (ValueError, TypeError) as error:
        raise ValueError(f"'representations' must be rows of numbers of one length ({error}).") from error


def _summarised(
    batches: Iterable[tuple[Tensor, Tensor | None]], name: str, space: str | None, keep: bool, chosen: str = ""
) -> Reference:
    """Return the reference of batches of vectors ``[n, d]`` and their weights, which were ``chosen`` by a condition."""
    count, total, weighted = 0, 0.0, False
    sums: list[Tensor] = []  # of raw and of unit vectors
    samples, weights = [], []
    for vectors, given in batches:
        factors = torch.ones(len(vectors), dtype=torch.float64) if given is None else given
        parts = [factors @ vectors, factors @ Cosine().features(vectors)]
        sums = [before + part for before, part in zip(sums, parts, strict=True)] if sums else parts
        count, total, weighted = count + len(vectors), total + float(factors.sum()), weighted or given is not None
        if keep:
            samples.append(vectors.float())
            weights.append(factors)
    if not count:
        raise ValueError(f"There are 0 vectors{chosen}; select at least one.")
    if not total > 0:
        raise ValueError("All weights are 0; at least one must be above.")
    return Reference(
        count=count,
        mean=sums[0] / total,
        mean_unit=sums[1] / total,
        samples=torch.cat(samples) if keep else None,
        space=space,
        name=name,
        weights=(torch.cat(weights) * (count / total)).float() if keep and weighted else None,
    )


def check_same_space(references: Sequence[Reference], space: str | None = None, owner: str = "the encoder") -> None:
    """Raise if references do not share one space (nor that of ``owner``, when its ``space`` is given)."""
    for reference in references:
        check_kind("It", reference, Reference, "must be a Reference, as encoder.reference(...) gives")
    known = [reference for reference in references if reference.space is not None]
    wanted = space if space is not None else next((reference.space for reference in known), None)
    for reference in known:
        if wanted is not None and reference.space is not None and not same_space(reference.space, wanted):
            other = owner if space is not None else f"reference {known[0].name!r}"
            raise ValueError(
                f"Reference {reference.name!r} lives in another representation space than {other}: it was made by "
                "another encoder, or the encoder's weights, layer or preprocessing have changed since. "
                "Encode it again with the encoder you explain."
            )
    for reference in references[1:]:
        if reference.dimension != references[0].dimension:
            raise ValueError(
                f"Reference {reference.name!r} has {reference.dimension} dimensions but {references[0].name!r} has "
                f"{references[0].dimension}; both must come from the same encoder."
            )


def caution_overlap(corpus: Reference, foil: Reference) -> None:
    """Caution if more than ``_OVERLAP`` of a corpus or a foil is in the other one too; needs the samples of both."""
    if corpus is foil or not all(side.samples is not None and side.count <= KEPT for side in (corpus, foil)):
        return
    ours, theirs = ({row.tobytes() for row in side.kept("this").numpy()} for side in (corpus, foil))
    common = len(ours & theirs)
    if common > _OVERLAP * min(len(ours), len(theirs)):
        caution(
            "overlap",
            f"{corpus.name} {foil.name}",
            f"{common} of the {len(ours)} distinct samples of {corpus.name!r} are in {foil.name!r} too, where they cancel "
            "out; leave them out of one of the two.",
        )


def foil_size(epsilon: float, delta: float, nonnegative: bool = False) -> int:
    """Return how many foil samples bring an estimate within ``epsilon`` of its mean with probability 1 - ``delta``.

    Hoeffding's bound for the cosine (the paper's sample-size proposition): 2 log(2/δ)/ε², or log(2/δ)/(2ε²) when
    representations are non-negative (after a ReLU, say).

    >>> foil_size(0.05, 0.01, nonnegative=True), foil_size(0.05, 0.01)
    (1060, 4239)
    """
    for name, value, most in (("epsilon", epsilon, 2), ("delta", delta, 1)):
        check_number(name, value)
        if not 1e-9 <= value < most:
            raise ValueError(f"The '{name}' parameter must lie between 0 and {most}. Got {value!r} instead.")
    factor = 0.5 if nonnegative else 2.0
    return math.ceil(factor * math.log(2 / delta) / epsilon**2)


# --- vectors that exist already -------------------------------------------------------------------------------------------


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
    if _from_pyarrow(source) or (path and (path.suffix in (".parquet", *_ARROW) or any(path.glob("**/*.parquet")))):
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
        kind = ("ipc" if source.suffix in _ARROW else "parquet") if isinstance(source, Path) else None
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
