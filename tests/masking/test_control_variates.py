from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from cocoax.masking import control_variates as module
from cocoax.masking.control_variates import FOLDS, ORDERS, REST, RIDGE, KernelControls, RidgeControls

FOLD = torch.arange(63) % FOLDS


@pytest.fixture
def data() -> tuple[torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(0)
    u = random.standard_normal((63, 4))
    y = u @ random.standard_normal((4, 2)) + 3 + 0.1 * random.standard_normal((63, 2))
    return torch.from_numpy(u), torch.from_numpy(y)


def test_fit__equals_sklearn_ridge_on_the_other_folds(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    u, y = data
    fit = RidgeControls(u, 1.0, FOLD).fit(y)
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
    controls = RidgeControls(u, 1.0, FOLD)
    mixed = controls.fit(2 * y[:, :1] - 3 * y[:, 1:])
    fit = controls.fit(y)
    torch.testing.assert_close(mixed.residuals, 2 * fit.residuals[:, :1] - 3 * fit.residuals[:, 1:])


def test_fit__does_not_see_the_sample_it_corrects(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    u, y = data
    changed = y.clone()
    changed[7] += 100
    before, after = RidgeControls(u, 1.0, FOLD).fit(y), RidgeControls(u, 1.0, FOLD).fit(changed)
    torch.testing.assert_close(after.residuals[7] - before.residuals[7], torch.full((2,), 100.0, dtype=torch.float64))


@pytest.mark.parametrize("features", [65, 197, 300])
def test_fit__of_many_features_with_several_threads(features: int) -> None:
    u = torch.randn(63, features, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = u[:, :2] + 3
    one = RidgeControls(u, 1.0, FOLD).fit(y)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        two = RidgeControls(u, 1.0, FOLD).fit(y)
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(two.residuals, one.residuals)


def products(bits: np.ndarray, keep: float) -> np.ndarray:
    """All products of up to three different features of variance one, scaled so that a penalty stands for their variance."""
    z = (bits - keep) / (keep * (1 - keep)) ** 0.5
    columns = [
        z[:, list(members)].prod(1) * (share / comb(z.shape[1], order)) ** 0.5
        for order, share in ORDERS.items()
        for members in combinations(range(z.shape[1]), order)
    ]
    return np.stack(columns, axis=1)


@pytest.mark.parametrize(("keep", "features"), [(0.5, 6), (0.3, 5), (0.5, 2), (0.8, 1)])
def test_kernel_controls__sklearn_ridge_on_products_without_the_sample(keep: float, features: int) -> None:
    random = np.random.default_rng(1)
    bits = (random.random((40, features)) < keep).astype(float)
    y = random.standard_normal((40, 2)) + bits[:, :1]
    fit = KernelControls(torch.from_numpy(bits) - keep, keep * (1 - keep)).fit(torch.from_numpy(y))
    assert fit.own is not None
    design = products(bits, keep)
    scale = (ORDERS[1] / features / (keep * (1 - keep))) ** 0.5  # of u in a column of single features
    for sample in range(40):
        others = np.arange(40) != sample
        ridge = Ridge(alpha=REST).fit(design[others], y[others])
        left = y[sample] - ridge.predict(design[sample][None])[0]
        np.testing.assert_allclose(fit.residuals[sample].numpy(), left, atol=1e-8)
        whole = torch.cat([fit.intercepts[:1], fit.coefficients[0]])  # of the model that has seen it
        unseen = whole.numpy() - np.outer(fit.own[sample].numpy(), left)
        np.testing.assert_allclose(unseen[0], ridge.intercept_, atol=1e-8)
        np.testing.assert_allclose(unseen[1:], ridge.coef_[:, :features].T * scale, atol=1e-8)


def test_kernel_controls__later_samples_are_left_to_the_model_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(2)
    bits = (random.random((70, 5)) < 0.5).astype(float)
    y = random.standard_normal((70, 2))
    monkeypatch.setattr(module, "_SEEN", 30)
    fit = KernelControls(torch.from_numpy(bits - 0.5), 0.25).fit(torch.from_numpy(y))
    alone = KernelControls(torch.from_numpy(bits[:30] - 0.5), 0.25).fit(torch.from_numpy(y[:30]))
    assert fit.own is not None
    assert alone.own is not None
    torch.testing.assert_close(fit.residuals[:30], alone.residuals)
    torch.testing.assert_close(fit.coefficients, alone.coefficients)
    torch.testing.assert_close(fit.own[:30], alone.own)
    ridge = Ridge(alpha=REST).fit(products(bits[:30], 0.5), y[:30])
    np.testing.assert_allclose(fit.residuals[30:].numpy(), y[30:] - ridge.predict(products(bits[30:], 0.5)), atol=1e-8)
    assert not fit.own[30:].any()


def test_kernel_controls__linear_in_the_scores(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    u, y = data
    controls = KernelControls(u, 1.0)
    mixed, fit = controls.fit(2 * y[:, :1] - 3 * y[:, 1:]), controls.fit(y)
    torch.testing.assert_close(mixed.residuals, 2 * fit.residuals[:, :1] - 3 * fit.residuals[:, 1:])
