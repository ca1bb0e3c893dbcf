"""The propositions of the paper's appendix, as properties of targets."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cocoax import (
    Reference,
    contrastive_corpus_similarity,
    contrastive_similarity,
    similarity_to,
)
from cocoax.similarity import LinearSimilarity, Polynomial, Similarity
from tests.scoring import (
    TIGHT,
    contrast,
    draw,
    every_kernel,
    every_similarity,
    kernel,
    property_test,
    reference,
    seeds,
    slow_score,
    small,
)


@every_similarity
@given(seed=seeds, population=st.integers(2, 3), m=st.integers(1, 3), d=small)
@settings(property_test, max_examples=8)
def test_unbiased__mean_over_all_foils_is_the_expectation(
    similarity: Similarity, seed: int, population: int, m: int, d: int
) -> None:
    """m i.i.d. draws from a finite foil distribution: every one of the population^m foils is equally likely."""
    z, corpus, foils = draw(seed, 2, d), draw(seed + 1, 3, d), draw(seed + 2, population, d)
    expectation = slow_score(similarity, z, [(1, corpus), (-1, foils)])
    kept = Reference.from_representations(corpus)
    estimates = [
        contrastive_corpus_similarity(kept, Reference.from_representations(foils[list(drawn)]), similarity).score(z).numpy()
        for drawn in itertools.product(range(population), repeat=m)
    ]
    assert len(estimates) == population**m
    np.testing.assert_allclose(np.mean(estimates, axis=0), expectation, **TIGHT)


@given(seed=seeds, population=st.integers(2, 3), m=st.integers(1, 3), d=small)
@settings(property_test, max_examples=8)
def test_unbiased__mean_of_empirical_directions_is_the_contrastive_direction(
    seed: int, population: int, m: int, d: int
) -> None:
    corpus, foils = draw(seed, 3, d), draw(seed + 1, population, d)
    towards, away = (np.mean([row / np.linalg.norm(row) for row in part.numpy()], axis=0) for part in (corpus, foils))
    kept = Reference.from_representations(corpus)
    directions = [
        contrastive_corpus_similarity(kept, Reference.from_representations(foils[list(drawn)])).direction().numpy()
        for drawn in itertools.product(range(population), repeat=m)
    ]
    np.testing.assert_allclose(np.mean(directions, axis=0), towards - away, **TIGHT)


@given(seed=seeds, n=small, c=small, f=small, d=small)
@property_test
def test_direction__cosine_score_is_unit_representation_times_direction(seed: int, n: int, c: int, f: int, d: int) -> None:
    z, corpus, foil = draw(seed, n, d), draw(seed + 1, c, d), draw(seed + 2, f, d)
    target = contrast(corpus, foil)
    unit_z, unit_corpus, unit_foil = (
        np.stack([row / np.linalg.norm(row) for row in part.numpy()]) for part in (z, corpus, foil)
    )
    expected = unit_corpus.mean(0) - unit_foil.mean(0)
    np.testing.assert_allclose(target.direction().numpy(), expected, **TIGHT)
    np.testing.assert_allclose(target.score(z).numpy(), unit_z @ expected, **TIGHT)


@given(seed=seeds, n=small, c=small, f=small, d=small)
@property_test
def test_direction__dot_score_is_representation_times_direction(seed: int, n: int, c: int, f: int, d: int) -> None:
    z, corpus, foil = draw(seed, n, d), draw(seed + 1, c, d), draw(seed + 2, f, d)
    target = contrast(corpus, foil, "dot")
    expected = corpus.numpy().mean(0) - foil.numpy().mean(0)
    np.testing.assert_allclose(target.direction().numpy(), expected, **TIGHT)
    np.testing.assert_allclose(target.score(z).numpy(), z.numpy() @ expected, **TIGHT)


def test_direction__of_a_target_with_the_explicand() -> None:
    own, foil = draw(0, 3), reference(1)
    direction = contrastive_similarity(foil).direction(own)
    np.testing.assert_allclose(direction.numpy(), (own / own.norm() - foil.mean_unit).numpy(), **TIGHT)


@every_kernel
def test_direction__kernels_have_none(similarity: Similarity) -> None:
    with pytest.raises(ValueError, match=f"A {similarity.name} target is a weighted set of points, not one direction"):
        similarity_to(reference(0), similarity).direction()


@given(seed=seeds, n=small, c=small, f=small, d=st.integers(1, 3), gamma=st.floats(0.1, 2), constant=st.floats(0, 2))
@property_test
def test_kernel_extension__polynomial_with_its_feature_map(
    seed: int, n: int, c: int, f: int, d: int, gamma: float, constant: float
) -> None:
    """(γ z·r + c)² = ψ(z)·ψ(r) with ψ(z) = [c, √(2cγ) z_i, γ z_i z_j]."""

    def psi(representations: Tensor) -> np.ndarray:
        return np.stack(
            [
                np.concatenate([[constant], np.sqrt(2 * constant * gamma) * row, gamma * np.outer(row, row).ravel()])
                for row in representations.numpy()
            ]
        )

    z, corpus, foil = draw(seed, n, d), draw(seed + 1, c, d), draw(seed + 2, f, d)
    target = contrast(corpus, foil, Polynomial(2, gamma, constant))
    np.testing.assert_allclose(target.score(z).numpy(), psi(z) @ (psi(corpus).mean(0) - psi(foil).mean(0)), **TIGHT)


@every_kernel
@given(seed=seeds, n=small, c=small, f=small, d=st.integers(2, 4))
@property_test
def test_kernel_extension__mean_kernel_difference_and_feature_map_of_the_gram_matrix(
    similarity: Similarity, seed: int, n: int, c: int, f: int, d: int
) -> None:
    """A positive semi-definite Gram matrix K = V diag(λ) Vᵀ gives the feature vectors V √λ of the points at hand."""
    z, corpus, foil = draw(seed, n, d), draw(seed + 1, c, d), draw(seed + 2, f, d)
    target = contrast(corpus, foil, similarity)
    found = target.score(z).numpy()
    np.testing.assert_allclose(found, slow_score(similarity, z, [(1, corpus), (-1, foil)]), **TIGHT)

    points = torch.cat([z, corpus, foil])
    eigenvalues, vectors = np.linalg.eigh(similarity.pairwise(points, points).numpy())
    assert eigenvalues.min() >= -1e-12 * eigenvalues.max()  # rounding is some 1e-16 times the number of points
    psi = vectors * np.sqrt(eigenvalues.clip(min=0))
    direction = psi[n : n + c].mean(0) - psi[n + c :].mean(0)
    # clipping moves K by at most 1e-12 of its largest eigenvalue
    np.testing.assert_allclose(found, psi[:n] @ direction, rtol=0, atol=1e-11 * eigenvalues.max())


@every_similarity
@given(seed=seeds, c=small, f=small, d=small)
@property_test
def test_kernel_extension__corpus_scores_above_foil_on_average(
    similarity: Similarity, seed: int, c: int, f: int, d: int
) -> None:
    """The mean over the corpus minus the mean over the foil is the squared length of the contrastive direction."""
    corpus, foil = draw(seed, c, d), draw(seed + 1, f, d)
    target = contrast(corpus, foil, similarity)
    squared = float(target.score(corpus).mean() - target.score(foil).mean())
    assert squared >= -1e-12 * kernel(similarity, torch.cat([corpus, foil]), torch.cat([corpus, foil])).max()
    if isinstance(similarity, LinearSimilarity):
        assert squared == pytest.approx(float(target.direction().square().sum()), rel=1e-10, abs=1e-12)


@every_similarity
@given(seed=seeds, sizes=st.lists(small, min_size=1, max_size=4), d=small)
@property_test
def test_sub_corpora__average_weighted_by_size(similarity: Similarity, seed: int, sizes: list[int], d: int) -> None:
    z, corpus, foil = draw(seed, 3, d), draw(seed + 1, sum(sizes), d), Reference.from_representations(draw(seed + 2, 4, d))
    parts = [Reference.from_representations(part) for part in torch.split(corpus, sizes)]
    expected = slow_score(similarity, z, [(1, corpus), (-1, draw(seed + 2, 4, d))])

    whole = contrastive_corpus_similarity(Reference.from_representations(corpus), foil, similarity)
    merged = contrastive_corpus_similarity(parts[0].merge(*parts[1:]), foil, similarity)
    algebra = 0.0 * similarity_to(foil, similarity)
    for part in parts:
        algebra = algebra + part.count / len(corpus) * contrastive_corpus_similarity(part, foil, similarity)
    for target in (whole, merged, algebra):
        np.testing.assert_allclose(target.score(z).numpy(), expected, **TIGHT)


def test_sub_corpora__equal_weights_are_another_question() -> None:
    """The weights matter: sub-corpora of different sizes that weigh the same do not give the whole corpus."""
    z, a, b = draw(0, 3, 3), reference(1, 1), reference(2, 9)
    equal = 0.5 * similarity_to(a) + 0.5 * similarity_to(b)
    assert not torch.allclose(equal.score(z), similarity_to(a.merge(b)).score(z), rtol=1e-3)
