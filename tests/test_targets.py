"""Targets: the propositions of the paper's appendix, the algebra, scoring, and targets as modules."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import captum.attr
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity, laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel
from torch import Tensor, nn

import cocoax
from cocoax import (
    Reference,
    Target,
    contrastive_corpus_similarity,
    contrastive_similarity,
    corpus_similarity,
    representation_similarity,
    similarity_to,
)
from cocoax.similarity import Cosine, Dot, Laplacian, LinearSimilarity, Polynomial, Rbf, Similarity
from cocoax.targets import score_all
from tests.conftest import SmallNet, images

property_test = settings(
    max_examples=20, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
seeds = st.integers(0, 2**31 - 1)
small = st.integers(1, 5)
weights = st.floats(-3, 3).map(lambda weight: round(weight, 3))

SIMILARITIES: list[Similarity] = [Cosine(), Dot(), Rbf(0.3), Laplacian(), Polynomial()]
every_similarity = pytest.mark.parametrize("similarity", SIMILARITIES, ids=str)
KERNELS = [similarity for similarity in SIMILARITIES if not isinstance(similarity, LinearSimilarity)]
every_kernel = pytest.mark.parametrize("similarity", KERNELS, ids=str)
# float64 throughout: rounding alone, of terms up to 1e4 (polynomial) that may cancel
TIGHT: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}


def draw(seed: int, *shape: int) -> Tensor:
    """Representations in float64 whose values float32 holds exactly, as references keep samples in float32."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def reference(seed: int, n: int = 4, d: int = 3, name: str = "reference") -> Reference:
    return Reference.from_representations(draw(seed, n, d), name=name)


def contrast(corpus: Tensor, foil: Tensor, similarity: str | Similarity = "cosine") -> Target:
    """The target of COCOA, from the representations of corpus and foil."""
    return contrastive_corpus_similarity(
        Reference.from_representations(corpus), Reference.from_representations(foil), similarity
    )


def kernel(similarity: Similarity, z: Tensor, r: Tensor) -> np.ndarray:
    """The similarity of every pair according to scikit-learn, ``[n, m]``."""
    a, b = z.numpy(), r.numpy()
    if isinstance(similarity, Rbf):
        return np.asarray(rbf_kernel(a, b, gamma=similarity.gamma))
    if isinstance(similarity, Laplacian):
        return np.asarray(laplacian_kernel(a, b, gamma=similarity.gamma))
    if isinstance(similarity, Polynomial):
        return np.asarray(
            polynomial_kernel(a, b, degree=similarity.degree, gamma=similarity.gamma, coef0=similarity.constant)
        )
    return np.asarray(cosine_similarity(a, b) if isinstance(similarity, Cosine) else linear_kernel(a, b))


def slow_score(similarity: Similarity, z: Tensor, parts: Sequence[tuple[float, Tensor]]) -> np.ndarray:
    """The weighted sum of mean similarities, from its definition: ``parts`` are weights and samples ``[m, d]``."""
    total = np.zeros(len(z))
    for weight, samples in parts:
        total += weight * kernel(similarity, z, samples).mean(1)
    return total


# --- the appendix of the paper ----------------------------------------------------------------------------------------


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


# --- the algebra ------------------------------------------------------------------------------------------------------


@every_similarity
@given(seed=seeds, u=weights, v=weights, w=weights)
@property_test
def test_algebra__is_linear_in_the_scores(similarity: Similarity, seed: int, u: float, v: float, w: float) -> None:
    z, samples = draw(seed, 3, 4), [draw(seed + 1 + n, n + 1, 4) for n in range(3)]
    a, b, c = (similarity_to(Reference.from_representations(part), similarity) for part in samples)
    expected = slow_score(similarity, z, list(zip((u, v, w), samples, strict=True)))
    for target in (u * a + v * b + w * c, a * u + (b * v + c * w), -(u * -a - v * b) + w * c, -w * -c - (-v * b - a * u)):
        np.testing.assert_allclose(target.score(z).numpy(), expected, **TIGHT)


def test_algebra__weights_of_one_reference_add_up() -> None:
    cats, dogs = reference(0, name="cats"), reference(1, name="dogs")
    target = similarity_to(cats) - similarity_to(dogs) + 2 * similarity_to(cats)
    assert dict(target.weights) == {cats: 3.0, dogs: -1.0}
    own = representation_similarity() + representation_similarity()
    assert dict(own.weights) == {None: 2.0}


def test_algebra__difference_with_itself_is_nothing() -> None:
    target = similarity_to(reference(0)) - similarity_to(reference(0))
    same = similarity_to(cats := reference(1)) - similarity_to(cats)
    np.testing.assert_allclose(target.score(draw(2, 3, 3)).numpy(), np.zeros(3), atol=1e-14)
    assert same.score(draw(2, 3, 3)).tolist() == [0.0, 0.0, 0.0]
    assert same.name == "nothing"


def test_algebra__leaves_its_operands_alone() -> None:
    cats, dogs = reference(0), reference(1)
    a, b = similarity_to(cats), similarity_to(dogs)
    _ = (a + b, a - b, 3 * a, -a, a.named("x"))
    assert dict(a.weights) == {cats: 1.0}
    assert dict(b.weights) == {dogs: 1.0}
    with pytest.raises(TypeError, match="does not support item assignment"):
        a.weights[cats] = 2.0  # type: ignore[index]


def test_algebra__numpy_scalars_are_scalars() -> None:
    cats = reference(0)
    halves: list[Any] = [np.float64(0.5), np.float32(0.5)]
    for half in halves:
        for target in (half * similarity_to(cats), similarity_to(cats) * half):
            assert isinstance(target, Target)
            assert dict(target.weights) == {cats: 0.5}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda target: target + 1,
        lambda target: target - 1,
        lambda target: 1 - target,
        lambda target: target * target,
        lambda target: target * "2",
        lambda target: target + reference(0),
    ],
    ids=["+ 1", "- 1", "1 -", "target * target", "* text", "+ reference"],
)
def test_algebra__with_something_else_is_a_type_error(wrong: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match=r"unsupported operand|can't multiply"):
        wrong(similarity_to(reference(0)))


@pytest.mark.parametrize(
    ("one", "other"), [("cosine", "dot"), ("cosine", "rbf"), (Rbf(0.1), Rbf(0.2)), ("rbf", "laplacian")], ids=str
)
def test_algebra__mixed_similarities_are_an_error(one: str | Similarity, other: str | Similarity) -> None:
    a, b = similarity_to(reference(0), one), similarity_to(reference(1), other)
    mixes: list[Callable[[], Target]] = [lambda: a + b, lambda: a - b, lambda: representation_similarity(one) + b]
    for mix in mixes:
        with pytest.raises(ValueError, match=r"Cannot add a target of .* to one of .*Use one similarity"):
            mix()


def test_algebra__equal_similarities_may_be_different_objects() -> None:
    a, b = similarity_to(reference(0), Rbf(0.3)), similarity_to(reference(1), Rbf(0.3))
    expected = a.score(draw(2, 3, 3)) - b.score(draw(2, 3, 3))
    np.testing.assert_allclose((a - b).score(draw(2, 3, 3)).numpy(), expected.numpy(), **TIGHT)


# --- names ------------------------------------------------------------------------------------------------------------


def test_name__asks_the_question_in_words() -> None:
    cats, dogs, cups = (similarity_to(reference(seed, name=name)) for seed, name in enumerate(["cats", "dogs", "cups"]))
    assert cats.name == "cats"
    assert (cats - dogs).name == "cats rather than dogs"
    assert (0.5 * cats + 0.25 * dogs - cups).name == "0.5·cats + 0.25·dogs rather than cups"
    assert (cats - 2 * dogs - cups).name == "cats rather than 2·dogs + cups"
    assert (cats * (1 / 3)).name == "0.333·cats"
    assert (-cats).name == "unlike cats"
    assert (0 * cats).name == "nothing"
    assert (cats + 0 * dogs).name == "cats"
    assert representation_similarity().name == "itself"
    assert (representation_similarity() - cats).name == "itself rather than cats"


def test_named__is_the_same_target_under_another_name() -> None:
    target = contrastive_corpus_similarity(reference(0), reference(1), "dot")
    named = target.named("what matters")
    assert named.name == "what matters"
    assert named.similarity == target.similarity
    assert named.weights == target.weights
    assert "what matters" in repr(named)
    assert (2 * named).name != "what matters"  # another target, so another name


def test_repr__shows_name_and_similarity() -> None:
    assert repr(similarity_to(reference(0, name="cats"), Rbf(0.3))) == "Target('cats', Rbf(gamma=0.3))"


# --- the named targets ------------------------------------------------------------------------------------------------


@every_similarity
@given(seed=seeds, n=small, c=small, f=small, d=small)
@property_test
def test_named_targets__equal_their_definitions(similarity: Similarity, seed: int, n: int, c: int, f: int, d: int) -> None:
    z, own, corpus, foil = draw(seed, n, d), draw(seed + 1, 1, d), draw(seed + 2, c, d), draw(seed + 3, f, d)
    corpus_reference, foil_reference = (Reference.from_representations(part) for part in (corpus, foil))
    for target, parts in [
        (representation_similarity(similarity), [(1.0, own)]),
        (contrastive_similarity(foil_reference, similarity), [(1.0, own), (-1.0, foil)]),
        (corpus_similarity(corpus_reference, similarity), [(1.0, corpus)]),
        (contrastive_corpus_similarity(corpus_reference, foil_reference, similarity), [(1.0, corpus), (-1.0, foil)]),
    ]:
        assert target.needs_explicand == (parts[0][1] is own)
        np.testing.assert_allclose(target.score(z, own[0]).numpy(), slow_score(similarity, z, parts), **TIGHT)


def test_named_targets__are_their_algebra() -> None:
    corpus, foil = reference(0), reference(1)
    own = representation_similarity("dot")
    for named, algebra in [
        (contrastive_similarity(foil, "dot"), own - similarity_to(foil, "dot")),
        (corpus_similarity(corpus, "dot"), similarity_to(corpus, "dot")),
        (contrastive_corpus_similarity(corpus, foil, "dot"), similarity_to(corpus, "dot") - similarity_to(foil, "dot")),
    ]:
        assert named.weights == algebra.weights
        assert named.similarity == algebra.similarity == Dot()
        assert named.name == algebra.name


def test_named_targets__cosine_unless_told() -> None:
    corpus, foil = reference(0), reference(1)
    for target in (
        similarity_to(corpus),
        corpus_similarity(corpus),
        contrastive_similarity(foil),
        representation_similarity(),
        contrastive_corpus_similarity(corpus, foil),
    ):
        assert target.similarity == Cosine()


@pytest.mark.parametrize("wrong", [draw(0, 2, 3), [1.0, 2.0], "cat.jpg", None], ids=["tensor", "list", "path", "None"])
def test_named_targets__other_than_a_reference_is_a_type_error(wrong: object) -> None:
    message = rf"A target compares with a Reference; make one with encoder\.reference.* Got {type(wrong).__name__} instead"
    makes: list[Callable[[Any], Target]] = [similarity_to, corpus_similarity, contrastive_similarity]
    for make in makes:
        with pytest.raises(TypeError, match=message):
            make(wrong)
    for pair in ((wrong, reference(0)), (reference(0), wrong)):
        with pytest.raises(TypeError, match=message):
            contrastive_corpus_similarity(*pair)


def test_named_targets__unknown_similarity() -> None:
    with pytest.raises(ValueError, match="'similarity' parameter must be one of cosine"):
        similarity_to(reference(0), "euclid")


# --- references that do not fit ---------------------------------------------------------------------------------------


def test_space__references_of_two_spaces_are_an_error() -> None:
    here, there = (Reference.from_representations(draw(0, 2, 3), name=space, space=space) for space in ("here", "there"))
    with pytest.raises(ValueError, match="'there' lives in another representation space than reference 'here'"):
        contrastive_corpus_similarity(here, there)
    anywhere = reference(1)  # without a space it fits everywhere
    assert contrastive_corpus_similarity(here, anywhere).references == [here, anywhere]


def test_space__references_of_two_dimensions_are_an_error() -> None:
    with pytest.raises(ValueError, match="'long' has 4 dimensions but 'short' has 3"):
        contrastive_corpus_similarity(reference(0, d=3, name="short"), reference(1, d=4, name="long"))


def test_space__check_space() -> None:
    here = Reference.from_representations(draw(0, 2, 3), name="cats", space="here")
    target = similarity_to(here)
    target.check_space("here", 3)
    with pytest.raises(ValueError, match="'cats' lives in another representation space than the encoder"):
        target.check_space("there")
    with pytest.raises(ValueError, match="'cats' has 3 dimensions but the encoder's representations have 5"):
        target.check_space("here", 5)


@every_similarity
def test_space__representations_of_another_dimension_are_an_error(similarity: Similarity) -> None:
    target = similarity_to(reference(0, d=3, name="cats"), similarity)
    with pytest.raises(ValueError, match="'cats' has 3 dimensions but the encoder's representations have 5"):
        target.score(draw(1, 2, 5))


@pytest.mark.parametrize("similarity", ["cosine", "rbf"])
def test_space__explicand_of_another_dimension_is_an_error(similarity: str) -> None:
    with pytest.raises(ValueError, match="explicand") as caught:
        representation_similarity(similarity).score(draw(0, 2, 3), explicand=draw(1, 5))
    assert "5" in str(caught.value)
    assert "3" in str(caught.value)


@every_kernel
def test_kernel__without_samples_is_an_error_that_says_what_to_do(similarity: Similarity) -> None:
    means = Reference.from_representations(draw(0, 3, 3), name="cats", keep_samples=False)
    message = f"'cats' keeps only means, but the {similarity.name} similarity .* keep_samples=True"
    with pytest.raises(ValueError, match=message):
        similarity_to(means, similarity)
    with pytest.raises(ValueError, match=message):
        contrastive_corpus_similarity(reference(1), means, similarity)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_linear__needs_no_samples(similarity: str) -> None:
    z = draw(0, 2, 3)
    kept, means = (Reference.from_representations(draw(1, 4, 3), keep_samples=keep) for keep in (True, False))
    assert torch.equal(similarity_to(means, similarity).score(z), similarity_to(kept, similarity).score(z))


# --- scoring ----------------------------------------------------------------------------------------------------------


def many_targets() -> list[Target]:
    a, b = reference(0, 3, 4), reference(1, 5, 4)
    targets: list[Target] = []
    for similarity in SIMILARITIES:
        targets += [
            contrastive_corpus_similarity(a, b, similarity),
            representation_similarity(similarity),
            0.5 * contrastive_similarity(b, similarity) - 2 * similarity_to(a, similarity),
        ]
    return targets[::2] + targets[1::2]  # similarities take turns, so that columns must be put back in order


def test_score_all__equals_one_by_one() -> None:
    targets, z, own = many_targets(), draw(2, 6, 4), draw(3, 4)
    found = score_all(targets, z, own)
    assert found.shape == (6, len(targets))
    for column, target in enumerate(targets):
        np.testing.assert_allclose(found[:, column].numpy(), target.score(z, own).numpy(), **TIGHT)


@every_kernel
def test_score__more_representations_than_are_scored_at_a_time(similarity: Similarity) -> None:
    z, samples = draw(0, 4100, 2), draw(1, 3, 2)
    found = similarity_to(Reference.from_representations(samples), similarity).score(z)
    np.testing.assert_allclose(found.numpy(), slow_score(similarity, z, [(1, samples)]), **TIGHT)


@every_similarity
def test_score__keeps_dtype(similarity: Similarity) -> None:
    z = draw(0, 3, 4)
    target = contrastive_corpus_similarity(reference(1, d=4), reference(2, d=4), similarity)
    single = target.score(z.float())
    assert single.dtype == torch.float32
    assert target.score(z).dtype == torch.float64
    # single precision, of scores made of terms up to about a hundred (polynomial)
    np.testing.assert_allclose(single.numpy(), target.score(z).numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(3,), (1, 2, 3)], ids=str)
def test_score__wrong_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"must have shape \[n, d\]\. Got \["):
        similarity_to(reference(0)).score(torch.ones(shape))


def test_score__zero_representation_under_cosine_names_the_index() -> None:
    z = draw(0, 5, 3)
    z[2] = 0
    target = similarity_to(reference(1))
    with pytest.raises(ValueError, match=r"Representation 2 of 5 is zero.*similarity='dot'"):
        target.score(z)
    with pytest.raises(ValueError, match="is zero, so its cosine similarity is undefined"):
        representation_similarity().score(draw(0, 5, 3), explicand=torch.zeros(3))


@pytest.mark.parametrize("similarity", [similarity for similarity in SIMILARITIES if similarity != Cosine()], ids=str)
def test_score__zero_representation_is_fine_otherwise(similarity: Similarity) -> None:
    z, samples = torch.zeros(1, 3, dtype=torch.float64), draw(1, 4, 3)
    found = similarity_to(Reference.from_representations(samples), similarity).score(z)
    np.testing.assert_allclose(found.numpy(), slow_score(similarity, z, [(1, samples)]), **TIGHT)


@every_similarity
def test_score__without_the_explicand_it_needs(similarity: Similarity) -> None:
    for target in (representation_similarity(similarity), contrastive_similarity(reference(0, name="cats"), similarity)):
        with pytest.raises(ValueError, match=r"The target 'itself.*' compares with the explicand; pass explicand="):
            target.score(draw(1, 2, 3))


@every_similarity
def test_score__gradcheck(similarity: Similarity) -> None:
    own = draw(0, 3)
    target = contrastive_corpus_similarity(reference(1), reference(2), similarity) + 0.5 * representation_similarity(
        similarity
    )
    assert torch.autograd.gradcheck(lambda z: target.score(z, own), (draw(3, 4, 3).requires_grad_(),))


def test_score_all__gradient_equals_that_of_each_target() -> None:
    targets, own = many_targets(), draw(3, 4)
    z = draw(2, 2, 4).requires_grad_()
    scores = score_all(targets, z, own)
    for column, target in enumerate(targets):
        (found,) = torch.autograd.grad(scores[:, column].sum(), z, retain_graph=True)
        (expected,) = torch.autograd.grad(target.score(z, own).sum(), z)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), **TIGHT)


def test_score__no_gradient_reaches_the_explicand() -> None:
    """The explicand is what everything is compared with, a constant: else the label-free gradient would be doubled."""
    own = draw(0, 3).requires_grad_()
    z = own.reshape(1, 3)
    (gradient,) = torch.autograd.grad(representation_similarity("dot").score(z, own).sum(), own)
    np.testing.assert_allclose(gradient.numpy(), own.detach().numpy(), **TIGHT)  # 2 * own if it did


# --- as a module, for Captum and the like -----------------------------------------------------------------------------


@pytest.fixture
def target(encoder: cocoax.Encoder) -> Target:
    corpus, foil = encoder.reference(images(5, seed=1)), encoder.reference(images(6, seed=2))
    return contrastive_corpus_similarity(corpus, foil)


def test_as_module__forward_is_the_score(encoder: cocoax.Encoder, target: Target) -> None:
    inputs = images(3, seed=3)
    found = target.as_module(encoder)(inputs)
    assert found.shape == (3,)
    np.testing.assert_allclose(found.detach().numpy(), target.score(encoder.represent(inputs)).numpy(), rtol=1e-5, atol=1e-6)


def test_as_module__captum_saliency_unchanged(encoder: cocoax.Encoder, net: SmallNet, target: Target) -> None:
    inputs = images(2, seed=3).requires_grad_()
    found = captum.attr.Saliency(target.as_module(encoder)).attribute(inputs, abs=False)
    unit = nn.functional.normalize(net(inputs), dim=1)  # the paper's formula, by hand
    (expected,) = torch.autograd.grad((unit @ target.direction().float()).sum(), inputs)
    assert expected.abs().max() > 1e-4
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)


def test_as_module__captum_integrated_gradients_unchanged(encoder: cocoax.Encoder, target: Target) -> None:
    scalar = target.as_module(encoder)
    inputs, baselines = images(2, seed=3), torch.zeros(2, 3, 16, 16)
    found = captum.attr.IntegratedGradients(scalar).attribute(inputs, baselines, n_steps=20, method="riemann_middle")
    average = torch.zeros_like(inputs)
    for step in range(20):
        point = (baselines + (step + 0.5) / 20 * (inputs - baselines)).requires_grad_()
        (gradient,) = torch.autograd.grad(scalar(point).sum(), point)
        average += gradient / 20
    expected = average * (inputs - baselines)
    assert expected.abs().max() > 1e-4
    torch.testing.assert_close(found.float(), expected, rtol=1e-3, atol=1e-6)


def test_as_module__captum_layer_methods_find_the_layers(encoder: cocoax.Encoder, net: SmallNet, target: Target) -> None:
    inputs = images(2, seed=3)
    scalar = target.as_module(encoder)
    assert net.conv in set(scalar.modules())
    found = captum.attr.LayerGradCam(scalar, net.conv).attribute(inputs)
    hidden = net.conv(inputs).detach().requires_grad_()
    representations = net.fc(net.pool(net.act(hidden)).flatten(1))
    (gradient,) = torch.autograd.grad(target.score(representations).sum(), hidden)
    expected = (gradient.mean((2, 3), keepdim=True) * hidden).sum(1, keepdim=True)
    torch.testing.assert_close(found, expected.detach(), rtol=1e-4, atol=1e-6)


@every_similarity
def test_as_module__gradient_for_every_similarity(encoder: cocoax.Encoder, net: SmallNet, similarity: Similarity) -> None:
    corpus = encoder.reference(images(5, seed=1), keep_samples=True)
    target = similarity_to(corpus, similarity)
    inputs = images(2, seed=3).requires_grad_()
    (found,) = torch.autograd.grad(target.as_module(encoder)(inputs).sum(), inputs)
    (expected,) = torch.autograd.grad(target.score(net(inputs)).sum(), inputs)
    assert expected.abs().max() > 0
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("similarity", ["cosine", "dot", "rbf"])
def test_as_module__label_free_with_its_explicand(encoder: cocoax.Encoder, similarity: str) -> None:
    explicand, inputs = images(1, seed=4)[0], images(3, seed=3)
    own = encoder.represent(explicand)[0]
    target = contrastive_similarity(encoder.reference(images(5, seed=1), keep_samples=True), similarity)
    scalar = target.as_module(encoder, explicand=explicand)
    expected = target.score(encoder.represent(inputs), own)
    torch.testing.assert_close(scalar(inputs).detach(), expected, rtol=1e-5, atol=1e-6)
    as_batch = target.as_module(encoder, explicand=explicand[None])
    torch.testing.assert_close(as_batch(inputs).detach(), expected, rtol=1e-5, atol=1e-6)
    found = captum.attr.Saliency(scalar).attribute(inputs.requires_grad_())
    assert found.shape == inputs.shape
    assert found.abs().max() > 0


def test_as_module__label_free_without_its_explicand(encoder: cocoax.Encoder) -> None:
    with pytest.raises(ValueError, match="compares with the explicand; pass explicand="):
        representation_similarity().as_module(encoder)


def test_as_module__one_explicand_only(encoder: cocoax.Encoder) -> None:
    with pytest.raises(ValueError, match="Expected one input, got 2"):
        representation_similarity().as_module(encoder, explicand=images(2))


def test_as_module__reference_of_another_encoder(target: Target) -> None:
    with pytest.raises(ValueError, match="lives in another representation space than the encoder"):
        target.as_module(cocoax.Encoder(SmallNet(seed=1)))
    elsewhere = similarity_to(Reference.from_representations(draw(0, 2, 5), name="other"))  # no space, another dimension
    with pytest.raises(ValueError, match="'other' has 5 dimensions but the encoder's representations have 8"):
        elsewhere.as_module(cocoax.Encoder(SmallNet()))(images(1))


@pytest.mark.parametrize("training", [True, False])
def test_as_module__leaves_the_mode_as_it_was(training: bool) -> None:
    """In eval mode for the forward pass, so without dropout, and back in the mode of before."""
    net = nn.Sequential(SmallNet(), nn.Dropout(0.5)).train(training)
    encoder = cocoax.Encoder(net)
    target = similarity_to(encoder.reference(images(5, seed=1)))
    scalar = target.as_module(encoder)
    inputs = images(3, seed=3)
    found = scalar(inputs)
    assert all(part.training == training for part in net.modules())
    assert not scalar.training
    assert torch.equal(found, scalar(inputs))
    torch.testing.assert_close(found, target.score(SmallNet().eval()(inputs)), rtol=1e-5, atol=1e-6)


def test_as_module__holds_the_parameters_and_nothing_else(encoder: cocoax.Encoder, net: SmallNet) -> None:
    scalar = representation_similarity().as_module(encoder, explicand=images(1))
    assert set(scalar.parameters()) == set(net.parameters())
    assert len(scalar.state_dict()) == len(net.state_dict())  # the explicand is not a weight


def test_as_module__of_a_callable(net: SmallNet) -> None:
    encoder = cocoax.Encoder(lambda batch: net(batch), name="mine")
    target = similarity_to(encoder.reference(images(5, seed=1)))
    inputs = images(2, seed=3).requires_grad_()
    found = captum.attr.Saliency(target.as_module(encoder)).attribute(inputs, abs=False)
    (expected,) = torch.autograd.grad(target.score(net(inputs)).sum(), inputs)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)
