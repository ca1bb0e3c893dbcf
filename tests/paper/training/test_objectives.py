"""Losses and LARS against plain loops."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cocoax.paper.training.objectives import Classifier, Lars, SimClr, SimSiam, nt_xent
from tests.conftest import SmallNet, images


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


NO_LABELS = torch.zeros(0)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.sqrt(a @ a) / np.sqrt(b @ b))


def slow_nt_xent(first: np.ndarray, second: np.ndarray, temperature: float) -> float:
    """Equation 1 of the paper, one pair after the other."""
    number, views = len(first), np.concatenate([first, second])
    losses = []
    for i in range(2 * number):
        partner = i + number if i < number else i - number
        others = sum(math.exp(cosine(views[i], views[k]) / temperature) for k in range(2 * number) if k != i)
        losses.append(-math.log(math.exp(cosine(views[i], views[partner]) / temperature) / others))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("temperature", [0.2, 0.5, 1.0])
def test_nt_xent__equals_double_loop(temperature: float) -> None:
    first, second = torch.randn(5, 3, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
    expected = slow_nt_xent(first.numpy(), second.numpy(), temperature)
    assert nt_xent(first, second, temperature).item() == pytest.approx(expected, abs=1e-10)


def test_nt_xent__known_values() -> None:
    alike = torch.ones(4, 2)
    assert nt_xent(alike, alike, 0.1).item() == pytest.approx(math.log(7), abs=1e-5)  # a collapse: no better than chance
    apart = torch.eye(4)
    assert nt_xent(apart, apart, 0.1).item() == pytest.approx(math.log(1 + 6 * math.exp(-10)), abs=1e-5)
    assert nt_xent(apart, apart.roll(1, 0), 0.1).item() > 5


def test_simclr__is_the_loss_of_the_projections() -> None:
    objective = SimClr(SmallNet(), 8, temperature=0.3, projection=5).train()
    views = images(8)
    z = objective.projector(objective.encoder(views)).detach().double().numpy()
    assert z.shape == (8, 5)
    assert objective(views, NO_LABELS).item() == pytest.approx(slow_nt_xent(z[:4], z[4:], 0.3), abs=1e-5)


def by_hand(objective: SimSiam, views: Tensor, stop: bool) -> Tensor:
    """The paper's algorithm 1, with the gradient stopped by hand."""
    x1, x2 = views[: len(views) // 2], views[len(views) // 2 :]
    z1, z2 = objective.projector(objective.encoder(x1)), objective.projector(objective.encoder(x2))
    p1, p2 = objective.predictor(z1), objective.predictor(z2)

    def distance(p: Tensor, z: Tensor) -> Tensor:
        z = z.clone().detach() if stop else z
        p, z = p / p.norm(dim=1, keepdim=True), z / z.norm(dim=1, keepdim=True)
        return -(p * z).sum(1).mean()

    return distance(p1, z2) / 2 + distance(p2, z1) / 2


def gradients(module: nn.Module, loss: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(module.parameters())))


def test_simsiam__loss_and_gradients_equal_the_published_algorithm() -> None:
    objective = SimSiam(SmallNet(), 8, projection=12).double().train()
    views = images(10).double()
    loss, expected = objective(views, NO_LABELS), by_hand(objective, views, stop=True)
    torch.testing.assert_close(loss, expected)
    ours, theirs = gradients(objective, loss), gradients(objective, expected)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)
    unstopped = gradients(objective, by_hand(objective, views, stop=False))
    assert any((one - other).abs().max() > 1e-4 for one, other in zip(ours, unstopped, strict=True))


def test_simsiam__has_the_published_shape() -> None:
    objective = SimSiam(nn.Identity(), 512)
    shapes = [tuple(module.weight.shape) for module in objective.modules() if isinstance(module, nn.Linear)]
    assert shapes == [(2048, 512), (2048, 2048), (512, 2048), (2048, 512)]
    assert objective.projector[-1].affine is False


def test_classifier__is_the_mean_of_minus_log_probabilities() -> None:
    objective = Classifier(SmallNet(), 8, classes=3).eval()
    views, labels = images(4), torch.tensor([0, 2, 2, 1])
    logits = objective.head(objective.encoder(views)).detach().double().numpy()
    expected = np.mean(
        [-row[label] + math.log(np.exp(row).sum()) for row, label in zip(logits, labels.tolist(), strict=True)]
    )
    assert objective(views, labels).item() == pytest.approx(expected, abs=1e-5)


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


@pytest.mark.parametrize("zero", ["weights", "gradients"])
def test_lars__zeros_give_no_nan(zero: str) -> None:
    weight = nn.Parameter(torch.full((2, 2), 0.0 if zero == "weights" else 1.0))
    weight.grad = torch.full((2, 2), 1.0 if zero == "weights" else 0.0)
    Lars([weight], lr=0.5, weight_decay=0.0).step()
    torch.testing.assert_close(weight.detach(), torch.full((2, 2), -0.5 if zero == "weights" else 1.0))
