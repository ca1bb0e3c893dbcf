from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cocoax.paper.training.objectives import Classifier, SimClr, SimSiam, nt_xent
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


def test_nt_xent__does_not_depend_on_lengths_and_has_finite_gradients() -> None:
    first, second = torch.randn(4, 3, dtype=torch.float64, requires_grad=True), torch.randn(4, 3, dtype=torch.float64)
    loss = nt_xent(first, second, 0.5)
    assert nt_xent(3 * first, 0.2 * second, 0.5).item() == pytest.approx(loss.item())
    assert torch.autograd.gradcheck(lambda x: nt_xent(x, second, 0.5), (first,))


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


def test_simsiam__batch_statistics_are_those_of_one_view() -> None:
    objective = SimSiam(SmallNet(), 8, projection=8).train()
    views = images(12)
    other = views.clone()
    other[6:] += 3  # the second views do not matter to the projection of the first
    seen: list[Tensor] = []
    objective.projector.register_forward_hook(lambda _module, _inputs, output: seen.append(output.detach()))
    objective(views, NO_LABELS)
    objective(other, NO_LABELS)
    torch.testing.assert_close(seen[0], seen[2])
    torch.testing.assert_close(seen[0].mean(0), torch.zeros(8), atol=1e-5, rtol=0)


def test_simsiam__same_views_and_perfect_prediction_give_minus_one() -> None:
    objective = SimSiam(SmallNet(), 8, projection=8).train()
    objective.predictor = nn.Sequential(nn.Identity())
    view = images(6)
    assert objective(torch.cat([view, view]), NO_LABELS).item() == pytest.approx(-1, abs=1e-5)


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


@pytest.mark.parametrize("kind", ["simclr", "simsiam"])
def test_objective__trains_every_weight(kind: str) -> None:
    encoder = copy.deepcopy(SmallNet())
    objective = SimClr(encoder, 8, 0.5) if kind == "simclr" else SimSiam(encoder, 8, projection=16)
    objective.train()(images(8), NO_LABELS).backward()
    names = {name for name, parameter in objective.named_parameters() if parameter.grad is None}
    assert not names
