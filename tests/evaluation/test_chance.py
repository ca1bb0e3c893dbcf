from __future__ import annotations

import numpy as np
import pytest
import torch

import cocoax
from cocoax.evaluation import chance_map
from cocoax.methods.gradients import normal
from tests.conftest import images

X = images(1, height=12, width=10)[0]
BASELINE = cocoax.Blur()(X)


@pytest.mark.parametrize("keep", [0.5, 0.3])
def test_chance_map__paper_rise_is_the_mean_of_the_masks(keep: float) -> None:
    method = cocoax.Rise(samples=60, grid=3, keep=keep, estimator="paper", seed=4)
    masks = method.draw((12, 10)).full(slice(0, 60)).double()
    np.testing.assert_allclose(chance_map(method, X, BASELINE).numpy(), masks.mean(0).numpy() / keep, rtol=1e-5)


def test_chance_map__paper_rise_is_its_map_of_a_constant_score() -> None:
    """An encoder that gives everything the same representation has nothing to tell."""
    blind = cocoax.Encoder(lambda batch: torch.ones(len(batch), 4), name="blind")
    method = cocoax.Rise(samples=60, grid=3, estimator="paper", seed=4)
    found = method.explain(blind, X, cocoax.representation_similarity())
    torch.testing.assert_close(chance_map(method, X, BASELINE), found.values.float(), atol=1e-5, rtol=1e-5)


def test_chance_map__efficient_rise_is_its_map_of_noise() -> None:
    method = cocoax.Rise(samples=400, grid=3, estimator="efficient", seed=4)
    found = [chance_map(method, X, BASELINE, seed) for seed in range(40)]
    assert not torch.equal(found[0], found[1])
    assert torch.equal(found[0], chance_map(method, X, BASELINE, 0))
    # Nothing is to be found: no pixel is high or low on average.
    maps = torch.stack(found)
    assert float((maps.mean(0) / (maps.std(0) / 40**0.5)).abs().max()) < 4.5
    # It is as smooth as the method's maps are: neighbours are alike, which they are not in noise of pixels.
    pairs = [np.corrcoef(one[:, 1:].ravel(), one[:, :-1].ravel())[0, 1] for one in maps.numpy()]
    assert np.mean(pairs) > 0.8


@pytest.mark.parametrize("method", [cocoax.IntegratedGradients(4), cocoax.GradientShap(4)])
def test_chance_map__gradients_that_are_noise(method: cocoax.Method) -> None:
    noise = normal(7, 0, (3, 12, 10))
    torch.testing.assert_close(chance_map(method, X, BASELINE, 7), (noise * (X - BASELINE)).mean(0))
    flat = X.clone()
    flat[:, :4] = BASELINE[:, :4]  # where explicand and baseline agree, these methods have nothing to say
    assert float(chance_map(method, flat, BASELINE, 7)[:4].abs().max()) == 0


@pytest.mark.parametrize("method", [cocoax.RandomAttribution(), cocoax.VanillaGradients(), cocoax.Occlusion()])
def test_chance_map__others_are_noise_of_pixels(method: cocoax.Method) -> None:
    torch.testing.assert_close(chance_map(method, X, BASELINE, 3), normal(3, 0, (3, 12, 10)).mean(0))
    large = chance_map(method, torch.zeros(3, 100, 100), torch.zeros(3, 100, 100))
    assert float(large.mean()) == pytest.approx(0, abs=0.03)
    assert float(large.std()) == pytest.approx(3**-0.5, rel=0.03)
