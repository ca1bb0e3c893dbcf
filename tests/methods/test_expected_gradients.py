from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import cocoax
from tests.conftest import SmallNet, images

BACKGROUND = images(6, seed=9)


@pytest.fixture
def target(encoder: cocoax.Encoder) -> cocoax.Target:
    corpus, foil = (encoder.reference(images(4, seed=seed)) for seed in (1, 2))
    return cocoax.contrastive_corpus_similarity(corpus, foil)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_expected_gradients__same_as_one_draw_at_a_time(similarity: str, encoder: cocoax.Encoder) -> None:
    corpus = encoder.reference(images(4, seed=1))
    target = cocoax.representation_similarity(similarity) - cocoax.similarity_to(corpus, similarity)
    explicand = images(1)[0]
    method = cocoax.ExpectedGradients(BACKGROUND, samples=9, seed=3)
    result = method.explain(encoder, explicand, target)
    which, alphas = method.draws()
    assert len(set(which.tolist())) > 2
    module = target.as_module(encoder, explicand)
    parts = []
    for index, alpha in zip(which, alphas, strict=True):
        difference = explicand - BACKGROUND[index]
        at = (BACKGROUND[index] + float(alpha) * difference)[None].requires_grad_()
        parts.append(torch.autograd.grad(module(at).sum(), at)[0][0] * difference)
    stacked = torch.stack(parts)
    torch.testing.assert_close(result.raw, stacked.mean(0), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(result.standard_error, stacked.mean(1).std(0) / 3, rtol=1e-4, atol=1e-7)


def test_expected_gradients__draws_are_uniform() -> None:
    which, alphas = cocoax.ExpectedGradients(BACKGROUND, samples=6000).draws()
    counts = torch.bincount(which, minlength=6)
    assert len(counts) == 6
    assert float((counts - 1000).abs().max()) < 4 * (6000 * 5 / 36) ** 0.5
    assert float(alphas.mean()) == pytest.approx(0.5, abs=0.02)
    assert float(alphas.std()) == pytest.approx(12**-0.5, rel=0.05)
    assert abs(float(torch.corrcoef(torch.stack([which.double(), alphas.double()]))[0, 1])) < 0.05


def test_expected_gradients__is_the_mean_of_integrated_gradients(encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    explicand = images(1, 8, 8)[0]
    background = images(4, 8, 8, seed=9)
    sampled = cocoax.ExpectedGradients(background, samples=4000).explain(encoder, explicand, target)
    exact = torch.stack(
        [cocoax.IntegratedGradients(baseline=one).explain(encoder, explicand, target).values for one in background]
    ).mean(0)
    assert bool(((sampled.values - exact).abs() < 4 * sampled.standard_error).all())
    assert float((sampled.values - exact).norm() / exact.norm()) < 0.1


def test_expected_gradients__complete_in_expectation(encoder: cocoax.Encoder) -> None:
    """The values sum to the score minus the mean score of the background, up to the error of sampling."""
    explicand, target = images(1)[0], cocoax.representation_similarity("dot")
    methods = [cocoax.ExpectedGradients(BACKGROUND, samples=400, seed=seed) for seed in range(10)]
    runs = [method.explain(encoder, explicand, target) for method in methods]
    sums = np.array([float(run.raw.sum()) for run in runs])
    own = encoder.represent(explicand)[0]
    expected = runs[0].score - float(target.score(encoder.represent(BACKGROUND), own).mean())
    error = sums.std(ddof=1) / 10**0.5
    assert abs(sums.mean() - expected) < 4 * error
    assert error < 0.05 * abs(expected)  # or the line above would say little


def test_expected_gradients__standard_error_is_calibrated(encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    explicand, background = images(1, 8, 8)[0], images(6, 8, 8, seed=9)
    runs = [cocoax.ExpectedGradients(background, samples=20, seed=s).explain(encoder, explicand, target) for s in range(100)]
    spread = torch.stack([run.values for run in runs]).std(0).mean()
    told = torch.stack([run.standard_error for run in runs]).mean()
    assert float(told / spread) == pytest.approx(1, abs=0.15)


def test_expected_gradients__baseline_score_is_that_of_the_mean_image(encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    result = cocoax.ExpectedGradients(BACKGROUND, samples=2).explain(encoder, images(1)[0], target)
    expected = float(target.score(encoder.represent(BACKGROUND.mean(0, keepdim=True))))
    assert result.baseline_score == pytest.approx(expected, abs=1e-6)


def test_expected_gradients__background_of_pictures_is_prepared_like_inputs(net: SmallNet) -> None:
    encoder = cocoax.Encoder(net, cocoax.ImagePreprocess(resize=16, crop=16, mean=(0.5,) * 3, std=(0.5,) * 3))
    pixels = np.random.default_rng(0).integers(0, 256, (4, 16, 16, 3), dtype=np.uint8)
    pictures = [Image.fromarray(one) for one in pixels]
    tensors = torch.stack([encoder.prepare(one) for one in pictures])
    target = cocoax.representation_similarity("dot")
    found, expected = (
        cocoax.ExpectedGradients(background, samples=5).explain(encoder, pictures[0], target)
        for background in (pictures, tensors)
    )
    assert torch.equal(found.raw, expected.raw)


def test_expected_gradients__one_background_input(encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    one, same = (
        cocoax.ExpectedGradients(background, samples=5).explain(encoder, images(1)[0], target)
        for background in (BACKGROUND[0], BACKGROUND[:1])
    )
    assert torch.equal(one.raw, same.raw)


@pytest.mark.parametrize("nothing", [[], (), BACKGROUND[:0]], ids=["list", "tuple", "tensor"])
def test_expected_gradients__empty_background(nothing: Any, encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    with pytest.raises(ValueError, match="The background has 0 inputs; pass at least one"):
        cocoax.ExpectedGradients(nothing).explain(encoder, images(1)[0], target)


def test_expected_gradients__pictures_of_another_size_are_stretched(encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    small = images(3, 8, 8)
    large = torch.nn.functional.interpolate(small, (16, 16), mode="bilinear", antialias=True)
    found, expected = (
        cocoax.ExpectedGradients(background, samples=5).explain(encoder, images(1)[0], target)
        for background in (small, large)
    )
    torch.testing.assert_close(found.values, expected.values, rtol=1e-4, atol=1e-6)


def test_expected_gradients__background_of_several_shapes(encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    with pytest.raises(ValueError, match="The background inputs have different shapes; they must be preprocessed alike"):
        cocoax.ExpectedGradients([images(1, 8, 8)[0], images(1)[0]]).explain(encoder, images(1)[0], target)


def test_expected_gradients__baseline_is_not_an_option() -> None:
    with pytest.raises(TypeError, match="baseline"):
        cocoax.ExpectedGradients(BACKGROUND, baseline=cocoax.Mean())  # type: ignore[call-arg]


@pytest.mark.parametrize("samples", [1, 0])
def test_expected_gradients__bad_samples(samples: int) -> None:
    with pytest.raises(ValueError, match=f"The 'samples' parameter must be at least 2. Got {samples} instead"):
        cocoax.ExpectedGradients(BACKGROUND, samples=samples)
