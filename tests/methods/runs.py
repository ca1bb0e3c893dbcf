"""Methods that make runs, what makes two attributions identical, and errors of interactions."""

from __future__ import annotations

import pytest
import torch

import cocoax
from cocoax.methods.interactions import Sampled

METHODS = {
    "rise": cocoax.Rise(samples=60, grid=4),
    "rise-paper": cocoax.Rise(samples=60, grid=(3, 5), keep=0.4, estimator="paper", baseline=cocoax.Mean()),
    "kernel-shap": cocoax.KernelShap(samples=60, grid=3),
    "occlusion": cocoax.Occlusion(window=5, stride=3),
}
SAMPLED = {"rise": METHODS["rise"], "rise-paper": METHODS["rise-paper"]}
EXTENDABLE = {name: method for name, method in METHODS.items() if name in ("rise", "rise-paper", "kernel-shap")}

every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())


def assert_identical(first: cocoax.Attribution, second: cocoax.Attribution) -> None:
    """Bit for bit the same."""
    assert first.score == second.score
    assert first.baseline_score == second.baseline_score
    assert first.neutral == second.neutral
    for name in ("values", "standard_error", "features"):
        one, other = getattr(first, name), getattr(second, name)
        assert (one is None) == (other is None), name
        assert one is None or torch.equal(one, other), name


def independent(errors: torch.Tensor) -> Sampled:
    """Return a sample for each pair of features ``[features_a, features_b]``, which moves its value by an error."""
    rows, columns = (torch.eye(side, dtype=torch.float64) for side in errors.shape)
    one, other = torch.cartesian_prod(*map(torch.arange, errors.shape)).T
    return Sampled({}, rows[one] * errors.double().flatten()[:, None], columns[other])
