from __future__ import annotations

import numpy as np
import pytest
import torch

import cocoax
from cocoax.evaluation import gini
from tests.conftest import images


def double_sum(values: np.ndarray) -> float:
    """The definition: the mean difference between two magnitudes, as a fraction of twice their mean."""
    sizes = np.abs(values).ravel()
    return float(np.abs(sizes[:, None] - sizes[None, :]).mean() / (2 * sizes.mean()))


@pytest.mark.parametrize("seed", range(3))
def test_gini__equals_the_double_sum(seed: int) -> None:
    values = images(1, height=7, width=5, channels=1, seed=seed)[0, 0]
    assert gini(values) == pytest.approx(double_sum(values.numpy()), rel=1e-6)
    assert gini(-3 * values) == pytest.approx(gini(values))


def test_gini__ends() -> None:
    single = torch.zeros(4, 5)
    single[2, 3] = -2
    assert gini(single) == pytest.approx(19 / 20)
    assert gini(torch.full((4, 5), -3.0)) == pytest.approx(0, abs=1e-12)
    assert gini(torch.zeros(4, 5)) == 0


def test_gini__of_an_attribution_counts_from_its_neutral_value() -> None:
    values = images(1, channels=1)[0, 0]
    attribution = cocoax.Attribution(values + 5, 0.0, 0.0, neutral=5.0)
    assert gini(attribution) == pytest.approx(double_sum(values.numpy()), rel=1e-4)
    assert gini(attribution) > 3 * gini(values + 5)
