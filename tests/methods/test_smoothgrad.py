from __future__ import annotations

import captum.attr
import pytest
import torch

import cocoax
from cocoax.methods.gradients import normal
from tests.conftest import images


@pytest.fixture
def target(encoder: cocoax.Encoder) -> cocoax.Target:
    corpus, foil = (encoder.reference(images(4, seed=seed)) for seed in (1, 2))
    return cocoax.contrastive_corpus_similarity(corpus, foil)


def noise_of(seed: int, samples: int, noise: float) -> torch.Tensor:
    return noise * torch.stack([normal(seed, row, (3, 16, 16)) for row in range(samples)])


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_smoothgrad__same_as_one_noisy_copy_at_a_time(similarity: str, encoder: cocoax.Encoder) -> None:
    corpus = encoder.reference(images(4, seed=1))
    target = cocoax.representation_similarity(similarity) - cocoax.similarity_to(corpus, similarity)
    explicand = images(1)[0]
    result = cocoax.SmoothGrad(samples=6, noise=0.3, seed=4).explain(encoder, explicand, target)
    module = target.as_module(encoder, explicand)
    gradients = []
    for noise in noise_of(4, 6, 0.3):
        at = (explicand + noise)[None].requires_grad_()
        gradients.append(torch.autograd.grad(module(at).sum(), at)[0][0])
    stacked = torch.stack(gradients)
    torch.testing.assert_close(result.raw, stacked.mean(0), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(result.values, stacked.mean((0, 1)), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(result.standard_error, stacked.mean(1).std(0) / 6**0.5, rtol=1e-4, atol=1e-7)


def test_smoothgrad__same_as_captum_with_the_same_noise(
    encoder: cocoax.Encoder, target: cocoax.Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    explicand = images(1)[0]
    result = cocoax.SmoothGrad(samples=6, noise=0.3).explain(encoder, explicand, target)
    tunnel = captum.attr.NoiseTunnel(captum.attr.Saliency(target.as_module(encoder)))
    monkeypatch.setattr(torch, "normal", lambda _mean, _std: noise_of(0, 6, 0.3))
    expected = tunnel.attribute(explicand[None], nt_type="smoothgrad", nt_samples=6, stdevs=0.3, abs=False)[0]
    torch.testing.assert_close(result.raw, expected, rtol=1e-5, atol=1e-6)


def test_smoothgrad__more_samples_begin_with_the_same_noise(encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    few, many = (cocoax.SmoothGrad(samples=samples).explain(encoder, images(1)[0], target) for samples in (4, 8))
    blurry = images(1)[0] + noise_of(0, 8, 0.2)[4:]
    rest = cocoax.VanillaGradients().explain(encoder, blurry, target)
    expected = (few.raw + torch.stack([one.raw for one in rest]).mean(0)) / 2
    torch.testing.assert_close(many.raw, expected, rtol=1e-5, atol=1e-6)


def test_smoothgrad__little_noise_gives_the_gradient(encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    smooth = cocoax.SmoothGrad(samples=4, noise=1e-4).explain(encoder, images(1)[0], target)
    plain = cocoax.VanillaGradients().explain(encoder, images(1)[0], target)
    torch.testing.assert_close(smooth.raw, plain.raw, rtol=1e-2, atol=1e-5)


def test_smoothgrad__standard_error_is_calibrated(encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    runs = [cocoax.SmoothGrad(samples=10, seed=seed).explain(encoder, images(1, 8, 8)[0], target) for seed in range(100)]
    spread = torch.stack([run.values for run in runs]).var(0).mean().sqrt()
    told = torch.stack([run.standard_error for run in runs]).square().mean().sqrt()
    assert float(told / spread) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("samples", [1, 0, -2])
def test_smoothgrad__bad_samples(samples: int) -> None:
    with pytest.raises(ValueError, match=f"The 'samples' parameter must be at least 2. Got {samples} instead"):
        cocoax.SmoothGrad(samples=samples)


@pytest.mark.parametrize("noise", [0.0, -0.1, float("nan")])
def test_smoothgrad__bad_noise(noise: float) -> None:
    with pytest.raises(ValueError, match=r"The 'noise' parameter must be above 0\. Got"):
        cocoax.SmoothGrad(noise=noise)
