"""Separability a corpus from a foil: held-out scores, AUC, DeLong's error, p-values that chance makes uniform."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

import cocoax
from cocoax.cautions import Caution
from cocoax.evaluation.separability import (
    FOLDS,
    Separability,
    _held_out_scores,
    auc_and_error,
    interval,
    mann_whitney,
    separability,
)


def reference(rows: np.ndarray, name: str = "set") -> cocoax.Reference:
    return cocoax.Reference.from_representations(rows, name=name)


def cloud(count: int, seed: int, shift: float = 0.0, dimension: int = 8) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(count, dimension))
    rows[:, 0] += shift
    rows[:, 1] += 1.0
    return rows


def slow_scores(corpus: np.ndarray, foil: np.ndarray) -> list[float]:
    """Score each member by hand: mean cosine to the corpus minus that to the foil, without the members of its own fold."""

    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    def fold(place: int, side: np.ndarray) -> int:
        return place % min(FOLDS, len(side))

    scores = []
    for own in (corpus, foil):
        for place, member in enumerate(own):
            turn = fold(place, own)
            means = [
                np.mean([cosine(member, row) for number, row in enumerate(side) if fold(number, side) != turn])
                for side in (corpus, foil)
            ]
            scores.append(float(means[0] - means[1]))
    return scores


@pytest.mark.parametrize("counts", [(7, 12), (3, 9), (2, 2)])
def test_held_out__is_the_mean_over_other_folds(counts: tuple[int, int]) -> None:
    corpus, foil = cloud(counts[0], 0), cloud(counts[1], 1, 0.5)
    unit = np.concatenate([corpus, foil])
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    order = np.random.default_rng(2).permutation(sum(counts))
    scores = _held_out_scores(unit @ unit.T, np.stack([np.arange(sum(counts)), order], axis=1), counts[0])
    np.testing.assert_allclose(scores[:, 0], slow_scores(corpus, foil), atol=1e-12)
    np.testing.assert_allclose(scores[:, 1], slow_scores(unit[order[: counts[0]]], unit[order[counts[0] :]]), atol=1e-12)


def test_auc_and_error__are_those_of_scikit_learn_and_of_delong_with_ties() -> None:
    scores = np.random.default_rng(0).integers(0, 6, 31).astype(float)
    auc, error = (float(value[0]) for value in auc_and_error(scores[:, None], 11))
    assert auc == pytest.approx(roc_auc_score([1] * 11 + [0] * 20, scores))
    wins = (scores[:11, None] > scores[None, 11:]) + 0.5 * (scores[:11, None] == scores[None, 11:])
    assert error == pytest.approx(np.sqrt(wins.mean(1).var(ddof=1) / 11 + wins.mean(0).var(ddof=1) / 20))


def test_interval__stays_within_bounds_and_is_not_a_point_where_all_pairs_agree() -> None:
    low, high = interval(0.99, 0.01, (10, 10))
    assert 0.5 < low < 0.99 < high < 1
    assert interval(1.0, 0.0, (5, 100))[0] == pytest.approx(0.8, abs=0.01)  # Newcombe's equation, solved by hand
    assert interval(1.0, 0.0, (5, 100))[1] == 1
    assert interval(0.0, 0.0, (5, 5))[0] == 0
    assert interval(1.0, 0.0, (100, 100))[0] > interval(1.0, 0.0, (5, 5))[0]


def test_separability__p_values_of_random_corpora_are_uniform_and_intervals_hold_chance() -> None:
    found = []
    for seed in range(120):
        rows = cloud(60, seed)
        found.append(separability(reference(rows[:20]), reference(rows[20:]), permutations=99, seed=seed))
    p_values = [each.p_value for each in found]
    assert stats.kstest(p_values, "uniform").pvalue > 0.01
    assert np.mean([each.verdict == "separated" for each in found]) <= 0.05
    assert np.mean([each.low <= 0.5 <= each.high for each in found]) >= 0.9


def test_separability__a_real_difference() -> None:
    each = separability(reference(cloud(30, 0, 3.0)), reference(cloud(50, 1)), permutations=199)
    assert each.verdict == "separated"
    assert each.p_value == pytest.approx(1 / 200)
    assert each.low < each.auc < each.high
    assert each.counts == (30, 50)
    scores = np.array(slow_scores(cloud(30, 0, 3.0), cloud(50, 1)))
    assert each.auc == pytest.approx(roc_auc_score([1] * 30 + [0] * 50, scores), abs=1e-5)


def test_separability__is_repeatable_and_takes_kernels() -> None:
    corpus, foil = reference(cloud(12, 0, 2.0)), reference(cloud(15, 1))
    assert separability(corpus, foil, permutations=49) == separability(corpus, foil, permutations=49)
    assert separability(corpus, foil, "rbf", permutations=49).auc > 0.6


def test_separability__of_many_samples_some_are_drawn() -> None:
    each = separability(reference(cloud(80, 0, 2.0)), reference(cloud(90, 1)), permutations=39, most=40)
    assert each.counts == (40, 40)


@pytest.mark.parametrize(
    ("each", "verdict"),
    [
        (Separability(0.97, 0.94, 0.99, 0.001, (40, 40)), "separated"),
        (Separability(0.52, 0.43, 0.61, 0.3, (40, 40)), "not separated"),
        (Separability(0.10, 0.02, 0.31, 0.99, (40, 40)), "reversed"),
        (Separability(0.60, 0.30, 0.85, 0.3, (5, 5)), "inconclusive"),
        (Separability(0.65, 0.49, 0.78, 0.01, (20, 20)), "inconclusive"),
    ],
)
def test_verdict(each: Separability, verdict: str) -> None:
    assert each.verdict == verdict


def test_mann_whitney__is_the_test_of_scipy() -> None:
    scores = np.random.default_rng(0).normal(size=30) + np.array([1.0] * 12 + [0.0] * 18)
    each = mann_whitney(scores, 12)
    assert each.auc == pytest.approx(roc_auc_score([1] * 12 + [0] * 18, scores))
    assert each.p_value == stats.mannwhitneyu(scores[:12], scores[12:], alternative="greater").pvalue


def test_separability__copies_are_not_compared_with_themselves() -> None:
    rows = cloud(20, 3)
    copies = np.concatenate([rows[:6], rows[:6], rows[:6]])
    each = separability(reference(copies), reference(rows[6:]), permutations=39)
    assert each.counts == (6, 14)


@pytest.mark.filterwarnings("ignore::cocoax.cautions.Caution")
def test_separability__samples_of_both_are_left_out_of_the_foil() -> None:
    rows = cloud(30, 4, 2.0)
    foil = np.concatenate([rows[20:], cloud(25, 5)])
    each = separability(reference(rows), reference(foil), permutations=39)
    assert each == separability(reference(rows), reference(foil[10:]), permutations=39)
    assert each.counts == (30, 25)
    aucs = []
    for seed in range(60):  # noise, of which half is common
        rows = cloud(30, seed)
        aucs.append(separability(reference(rows[:20]), reference(rows[10:]), permutations=39).auc)
    assert np.mean(aucs) == pytest.approx(0.5, abs=4 * np.std(aucs) / np.sqrt(60))


def test_separability__bad_input() -> None:
    rows = cloud(20, 0)
    foil = reference(rows[10:], "foil")
    with pytest.raises(ValueError, match=r"'one' has 1 sample; .* give at least two that differ"):
        separability(reference(rows[:1], "one"), foil)
    with pytest.raises(ValueError, match="'same' has 4 samples that are all equal"):
        separability(reference(np.repeat(rows[:1], 4, 0), "same"), foil)
    with pytest.raises(ValueError, match=r"All samples of 'inside' are in 'foil' too.*leave them out of 'foil'"):
        separability(reference(rows[12:15], "inside"), foil)
    with pytest.warns(Caution), pytest.raises(ValueError, match="'foil' has 1 sample that is not in 'most' too"):
        separability(reference(rows[:19], "most"), foil)
    means = cocoax.Reference.from_representations(rows[:10], name="means", keep_samples=False)
    with pytest.raises(ValueError, match=r"'means' keeps only means, but knows\(\).*keep_samples=True"):
        separability(means, foil)
    with pytest.raises(ValueError, match="8 dimensions"):
        separability(reference(cloud(5, 0, dimension=3)), foil)
    with pytest.raises(ValueError, match="'permutations' parameter must be at least 39"):
        separability(reference(rows[:10]), foil, permutations=3)
