"""Similarities and targets from their definitions, slowly, and random representations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity, laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel
from torch import Tensor

from cocoax import (
    Reference,
    Target,
    contrastive_corpus_similarity,
)
from cocoax.similarity import Cosine, Dot, Laplacian, LinearSimilarity, Polynomial, Rbf, Similarity

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
