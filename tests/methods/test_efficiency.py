"""The claim that the efficient estimator makes: far fewer masks for the same map, on a real photo and encoder."""

from __future__ import annotations

import pytest
import torch

import cocoax
from cocoax.data import photo


def correlation(one: cocoax.Attribution, other: cocoax.Attribution) -> float:
    return float(torch.corrcoef(torch.stack([one.values.flatten(), other.values.flatten()]).double())[0, 1])


@pytest.mark.slow
def test_rise__500_efficient_samples_beat_5000_of_the_paper() -> None:
    encoder = cocoax.load("efficientnet-lite0")
    image, target = photo("coffee"), cocoax.representation_similarity()
    converged = cocoax.Rise(samples=6000, seed=2).explain(encoder, image, target)
    efficient = cocoax.Rise(samples=500, seed=1).explain(encoder, image, target)
    paper = cocoax.Rise(samples=5000, seed=3, estimator="paper").explain(encoder, image, target)
    assert correlation(efficient, converged) > correlation(paper, converged)
    assert correlation(efficient, converged) > 0.95
