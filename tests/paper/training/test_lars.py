from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from cocoax.paper.training.objectives import Lars

SHAPES = {"linear": (4, 3), "convolution": (2, 3, 3, 3), "bias": (4,)}


def parameters(seed: int = 0) -> list[nn.Parameter]:
    random = np.random.default_rng(seed)
    return [nn.Parameter(torch.from_numpy(random.normal(size=shape))) for shape in SHAPES.values()]


def give_gradients(weights: list[nn.Parameter], seed: int) -> None:
    random = np.random.default_rng(seed)
    for weight in weights:
        weight.grad = torch.from_numpy(random.normal(size=weight.shape))


def slow_step(w: np.ndarray, g: np.ndarray, v: np.ndarray, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 1 of the paper for momentum .9, decay .1 and trust .02; vectors take plain steps."""
    if w.ndim > 1:
        g = g + 0.1 * w
        g = g * 0.02 * np.sqrt((w**2).sum()) / np.sqrt((g**2).sum())
    v = 0.9 * v + g
    return w - rate * v, v


def test_lars__equals_plain_numpy_steps() -> None:
    weights = parameters()
    optimizer = Lars(weights, lr=0.5, momentum=0.9, weight_decay=0.1, trust=0.02)
    slow = [(weight.detach().numpy().copy(), np.zeros(weight.shape)) for weight in weights]
    for number, rate in enumerate((0.5, 0.4, 0.1)):
        give_gradients(weights, seed=number)
        optimizer.param_groups[0]["lr"] = rate
        slow = [slow_step(w, weight.grad.numpy(), v, rate) for (w, v), weight in zip(slow, weights, strict=True)]  # type: ignore[union-attr]
        optimizer.step()
        for weight, (expected, _) in zip(weights, slow, strict=True):
            np.testing.assert_allclose(weight.detach().numpy(), expected, rtol=1e-12)


def test_lars__first_step_has_the_length_of_trust_times_weights() -> None:
    (weight,) = parameters()[:1]
    before = weight.detach().clone()
    give_gradients([weight], seed=1)
    Lars([weight], lr=1.0, trust=0.01).step()
    assert float((weight.detach() - before).norm()) == pytest.approx(0.01 * float(before.norm()))


@pytest.mark.parametrize("zero", ["weights", "gradients"])
def test_lars__zeros_give_no_nan(zero: str) -> None:
    weight = nn.Parameter(torch.full((2, 2), 0.0 if zero == "weights" else 1.0))
    weight.grad = torch.full((2, 2), 1.0 if zero == "weights" else 0.0)
    Lars([weight], lr=0.5, weight_decay=0.0).step()
    torch.testing.assert_close(weight.detach(), torch.full((2, 2), -0.5 if zero == "weights" else 1.0))


def test_lars__leaves_weights_without_gradients() -> None:
    weight = nn.Parameter(torch.ones(2, 2))
    Lars([weight], lr=0.5).step()
    torch.testing.assert_close(weight.detach(), torch.ones(2, 2))


def test_lars__goes_on_from_its_state() -> None:
    one, other = parameters(), parameters()
    first, second = Lars(one, lr=0.5), Lars(other, lr=0.5)
    for optimizer, weights in ((first, one), (second, other)):
        give_gradients(weights, seed=3)
        optimizer.step()
    fresh = Lars(other, lr=0.1)
    fresh.load_state_dict(second.state_dict())
    for optimizer, weights in ((first, one), (fresh, other)):
        give_gradients(weights, seed=4)
        optimizer.step()
    for a, b in zip(one, other, strict=True):
        assert torch.equal(a, b)
