"""Separability: does similarity to a corpus minus similarity to a foil separate held-out members of the two?

The scores are those of held-out members: a corpus and a foil are cut into folds, and a member is compared with the folds
that it is not in. How often a corpus member scores above a foil member is the area under the ROC curve (AUC): 1 for an
encoder that separates them, 0.5 for one whose scores do not depend on the side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from cocoax.checks import check_count
from cocoax.references import Reference, caution_overlap, check_same_space
from cocoax.seeding import stream
from cocoax.similarity import Similarity, get_similarity

FOLDS = 5
MAX_COMPARED_SAMPLES = 500  # of each side; of more, so many are drawn
_SIGNIFICANCE_LEVEL = 0.025  # of p-values: as much of a 95 % interval lies below 0.5
MIN_PERMUTATIONS = 39  # with fewer no p-value is that low
_SEPARATING_AUC = 0.8  # expected of an encoder that separates two sides
Z = 1.959964
Verdict = Literal["separated", "not separated", "reversed", "inconclusive"]


class NotSeparableError(ValueError):
    """Raised where nothing can be tested: all samples of one side are in the other, or a side has fewer than two samples."""


@dataclass(frozen=True)
class Separability:
    """Separation of the scores of a corpus from those of a foil.

    Attributes:
        auc: how often a corpus member scores above a foil member.
        low, high: its 95 % interval.
        p_value: of the null hypothesis that scores do not depend on the side (a permutation test).
        counts: compared samples of the corpus and of the foil.

    """

    auc: float
    low: float
    high: float
    p_value: float
    counts: tuple[int, int]

    @property
    def verdict(self) -> Verdict:
        """The verdict: separated, not separated, reversed, or inconclusive for lack of inputs."""
        if self.p_value <= _SIGNIFICANCE_LEVEL and self.low > 0.5:
            return "separated"
        if self.high < 0.5:
            return "reversed"
        return "not separated" if self.p_value > _SIGNIFICANCE_LEVEL and self.high < _SEPARATING_AUC else "inconclusive"

    def __str__(self) -> str:
        return f"{self.auc:.2f} [{self.low:.2f}, {self.high:.2f}]"


def separability(
    corpus: Reference,
    foil: Reference,
    similarity: str | Similarity = "cosine",
    *,
    permutations: int = 999,
    most: int = MAX_COMPARED_SAMPLES,
    seed: int = 0,
) -> Separability:
    """Return how well the encoder separates held-out members of a corpus and of a foil; both must have kept samples."""
    check_count("permutations", permutations, MIN_PERMUTATIONS)
    similarities, count = pairwise_similarities(corpus, foil, similarity, most, seed)
    total = len(similarities)
    draws = stream(seed, 1)
    orders = np.stack([np.arange(total), *(draws.permutation(total) for _ in range(permutations))], axis=1)
    aucs, errors = auc_and_error(_held_out_scores(similarities, orders, count), count)
    # Members share the means that they are compared with, which DeLong's error ignores; the permutations show by how much.
    missed = math.sqrt(max(1.0, float(aucs[1:].var() / np.maximum(errors[1:] ** 2, 1e-12).mean())))
    low, high = interval(float(aucs[0]), missed * float(errors[0]), (count, total - count))
    p_value = (1 + int((aucs[1:] >= aucs[0]).sum())) / (1 + permutations)
    return Separability(float(aucs[0]), low, high, p_value, (count, total - count))


def pairwise_similarities(
    corpus: Reference, foil: Reference, similarity: str | Similarity, most: int = MAX_COMPARED_SAMPLES, seed: int = 0
) -> tuple[np.ndarray, int]:
    """Return the similarities of all members ``[n, n]``, those of the corpus first, and how many of these there are.

    Equal samples of a side count once, and samples of the corpus are left out of the foil: nothing is compared with itself.
    """
    check_same_space([corpus, foil])
    sides = [_distinct(side) for side in (corpus, foil)]
    ours, theirs = ({row.tobytes() for row in side} for side in sides)
    for inner, inside, whole, outer in ((ours, corpus, theirs, foil), (theirs, foil, ours, corpus)):
        if inner <= whole:
            raise NotSeparableError(
                f"All samples of {inside.name!r} are in {outer.name!r} too, so there is nothing to tell apart; leave them "
                f"out of {outer.name!r}."
            )
    caution_overlap(corpus, foil)
    sides[1] = sides[1][[row.tobytes() not in ours for row in sides[1]]]
    if len(sides[1]) < 2:
        raise NotSeparableError(
            f"{foil.name!r} has 1 sample that is not in {corpus.name!r} too; give at least two that are not."
        )
    for place, side in enumerate(sides):
        if len(side) > most:
            sides[place] = side[np.sort(stream(seed + place, 2).choice(len(side), most, replace=False))]
    together = torch.from_numpy(np.concatenate(sides).astype(np.float64))
    return get_similarity(similarity).pairwise(together, together).numpy(), len(sides[0])


def _distinct(side: Reference) -> np.ndarray:
    """Return the distinct samples of a reference ``[n, d]``; raise unless there are two."""
    samples = side.kept("knows()").numpy()
    _, first = np.unique(samples, axis=0, return_index=True)
    if len(first) < 2:
        what = "1 sample" if side.count == 1 else f"{side.count} samples that are all equal"
        raise NotSeparableError(
            f"{side.name!r} has {what}; whether the encoder knows it is seen on members that are left out, so give at least "
            "two that differ."
        )
    rows: np.ndarray = samples[np.sort(first)]
    return rows


def _held_out_scores(similarities: np.ndarray, orders: np.ndarray, count: int) -> np.ndarray:
    """Return the score of every place of every order: similarity to the corpus minus the foil, without the member's own fold.

    Orders ``[n, k]`` say which member is at which place; the first ``count`` places are the corpus. Places take turns in
    belonging to folds.
    """
    total = len(similarities)
    places = np.arange(total)
    folds = np.where(places < count, places % min(FOLDS, count), (places - count) % min(FOLDS, total - count))
    scores = np.empty(orders.shape)
    for fold in range(int(folds.max()) + 1):
        weights = np.zeros(total)
        for sign, side in ((1.0, places < count), (-1.0, places >= count)):
            kept = side & (folds != fold)
            weights[kept] = sign / kept.sum()
        by_member = np.zeros(orders.shape)
        np.put_along_axis(by_member, orders, np.broadcast_to(weights[:, None], orders.shape), axis=0)
        own = folds == fold
        scores[own] = np.take_along_axis(similarities @ by_member, orders, axis=0)[own]
    return scores


def auc_and_error(scores: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the AUC of scores ``[n, k]``, the first ``count`` rows against the rest, and DeLong's standard error: ``[k]``.

    The place of a corpus member among the foil is its rank among all minus its rank among the corpus (Sun & Xu 2014).
    """
    from scipy import stats  # slow to import, and few programs need it

    corpus, foil = scores[:count], scores[count:]
    ranks = stats.rankdata(scores, axis=0)
    above = (ranks[:count] - stats.rankdata(corpus, axis=0)) / len(foil)  # the part of the foil below each corpus member
    below = 1 - (ranks[count:] - stats.rankdata(foil, axis=0)) / count
    error = np.sqrt(above.var(0, ddof=1) / count + below.var(0, ddof=1) / len(foil))
    return above.mean(0), error


def interval(auc: float, error: float, counts: tuple[int, int]) -> tuple[float, float]:
    """Return the 95 % interval of an AUC, symmetric in the log odds so that it stays within 0 and 1.

    Where all pairs agree the error is 0, and the interval is what such a sample leaves possible (Newcombe 2006, method 5).
    """
    if not (0 < auc < 1 and error > 0):
        return _newcombe(auc, counts)
    middle, half = math.log(auc / (1 - auc)), min(Z * error / (auc * (1 - auc)), 50.0)
    return 1 / (1 + math.exp(-(middle - half))), 1 / (1 + math.exp(-(middle + half)))


def _newcombe(auc: float, counts: tuple[int, int]) -> tuple[float, float]:
    from scipy.optimize import brentq

    n, m = counts
    half = (n + m) / 2 - 1

    def beyond(value: float) -> float:
        variance = value * (1 - value) * (1 + half * ((1 - value) / (2 - value) + value / (1 + value))) / (n * m)
        return abs(value - auc) - Z * math.sqrt(max(variance, 0.0))

    low = 0.0 if auc <= 0 else float(brentq(beyond, 0.0, auc - 1e-9))
    high = 1.0 if auc >= 1 else float(brentq(beyond, auc + 1e-9, 1.0))
    return low, high


def mann_whitney(scores: np.ndarray, count: int) -> Separability:
    """Return how well given scores ``[n]`` separate the first ``count`` from the rest; no member has a part in its own."""
    from scipy import stats

    auc, error = (float(value[0]) for value in auc_and_error(scores[:, None], count))
    p_value = float(stats.mannwhitneyu(scores[:count], scores[count:], alternative="greater").pvalue)
    low, high = interval(auc, error, (count, len(scores) - count))
    return Separability(auc, low, high, p_value, (count, len(scores) - count))
