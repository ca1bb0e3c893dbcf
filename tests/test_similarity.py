"""Similarities against their formulas, written out slowly, and against scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity, laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel
from torch import Tensor

import cocoax
from cocoax.similarity import (
    SIMILARITIES,
    Cosine,
    Dot,
    Laplacian,
    LinearSimilarity,
    Polynomial,
    Rbf,
    Similarity,
    get_similarity,
)
from tests.similarities import Overlap, Signs

property_test = settings(
    max_examples=25, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
seeds = st.integers(0, 2**31 - 1)
sizes = st.integers(1, 5)

Vector = list[float]


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def inner(z: Vector, r: Vector) -> float:
    return math.fsum(a * b for a, b in zip(z, r, strict=True))


def slow_cosine(z: Vector, r: Vector) -> float:
    return inner(z, r) / (math.sqrt(inner(z, z)) * math.sqrt(inner(r, r)))


def slow_rbf(gamma: float | None) -> Callable[[Vector, Vector], float]:
    return lambda z, r: math.exp(-(gamma or 1 / len(z)) * math.fsum((a - b) ** 2 for a, b in zip(z, r, strict=True)))


def slow_laplacian(gamma: float | None) -> Callable[[Vector, Vector], float]:
    return lambda z, r: math.exp(-(gamma or 1 / len(z)) * math.fsum(abs(a - b) for a, b in zip(z, r, strict=True)))


def slow_polynomial(degree: int, gamma: float | None, constant: float) -> Callable[[Vector, Vector], float]:
    return lambda z, r: ((gamma or 1 / len(z)) * inner(z, r) + constant) ** degree


# similarity, its definition for one pair, scikit-learn's matrix
CASES = [
    pytest.param(Cosine(), slow_cosine, cosine_similarity, id="cosine"),
    pytest.param(Dot(), inner, linear_kernel, id="dot"),
    pytest.param(Rbf(), slow_rbf(None), rbf_kernel, id="rbf"),
    pytest.param(Rbf(0.3), slow_rbf(0.3), lambda z, r: rbf_kernel(z, r, gamma=0.3), id="rbf-0.3"),
    pytest.param(Laplacian(), slow_laplacian(None), laplacian_kernel, id="laplacian"),
    pytest.param(Laplacian(0.3), slow_laplacian(0.3), lambda z, r: laplacian_kernel(z, r, gamma=0.3), id="laplacian-0.3"),
    pytest.param(Polynomial(), slow_polynomial(3, None, 1.0), polynomial_kernel, id="polynomial"),
    pytest.param(
        Polynomial(2, 0.5, 0.25),
        slow_polynomial(2, 0.5, 0.25),
        lambda z, r: polynomial_kernel(z, r, degree=2, gamma=0.5, coef0=0.25),
        id="polynomial-2-0.5-0.25",
    ),
]
ONLY_SIMILARITIES = [pytest.param(case.values[0], id=case.id) for case in CASES]


# --- the formulas -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("similarity", "definition", "_sklearn"), CASES)
@given(seed=seeds, n=sizes, m=sizes, d=sizes)
@property_test
def test_pairwise__equals_its_definition(
    similarity: Similarity, definition: Callable[[Vector, Vector], float], _sklearn: object, seed: int, n: int, m: int, d: int
) -> None:
    z, r = draw(seed, n, d), draw(seed + 1, m, d)
    expected = torch.tensor([[definition(a, b) for b in r.tolist()] for a in z.tolist()], dtype=torch.float64)
    torch.testing.assert_close(similarity.pairwise(z, r), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("similarity", "_definition", "sklearn"), CASES)
def test_pairwise__equals_scikit_learn(
    similarity: Similarity, _definition: object, sklearn: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> None:
    z, r = draw(0, 7, 5), draw(1, 4, 5)
    torch.testing.assert_close(
        similarity.pairwise(z, r), torch.from_numpy(sklearn(z.numpy(), r.numpy())), rtol=1e-11, atol=1e-13
    )


@pytest.mark.parametrize("similarity", ONLY_SIMILARITIES)
@given(seed=seeds, n=st.integers(2, 8), d=sizes)
@property_test
def test_pairwise__is_a_positive_semi_definite_kernel(similarity: Similarity, seed: int, n: int, d: int) -> None:
    z = draw(seed, n, d)
    gram = similarity.pairwise(z, z)
    torch.testing.assert_close(gram, gram.T, rtol=1e-12, atol=1e-14)
    eigenvalues = torch.linalg.eigvalsh((gram + gram.T) / 2)
    # rounding moves an eigenvalue by some n·eps of the largest one; 1e-13 of the trace covers that
    assert eigenvalues.min() >= -1e-13 * gram.trace()


@pytest.mark.parametrize("similarity", ONLY_SIMILARITIES)
def test_pairwise__keeps_dtype_and_shape(similarity: Similarity) -> None:
    z, r = draw(0, 6, 3).float(), draw(1, 2, 3).float()
    found = similarity.pairwise(z, r)
    assert found.dtype == torch.float32
    assert found.shape == (6, 2)
    # single precision: six decimal places of values that are of order one to a hundred
    torch.testing.assert_close(found.double(), similarity.pairwise(z.double(), r.double()), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("similarity", ONLY_SIMILARITIES)
def test_pairwise__is_differentiable_in_both_arguments(similarity: Similarity) -> None:
    z, r = draw(0, 3, 4).requires_grad_(), draw(1, 2, 4).requires_grad_()
    assert torch.autograd.gradcheck(similarity.pairwise, (z, r))


@pytest.mark.parametrize("similarity", [Rbf(), Laplacian()], ids=["rbf", "laplacian"])
def test_pairwise__gradient_where_representation_and_reference_meet(similarity: Similarity) -> None:
    """The label-free target starts there: similarity 1, the maximum, and a gradient of zero rather than NaN."""
    z = draw(0, 1, 4).requires_grad_()
    value = similarity.pairwise(z, z.detach().clone())
    (gradient,) = torch.autograd.grad(value.sum(), z)
    torch.testing.assert_close(value, torch.ones(1, 1, dtype=torch.float64), rtol=0, atol=1e-14)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-14)


@pytest.mark.parametrize("similarity", [Rbf(), Laplacian()], ids=["rbf", "laplacian"])
def test_pairwise__never_exceeds_one(similarity: Similarity) -> None:
    """Nor does rounding make a point more than similar to itself."""
    z = draw(0, 200, 16).float()
    assert similarity.pairwise(z, z).max() <= 1


def test_rbf__float32_with_a_large_common_part() -> None:
    z = draw(0, 4, 64).float() + 100
    r = z[:1] + 0.1 * draw(1, 5, 64).float()
    exact = torch.exp(-(z.double()[:, None] - r.double()[None]).square().sum(-1))
    # differences of floats near 100 are exact, and a squared distance t summed in float32 is off by some 1e-5 t at most, so
    # exp(-t) by 1e-5 t exp(-t) < 1e-5; ten times that is allowed
    torch.testing.assert_close(Rbf(gamma=1.0).pairwise(z, r).double(), exact, rtol=0, atol=1e-4)


# --- cosine and dot: linear in a feature map --------------------------------------------------------------------------


@pytest.mark.parametrize("similarity", [Cosine(), Dot()], ids=["cosine", "dot"])
@given(seed=seeds, n=sizes, m=sizes, d=sizes, k=sizes)
@property_test
def test_linear__is_a_dot_product_of_features(
    similarity: LinearSimilarity, seed: int, n: int, m: int, d: int, k: int
) -> None:
    z, r = draw(seed, n, d), draw(seed + 1, m, d)
    directions = draw(seed + 2, d, k)
    pairs, projections = similarity.features(z) @ similarity.features(r).T, similarity.features(z) @ directions
    torch.testing.assert_close(similarity.pairwise(z, r), pairs, rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(similarity.project(z, directions), projections, rtol=1e-11, atol=1e-13)


@given(seed=seeds, n=sizes, d=sizes)
@property_test
def test_cosine__features_are_unit_vectors_of_the_same_direction(seed: int, n: int, d: int) -> None:
    z = draw(seed, n, d)
    features = Cosine().features(z)
    for unit, vector in zip(features.tolist(), z.tolist(), strict=True):
        length = math.sqrt(inner(vector, vector))
        assert unit == pytest.approx([entry / length for entry in vector], rel=1e-12)


@given(seed=seeds, scale=st.floats(1e-12, 1e12))
@property_test
def test_cosine__does_not_depend_on_scale(seed: int, scale: float) -> None:
    z, r = draw(seed, 3, 4), draw(seed + 1, 2, 4)
    torch.testing.assert_close(Cosine().pairwise(scale * z, r), Cosine().pairwise(z, r), rtol=1e-11, atol=1e-13)


@given(seed=seeds, n=sizes, d=sizes)
@property_test
def test_cosine__is_bounded_as_the_sample_size_proposition_assumes(seed: int, n: int, d: int) -> None:
    z, r = draw(seed, n, d), draw(seed + 1, n, d)
    signed, nonnegative = Cosine().pairwise(z, r), Cosine().pairwise(z.abs(), r.abs())
    assert signed.abs().max() <= 1 + 1e-12
    assert nonnegative.min() >= 0
    assert nonnegative.max() <= 1 + 1e-12


@pytest.mark.parametrize(
    ("zero", "message"),
    [([0], "Representation 0 of 6"), ([1, 4], "Representation 1, 4 of 6"), ([0, 1, 2, 4, 5], "0, 1, 2 and 2 more of 6")],
    ids=["one", "two", "many"],
)
def test_cosine__zero_representation_is_an_error_that_names_the_index(zero: list[int], message: str) -> None:
    z, other = draw(0, 6, 3), draw(1, 2, 3)
    z[zero] = 0
    attempts: list[Callable[[], Tensor]] = [
        lambda: Cosine().features(z),
        lambda: Cosine().project(z, other.T),
        lambda: Cosine().pairwise(z, other),
        lambda: Cosine().pairwise(other, z),
    ]
    for attempt in attempts:
        with pytest.raises(ValueError, match=f"{message} is zero.*similarity='dot'"):
            attempt()


def test_dot__zero_representation_is_fine() -> None:
    assert torch.equal(Dot().pairwise(torch.zeros(1, 3), torch.ones(2, 3)), torch.zeros(1, 2))


# --- names and parameters ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "similarity"),
    [("cosine", Cosine()), ("dot", Dot()), ("rbf", Rbf()), ("laplacian", Laplacian()), ("polynomial", Polynomial())],
)
def test_get_similarity__by_name(name: str, similarity: Similarity) -> None:
    assert get_similarity(name) == similarity
    assert get_similarity(name.upper()) == similarity
    assert similarity.name == name


def test_get_similarity__an_instance_stays_itself() -> None:
    similarity = Rbf(0.7)
    assert get_similarity(similarity) is similarity


@pytest.mark.parametrize("wrong", ["cosin", "", None, 3, Cosine], ids=repr)
def test_get_similarity__unknown(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"must be one of cosine, dot, rbf, laplacian, polynomial, or a Similarity\. Got"):
        get_similarity(wrong)  # type: ignore[arg-type]


def test_similarities__are_equal_when_their_parameters_are() -> None:
    """Targets are added, and scored together, by this equality."""
    similarities: list[Similarity] = [
        Cosine(),
        Dot(),
        Rbf(),
        Rbf(0.5),
        Laplacian(),
        Laplacian(0.5),
        Polynomial(2),
        Polynomial(),
    ]
    again: list[Similarity] = [Cosine(), Dot(), Rbf(), Rbf(0.5), Laplacian(), Laplacian(0.5), Polynomial(2), Polynomial(3)]
    assert similarities == again
    assert len({*similarities, *again}) == len(similarities)


@pytest.mark.parametrize(
    "kind", [Rbf, Laplacian, lambda gamma: Polynomial(gamma=gamma)], ids=["rbf", "laplacian", "polynomial"]
)
@pytest.mark.parametrize("gamma", [0.0, -1.0, math.nan])
def test_kernels__gamma_must_be_positive(kind: Callable[[float], Similarity], gamma: float) -> None:
    with pytest.raises(ValueError, match=f"'gamma' parameter must be a number above 0, or None for 1/d. Got {gamma}"):
        kind(gamma)


@pytest.mark.parametrize("wrong", [{"degree": 0}, {"degree": -2}, {"constant": -0.5}], ids=str)
def test_polynomial__parameters_that_give_no_kernel(wrong: dict[str, float]) -> None:
    ((key, value),) = wrong.items()
    with pytest.raises(ValueError, match=rf"degree >= 1 and constant >= 0.*{key}={value}"):
        Polynomial(**wrong)  # type: ignore[arg-type]


def test_similarity__of_ones_own() -> None:
    """A new kernel is one class; the rest of the library takes it as it is."""

    class Cauchy(Similarity):
        def pairwise(self, representations: Tensor, references: Tensor) -> Tensor:
            return 1 / (1 + (representations[:, None] - references[None]).square().sum(-1))

    z, r = draw(0, 3, 4).float().double(), draw(1, 5, 4).float()
    target = cocoax.similarity_to(cocoax.Reference.from_representations(r), Cauchy())
    expected = [np.mean([1 / (1 + math.dist(a, b) ** 2) for b in r.tolist()]) for a in z.tolist()]
    assert Cauchy().name == "cauchy"
    assert target.score(z).tolist() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("similarity", [*(kind() for kind in SIMILARITIES.values()), Signs(), Overlap()], ids=repr)
def test_needs_samples__says_whether_a_reference_of_means_will_do(similarity: Similarity) -> None:
    representations = draw(0, 4, 3).float()
    means = cocoax.Reference.from_representations(draw(1, 5, 3), keep_samples=False)
    if similarity.needs_samples:
        with pytest.raises(ValueError, match="keeps only means"):
            cocoax.similarity_to(means, similarity).score(representations)
    else:
        expected = similarity.pairwise(representations, draw(1, 5, 3).float()).mean(1)
        torch.testing.assert_close(cocoax.similarity_to(means, similarity).score(representations), expected)
