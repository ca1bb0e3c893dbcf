from __future__ import annotations

import captum.attr
import numpy as np
import pytest
import torch
from torch import Tensor

import cocoax
from tests.conftest import SmallNet, images


def paper_targets(encoder: cocoax.Encoder, similarity: str) -> dict[str, cocoax.Target]:
    corpus = encoder.reference(images(4, seed=1), name="corpus", keep_samples=True)
    foil = encoder.reference(images(5, seed=2), name="foil", keep_samples=True)
    return {
        "label-free": cocoax.representation_similarity(similarity),
        "contrastive label-free": cocoax.contrastive_similarity(foil, similarity),
        "corpus": cocoax.corpus_similarity(corpus, similarity),
        "contrastive corpus": cocoax.contrastive_corpus_similarity(corpus, foil, similarity),
    }


def by_captum(target: cocoax.Target, encoder: cocoax.Encoder, explicand: Tensor, baseline: Tensor, steps: int = 50) -> Tensor:
    module = target.as_module(encoder, explicand if target.needs_explicand else None)
    method = captum.attr.IntegratedGradients(module)
    found: Tensor = method.attribute(explicand[None], baselines=baseline[None], method="gausslegendre", n_steps=steps)
    return found[0].float()


@pytest.mark.parametrize("similarity", ["cosine", "dot", "rbf"])
@pytest.mark.parametrize("name", ["label-free", "contrastive label-free", "corpus", "contrastive corpus"])
def test_integrated_gradients__same_as_captum(name: str, similarity: str, encoder: cocoax.Encoder) -> None:
    target = paper_targets(encoder, similarity)[name]
    explicand = images(1)[0]
    result = cocoax.IntegratedGradients(steps=50).explain(encoder, explicand, target)
    expected = by_captum(target, encoder, explicand, cocoax.Blur(121, 20.0)(explicand))
    torch.testing.assert_close(result.raw, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(result.values, expected.mean(0), rtol=0, atol=1e-5)
    assert float(expected.abs().max()) > 1e-4


@pytest.mark.parametrize("similarity", ["cosine", "dot", "rbf"])
def test_integrated_gradients__batch_same_as_captum_with_each_explicands_own_baseline(
    similarity: str, encoder: cocoax.Encoder
) -> None:
    targets = list(paper_targets(encoder, similarity).values())
    explicands = images(3)
    found = cocoax.IntegratedGradients(steps=50, batch_size=32).explain(encoder, explicands, targets)
    for explicand, results in zip(explicands, found, strict=True):
        for target, result in zip(targets, results, strict=True):
            expected = by_captum(target, encoder, explicand, cocoax.Blur(121, 20.0)(explicand))
            torch.testing.assert_close(result.raw, expected, rtol=0, atol=1e-5)


def test_integrated_gradients__same_as_captum_on_its_own_batch(encoder: cocoax.Encoder) -> None:
    target = paper_targets(encoder, "cosine")["contrastive corpus"]
    explicands = images(3)
    baselines = torch.stack([cocoax.Blur(121, 20.0)(one) for one in explicands])
    method = captum.attr.IntegratedGradients(target.as_module(encoder))
    expected = method.attribute(explicands, baselines=baselines, method="gausslegendre", n_steps=50).float()
    found = cocoax.IntegratedGradients(steps=50).explain(encoder, explicands, target)
    torch.testing.assert_close(torch.stack([one.raw for one in found]), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_integrated_gradients__same_as_one_point_at_a_time(steps: int, encoder: cocoax.Encoder) -> None:
    target = paper_targets(encoder, "cosine")["contrastive corpus"]
    explicand = images(1)[0]
    baseline = cocoax.Mean()(explicand)
    nodes, weights = np.polynomial.legendre.leggauss(steps)  # on [-1, 1]
    module = target.as_module(encoder)
    total = torch.zeros(3, 16, 16)
    for node, weight in zip(nodes, weights, strict=True):
        at = (baseline + (node + 1) / 2 * (explicand - baseline))[None].float().requires_grad_()
        total += weight / 2 * torch.autograd.grad(module(at).sum(), at)[0][0]
    result = cocoax.IntegratedGradients(steps=steps, baseline=cocoax.Mean()).explain(encoder, explicand, target)
    torch.testing.assert_close(result.raw, (explicand - baseline) * total, rtol=1e-5, atol=1e-6)


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
    target = paper_targets(encoder, "cosine")["contrastive corpus"]

    def gap(steps: int) -> float:
        result = cocoax.IntegratedGradients(steps=steps).explain(encoder, images(1)[0] * 3, target)
        return abs(float(result.raw.double().sum()) - (result.score - result.baseline_score))

    assert gap(1) > 10 * gap(50)


def test_integrated_gradients__baseline_is_the_explicand(encoder: cocoax.Encoder) -> None:
    explicand = images(1)[0]
    target = paper_targets(encoder, "cosine")["corpus"]
    result = cocoax.IntegratedGradients(baseline=explicand).explain(encoder, explicand, target)
    assert torch.equal(result.raw, torch.zeros(3, 16, 16))
    assert result.baseline_score == pytest.approx(result.score, abs=1e-6)


@pytest.mark.parametrize("steps", [0, -1])
def test_integrated_gradients__bad_steps(steps: int) -> None:
    with pytest.raises(ValueError, match=f"The 'steps' parameter must be at least 1. Got {steps} instead"):
        cocoax.IntegratedGradients(steps=steps)


@pytest.mark.parametrize("steps", [2.5, float("nan"), "many"])
def test_integrated_gradients__steps_not_a_whole_number(steps: object) -> None:
    with pytest.raises((TypeError, ValueError), match=f"'steps' parameter must be .* Got {steps!r} instead"):
        cocoax.IntegratedGradients(steps=steps)  # type: ignore[arg-type]


def test_integrated_gradients__weights_sum_to_one() -> None:
    for steps in (1, 5, 50):
        weights = cocoax.IntegratedGradients(steps=steps).weights()
        assert len(weights) == steps
        assert float(weights.sum()) == pytest.approx(1, abs=1e-12)
