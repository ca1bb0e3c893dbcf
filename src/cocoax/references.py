"""References: what corpora C and foils F are reduced to.

A reference is streamed once and keeps its count and the means of raw and of unit representations, which is all that the
linear similarities need; the samples themselves are kept on request, for kernels. Chunks of every stream are cached
on disk under a fingerprint of the encoder and of the inputs, so nothing is encoded twice and a stream that stops half
way goes on where it stopped.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cocoax.similarity import Cosine, LinearSimilarity
from cocoax.storage import cache_folder, read_safetensors, write_safetensors
from cocoax.vectors import Selection, read_vectors


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

    """

    count: int
    mean: Tensor
    mean_unit: Tensor
    samples: Tensor | None = None
    space: str | None = None
    name: str = "reference"
    skipped: tuple[tuple[int, str], ...] = field(default=(), repr=False)

    @classmethod
    def from_representations(
        cls, representations: Tensor, *, name: str = "reference", space: str | None = None, keep_samples: bool = True
    ) -> Reference:
        """A reference from representations ``[n, d]`` that exist already, say in an index of embeddings.

        Without a ``space`` it fits every encoder of the same dimension.
        """
        if representations.ndim != 2 or len(representations) == 0:
            raise ValueError(
                f"'representations' must have shape [n, d] with n >= 1. Got {list(representations.shape)} instead."
            )
        samples = representations.detach().to("cpu", torch.float32, copy=True)
        if not bool(torch.isfinite(samples).all()):
            raise ValueError("'representations' must be finite; some are NaN or infinite. Leave those rows out.")
        zero = (samples == 0).all(1).nonzero()[:, 0].tolist()
        if zero:
            raise ValueError(f"Representation {zero[0]} of {len(samples)} is zero, so it has no direction; leave it out.")
        wide = samples.double()
        return cls(
            count=len(samples),
            mean=wide.mean(0),
            mean_unit=Cosine().features(wide).mean(0),
            samples=samples if keep_samples else None,
            space=space,
            name=name,
        )

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
        """A reference from a store of vectors, read batch by batch: ten million of them take the memory of one batch.

        Args:
            source: an array, memory map or .npy file ``[n, d]``; a Parquet or Arrow file or pyarrow table; a FAISS index; a
                LanceDB table; ``(client, collection)`` of Qdrant.
            where: which rows: ``{column: value}`` or ``{column: [values]}``; a boolean for each row, or row numbers; or the
                store's own kind of filter (a pyarrow expression, SQL for LanceDB, a Filter of Qdrant).
            weights: a column, or a number for each row of the store; by default every row counts the same.
            column: of the vectors, ``"vector"`` if not given.
            name: what pictures and tables call it.
            space: ``encoder.space``, if the vectors are known to be that encoder's. Without it the reference fits every
                encoder of the same dimension.
            keep_samples: keep every vector, as kernel similarities need; they cannot be weighted.

        """
        if keep_samples and weights is not None:
            raise ValueError("Samples have no weights: leave out keep_samples=True, or weights=.")
        count, total = 0, 0.0
        sums: list[Tensor] = []
        samples = []
        for _, vectors, batch_weights in read_vectors(source, Selection(column, where, weights)):
            factors = torch.ones(len(vectors), dtype=torch.float64) if batch_weights is None else batch_weights
            parts = [factors @ vectors, factors @ Cosine().features(vectors)]
            sums = parts if not sums else [before + part for before, part in zip(sums, parts, strict=True)]
            count, total = count + len(vectors), total + float(factors.sum())
            samples += [vectors.float()] if keep_samples else []
        if not count:
            chosen = "" if where is None else f" where {where!r:.80}"
            raise ValueError(f"There are 0 vectors{chosen}; select at least one.")
        if not total > 0:
            raise ValueError("All weights are 0; at least one must be above.")
        mean, mean_unit = (part / total for part in sums)
        return cls(count, mean, mean_unit, torch.cat(samples) if keep_samples else None, space, name)

    def __repr__(self) -> str:
        kept = ", samples kept" if self.samples is not None else ""
        return f"Reference({self.name!r}, {self.count} inputs, {self.dimension} dimensions{kept})"

    @property
    def dimension(self) -> int:
        """The length d of its representations."""
        return len(self.mean)

    def mean_features(self, similarity: LinearSimilarity) -> Tensor:
        """The mean feature vector ``[d]`` for a linear similarity: mean of unit vectors (cosine) or of raw ones (dot)."""
        if similarity.summary is None:
            return similarity.features(self._kept("a similarity of your own").double()).mean(0)
        return {"mean": self.mean, "mean_unit": self.mean_unit}[similarity.summary]

    def _kept(self, purpose: str) -> Tensor:
        if self.samples is None:
            raise ValueError(
                f"Reference {self.name!r} keeps only means, but {purpose} compares with every sample; "
                "encode it again with keep_samples=True."
            )
        return self.samples

    def points(self, similarity_name: str) -> Tensor:
        """The samples ``[n, d]`` for a kernel similarity; an error says what to do if they were not kept."""
        return self._kept(f"the {similarity_name} similarity")

    def merge(self, *others: Reference, name: str | None = None) -> Reference:
        """The reference of all inputs together; every part weighs as many inputs as it has."""
        parts = (self, *others)
        check_same_space(parts)
        count = sum(part.count for part in parts)
        kept = [part.samples for part in parts if part.samples is not None]
        return replace(
            self,
            count=count,
            mean=sum((part.mean * (part.count / count) for part in parts), torch.zeros_like(self.mean)),
            mean_unit=sum((part.mean_unit * (part.count / count) for part in parts), torch.zeros_like(self.mean)),
            samples=torch.cat(kept) if len(kept) == len(parts) else None,
            space=next((part.space for part in parts if part.space is not None), None),
            name=name if name is not None else " and ".join(dict.fromkeys(part.name for part in parts)),
            skipped=tuple(item for part in parts for item in part.skipped),
        )

    def save(self, path: str | Path) -> Path:
        """Write it as safetensors; returns the path."""
        tensors = {"mean": self.mean, "mean_unit": self.mean_unit}
        if self.samples is not None:
            tensors["samples"] = self.samples
        header = {"count": self.count, "space": self.space, "name": self.name, "skipped": self.skipped}
        return write_safetensors(path, tensors, "reference", header)

    @classmethod
    def load(cls, path: str | Path) -> Reference:
        """Read a reference written by :meth:`save`."""
        tensors, header = read_safetensors(path, "reference")
        skipped = tuple((int(index), str(reason)) for index, reason in header.pop("skipped"))
        return cls(**tensors, **header, skipped=skipped)


def check_same_space(references: Sequence[Reference], space: str | None = None, owner: str = "the encoder") -> None:
    """Raise if references do not share one space (nor that of ``owner``, when its ``space`` is given)."""
    known = [reference for reference in references if reference.space is not None]
    wanted = space if space is not None else next((reference.space for reference in known), None)
    for reference in known:
        if reference.space != wanted:
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


def foil_size(epsilon: float, delta: float, nonnegative: bool = False) -> int:
    """How many foil samples bring the estimate within ``epsilon`` of its expectation with probability 1 - ``delta``.

    Hoeffding's bound for the cosine (the paper's sample-size proposition): 2 log(2/δ)/ε², or log(2/δ)/(2ε²) when
    representations are non-negative (after a ReLU, say).

    >>> foil_size(0.05, 0.01, nonnegative=True), foil_size(0.05, 0.01)
    (1060, 4239)
    """
    if not epsilon > 0:
        raise ValueError(f"The 'epsilon' parameter must be above 0. Got {epsilon!r} instead.")
    if not 0 < delta < 1:
        raise ValueError(f"The 'delta' parameter must lie between 0 and 1. Got {delta!r} instead.")
    factor = 0.5 if nonnegative else 2.0
    return math.ceil(factor * math.log(2 / delta) / epsilon**2)


def cached(key: str) -> Reference | None:
    """The cached chunk with this key, if there is one that can be read."""
    path = cache_folder() / "references" / f"{key}.safetensors"
    if not path.exists():
        return None
    try:
        return Reference.load(path)
    except (ValueError, TypeError, KeyError):  # cut off by a crash, or from another version: encode it again
        return None


def store(key: str, reference: Reference) -> None:
    """Put a chunk into the cache; a cache that cannot be written is worth a warning, not an end."""
    try:
        reference.save(cache_folder() / "references" / f"{key}.safetensors")
    except OSError as error:
        warnings.warn(f"The cache folder {cache_folder()} cannot be written ({error}); going on without.", stacklevel=2)
