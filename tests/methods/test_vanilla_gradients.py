from __future__ import annotations

import captum.attr
import pytest
import torch

import cocoax
from tests.conftest import images


def make_targets(encoder: cocoax.Encoder, similarity: str) -> list[cocoax.Target]:
    corpus = encoder.reference(images(4, seed=1), keep_samples=True)
    foil = encoder.reference(images(5, seed=2), keep_samples=True)
    return [
        cocoax.representation_similarity(similarity),
        cocoax.contrastive_similarity(foil, similarity),
        cocoax.corpus_similarity(corpus, similarity),
        cocoax.contrastive_corpus_similarity(corpus, foil, similarity),
    ]


@pytest.mark.parametrize("similarity", ["cosine", "dot", "rbf"])
def test_vanilla_gradients__same_as_captum_saliency(similarity: str, encoder: cocoax.Encoder) -> None:
    explicands = images(2)
    targets = make_targets(encoder, similarity)
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
    target = make_targets(encoder, "cosine")[3]
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
    target = make_targets(encoder, "cosine")[3]
    blurred = cocoax.VanillaGradients().explain(encoder, images(1)[0], target)
    black = cocoax.VanillaGradients(baseline=cocoax.Constant(0.0)).explain(encoder, images(1)[0], target)
    assert torch.equal(blurred.raw, black.raw)
    assert blurred.baseline_score != black.baseline_score
    expected = float(target.score(encoder.represent(torch.zeros(1, 3, 16, 16))))
    assert black.baseline_score == pytest.approx(expected, abs=1e-6)


def test_vanilla_gradients__has_no_standard_error(encoder: cocoax.Encoder) -> None:
    result = cocoax.VanillaGradients().explain(encoder, images(1)[0], cocoax.representation_similarity())
    assert result.standard_error is None
    assert result.neutral == 0
    assert result.metadata["samples"] == 1
