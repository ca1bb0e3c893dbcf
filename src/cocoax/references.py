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

import torch
from torch import Tensor

from cocoax.similarity import Cosine, LinearSimilarity
from cocoax.storage import cache_folder, read_safetensors, write_safetensors


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
        """Return a reference from representations ``[n, d]`` that exist already, say in an index of embeddings.

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

    def __repr__(self) -> str:
        kept = ", samples kept" if self.samples is not None else ""
        return f"Reference({self.name!r}, {self.count} inputs, {self.dimension} dimensions{kept})"

    @property
    def dimension(self) -> int:
        """The length d of its representations."""
        return len(self.mean)

    def mean_features(self, similarity: LinearSimilarity) -> Tensor:
        """Return the mean feature vector ``[d]`` of a linear similarity: of unit vectors (cosine) or of raw ones (dot)."""
        if similarity.summary is None:
            return similarity.features(self.points(similarity.name).double()).mean(0)
        return {"mean": self.mean, "mean_unit": self.mean_unit}[similarity.summary]

    def points(self, similarity_name: str) -> Tensor:
        """Return the samples ``[n, d]`` for a similarity that needs them; raise if they were not kept."""
        if self.samples is None:
            raise ValueError(
                f"Reference {self.name!r} keeps only means, but the {similarity_name} similarity compares with every sample; "
                "encode it again with keep_samples=True."
            )
        return self.samples

    def merge(self, *others: Reference, name: str | None = None) -> Reference:
        """Return the reference of all inputs together; every part weighs as many inputs as it has."""
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
        """Write it as safetensors; return the path."""
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
    """Return how many foil samples bring an estimate within ``epsilon`` of its mean with probability 1 - ``delta``.

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
    """Return the cached chunk with this key, if there is one that can be read."""
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
