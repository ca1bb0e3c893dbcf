"""Each gradient method against Captum, or against one autograd call for each point; errors, completeness, options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import captum.attr
import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import cocoax
from cocoax.methods.gradients import GradientMethod, normal
from tests.conftest import SmallNet, images
from tests.methods.settings import paper_targets


@pytest.fixture
def target(encoder: cocoax.Encoder) -> cocoax.Target:
    return paper_targets(encoder)[3]


SAMPLED: list[Callable[[int], GradientMethod]] = [
    lambda seed: cocoax.SmoothGrad(samples=20, seed=seed),
    lambda seed: cocoax.GradientShap(samples=20, seed=seed),
    lambda seed: cocoax.ExpectedGradients(images(6, 8, 8, seed=9), samples=20, seed=seed),
]


@pytest.mark.parametrize("make", SAMPLED, ids=["smoothgrad", "gradient shap", "expected gradients"])
def test_standard_error__is_calibrated(
    make: Callable[[int], GradientMethod], encoder: cocoax.Encoder, target: cocoax.Target
) -> None:
    runs = [make(seed).explain(encoder, images(1, 8, 8)[0], target) for seed in range(100)]
    spread = torch.stack([run.values for run in runs]).var(0).mean().sqrt()
    told = torch.stack([run.standard_error for run in runs]).square().mean().sqrt()  # type: ignore[arg-type]
    assert float(told / spread) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize(
    ("kind", "options", "word"),
    [
        *(
            (kind, {"samples": samples}, "samples")
            for kind in (cocoax.SmoothGrad, cocoax.GradientShap)
            for samples in (1, -2)
        ),
        (cocoax.ExpectedGradients, {"background": images(2), "samples": 1}, "samples"),
        (cocoax.ExpectedGradients, {"background": images(2), "baseline": cocoax.Mean()}, "baseline"),
        *((cocoax.SmoothGrad, {"noise": noise}, "noise") for noise in (0.0, -0.1, float("nan"))),
        *((cocoax.GradientShap, {"noise": noise}, "noise") for noise in (-0.1, float("nan"))),
        *((cocoax.IntegratedGradients, {"steps": steps}, "steps") for steps in (0, -1, 2.5, float("nan"), "many")),
    ],
)
def test_options__wrong(kind: Any, options: dict[str, Any], word: str) -> None:
    with pytest.raises((TypeError, ValueError), match=word):
        kind(**options)


@pytest.mark.parametrize("kind", [cocoax.VanillaGradients, cocoax.SmoothGrad])
def test_batch_size__not_positive(kind: Any, encoder: cocoax.Encoder) -> None:
    with pytest.raises(ValueError, match="'batch_size' parameter must be at least 1"):
        kind(batch_size=0).explain(encoder, images(1)[0], cocoax.representation_similarity())


# --- vanilla gradients -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("similarity", ["cosine", "dot", "rbf"])
def test_vanilla_gradients__same_as_captum_saliency(similarity: str, encoder: cocoax.Encoder) -> None:
    explicands = images(2)
    targets = paper_targets(encoder, similarity)
    found = cocoax.VanillaGradients().explain(encoder, explicands, targets)
    for explicand, results in zip(explicands, found, strict=True):
        for target, result in zip(targets, results, strict=True):
            module = target.as_module(encoder, explicand if target.needs_explicand else None)
            saliency = captum.attr.Saliency(module)
            expected = saliency.attribute(explicand[None].clone().requires_grad_(), abs=False)[0]
            torch.testing.assert_close(result.raw, expected, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(result.values, expected.mean(0), rtol=1e-5, atol=1e-6)
    assert float(found[0][3].raw.abs().max()) > 1e-3  # it was not zero that was compared


def test_vanilla_gradients__is_the_slope_of_the_score(encoder: cocoax.Encoder) -> None:
    """Against a finite difference in a random direction, without autograd."""
    target = paper_targets(encoder)[3]
    explicand, direction = images(1)[0], images(1, seed=5)[0]
    result = cocoax.VanillaGradients().explain(encoder, explicand, target)
    step = 1e-2
    anchors = target.score(encoder.represent(torch.stack([explicand + step * direction, explicand - step * direction])))
    slope = float(anchors[0] - anchors[1]) / (2 * step)
    assert float((result.raw * direction).sum()) == pytest.approx(slope, rel=1e-2)


def test_vanilla_gradients__label_free_cosine_has_its_maximum_at_the_explicand(encoder: cocoax.Encoder) -> None:
    result = cocoax.VanillaGradients().explain(encoder, images(1)[0], cocoax.representation_similarity())
    assert result.score == pytest.approx(1)
    torch.testing.assert_close(result.raw, torch.zeros(3, 16, 16), rtol=0, atol=1e-6)


def test_vanilla_gradients__baseline_only_sets_the_baseline_score(encoder: cocoax.Encoder) -> None:
    target = paper_targets(encoder)[3]
    blurred = cocoax.VanillaGradients().explain(encoder, images(1)[0], target)
    black = cocoax.VanillaGradients(baseline=cocoax.Constant(0.0)).explain(encoder, images(1)[0], target)
    assert torch.equal(blurred.raw, black.raw)
    assert blurred.baseline_score != black.baseline_score
    expected = float(target.score(encoder.represent(torch.zeros(1, 3, 16, 16))))
    assert black.baseline_score == pytest.approx(expected, abs=1e-6)


# --- SmoothGrad ------------------------------------------------------------------------------------------------------


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


# --- integrated gradients --------------------------------------------------------------------------------------------


def by_captum(target: cocoax.Target, encoder: cocoax.Encoder, explicand: Tensor, baseline: Tensor, steps: int = 50) -> Tensor:
    module = target.as_module(encoder, explicand if target.needs_explicand else None)
    method = captum.attr.IntegratedGradients(module)
    found: Tensor = method.attribute(explicand[None], baselines=baseline[None], method="gausslegendre", n_steps=steps)
    return found[0].float()


@pytest.mark.parametrize("similarity", ["cosine", "dot", "rbf"])
@pytest.mark.parametrize("number", range(4))
def test_integrated_gradients__same_as_captum(number: int, similarity: str, encoder: cocoax.Encoder) -> None:
    target = paper_targets(encoder, similarity)[number]
    explicand = images(1)[0]
    result = cocoax.IntegratedGradients(steps=50).explain(encoder, explicand, target)
    expected = by_captum(target, encoder, explicand, cocoax.Blur(121, 20.0)(explicand))
    torch.testing.assert_close(result.raw, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(result.values, expected.mean(0), rtol=0, atol=1e-5)
    assert float(expected.abs().max()) > 1e-4


def test_integrated_gradients__same_as_captum_on_its_own_batch(encoder: cocoax.Encoder) -> None:
    target = paper_targets(encoder)[3]
    explicands = images(3)
    baselines = torch.stack([cocoax.Blur(121, 20.0)(one) for one in explicands])
    method = captum.attr.IntegratedGradients(target.as_module(encoder))
    expected = method.attribute(explicands, baselines=baselines, method="gausslegendre", n_steps=50).float()
    found = cocoax.IntegratedGradients(steps=50).explain(encoder, explicands, target)
    torch.testing.assert_close(torch.stack([one.raw for one in found]), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_integrated_gradients__complete(seed: int) -> None:
    """Random encoders, explicands, baselines, weights and similarities: values sum to the difference of the two scores."""
    random = np.random.default_rng(seed)
    encoder = cocoax.Encoder(SmallNet(seed=seed).eval())
    references = [encoder.reference(images(3, seed=10 * seed + i), keep_samples=True) for i in range(3)]
    baselines = [cocoax.Blur(), cocoax.Mean(), cocoax.Constant(0.5), cocoax.Noise(seed=seed)]
    method = cocoax.IntegratedGradients(steps=100, baseline=baselines[seed % 4])
    targets = []
    for similarity in ("cosine", "dot", "rbf", "polynomial"):
        parts = [cocoax.representation_similarity(similarity)]
        parts += [cocoax.similarity_to(reference, similarity) for reference in references]
        target = parts[0] * float(random.normal())
        for part in parts[1:]:
            target = target + float(random.normal()) * part
        targets.append(target)
    for result in method.explain(encoder, images(1, 12, 14, seed=seed)[0], targets):
        difference = result.score - result.baseline_score
        assert abs(difference) > 1e-3
        assert float(result.raw.sum()) == pytest.approx(difference, rel=1e-3, abs=1e-4)


def test_integrated_gradients__more_steps_come_closer_to_completeness(encoder: cocoax.Encoder) -> None:
    target = paper_targets(encoder)[3]

    def gap(steps: int) -> float:
        result = cocoax.IntegratedGradients(steps=steps).explain(encoder, images(1)[0] * 3, target)
        return abs(float(result.raw.double().sum()) - (result.score - result.baseline_score))

    assert gap(1) > 10 * gap(50)


def test_integrated_gradients__baseline_is_the_explicand(encoder: cocoax.Encoder) -> None:
    explicand = images(1)[0]
    target = paper_targets(encoder)[2]
    result = cocoax.IntegratedGradients(baseline=explicand).explain(encoder, explicand, target)
    assert torch.equal(result.raw, torch.zeros(3, 16, 16))
    assert result.baseline_score == pytest.approx(result.score, abs=1e-6)


def test_integrated_gradients__weights_sum_to_one() -> None:
    for steps in (1, 5, 50):
        weights = cocoax.IntegratedGradients(steps=steps).weights()
        assert len(weights) == steps
        assert float(weights.sum()) == pytest.approx(1, abs=1e-12)


# --- GradientSHAP ----------------------------------------------------------------------------------------------------


METHOD = cocoax.GradientShap(samples=12, noise=0.2, seed=5)


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


def test_gradient_shap__batch_pairs_each_explicand_with_its_baseline_where_captum_does_not(
    encoder: cocoax.Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = paper_targets(encoder)[3]
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
    target = paper_targets(encoder)[3]
    explicand = images(1, 8, 8)[0]
    sampled = cocoax.GradientShap(samples=3000, noise=0.0).explain(encoder, explicand, target)
    exact = cocoax.IntegratedGradients(steps=50).explain(encoder, explicand, target)
    within = (sampled.values - exact.values).abs() < 4 * sampled.standard_error + 1e-7
    assert bool(within.all())
    assert float((sampled.values - exact.values).norm() / exact.values.norm()) < 0.05


# --- expected gradients ----------------------------------------------------------------------------------------------


BACKGROUND = images(6, seed=9)


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
