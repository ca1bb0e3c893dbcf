import pytest
import torch
from random_path import RandomPath
from torch import Tensor, nn

import cocoax
from cocoax.seeding import stream


def setting() -> tuple[cocoax.Encoder, Tensor, cocoax.Target]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = cocoax.Encoder(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.AdaptiveAvgPool2d(2), nn.Flatten()))
        corpus, foil = encoder.reference(torch.randn(4, 3, 8, 8)), encoder.reference(torch.randn(5, 3, 8, 8))
        return encoder, torch.randn(3, 8, 8), cocoax.contrastive_corpus_similarity(corpus, foil)


def test_values__slow_version() -> None:
    encoder, picture, target = setting()
    baseline = cocoax.Blur(121, 20.0)(picture)
    module = target.as_module(encoder)
    parts = []
    for row in range(7):
        u = stream(3, row).random()
        at = (baseline + u * (picture - baseline))[None].requires_grad_()
        parts.append(torch.autograd.grad(module(at).sum(), at)[0][0] * (picture - baseline))
    expected = torch.stack(parts)
    result = RandomPath(samples=7, seed=3).explain(encoder, picture, target)
    torch.testing.assert_close(result.raw, expected.mean(0), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(result.values, expected.mean((0, 1)), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(result.standard_error, expected.mean(1).std(0) / 7**0.5, rtol=1e-3, atol=1e-6)


def test_values__come_close_to_integrated_gradients() -> None:
    encoder, picture, target = setting()
    result = RandomPath(samples=400).explain(encoder, picture, target)
    exact = cocoax.IntegratedGradients(steps=50).explain(encoder, picture, target)
    assert result.standard_error is not None
    assert float(((result.values - exact.values).abs() / (result.standard_error + 1e-8)).median()) < 2


def test_explain__many_targets_and_pictures_as_one_by_one() -> None:
    encoder, picture, target = setting()
    method = RandomPath(samples=5)
    targets = [target, cocoax.representation_similarity("dot")]
    together = method.explain(encoder, [picture, picture.flip(1)], targets)
    alone = method.explain(encoder, picture, targets[1])
    torch.testing.assert_close(together[0][1].values, alone.values, rtol=1e-4, atol=1e-6)


def test_samples__at_least_two() -> None:
    with pytest.raises(ValueError, match="The 'samples' parameter must be at least 2"):
        RandomPath(samples=1)
