"""Groups of vectors: k-means, density and non-negative factors, each scikit-learn's, behind one interface."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cocoax.seeding import stream

RESAMPLES = 10
ENOUGH = 20_000  # vectors that a resample or a point of the curve looks at
FIT = 50_000  # vectors that factors are fitted to; the rest gets its codes from them
CURVE = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100)
OUTLYING = 20  # dimensions in which density is looked for


@dataclass(frozen=True, eq=False)
class Groups:
    """Vectors in groups.

    Attributes:
        centres: what a group is about, ``[k, d]``.
        labels: the group of each vector, ``[n]``; -1 for none.
        strengths: how strongly each belongs to its group, ``[n]``.
        model: what was fitted, to look at other vectors with.

    """

    centres: np.ndarray
    labels: np.ndarray
    strengths: np.ndarray
    model: Any = None


class Grouping(ABC):
    """A way to find groups of vectors ``[n, d]``.

    Attributes:
        of_parts: whether a vector may be the sum of several groups, as parts of inputs are.
        counts: whether it is told how many groups to find.

    """

    of_parts: ClassVar[bool] = False
    counts: ClassVar[bool] = True

    @abstractmethod
    def fit(self, vectors: np.ndarray, count: int, seed: int, starts: int = 10) -> Groups:
        """Return the groups; ``starts`` is how often a search that depends on its start is begun."""

    @abstractmethod
    def rebuilt(self, groups: Groups, vectors: np.ndarray) -> np.ndarray:
        """Return the vectors as far as the groups tell them, ``[n, d]``."""

    def explained(self, groups: Groups, vectors: np.ndarray) -> float:
        """Return the share of the variance of vectors that the groups explain."""
        left = float(np.square(vectors - self.rebuilt(groups, vectors)).sum())
        return 1 - left / float(np.square(vectors - self.origin(vectors)).sum())

    def origin(self, vectors: np.ndarray) -> np.ndarray:
        """Return what variance is measured from: the mean."""
        mean: np.ndarray = vectors.mean(0)
        return mean


class Means(Grouping):
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


class Density(Grouping):
    """HDBSCAN on the first principal components: groups are where vectors are dense, and some vectors belong to none."""

    counts: ClassVar[bool] = False

    def fit(self, vectors: np.ndarray, count: int, seed: int, starts: int = 10) -> Groups:
        """Return up to ``count`` groups, the largest ones."""
        from sklearn.cluster import HDBSCAN
        from sklearn.decomposition import PCA

        components = min(OUTLYING, *vectors.shape)
        flat = PCA(components, random_state=seed).fit_transform(vectors)
        found = HDBSCAN(min_cluster_size=max(5, len(vectors) // (10 * count)), min_samples=5, copy=True).fit(flat).labels_
        sizes = np.bincount(found[found >= 0]) if (found >= 0).any() else np.zeros(0, int)
        if not len(sizes):
            raise ValueError(
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


class Factors(Grouping):
    """Non-negative factors: every vector is a sum of directions with weights of at least 0.

    Vectors may be negative, and non-negative factorisation takes none that are, so it sees positive and negative parts side
    by side (Kim & Tidor 2003): X ≈ W (H₊ - H₋).
    """

    of_parts: ClassVar[bool] = True

    def fit(self, vectors: np.ndarray, count: int, seed: int, starts: int = 10) -> Groups:
        """Return the groups; a vector belongs to the direction that has the largest part in it."""
        from sklearn.decomposition import NMF
        from sklearn.exceptions import ConvergenceWarning

        halves = _halves(vectors)
        seen = halves if len(halves) <= FIT else halves[stream(seed, 5).choice(len(halves), FIT, replace=False)]
        model = NMF(count, init="nndsvda", max_iter=200, tol=1e-3, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(seen)
            codes = model.transform(halves)
        directions = _whole(model.components_)
        parts = codes * np.linalg.norm(directions, axis=1)
        labels = np.where(parts.max(1) > 0, parts.argmax(1), -1)
        return Groups(directions, labels, parts.max(1), model)

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


def stability(grouping: Grouping, groups: Groups, vectors: np.ndarray, asked: int, seed: int) -> list[float]:
    """Return how much of each group comes back when vectors are drawn again (Hennig 2007).

    Ten bootstrap samples are grouped anew, each into as many as were ``asked`` for. The mean is taken of the largest Jaccard
    similarity of a group with a new one, over the vectors that were drawn. Above 0.75 a group is stable, below 0.5 it may be
    chance.
    """
    count = len(groups.centres)
    total = np.zeros(count)
    for time in range(RESAMPLES):
        draws = stream(seed, 6, time)
        drawn = np.unique(draws.integers(0, len(vectors), min(len(vectors), ENOUGH)))
        try:
            new = grouping.fit(vectors[drawn], asked, seed + time, starts=3).labels
        except ValueError:  # no groups are found any more, so none comes back
            continue
        old = groups.labels[drawn]
        for group in range(count):
            own = old == group
            overlaps = [
                float((own & (new == other)).sum() / (own | (new == other)).sum()) for other in np.unique(new[new >= 0])
            ]
            total[group] += max(overlaps, default=0.0) if own.any() else 0.0
    return list((total / RESAMPLES).tolist())


@dataclass(frozen=True)
class OfCount:
    """How much of the variance so many corpora explain: of the vectors they were found in, and of others."""

    corpora: int
    explained: float
    held_out: float


def curve(grouping: Grouping, vectors: np.ndarray, count: int, seed: int) -> tuple[OfCount, ...]:
    """Return how much other numbers of groups would explain, up to twice as many; one half is held out of the other."""
    if not grouping.counts:
        return ()
    order = stream(seed, 7).permutation(len(vectors))[: 2 * ENOUGH]
    seen, unseen = (vectors[np.sort(half)] for half in (order[::2], order[1::2]))
    most = min(2 * count, len(np.unique(seen, axis=0)) - 1, *([] if not grouping.of_parts else [2 * vectors.shape[1]]))
    points = []
    for number in sorted({size for size in CURVE if size <= most} | ({count} if count <= most else set())):
        groups = grouping.fit(seen, number, seed, starts=3)
        points.append(OfCount(number, grouping.explained(groups, seen), grouping.explained(groups, unseen)))
    return tuple(points)


def elbow(points: tuple[OfCount, ...]) -> int | None:
    """Return the number at which the held-out curve bends most: the point highest above the line between its ends."""
    if len(points) < 3:
        return None
    x, y = np.array([float(point.corpora) for point in points]), np.array([point.held_out for point in points])
    span = max(float(y[-1] - y[0]), 1e-12)
    height = (y - y[0]) / span - (x - x[0]) / (x[-1] - x[0])
    return points[int(height.argmax())].corpora
