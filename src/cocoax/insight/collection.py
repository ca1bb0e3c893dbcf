"""Where corpora are looked for: inputs with their encoder, or an index, which holds representations and fields already."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from cocoax.encoders import Encoder
from cocoax.inputs import Display, Explicand, Inputs, Pictures
from cocoax.inputs.open import each_input
from cocoax.insight.subset_search import Subsets, labels_of
from cocoax.masking import MaskedEncoder
from cocoax.methods import Attribution, Field, Rise
from cocoax.methods.estimate import Origin
from cocoax.methods.field import default_grid, feature_vectors
from cocoax.methods.method import check_encoder
from cocoax.methods.removal import RemovalMethod
from cocoax.progress import bar
from cocoax.seeding import stream
from cocoax.similarity import LinearSimilarity, Similarity, get_similarity
from cocoax.targets import Target

if TYPE_CHECKING:
    from cocoax.survey import Index

MAX_INPUTS = 5000  # inputs whose parts are looked at; of more, so many are drawn
_CELLS = 3  # of a map of pixels that is no picture, in each direction: the parts that are kept alone


@dataclass(frozen=True, eq=False)
class PartVectors:
    """Vectors of parts ``[n, d]``, and the number of the input that each is a part of ``[n]``.

    ``whole`` says that each is the vector of a whole input.
    """

    vectors: np.ndarray
    owners: np.ndarray
    whole: bool = False


class Collection(ABC):
    """Inputs of one encoder.

    Attributes:
        encoder: what encodes; None if it is not at hand.
        similarity: the one in whose feature space corpora are looked for.
        space: the representation space.
        noun: what one input is called.

    """

    encoder: Encoder | None
    similarity: LinearSimilarity
    space: str
    noun: str

    @property
    @abstractmethod
    def representations(self) -> Tensor:
        """The representations of all inputs, ``[n, d]``."""

    def __len__(self) -> int:
        return len(self.representations)

    @abstractmethod
    def label(self, number: int) -> str:
        """Return what to call an input."""

    @abstractmethod
    def texts(self) -> list[str]:
        """Return the inputs that are texts."""

    @abstractmethod
    def maps(self, numbers: Sequence[int], target: Target) -> list[Attribution]:
        """Return the maps of a target on some inputs."""

    @abstractmethod
    def displays(self, numbers: Sequence[int]) -> list[Display | None]:
        """Return how some inputs are shown, small."""

    def whole(self) -> PartVectors:
        """Return the feature vectors of whole inputs."""
        vectors = self.similarity.features(self.representations.double()).float().numpy()
        return PartVectors(vectors, np.arange(len(vectors)), whole=True)

    def parts(self, kind: str, seed: int) -> PartVectors:
        """Return vectors of the parts of all inputs, or of 5000 that are drawn.

        ``kind`` is ``"fields"``, what each part does in its input, or ``"crops"``, feature vectors of parts by themselves:
        windows of pictures, and of other kinds features that are kept alone.
        """
        drawn = self._drawn(seed)
        vectors = self._parts_of(drawn, kind)
        return PartVectors(np.concatenate(vectors), np.repeat(drawn, [len(own) for own in vectors]))

    def _drawn(self, seed: int) -> np.ndarray:
        count = len(self)
        return np.arange(count) if count <= MAX_INPUTS else np.sort(stream(seed, 8).choice(count, MAX_INPUTS, replace=False))

    @abstractmethod
    def _parts_of(self, numbers: np.ndarray, kind: str) -> list[np.ndarray]:
        """Return the vectors ``[parts, d]`` of each of some inputs."""


class _HeldInputs(Collection):
    """Inputs that a user holds, with their encoder."""

    def __init__(self, encoder: Encoder, inputs: Any, similarity: str | Similarity, method: RemovalMethod | None) -> None:
        check_encoder(encoder)
        self.encoder: Encoder = encoder
        self.items = list(each_input(inputs, encoder.inputs)[0])
        if not self.items:
            raise ValueError("There are 0 inputs; corpora are found among many, so pass a hundred or more.")
        self.similarity = _linear(similarity)
        self.space, self.noun = encoder.space, encoder.inputs.noun
        self.method = Rise(samples=200) if method is None else method
        self._field_of = cache(self._field_of_run)  # of an input by its number; maps are made of it

    @cached_property
    def representations(self) -> Tensor:
        samples = self.encoder.reference(self.items, keep_samples=True).samples
        assert samples is not None
        return samples

    def label(self, number: int) -> str:
        return f"{self.encoder.inputs.label(self.items[number])} ({number})"

    def texts(self) -> list[str]:
        return [item for item in self.items if isinstance(item, str)]

    def maps(self, numbers: Sequence[int], target: Target) -> list[Attribution]:
        return [self._field_of(number).explain(target) for number in numbers]

    def displays(self, numbers: Sequence[int]) -> list[Display | None]:
        return [self.encoder.explicand(self.items[number]).display.small() for number in numbers]

    def _parts_of(self, numbers: np.ndarray, kind: str) -> list[np.ndarray]:
        vectors = []
        with bar(len(numbers), f"{kind} of {self.encoder.name}") as shown:
            for number in numbers.tolist():
                if kind == "crops":
                    own = self._crops(number)
                else:
                    field = self._field_of(number)
                    own = (field.values - field.neutral).flatten(0, -2)
                vectors.append(own.float().numpy())
                shown.update()
        return vectors

    def _field_of_run(self, number: int) -> Field:
        run = self.method.run(self.encoder, self.items[number], progress=False)
        shape = run.explicand.shape
        grid = default_grid(self.method, shape, 1) if len(shape) == 2 else None
        field: Field = run.field(self.similarity, grid=grid, groups=0)
        return field

    def _crops(self, number: int) -> Tensor:
        """Return the feature vectors ``[parts, d]`` of an input's windows; of kinds without windows, of parts kept alone."""
        explicand = self.encoder.explicand(self.items[number])
        windows = _windows(self.encoder.inputs, explicand)
        if windows is not None:
            self._field_of = cache(self._field_of_windows)
            return self._encoded(windows).flatten(0, 1)
        shape = tuple(explicand.shape)
        labels = labels_of(shape, (min(_CELLS, shape[0]), min(_CELLS, shape[-1])))
        masked = MaskedEncoder(self.encoder, explicand, self.method.baseline)
        alone = Subsets(labels, torch.eye(int(labels.max()) + 1, dtype=torch.uint8))
        features, ends = feature_vectors(torch.cat(list(masked.encode(alone))), masked.anchors, self.similarity)
        return features - ends[1]

    def _field_of_windows(self, number: int) -> Field:
        """Return the feature vectors of an input's windows as its field: its map is what each window scores by itself."""
        explicand = self.encoder.explicand(self.items[number])
        windows = _windows(self.encoder.inputs, explicand)
        assert windows is not None  # or it had not been cut
        values, own = self._encoded(windows), self.representations[number]
        middle = values.flatten(0, 1).mean(0)
        ends = torch.stack([self.similarity.features(own[None].double())[0], middle])
        origin = Origin({"type": "windows"}, self.encoder.name, self.space)
        return Field(values.float(), middle.float(), ends.float(), own, self.similarity, origin, explicand.display)

    def _encoded(self, windows: Tensor) -> Tensor:
        """Return the feature vectors of windows, ``[rows, columns, d]``."""
        flat = list(windows.flatten(0, 1))
        size = self.encoder.batch_size(flat[0])
        encoded = torch.cat([self.encoder.encode(flat[start : start + size]) for start in range(0, len(flat), size)])
        return self.similarity.features(encoded.double()).view(*windows.shape[:2], -1)


class _IndexRows(Collection):
    """The rows of an index."""

    def __init__(self, index: Index, encoder: Encoder | None) -> None:
        index.check_any()
        if encoder is not None:
            index.encoder = encoder
        self.index, self.similarity = index, index.similarity
        self.space, self.noun = index.manifest.space, index.manifest.noun

    @cached_property
    def encoder(self) -> Encoder | None:  # type: ignore[override]
        try:
            return self.index.encoder
        except (ValueError, OSError, ImportError):  # it cannot be loaded by its name
            return None

    @property
    def representations(self) -> Tensor:
        return self.index.representations

    def label(self, number: int) -> str:
        return self.index.ids[number]

    def texts(self) -> list[str]:
        shown = self.index.displays(self._drawn(0).tolist())
        return [text for display in shown if (text := getattr(display, "text", None))]

    def maps(self, numbers: Sequence[int], target: Target) -> list[Attribution]:
        return self.index.attributions(list(numbers), target)

    def displays(self, numbers: Sequence[int]) -> list[Display | None]:
        return self.index.displays(list(numbers))

    def _parts_of(self, numbers: np.ndarray, kind: str) -> list[np.ndarray]:
        if kind == "crops":
            raise ValueError("An index holds fields, and no inputs that could be cut into crops; use method='fields'.")
        return [part.flatten(0, -2).numpy() for part in self.index.field_vectors(numbers)]


@singledispatch
def _windows(kind: Inputs, explicand: Explicand) -> Tensor | None:
    """Return windows of an input as inputs of their own, prepared, ``[rows, columns, ...]``; None for kinds without."""
    return None


@_windows.register
def _(kind: Pictures, explicand: Explicand) -> Tensor:
    """Return windows of a quarter of the height and width, at every half of one, enlarged to the size of the whole."""
    size = explicand.tensor.shape[-2:]
    cut = explicand.tensor
    for dimension, side in enumerate(size, start=1):
        cut = cut.unfold(dimension, max(1, side // 4), max(1, side // 8))
    rows, columns = cut.shape[1:3]
    pieces = cut.permute(1, 2, 0, 3, 4).flatten(0, 1)
    return functional.interpolate(pieces, size, mode="bilinear").view(rows, columns, *explicand.tensor.shape)


def _linear(similarity: str | Similarity) -> LinearSimilarity:
    """Return a similarity that has feature vectors; raise for others, in whose space nothing can be averaged."""
    known = get_similarity(similarity)
    if not isinstance(known, LinearSimilarity):
        raise ValueError(f"Corpora are found among feature vectors, which {known.name} does not have; use cosine or dot.")
    return known


def collection_of(
    encoder: Encoder | None, inputs: Any, similarity: str | Similarity, method: RemovalMethod | None
) -> Collection:
    """Return inputs, or an index, as what corpora are looked for in."""
    module = sys.modules.get("cocoax.survey.index")  # who has an index has imported it
    if module is not None and isinstance(inputs, module.Index):
        return _IndexRows(inputs, encoder)
    if encoder is None:
        raise ValueError("Only an index knows its encoder; pass the encoder of these inputs.")
    return _HeldInputs(encoder, inputs, similarity, method)
