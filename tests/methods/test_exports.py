from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import cocoax
from tests.conftest import SmallNet, images

shap = pytest.importorskip("shap")
plt = pytest.importorskip("matplotlib.pyplot")


def test_to_shap__a_row_has_its_own_numbers_and_adds_up() -> None:
    with torch.random.fork_rng():
        network = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    encoder = cocoax.TabularEncoder(
        network.eval(), columns=["a", "b", "c"], background=torch.zeros(1, 3), preprocess=lambda row: row / 10, name="rows"
    )
    target = cocoax.similarity_to(encoder.reference([[5.0, 1.0, 2.0]]))
    for method in (cocoax.KernelShap(samples=20), cocoax.Rise(samples=20)):
        result = method.explain(encoder, [10.0, -20.0, 30.0], target)
        explanation = result.to_shap()
        assert explanation.data.tolist() == [10.0, -20.0, 30.0]
        assert explanation.base_values + explanation.values.sum() == pytest.approx(result.score, abs=1e-5)
    exact = cocoax.KernelShap(samples=20).explain(encoder, [10.0, -20.0, 30.0], target)
    assert exact.to_shap().base_values == pytest.approx(exact.baseline_score, abs=1e-4)


def test_to_shap__pictures_are_drawn_by_shap() -> None:
    encoder = cocoax.Encoder(SmallNet().eval(), cocoax.ImagePreprocess(resize=16, crop=16))
    target = cocoax.similarity_to(encoder.reference([images(2)[1]]))
    photo = np.random.default_rng(0).integers(0, 255, (20, 30, 3), dtype=np.uint8)
    explanation = cocoax.Rise(samples=20, grid=4).explain(encoder, photo, target).to_shap()
    shap.plots.image(explanation, show=False)
    plt.close("all")
