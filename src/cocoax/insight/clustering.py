"""Groups of vectors: k-means, density and non-negative factors, each scikit-learn's, behind one interface."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

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
        rebuild: approximates vectors ``[m, d]`` by the groups.
        sums: whether vectors are sums of several groups; the label is then the largest summand.

    """

    centres: np.ndarray
    labels: np.ndarray
    strengths: np.ndarray
    rebuild: Callable[[np.ndarray], np.ndarray]
    sums: bool = False

    def explained(self, vectors: np.ndarray) -> float:
        """Return the share of the variance of vectors that the groups explain; of sums it is measured from zero."""
        left = float(np.square(vectors - self.rebuild(vectors)).sum())
        origin = 0.0 if self.sums else vectors.mean(0)
        return 1 - left / float(np.square(vectors - origin).sum())


# Finds groups of vectors ``[n, d]``: of vectors, their number, a seed, and ``starts``, random ones where it has some.
Grouping = Callable[..., Groups]


class _NoDenseGroupsError(ValueError):
    """Raised where no vectors are dense enough to be a group."""


def kmeans(vectors: np.ndarray, count: int, seed: int, starts: int = 10) -> Groups:
    """k-means: every vector belongs to the group whose mean is closest."""
    from sklearn.cluster import KMeans

    model = KMeans(count, n_init=starts, random_state=seed).fit(vectors)
    centres = model.cluster_centers_
    strengths = _closeness(vectors, centres, model.labels_)
    return Groups(centres, model.labels_, strengths, lambda others: centres[model.predict(others)])


def hdbscan(vectors: np.ndarray, count: int, seed: int, starts: int = 10) -> Groups:
    """HDBSCAN on the first principal components: up to ``count`` groups where vectors are dense, the largest ones.

    Some vectors belong to no group. Only the vectors themselves can be rebuilt.
    """
    from sklearn.cluster import HDBSCAN
    from sklearn.decomposition import PCA

    found = np.full(len(vectors), -1)
    if len(vectors) >= _MIN_DENSE_VECTORS:
        flat = PCA(min(_DENSITY_DIMENSIONS, *vectors.shape), random_state=seed).fit_transform(vectors)
        size = max(_MIN_DENSE_VECTORS, len(vectors) // (10 * count))
        found = HDBSCAN(min_cluster_size=size, min_samples=_MIN_DENSE_VECTORS, copy=True).fit(flat).labels_
    sizes = np.bincount(found[found >= 0])
    if not len(sizes):
        raise _NoDenseGroupsError(
            f"HDBSCAN finds no dense groups among {len(vectors)} vectors; use method='kmeans', which always divides them."
        )
    places = {old: new for new, old in enumerate(np.argsort(-sizes, kind="stable")[:count])}
    labels = np.array([places.get(label, -1) for label in found])
    centres = np.stack([vectors[labels == group].mean(0) for group in range(len(places))])
    return Groups(
        centres,
        labels,
        _closeness(vectors, centres, labels),
        lambda same: np.where(labels[:, None] >= 0, centres[labels], same.mean(0)),
    )


def nmf(vectors: np.ndarray, count: int, seed: int, starts: int = 10) -> Groups:
    """Non-negative factors: every vector is a sum of directions with weights of at least 0, and belongs to the largest.

    Vectors may be negative, and non-negative factorisation takes none that are, so it sees positive and negative parts side
    by side (Kim & Tidor 2003): X ≈ W (H₊ - H₋).
    """
    from sklearn.decomposition import NMF
    from sklearn.exceptions import ConvergenceWarning

    halves = seen = _halves(vectors)
    if len(halves) > _MAX_FITTED_VECTORS:
        seen = halves[stream(seed, 5).choice(len(halves), _MAX_FITTED_VECTORS, replace=False)]
    model = NMF(count, max_iter=200, tol=1e-3, random_state=seed)

    def coded(halves: np.ndarray) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            codes: np.ndarray = model.transform(halves)
        return codes

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(seen)
    positive, negative = np.split(model.components_, 2, axis=1)
    directions = positive - negative
    parts = coded(halves) * np.linalg.norm(directions, axis=1)
    labels = np.where(parts.max(1) > 0, parts.argmax(1), -1)
    return Groups(directions, labels, parts.max(1), lambda others: coded(_halves(others)) @ directions, sums=True)


def _halves(vectors: np.ndarray) -> np.ndarray:
    return np.concatenate([vectors.clip(min=0), (-vectors).clip(min=0)], axis=1)


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
        if len(drawn) < (_MIN_DENSE_VECTORS if grouping is hdbscan else asked):
            continue
        try:
            new = grouping(vectors[drawn], asked, seed + time, starts=3).labels
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
    if grouping is hdbscan or len(inputs) < 2:
        return ()
    order = stream(seed, 7).permutation(len(inputs))[: 2 * _enough(len(inputs), len(vectors))]
    seen, unseen = (vectors[np.isin(owners, half)] for half in (order[::2], order[1::2]))
    most = min(2 * count, len(np.unique(seen, axis=0)) - 1)
    points = []
    for number in sorted({size for size in _GROUP_COUNTS if size <= most} | ({count} if count <= most else set())):
        groups = grouping(seen, number, seed, starts=3)
        points.append(ExplainedVariance(number, groups.explained(seen), groups.explained(unseen)))
    return tuple(points)


def elbow(points: tuple[ExplainedVariance, ...]) -> int | None:
    """Return the number at which the held-out curve bends most: the point highest above the line between its ends."""
    if len(points) < 3:
        return None
    x, y = np.array([float(point.corpora) for point in points]), np.array([point.held_out for point in points])
    span = max(float(y[-1] - y[0]), 1e-12)
    height = (y - y[0]) / span - (x - x[0]) / (x[-1] - x[0])
    return points[int(height.argmax())].corpora
