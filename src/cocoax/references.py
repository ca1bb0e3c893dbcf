"""References: summaries of the representations of a corpus C or a foil F.

A reference holds the number of inputs and the means of raw and of unit representations, which suffice for the linear
similarities; the representations themselves are kept on request, for kernels. Inputs are encoded in chunks, each of which is
cached on disk under a key of the encoder and of the inputs: nothing is encoded twice, and an interrupted stream resumes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocoax.cautions import caution
from cocoax.checks import as_numbers, check_kind, check_number, check_plain, shown
from cocoax.similarity import Cosine, LinearSimilarity
from cocoax.spaces import same_space
from cocoax.store import KeyedCache, Layout, corrupt_file_errors, prefix_errors, read_safetensors, write_safetensors
from cocoax.vectors import read_vectors

CHUNKS = KeyedCache("references")  # of streams of inputs
KEPT = 10_000  # samples that a reference keeps by default
OVERLAP = 0.1  # fraction of the smaller of corpus and foil that may be in the other one without a caution
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
    """Caution if more than ``OVERLAP`` of a corpus or a foil is in the other one too; needs the samples of both."""
    if corpus is foil or not all(side.samples is not None and side.count <= KEPT for side in (corpus, foil)):
        return
    ours, theirs = ({row.tobytes() for row in side.kept("this").numpy()} for side in (corpus, foil))
    common = len(ours & theirs)
    if common > OVERLAP * min(len(ours), len(theirs)):
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
