import math

import numpy as np
import pytest
import torch
from my_similarities import Cauchy, Correlation
from torch import Tensor

import cocoax


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_cauchy__slow_version() -> None:
    z, r = draw(0, 4, 3), draw(1, 5, 3)
    expected = [[1 / (1 + 0.5 * math.dist(a, b) ** 2) for b in r.tolist()] for a in z.tolist()]
    torch.testing.assert_close(Cauchy(0.5).pairwise(z, r), torch.tensor(expected, dtype=torch.float64))


def test_correlation__same_as_numpy() -> None:
    z, r = draw(0, 4, 6), draw(1, 5, 6)
    expected = np.corrcoef(z.numpy(), r.numpy())[:4, 4:]
    torch.testing.assert_close(Correlation().pairwise(z, r), torch.from_numpy(expected))


def test_both__are_kernels() -> None:
    z = draw(0, 8, 4)
    for similarity in (Cauchy(), Correlation()):
        gram = similarity.pairwise(z, z)
        torch.testing.assert_close(gram, gram.T)
        assert torch.linalg.eigvalsh(gram).min() > -1e-12


def test_both__gradients() -> None:
    z, r = draw(0, 3, 4).requires_grad_(), draw(1, 2, 4)
    for similarity in (Cauchy(), Correlation()):
        assert torch.autograd.gradcheck(lambda rows, kind=similarity: kind.pairwise(rows, r), (z,))
        own = similarity.pairwise(z, z.detach())
        assert torch.isfinite(torch.autograd.grad(own.sum(), z)[0]).all()


def test_both__score_of_a_target_is_the_mean_over_the_corpus() -> None:
    z, corpus = draw(0, 4, 6).float(), cocoax.Reference.from_representations(draw(1, 5, 6))
    for similarity in (Cauchy(), Correlation()):
        expected = similarity.pairwise(z, corpus.samples).mean(1)
        torch.testing.assert_close(cocoax.similarity_to(corpus, similarity).score(z), expected)


def test_both__equal_options_are_equal() -> None:
    assert Cauchy(2.0) == Cauchy(2.0) != Cauchy(3.0)
    assert len({Correlation(), Correlation()}) == 1
    assert cocoax.similarity_to(cocoax.Reference.from_representations(draw(0, 2, 3)), "cauchy").similarity == Cauchy()


def test_errors() -> None:
    with pytest.raises(ValueError, match="Representation 1 of 2 has the same value everywhere"):
        Correlation().features(torch.tensor([[1.0, 2.0], [3.0, 3.0]]))
    with pytest.raises(ValueError, match="'gamma' parameter must be above 0"):
        Cauchy(0)
    means = cocoax.Reference.from_representations(draw(0, 2, 3), keep_samples=False)
    with pytest.raises(ValueError, match="keep_samples=True"):
        cocoax.similarity_to(means, Cauchy())
