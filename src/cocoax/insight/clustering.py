"""Groups of vectors: k-means, density and non-negative factors, each scikit-learn's, behind one interface."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cocoax.seeding import stream

_RESAMPLES = 10
_MAX_RESAMPLED_VECTORS = 20_000  # vectors, about, of a resample or of a point of the curve
_MAX_FITTED_VECTORS = 50_000  # vectors that factors are fitted to; the others are coded by them
_GROUP_COUNTS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100)
_DENSITY_DIMENSIONS = 20  # principal components in which density is estimated
_MIN_DENSE_VECTORS = 5  # vectors of a dense group


@dataclass(frozen=True, eq=False)
class Groups:
    """Vectors in groups.

    Attributes:
        centres: of the groups, ``[k, d]``.
        labels: the group of each vector, ``[n]``; -1 for none.
        strengths: how strongly each belongs to its group, ``[n]``.
        model: scikit-learn's fitted model, where groups of other vectors are asked of it.
        sums: whether vectors are sums of several groups; the label is then the largest summand.

    """

    centres: np.ndarray
    labels: np.ndarray
    strengths: np.ndarray
    model: Any = None
    sums: bool = False


class _NoDenseGroupsError(ValueError):
    """Raised where no vectors are dense enough to be a group."""


class Grouping(ABC):
    """A way to find groups of vectors ``[n, d]``.

    Attributes:
        counts: whether it finds exactly as many groups as are asked for.

    """

    counts: ClassVar[bool] = True

    @abstractmethod
    def fit(self, vectors: np.ndarray, count: int, seed: int, starts: int = 10) -> Groups:
        """Return the groups; ``starts`` is the number of random starts, of methods that have some."""

    @abstractmethod
    def rebuilt(self, groups: Groups, vectors: np.ndarray) -> np.ndarray:
        """Return the approximation of vectors by the groups, ``[n, d]``."""

    def explained(self, groups: Groups, vectors: np.ndarray) -> float:
        """Return the share of the variance of vectors that the groups explain."""
        left = float(np.square(vectors - self.rebuilt(groups, vectors)).sum())
        return 1 - left / float(np.square(vectors - self.origin(vectors)).sum())

    def origin(self, vectors: np.ndarray) -> np.ndarray:
        """Return what variance is measured from: the mean."""
        mean: np.ndarray = vectors.mean(0)
        return mean


class KMeansGroups(Grouping):
    """k-means: every vector belongs to the group whose mean is closest."""

    def fit(self, vectors: np.ndarray, count: int, seed: int, starts: int = 10) -> Groups:
        """Return the groups."""
        from sklearn.cluster import KMeans

        model = KMeans(count, n_init=starts, random_state=seed).fit(vectors)
        return Groups(
            model.cluster_centers_, model.labels_, _closeness(vectors, model.cluster_centers_, model.labels_), model
        )

    def rebuilt(self, groups: Groups, vectors: np.ndarray) -> np.ndarray:
        """Return the closest centre of each."""
        closest: np.ndarray = groups.centres[groups.model.predict(vectors)]
        return closest


class HdbscanGroups(Grouping):
    """HDBSCAN on the first principal components: groups are where vectors are dense, and some vectors belong to none."""

    counts: ClassVar[bool] = False

    def fit(self, vectors: np.ndarray, count: int, seed: int, starts: int = 10) -> Groups:
        """Return up to ``count`` groups, the largest ones."""
        from sklearn.cluster import HDBSCAN
        from sklearn.decomposition import PCA

        found = np.full(len(vectors), -1)
        if len(vectors) >= _MIN_DENSE_VECTORS:
            flat = PCA(min(_DENSITY_DIMENSIONS, *vectors.shape), random_state=seed).fit_transform(vectors)
            size = max(_MIN_DENSE_VECTORS, len(vectors) // (10 * count))
            found = HDBSCAN(min_cluster_size=size, min_samples=_MIN_DENSE_VECTORS, copy=True).fit(flat).labels_
        sizes = np.bincount(found[found >= 0]) if (found >= 0).any() else np.zeros(0, int)
        if not len(sizes):
            raise _NoDenseGroupsError(
                f"HDBSCAN finds no dense groups among {len(vectors)} vectors; use method='kmeans', which always divides them."
            )
        places = {old: new for new, old in enumerate(np.argsort(-sizes, kind="stable")[:count])}
        labels = np.array([places.get(label, -1) for label in found])
        centres = np.stack([vectors[labels == group].mean(0) for group in range(len(places))])
        return Groups(centres, labels, _closeness(vectors, centres, labels))

    def rebuilt(self, groups: Groups, vectors: np.ndarray) -> np.ndarray:
        """Return the centre of the group of each, and the mean for those of none; these vectors must be the fitted ones."""
        rebuilt: np.ndarray = np.where(groups.labels[:, None] >= 0, groups.centres[groups.labels], vectors.mean(0))
        return rebuilt


class NmfGroups(Grouping):
    """Non-negative factors: every vector is a sum of directions with weights of at least 0.

    Vectors may be negative, and non-negative factorisation takes none that are, so it sees positive and negative parts side
    by side (Kim & Tidor 2003): X ≈ W (H₊ - H₋).
    """

    def fit(self, vectors: np.ndarray, count: int, seed: int, starts: int = 10) -> Groups:
        """Return the groups; a vector belongs to the direction that has the largest part in it."""
        from sklearn.decomposition import NMF
        from sklearn.exceptions import ConvergenceWarning

        halves = _halves(vectors)
        seen = (
            halves
            if len(halves) <= _MAX_FITTED_VECTORS
            else halves[stream(seed, 5).choice(len(halves), _MAX_FITTED_VECTORS, replace=False)]
        )
        model = NMF(count, max_iter=200, tol=1e-3, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(seen)
            codes = model.transform(halves)
        directions = _whole(model.components_)
        parts = codes * np.linalg.norm(directions, axis=1)
        labels = np.where(parts.max(1) > 0, parts.argmax(1), -1)
        return Groups(directions, labels, parts.max(1), model, sums=True)

    def rebuilt(self, groups: Groups, vectors: np.ndarray) -> np.ndarray:
        """Return the weighted sum of directions."""
        from sklearn.exceptions import ConvergenceWarning

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            rebuilt: np.ndarray = groups.model.transform(_halves(vectors)) @ groups.centres
        return rebuilt

    def origin(self, vectors: np.ndarray) -> np.ndarray:
        """Return zero: a part that makes no difference."""
        return np.zeros(vectors.shape[1])


def _halves(vectors: np.ndarray) -> np.ndarray:
    return np.concatenate([vectors.clip(min=0), (-vectors).clip(min=0)], axis=1)


def _whole(halves: np.ndarray) -> np.ndarray:
    positive, negative = np.split(halves, 2, axis=1)
    whole: np.ndarray = positive - negative
    return whole


def _closeness(vectors: np.ndarray, centres: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the cosine between each vector and the centre of its group."""
    own = centres[labels]
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(own, axis=1)
    closeness: np.ndarray = (vectors * own).sum(1) / np.maximum(lengths, 1e-12)
    return closeness


def stability(
    grouping: Grouping, groups: Groups, vectors: np.ndarray, owners: np.ndarray, asked: int, seed: int
) -> list[float | None]:
    """Return the bootstrap stability of each group (Hennig 2007); None with fewer than two inputs for each group.

    Ten bootstrap samples of inputs, each input with all of its vectors, are grouped anew into as many groups as were
    ``asked`` for. The stability of a group is the mean, over samples that have some of it, of its largest Jaccard similarity
    with a new group, over the vectors drawn. Above 0.75 a group is stable, below 0.5 it may be chance.
    """
    count = len(groups.centres)
    inputs, owners = np.unique(owners, return_inverse=True)
    if len(inputs) < 2 * count:
        return [None] * count
    shares: list[list[float]] = [[] for _ in range(count)]
    for time in range(_RESAMPLES):
        draws = stream(seed, 6, time)
        chosen = draws.integers(0, len(inputs), _enough(len(inputs), len(vectors)))
        drawn = np.flatnonzero(np.isin(owners, chosen))
        if len(drawn) < (asked if grouping.counts else _MIN_DENSE_VECTORS):
            continue
        try:
            new = grouping.fit(vectors[drawn], asked, seed + time, starts=3).labels
        except _NoDenseGroupsError:
            new = np.full(len(drawn), -1)
        old = groups.labels[drawn]
        for group in np.unique(old[old >= 0]):
            own = old == group
            overlaps = [
                float((own & (new == other)).sum() / (own | (new == other)).sum()) for other in np.unique(new[new >= 0])
            ]
            shares[group].append(max(overlaps, default=0.0))
    return [float(np.mean(own)) if own else None for own in shares]


def _enough(inputs: int, vectors: int) -> int:
    """Return how many inputs have about as many vectors as a resample holds."""
    return max(1, min(inputs, _MAX_RESAMPLED_VECTORS * inputs // vectors))


@dataclass(frozen=True)
class ExplainedVariance:
    """The share of variance that this number of corpora explains, of the vectors they were found in and of held-out ones."""

    corpora: int
    explained: float
    held_out: float


def curve(
    grouping: Grouping, vectors: np.ndarray, owners: np.ndarray, count: int, seed: int
) -> tuple[ExplainedVariance, ...]:
    """Return the variance that other numbers of groups explain, up to twice as many.

    Groups are fitted to one half of the inputs and evaluated on the other; all vectors of an input are in the same half.
    """
    inputs, owners = np.unique(owners, return_inverse=True)
    if not grouping.counts or len(inputs) < 2:
        return ()
    order = stream(seed, 7).permutation(len(inputs))[: 2 * _enough(len(inputs), len(vectors))]
    seen, unseen = (vectors[np.isin(owners, half)] for half in (order[::2], order[1::2]))
    most = min(2 * count, len(np.unique(seen, axis=0)) - 1)
    points = []
    for number in sorted({size for size in _GROUP_COUNTS if size <= most} | ({count} if count <= most else set())):
        groups = grouping.fit(seen, number, seed, starts=3)
        points.append(ExplainedVariance(number, grouping.explained(groups, seen), grouping.explained(groups, unseen)))
    return tuple(points)


def elbow(points: tuple[ExplainedVariance, ...]) -> int | None:
    """Return the number at which the held-out curve bends most: the point highest above the line between its ends."""
    if len(points) < 3:
        return None
    x, y = np.array([float(point.corpora) for point in points]), np.array([point.held_out for point in points])
    span = max(float(y[-1] - y[0]), 1e-12)
    height = (y - y[0]) / span - (x - x[0]) / (x[-1] - x[0])
    return points[int(height.argmax())].corpora
