"""Discovery: corpora found among inputs, and names for them, as sparse sums of words (SpLiCE, Bhalla et al. 2024)."""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from cocoax.checks import as_items, check_count
from cocoax.data import caption, cifar100
from cocoax.encoders import Encoder
from cocoax.encoders.families.starter import imagenet_classes
from cocoax.evaluation.curves import logits_of
from cocoax.evaluation.separability import Separability, mann_whitney
from cocoax.inputs import Display, Explicand, Inputs, Pictures
from cocoax.inputs.open import each_input
from cocoax.insight.clustering import (
    ExplainedVariance,
    Grouping,
    Groups,
    curve,
    elbow,
    hdbscan,
    kmeans,
    nmf,
    stability,
)
from cocoax.insight.concept_vectors import Importance, tcav
from cocoax.insight.subset_search import Subsets, labels_of
from cocoax.masking import MaskedEncoder
from cocoax.methods import Attribution, Field, Rise
from cocoax.methods.estimate import Origin
from cocoax.methods.field import default_grid, feature_vectors
from cocoax.methods.method import check_encoder
from cocoax.methods.run import RemovalMethod
from cocoax.progress import bar
from cocoax.references import KEPT, Reference
from cocoax.results import ResultList
from cocoax.seeding import check_seed, stream
from cocoax.show import Curves, Gallery, Line, Paragraph, PlotOptions, Table, View
from cocoax.similarity import LinearSimilarity, Similarity, get_similarity
from cocoax.store import free_ending, write_text
from cocoax.targets import Target, class_score, similarity_to

if TYPE_CHECKING:
    from cocoax.survey import Index

# --- inputs and indexes ---------------------------------------------------------------------------------------------------

_MAX_INPUTS = 5000  # inputs whose parts are looked at; of more, so many are drawn
_CELLS = 3  # of a map of pixels that is no picture, in each direction: the parts that are kept alone


@dataclass(frozen=True, eq=False)
class _PartVectors:
    """Vectors of parts ``[n, d]``, and the number of the input that each is a part of ``[n]``.

    ``whole`` says that each is the vector of a whole input.
    """

    vectors: np.ndarray
    owners: np.ndarray
    whole: bool = False


class _Collection(ABC):
    """Inputs of one encoder.

    Attributes:
        encoder: what encodes; None if it is not at hand.
        similarity: the one in whose feature space corpora are looked for.
        space: the representation space.
        noun: what one input is called.
        nouns: what several are called.

    """

    encoder: Encoder | None
    similarity: LinearSimilarity
    space: str
    noun: str
    nouns: str

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

    def whole(self) -> _PartVectors:
        """Return the feature vectors of whole inputs."""
        vectors = self.similarity.features(self.representations.double()).float().numpy()
        return _PartVectors(vectors, np.arange(len(vectors)), whole=True)

    def parts(self, kind: str, seed: int) -> _PartVectors:
        """Return vectors of the parts of all inputs, or of 5000 that are drawn.

        ``kind`` is ``"fields"``, what each part does in its input, or ``"crops"``, feature vectors of parts by themselves:
        windows of pictures, and of other kinds features that are kept alone.
        """
        drawn = self._drawn(seed)
        vectors = self._parts_of(drawn, kind)
        return _PartVectors(np.concatenate(vectors), np.repeat(drawn, [len(own) for own in vectors]))

    def _drawn(self, seed: int) -> np.ndarray:
        count = len(self)
        return (
            np.arange(count) if count <= _MAX_INPUTS else np.sort(stream(seed, 8).choice(count, _MAX_INPUTS, replace=False))
        )

    @abstractmethod
    def _parts_of(self, numbers: np.ndarray, kind: str) -> list[np.ndarray]:
        """Return the vectors ``[parts, d]`` of each of some inputs."""


class _HeldInputs(_Collection):
    """Inputs that a user holds, with their encoder."""

    def __init__(self, encoder: Encoder, inputs: Any, similarity: str | Similarity, method: RemovalMethod | None) -> None:
        check_encoder(encoder)
        self.encoder: Encoder = encoder
        self.items = list(each_input(inputs, encoder.inputs)[0])
        if not self.items:
            raise ValueError("There are 0 inputs; corpora are found among many, so pass a hundred or more.")
        self.similarity = _linear(similarity)
        self.space, self.noun, self.nouns = encoder.space, encoder.inputs.noun, encoder.inputs.nouns
        self.method = Rise(samples=200) if method is None else method
        self._fields: dict[tuple[int, bool], Field] = {}
        self._by_windows = False  # whether a map is made of windows, as what was looked at

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

    def _field_of(self, number: int) -> Field:
        """Return the field of an input, of which maps are made."""
        key = number, self._by_windows
        if key not in self._fields:
            self._fields[key] = self._field_of_windows(number) if self._by_windows else self._field_of_run(number)
        return self._fields[key]

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
            self._by_windows = True
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


class _IndexRows(_Collection):
    """The rows of an index."""

    def __init__(self, index: Index, encoder: Encoder | None) -> None:
        index.check_any()
        if encoder is not None:
            index.encoder = encoder
        self.index, self.similarity = index, index.similarity
        self.space, self.noun, self.nouns = index.manifest.space, index.manifest.noun, index.manifest.nouns

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


def _collection_of(
    encoder: Encoder | Index | None, inputs: Any, similarity: str | Similarity, method: RemovalMethod | None
) -> _Collection:
    """Return inputs, or an index, as what corpora are looked for in."""
    module = sys.modules.get("cocoax.survey.index")  # who has an index has imported it
    if inputs is None and module is not None and isinstance(encoder, module.Index):
        encoder, inputs = None, encoder
    own = cast("Encoder | None", encoder)
    if module is not None and isinstance(inputs, module.Index):
        return _IndexRows(inputs, own)
    if own is None:
        raise ValueError("Only an index knows its encoder; pass the encoder of these inputs.")
    return _HeldInputs(own, inputs, similarity, method)


# --- names ----------------------------------------------------------------------------------------------------------------

_MAX_WORDS = 3  # of a name
_MAX_VOCABULARY = 1000  # words of texts that are their own vocabulary
_MIN_WEIGHT = 0.05  # of a word in a name
# Classes of CIFAR-10 and superclasses of CIFAR-100: words for kinds of things.
_KINDS = (
    *("airplane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck", "fish", "flower", "food", "fruit"),
    *("vegetable", "household appliance", "furniture", "insect", "carnivore", "building", "landscape", "mammal", "person"),
    *("invertebrate", "reptile", "rodent", "tree", "vehicle", "container", "tool", "clothing", "musical instrument"),
)


@dataclass(frozen=True)
class _Word:
    """A word in the name of a corpus, and its weight in the sum."""

    word: str
    weight: float


def _sparse_sum(
    direction: np.ndarray, vocabulary: np.ndarray, words: Sequence[str], most: int = _MAX_WORDS
) -> tuple[_Word, ...]:
    """Return the sparse non-negative combination of words closest to a direction ``[d]``, largest weight first.

    Words ``[v, d]`` enter in the order of the non-negative lasso (least angle regression) until there are ``most``; their
    weights are then fitted by non-negative least squares. Directions and words must be centred; lengths do not count.
    """
    from scipy.optimize import nnls
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import lars_path

    rows = vocabulary / np.maximum(np.linalg.norm(vocabulary, axis=1, keepdims=True), 1e-12)
    unit = direction / max(float(np.linalg.norm(direction)), 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, _, paths = lars_path(rows.T, unit, method="lasso", positive=True, max_iter=most)
    chosen = np.flatnonzero(paths[:, -1] > 0)
    if not len(chosen):
        return ()
    weights, _ = nnls(rows[chosen].T, unit)
    order = np.argsort(-weights, kind="stable")[:most]
    return tuple(_Word(words[chosen[place]], float(weights[place])) for place in order if weights[place] >= _MIN_WEIGHT)


def _name_corpora(
    collection: _Collection, directions: Sequence[np.ndarray], vocabulary: Any = None
) -> list[tuple[_Word, ...]]:
    """Return words for each direction ``[d]`` of the feature space; none where the encoder has no text tower."""
    encoder = collection.encoder
    tower: Encoder | None = getattr(encoder, "text", None)
    if tower is None:
        if vocabulary is not None:
            raise ValueError(
                "Words need an encoder with a text tower, such as cocoax.load('starter'); leave out 'vocabulary'."
            )
        return [()] * len(directions)
    reads_texts = tower is encoder
    words = _words(collection, reads_texts) if vocabulary is None else as_items("A vocabulary", vocabulary)
    if not words:
        raise ValueError("The vocabulary is empty; give at least one word.")
    captions = words if reads_texts else [caption(word, "a {}") for word in words]
    known = tower.reference(captions, name="vocabulary", keep_samples=True)
    vectors = collection.similarity.features(known.kept("a vocabulary").double()).numpy()
    vectors = vectors - vectors.mean(0) if len(vectors) > 1 else vectors
    return [_sparse_sum(direction, vectors, words) for direction in directions]


def _words(collection: _Collection, reads_texts: bool) -> list[str]:
    """Return the words that are tried: for pictures the names of classes of ImageNet and CIFAR, for texts their own."""
    if not reads_texts:
        return list(dict.fromkeys([*_KINDS, *imagenet_classes(), *cifar100()]))
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(stop_words="english", max_features=_MAX_VOCABULARY, token_pattern=r"(?u)\b[^\W\d_]{3,}\b")
    try:
        return list(counter.fit(collection.texts()).get_feature_names_out())
    except ValueError as error:
        raise ValueError(f"The texts hold no words to name corpora with ({error}); give a 'vocabulary'.") from error


# --- discovery ------------------------------------------------------------------------------------------------------------

_DiscoveryMethod = Literal["kmeans", "hdbscan", "fields", "crops"]
_GROUPINGS: dict[str, Grouping] = {"kmeans": kmeans, "hdbscan": hdbscan, "fields": nmf, "crops": kmeans}
PARTS = ("fields", "crops")  # methods that group parts of inputs
_TYPICAL = 6  # members that are shown
_MAPS = 3  # of them that a page shows with their maps
_STRONG = 0.5  # of the strength of typical members: an input with a part of this strength is a member


@dataclass(frozen=True, eq=False)
class FoundCorpus:
    """A corpus that was found.

    Attributes:
        number: from 1, the largest first.
        name: its words, or its number where there are none.
        reference: what can be asked about, as any corpus.
        members: the numbers of the inputs that belong to it, the most typical first.
        stability: how much of it comes back when inputs are drawn again: above 0.75 it is stable, below 0.5 it is gone; None
            where there are too few inputs to tell.
        words: a sparse sum of words that comes closest to it.

    """

    number: int
    name: str
    reference: Reference
    members: np.ndarray = field(repr=False)
    stability: float | None
    words: tuple[_Word, ...] = ()

    def __repr__(self) -> str:
        return f"FoundCorpus({self.number}, {self.name!r}, {len(self.members)} inputs, stability {self.how_stable})"

    @property
    def how_stable(self) -> str:
        """The stability as text."""
        return "unknown, too few inputs to tell" if self.stability is None else f"{self.stability:.2f}"


@dataclass(frozen=True, eq=False)
class Discovery(ResultList[FoundCorpus]):
    """Corpora found among inputs; made by :func:`cocoax.discover`.

    Attributes:
        corpora: those found, the largest first.
        method: how.
        explained: the share of the variance that all of them explain, of representations or of parts.
        curve: how much other numbers of corpora would explain.
        everything: the reference of all that was looked at, which corpora are contrasted with.
        collection: the inputs.
        checked: what :meth:`check` said about words, to be shown with it.
        importances: what :meth:`importance` said about a class, to be shown with it.

    """

    file: ClassVar[str] = "discovery"
    corpora: tuple[FoundCorpus, ...]
    method: str
    explained: float
    curve: tuple[ExplainedVariance, ...]
    everything: Reference
    collection: _Collection = field(repr=False)
    checked: Mapping[str, list[tuple[FoundCorpus, Separability]]] = field(default_factory=dict, repr=False)
    importances: tuple[Importance, ...] = field(default=(), repr=False)

    @property
    def parts(self) -> tuple[FoundCorpus, ...]:
        """The corpora."""
        return self.corpora

    def __repr__(self) -> str:
        few = ", ".join(repr(found.name) for found in self.corpora[:3])
        more = ", …" if len(self) > 3 else ""
        return f"Discovery({len(self)} corpora by {self.method}, {self.explained:.0%} explained: {few}{more})"

    @property
    def enough(self) -> int | None:
        """The number of corpora at which the curve bends most; None where it is not known."""
        return elbow(self.curve)

    @property
    def labels(self) -> np.ndarray:
        """The corpus of each input, counted from 0, ``[n]``: the first that has it; -1 for none."""
        labels = np.full(len(self.collection), -1)
        for found in reversed(self.corpora):
            labels[found.members] = found.number - 1
        return labels

    def target(self, found: FoundCorpus) -> Target:
        """Return the target of a corpus: the similarity to it minus the similarity to all inputs."""
        similarity = self.collection.similarity
        everything = replace(self.everything, samples=None, weights=None)  # its mean; that the corpus is in it is meant
        return (similarity_to(found.reference, similarity) - similarity_to(everything, similarity)).named(found.name)

    def maps(self, found: FoundCorpus, count: int = _TYPICAL) -> list[Attribution]:
        """Return the maps of its typical members: what in them makes them like the corpus, rather than like everything."""
        return self.collection.maps(found.members[:count].tolist(), self.target(found))

    def check(self, concept: str | Reference) -> list[tuple[FoundCorpus, Separability]]:
        """Return how well a concept separates the members of each corpus from all other inputs, best first.

        A concept is a word or a caption, for encoders with a text tower, or a reference.
        """
        if isinstance(concept, str):
            tower = getattr(self.collection.encoder, "text", None)
            if tower is None:
                raise ValueError("The encoder has no text tower; give the concept as a reference of examples.")
            concept = tower.reference([concept], name=concept)
        assert isinstance(concept, Reference)
        target = similarity_to(concept, self.collection.similarity)
        target.check_space(self.collection.space)
        scores = target.score(self.collection.representations.double()).numpy()
        checked = []
        for found in self.corpora:
            others = np.setdiff1d(np.arange(len(scores)), found.members)
            if len(found.members) > 1 and len(others) > 1:
                own = np.concatenate([scores[found.members], scores[others]])
                checked.append((found, mann_whitney(own, len(found.members))))
        return sorted(checked, key=lambda pair: -pair[1].auc)

    def importance(self, label: int | str, inputs: Any = None) -> list[Importance]:
        """Return how much each corpus matters to a class of the encoder's head (TCAV), the largest sensitivity first.

        ``inputs`` are examples of the class; by default those of the collection that the head gives to it.
        """
        encoder = self.collection.encoder
        if encoder is None:
            raise ValueError("The encoder of the index is not at hand; set index.encoder to it.")
        if inputs is None:
            everything = self.collection.representations
            own = class_score(encoder, label).score(everything).detach()
            assert encoder.head is not None  # or class_score has said what is missing
            inputs = everything[own >= logits_of(encoder.head, everything).max(1).values]
            if not len(inputs):
                raise ValueError(f"The head gives none of these inputs to {label!r}; pass examples of the class as 'inputs'.")
        return tcav(encoder, inputs, [found.reference for found in self.corpora], label, foil=self.everything)

    def purity(self, labels: str | Sequence[Any] | np.ndarray) -> float:
        """Return the share of inputs whose label is the most frequent one of their corpus; those of none count as wrong.

        ``labels`` of an index may be the name of a column. Raise for corpora of parts, of several of which an input may be a
        member.
        """
        if self.method in PARTS:
            raise ValueError(f"Corpora by {self.method!r} share inputs, so they have no purity; see beside(labels) for each.")
        known = self._checked(labels)
        return sum(count for _, count in self.beside(known).values()) / len(known)

    def beside(self, labels: str | Sequence[Any] | np.ndarray) -> dict[int, tuple[Any, int]]:
        """Return the most frequent label of the inputs of each corpus and how often it occurs, by the corpus' number."""
        known = self._checked(labels)
        counts = {found.number: Counter(known[place] for place in found.members.tolist()) for found in self.corpora}
        return {number: count.most_common(1)[0] for number, count in counts.items() if count}

    def _checked(self, labels: str | Sequence[Any] | np.ndarray) -> list[Any]:
        if isinstance(labels, str) and isinstance(self.collection, _IndexRows):
            labels = self.collection.index.column(labels)
        known = as_items("Labels", labels)
        if len(known) != len(self.collection):
            raise ValueError(f"There are {len(self.collection)} inputs but {len(known)} labels; give one for each.")
        return known

    @property
    def title(self) -> str:
        """The heading of a page."""
        return f"{len(self)} corpora"

    @property
    def summary(self) -> str:
        """The finding, in a sentence."""
        what = "parts" if self.method in PARTS else "representations"
        return (
            f"{len(self)} corpora among {len(self.collection)} {self.collection.nouns}, by {self.method}; together they "
            f"explain {self.explained:.0%} of the variance of the {what}."
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """Where the curve bends, and what stability is."""
        stable = (
            "Stability is how much of a corpus comes back when inputs are drawn again: above 0.75 it is there, below 0.5 it "
            "may be chance."
        )
        return (stable,) if self.enough is None else (f"The curve bends most at {self.enough}.", stable)

    def views(self) -> list[View]:
        """Return the curve of explained variance, typical members of each corpus, and tables of checked words and classes."""
        return self._views(maps=0)

    def _views(self, maps: int) -> list[View]:
        galleries = [self._gallery(found, maps) for found in self.corpora]
        return [*([self._curve()] if self.curve else []), *galleries, *self.asked()]

    def _curve(self) -> Curves:
        numbers = np.array([point.corpora for point in self.curve])
        explained, held_out = (np.array([getattr(point, name) for point in self.curve]) for name in ("explained", "held_out"))
        lines = (
            Line(numbers, explained, "where they were found", {"marker": "o"}),
            Line(numbers, held_out, "on the other half of the inputs", {"marker": "o"}),
        )
        marks: Any = () if self.enough is None else (("x", self.enough, f"bends most at {self.enough}"),)
        return Curves(lines, "corpora", "variance explained", marks, tuple(numbers.tolist()), title="")

    def _gallery(self, found: FoundCorpus, maps: int) -> Gallery:
        """Return typical members of a corpus beside each other, the first few with their maps."""
        members = found.members[:_TYPICAL].tolist()
        drawn = self.maps(found, maps) if maps else []
        tiles: list[View] = []
        for number, display in zip(members, self.collection.displays(members), strict=True):
            label = self.collection.label(number)
            view = None if display is None else display.input_view()
            tiles.append(Paragraph(label, title="") if view is None else replace(view, title="", note=label, alt=label))
        for place, attribution in enumerate(drawn):
            tiles[place] = replace(attribution.view(), title="", note=tiles[place].note)
        limit = max((float(np.abs(each.relative.numpy()).max()) for each in drawn), default=0.0) or None
        title = f"{found.number}. {found.name}" if found.words else found.name
        heading = f"{title}: {len(found.members)} inputs, stability {found.how_stable}"
        note = f"Words: {', '.join(f'{word.word} {word.weight:.2f}' for word in found.words)}." if found.words else ""
        texts = any(isinstance(tile, Paragraph) for tile in tiles)
        columns, inches = (3, 3.2) if texts else (_TYPICAL, 1.6)
        return Gallery(tuple(tiles), columns, limit=limit, inches=inches, title=heading, note=note)

    def asked(self) -> list[Table]:
        """Return tables of checked words and of the importance to a class of the head."""
        made = [
            Table((f"told from the rest by {word!r}", "AUC"), tuple((found.name, str(own)) for found, own in pairs), title="")
            for word, pairs in self.checked.items()
        ]
        if self.importances:
            rows = [
                (each.concept, f"{each.score:.2f}", f"{each.sensitivity:+.3f}", f"{each.p_value:.2g}")
                for each in self.importances
            ]
            header = (f"matters to {self.importances[0].label}", "TCAV", "sensitivity", "p")
            made.append(Table(header, tuple(rows), title=""))
        return made

    def _typical(self, found: FoundCorpus) -> list[str]:
        return [self.collection.label(number) for number in found.members[:_TYPICAL].tolist()]

    def table(self) -> Table:
        """Return one row for each corpus."""
        rows = [
            (found.number, found.name, len(found.members), found.stability, "; ".join(self._typical(found)))
            for found in self.corpora
        ]
        return Table(("number", "name", "inputs", "stability", "typical"), tuple(rows))

    def facts(self) -> dict[str, Any]:
        """Return the corpora, the curve, checked words and importances."""
        return {
            "method": self.method,
            "inputs": len(self.collection),
            "explained": self.explained,
            "enough": self.enough,
            "curve": [vars(point) for point in self.curve],
            "corpora": [
                {
                    "number": found.number,
                    "name": found.name,
                    "words": [vars(word) for word in found.words],
                    "inputs": len(found.members),
                    "stability": found.stability,
                    "typical": self._typical(found),
                    "members": found.members.tolist(),
                }
                for found in self.corpora
            ],
            "checked": {
                word: [{"corpus": found.name, **vars(separability)} for found, separability in checked]
                for word, checked in self.checked.items()
            },
            "importance": [vars(importance) for importance in self.importances],
        }

    def _write_page(self, path: Path, options: PlotOptions) -> None:
        """Write a page with maps of some typical members, which take a while."""
        from cocoax.show import html

        title = self.title if options.title is None else options.title
        write_text(path, html.page(title, self._sentences, self._views(_MAPS), options, self.table(), self.file))

    def _written(self, path: Path, options: PlotOptions) -> list[Path]:
        """Write the files; in a folder there is one for each reference, too."""
        files = super()._written(path, options)
        if files == [path]:
            return files
        folder = path / f"references{free_ending(path, 'references')}"
        return files + [found.reference.save(folder / f"{found.number}.safetensors") for found in self.corpora]


def discover(
    encoder: Encoder | Index | None,
    inputs: Any = None,
    corpora: int = 10,
    method: _DiscoveryMethod = "kmeans",
    *,
    vocabulary: Any = None,
    similarity: str | Similarity = "cosine",
    explainer: RemovalMethod | None = None,
    seed: int = 0,
) -> Discovery:
    """Find corpora among inputs: what the encoder itself puts together.

    Args:
        encoder: what encodes the inputs; or a :class:`cocoax.survey.Index`, which knows its encoder and its inputs.
        inputs: pictures, texts, rows: whatever ``encoder.reference`` takes; or an index, whose encoder may be None.
        corpora: how many to find; HDBSCAN finds up to so many.
        method: ``"kmeans"`` or ``"hdbscan"`` for corpora of whole inputs; for corpora of parts ``"fields"``, a non-negative
            factorisation of what each part does in its input, or ``"crops"``, k-means of what each is like by itself.
        vocabulary: words to name corpora with, where there is a text tower; by default names of ImageNet's and CIFAR-100's
            classes for pictures, and their own words for texts.
        similarity: cosine or dot; an index has its own.
        explainer: what makes fields and maps, by default ``Rise(samples=200)``; an index has fields.
        seed: of all that is random.

    Example:
        >>> inputs = ["a sonata", "a violin", "a choir", "a goal", "a referee", "a striker"]
        >>> found = cocoax.discover(cocoax.load("minilm"), inputs, corpora=2)
        >>> sorted(sorted(inputs[member] for member in corpus.members) for corpus in found)
        [['a choir', 'a sonata', 'a violin'], ['a goal', 'a referee', 'a striker']]

    """
    check_count("corpora", corpora, 2, 10_000)
    check_seed(seed)
    if not isinstance(method, str) or method not in _GROUPINGS:
        raise ValueError(f"The 'method' parameter must be one of {', '.join(_GROUPINGS)}. Got {method!r} instead.")
    collection = _collection_of(encoder, inputs, similarity, explainer)
    _check_inputs(collection, corpora)
    looked_at = _that_matter(collection.parts(method, seed)) if method in PARTS else collection.whole()
    grouping = _GROUPINGS[method]
    groups = grouping(looked_at.vectors, corpora, seed)
    stable = stability(grouping, groups, looked_at.vectors, looked_at.owners, corpora, seed)
    everything = _reference(collection, looked_at, np.arange(len(looked_at.vectors)), None, seed)
    found = [
        _found(collection, looked_at, groups, group, stable[group], seed)
        for group in range(len(groups.centres))
        if (groups.labels == group).any()
    ]
    return Discovery(
        corpora=_named(collection, found, everything, vocabulary),
        method=method,
        explained=groups.explained(looked_at.vectors),
        curve=curve(grouping, looked_at.vectors, looked_at.owners, corpora, seed),
        everything=everything,
        collection=collection,
    )


def _check_inputs(collection: _Collection, corpora: int) -> None:
    """Raise unless there are more different inputs than corpora."""
    count = len(collection)
    if count <= corpora:
        inputs = collection.noun if count == 1 else collection.nouns
        raise ValueError(f"{corpora} corpora cannot be found among {count} {inputs}; ask for fewer, or give more inputs.")
    different = len(np.unique(collection.representations.numpy(), axis=0))
    if different == 1:
        raise ValueError(f"All {count} inputs have the same representation, so there is nothing to find; are they the same?")
    if different <= corpora:
        raise ValueError(
            f"The {count} inputs have {different} different representations, too few for {corpora} corpora; ask for fewer."
        )


def _that_matter(parts: _PartVectors) -> _PartVectors:
    """Return the parts that make a difference."""
    lengths = np.linalg.norm(parts.vectors, axis=1)
    matter = lengths > 1e-6 * max(float(lengths.max()), 1e-30)
    if not float(lengths.max()) > 0:
        raise ValueError("No part of any input makes a difference, so there are no corpora of parts; try method='kmeans'.")
    return _PartVectors(parts.vectors[matter], parts.owners[matter])


def _reference(
    collection: _Collection, parts: _PartVectors, chosen: np.ndarray, weights: np.ndarray | None, seed: int
) -> Reference:
    """Return some vectors as a reference: whole inputs by their representations, parts by their own vectors.

    Of more than a reference keeps, as many are drawn: without samples nothing can be tested.
    """
    if len(chosen) > KEPT:
        drawn = np.sort(stream(seed, 10).choice(len(chosen), KEPT, replace=False))
        chosen, weights = chosen[drawn], None if weights is None else weights[drawn]
    samples = collection.representations[chosen] if parts.whole else parts.vectors[chosen]
    return Reference.from_representations(samples, name="everything", space=collection.space, weights=weights)


def _found(
    collection: _Collection, parts: _PartVectors, groups: Groups, group: int, stable: float | None, seed: int
) -> FoundCorpus:
    """Return one group as a corpus.

    Of parts, an input belongs to it that has one; where parts are sums of groups, one as strong as half a typical one.
    """
    own = np.flatnonzero(groups.labels == group)
    own = own[np.argsort(-groups.strengths[own], kind="stable")]
    reference = _reference(collection, parts, own, groups.strengths[own] if groups.sums else None, seed)
    owners, first = np.unique(parts.owners[own], return_index=True)
    strengths = groups.strengths[own][first]
    order = np.argsort(-strengths, kind="stable")
    owners, strengths = owners[order], strengths[order]
    if groups.sums:
        owners = owners[strengths >= _STRONG * strengths[:_TYPICAL].mean()]
    return FoundCorpus(group + 1, f"corpus {group + 1}", reference, owners, stable)


def _named(
    collection: _Collection, found: Sequence[FoundCorpus], everything: Reference, vocabulary: Any
) -> tuple[FoundCorpus, ...]:
    """Return corpora with numbers by their size, and with names."""
    similarity = collection.similarity
    middle = everything.mean_features(similarity)
    directions = [(corpus.reference.mean_features(similarity) - middle).numpy() for corpus in found]
    words = _name_corpora(collection, directions, vocabulary)
    order = sorted(range(len(found)), key=lambda place: -len(found[place].members))
    named = []
    for number, place in enumerate(order, 1):
        name = ", ".join(word.word for word in words[place]) or f"corpus {number}"
        corpus = found[place]
        reference = replace(corpus.reference, name=name)
        named.append(replace(corpus, number=number, name=name, words=words[place], reference=reference))
    return tuple(named)
