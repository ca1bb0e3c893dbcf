from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from cocoax.features.controls import FOLDS, RIDGE, Controls


@pytest.fixture
def data() -> tuple[torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(0)
    u = random.standard_normal((63, 4))
    y = u @ random.standard_normal((4, 2)) + 3 + 0.1 * random.standard_normal((63, 2))
    return torch.from_numpy(u), torch.from_numpy(y)


def test_fit__equals_sklearn_ridge_on_the_other_folds(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    u, y = data
    fit = Controls(u, 1.0).fit(y)
    penalty = RIDGE * 1.0 * u.shape[1]
    for fold in range(FOLDS):
        outside = np.arange(len(u)) % FOLDS != fold
        ridge = Ridge(alpha=penalty).fit(u.numpy()[outside], y.numpy()[outside])
        np.testing.assert_allclose(fit.coefficients[fold].numpy(), ridge.coef_.T, atol=1e-9)
        np.testing.assert_allclose(fit.intercepts[fold].numpy(), ridge.intercept_, atol=1e-9)
        left = y.numpy()[~outside] - ridge.predict(u.numpy()[~outside])
        np.testing.assert_allclose(fit.residuals.numpy()[~outside], left, atol=1e-9)


def test_fit__is_linear_in_the_scores(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    u, y = data
    controls = Controls(u, 1.0)
    mixed = controls.fit(2 * y[:, :1] - 3 * y[:, 1:])
    fit = controls.fit(y)
    torch.testing.assert_close(mixed.residuals, 2 * fit.residuals[:, :1] - 3 * fit.residuals[:, 1:])


def test_fit__does_not_see_the_sample_it_corrects(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    u, y = data
    changed = y.clone()
    changed[7] += 100
    before, after = Controls(u, 1.0).fit(y), Controls(u, 1.0).fit(changed)
    torch.testing.assert_close(after.residuals[7] - before.residuals[7], torch.full((2,), 100.0, dtype=torch.float64))
