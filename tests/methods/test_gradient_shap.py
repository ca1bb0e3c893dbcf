from __future__ import annotations

from collections.abc import Callable

import captum.attr
import numpy as np
import pytest
import torch
from torch import Tensor

import cocoax
from tests.conftest import images

METHOD = cocoax.GradientShap(samples=12, noise=0.2, seed=5)


def paper_targets(encoder: cocoax.Encoder, similarity: str) -> list[cocoax.Target]:
    corpus = encoder.reference(images(4, seed=1), keep_samples=True)
    foil = encoder.reference(images(5, seed=2), keep_samples=True)
    return [
        cocoax.representation_similarity(similarity),
        cocoax.contrastive_similarity(foil, similarity),
        cocoax.corpus_similarity(corpus, similarity),
        cocoax.contrastive_corpus_similarity(corpus, foil, similarity),
    ]


def feed_captum(monkeypatch: pytest.MonkeyPatch, explicands: int, choose: Callable[[int, int], np.ndarray]) -> None:
    """Give Captum our noise and our α, the same for every explicand; ``choose(baselines, count)`` picks its baselines."""
    noise, alphas = METHOD.draws(cocoax.Explicand(torch.zeros(3, 16, 16)), slice(0, METHOD.samples))
    monkeypatch.setattr(torch, "normal", lambda _mean, _std: noise.repeat(explicands, 1, 1, 1))
    monkeypatch.setattr(np.random, "uniform", lambda _low, _high, _count: np.tile(alphas.numpy(), explicands))
    monkeypatch.setattr(np.random, "choice", choose)


def own_baseline(baselines: int, count: int) -> np.ndarray:
    """Every explicand is paired with its own baseline; its noisy copies follow one another."""
    return np.repeat(np.arange(baselines), count // baselines)


@pytest.mark.parametrize("similarity", ["cosine", "dot", "rbf"])
def test_gradient_shap__same_as_captum_with_the_same_draws(
    similarity: str, encoder: cocoax.Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    explicand = images(1)[0]
    targets = paper_targets(encoder, similarity)
    found = METHOD.explain(encoder, explicand, targets)
    modules = [target.as_module(encoder, explicand if target.needs_explicand else None) for target in targets]
    feed_captum(monkeypatch, 1, own_baseline)
    for module, result in zip(modules, found, strict=True):
        expected = captum.attr.GradientShap(module).attribute(
            explicand[None], baselines=cocoax.Blur(121, 20.0)(explicand)[None], n_samples=METHOD.samples, stdevs=METHOD.noise
        )
        torch.testing.assert_close(result.raw, expected[0], rtol=0, atol=1e-5)
        assert float(expected.abs().max()) > 1e-4


def test_gradient_shap__same_as_one_draw_at_a_time(encoder: cocoax.Encoder) -> None:
    target = paper_targets(encoder, "cosine")[3]
    explicand = images(1)[0]
    baseline = cocoax.Constant(0.3)(explicand)
    result = cocoax.GradientShap(samples=6, noise=0.1, baseline=cocoax.Constant(0.3)).explain(encoder, explicand, target)
    noises, alphas = cocoax.GradientShap(samples=6, noise=0.1).draws(cocoax.Explicand(torch.zeros(3, 16, 16)), slice(0, 6))
    module = target.as_module(encoder)
    parts = []
    for noise, alpha in zip(noises, alphas, strict=True):
        noisy = explicand + noise
        at = (baseline + alpha * (noisy - baseline))[None].requires_grad_()
        parts.append(torch.autograd.grad(module(at).sum(), at)[0][0] * (noisy - baseline))
    stacked = torch.stack(parts)
    torch.testing.assert_close(result.raw, stacked.mean(0), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(result.standard_error, stacked.mean(1).std(0) / 6**0.5, rtol=1e-4, atol=1e-7)


def test_gradient_shap__batch_is_one_at_a_time(encoder: cocoax.Encoder) -> None:
    explicands, targets = images(3), paper_targets(encoder, "cosine")
    together = METHOD.explain(encoder, explicands, targets)
    for explicand, results in zip(explicands, together, strict=True):
        alone = METHOD.explain(encoder, explicand, targets)
        for one, other in zip(alone, results, strict=True):
            torch.testing.assert_close(one.raw, other.raw, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(one.standard_error, other.standard_error, rtol=1e-4, atol=1e-7)


def test_gradient_shap__batch_pairs_each_explicand_with_its_baseline_where_captum_does_not(
    encoder: cocoax.Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = paper_targets(encoder, "cosine")[3]
    explicands = images(3) + torch.tensor([-1.0, 0.0, 1.0]).view(3, 1, 1, 1)  # a dark one, and a bright one
    baselines = torch.stack([cocoax.Blur(121, 20.0)(one) for one in explicands])
    ours = torch.stack([one.raw for one in METHOD.explain(encoder, explicands, target)])
    theirs = captum.attr.GradientShap(target.as_module(encoder))

    def by_captum(choose: Callable[[int, int], np.ndarray]) -> Tensor:
        feed_captum(monkeypatch, 3, choose)
        found: Tensor = theirs.attribute(explicands, baselines=baselines, n_samples=METHOD.samples, stdevs=METHOD.noise)
        return found

    torch.testing.assert_close(ours, by_captum(own_baseline), rtol=0, atol=1e-5)
    random = np.random.default_rng(0)
    mixed = by_captum(lambda baselines, count: random.integers(0, baselines, count))  # what Captum does
    for one, other in zip(ours, mixed, strict=True):
        assert float((one - other).norm() / one.norm()) > 0.1


def test_gradient_shap__draws_of_some_rows_are_rows_of_all_draws() -> None:
    noise, alphas = METHOD.draws(cocoax.Explicand(torch.zeros(3, 4, 5)), slice(0, 12))
    assert noise.shape == (12, 3, 4, 5)
    assert alphas.shape == (12,)
    some_noise, some_alphas = METHOD.draws(cocoax.Explicand(torch.zeros(3, 4, 5)), slice(4, 7))
    assert torch.equal(some_noise, noise[4:7])
    assert torch.equal(some_alphas, alphas[4:7])


def test_gradient_shap__draws_are_distributed_as_documented() -> None:
    noise, alphas = cocoax.GradientShap(samples=2000, noise=0.3).draws(cocoax.Explicand(torch.zeros(3, 4, 4)), slice(0, 2000))
    assert float(noise.mean()) == pytest.approx(0, abs=0.005)
    assert float(noise.std()) == pytest.approx(0.3, rel=0.02)
    assert float(alphas.mean()) == pytest.approx(0.5, abs=0.03)
    assert float(alphas.std()) == pytest.approx(12**-0.5, rel=0.05)
    assert 0 <= float(alphas.min()) <= float(alphas.max()) < 1


def test_gradient_shap__noise_and_alphas_are_independent() -> None:
    """Numpy's default_rng(seed) and default_rng([seed, 0]) are one generator, which α and the first noise must not share."""
    correlations = []
    for seed in range(30):
        noise, alphas = cocoax.GradientShap(samples=50, seed=seed).draws(cocoax.Explicand(torch.zeros(3, 8, 8)), slice(0, 50))
        first = noise[0].flatten()[:50].abs()
        correlations.append(float(torch.corrcoef(torch.stack([first, alphas]))[0, 1]))
    assert float(np.mean(correlations)) == pytest.approx(0, abs=0.1)


def test_gradient_shap__without_noise_averages_to_integrated_gradients(encoder: cocoax.Encoder) -> None:
    target = paper_targets(encoder, "cosine")[3]
    explicand = images(1, 8, 8)[0]
    sampled = cocoax.GradientShap(samples=3000, noise=0.0).explain(encoder, explicand, target)
    exact = cocoax.IntegratedGradients(steps=50).explain(encoder, explicand, target)
    within = (sampled.values - exact.values).abs() < 4 * sampled.standard_error + 1e-7
    assert bool(within.all())
    assert float((sampled.values - exact.values).norm() / exact.values.norm()) < 0.05


def test_gradient_shap__standard_error_is_calibrated(encoder: cocoax.Encoder) -> None:
    target = paper_targets(encoder, "cosine")[3]
    explicand = images(1, 8, 8)[0]
    runs = [cocoax.GradientShap(samples=20, seed=seed).explain(encoder, explicand, target) for seed in range(100)]
    spread = torch.stack([run.values for run in runs]).std(0).mean()
    told = torch.stack([run.standard_error for run in runs]).mean()
    assert float(told / spread) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("samples", [1, 0, -5])
def test_gradient_shap__bad_samples(samples: int) -> None:
    with pytest.raises(ValueError, match=f"The 'samples' parameter must be at least 2. Got {samples} instead"):
        cocoax.GradientShap(samples=samples)


@pytest.mark.parametrize("noise", [-0.1, float("nan")])
def test_gradient_shap__bad_noise(noise: float) -> None:
    with pytest.raises(ValueError, match=f"The 'noise' parameter must be at least 0. Got {noise} instead"):
        cocoax.GradientShap(noise=noise)
