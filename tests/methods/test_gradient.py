"""The engine of gradient-based methods, against one autograd call per point."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cocoax
from cocoax.methods import gradients as gradient
from cocoax.methods.gradients import GradientMethod, _shared_parts, normal
from tests.conftest import SmallNet, images
from tests.methods.settings import paper_targets

METHODS: dict[str, GradientMethod] = {
    "VanillaGradients": cocoax.VanillaGradients(),
    "SmoothGrad": cocoax.SmoothGrad(samples=5),
    "IntegratedGradients": cocoax.IntegratedGradients(steps=5),
    "GradientShap": cocoax.GradientShap(samples=5),
    "ExpectedGradients": cocoax.ExpectedGradients(images(4, seed=8), samples=5),
}
every_method = pytest.mark.parametrize("name", METHODS)


def slowly(
    method: GradientMethod, encoder: cocoax.Encoder, explicand: Tensor, target: cocoax.Target
) -> tuple[Tensor, Tensor]:
    """Σ w ∇γ(x) ⊙ d and its standard error, one point at a time."""
    method = method.prepared(encoder)
    score = target.as_module(encoder, explicand if target.needs_explicand else None)
    weights = method.weights()
    parts = []
    for index in range(len(weights)):
        points = method.points(cocoax.Explicand(explicand), method.baseline(explicand), slice(index, index + 1))
        at = points.at.clone().requires_grad_()
        (found,) = torch.autograd.grad(score(at).sum(), at)
        parts.append((found * points.factor)[0].double())
    raw = sum((weight * part for weight, part in zip(weights.double(), parts, strict=True)), torch.zeros(()))
    error = torch.stack(parts).mean(1).std(0) / len(parts) ** 0.5 if len(parts) > 1 else torch.zeros(())
    return raw, error


class CountingBackward:
    """Counts vector-Jacobian products through a module's last layer."""

    def __init__(self, layer: nn.Module) -> None:
        self.count = 0
        layer.register_full_backward_hook(self._hook)

    def _hook(self, _module: nn.Module, _inputs: Any, _outputs: Any) -> None:
        self.count += 1


@pytest.fixture
def targets(encoder: cocoax.Encoder) -> list[cocoax.Target]:
    return paper_targets(encoder)


# --- numbers ----------------------------------------------------------------------------------------------------------


@every_method
@pytest.mark.parametrize("similarity", ["cosine", "dot", "rbf"])
def test_explain__same_as_one_point_at_a_time(name: str, similarity: str, encoder: cocoax.Encoder) -> None:
    explicands, targets = images(2), paper_targets(encoder, similarity)
    found = METHODS[name].explain(encoder, explicands, targets)
    for explicand, results in zip(explicands, found, strict=True):
        for target, result in zip(targets, results, strict=True):
            raw, error = slowly(METHODS[name], encoder, explicand, target)
            torch.testing.assert_close(result.raw, raw.float(), rtol=1e-5, atol=1e-6)
            if METHODS[name].sampled:
                torch.testing.assert_close(result.standard_error, error.float(), rtol=1e-4, atol=1e-7)
            else:
                assert result.standard_error is None


@every_method
@pytest.mark.parametrize("batch_size", [1, 2, 3, 7, 100])
def test_explain__batch_size_does_not_change_the_numbers(
    name: str, batch_size: int, encoder: cocoax.Encoder, targets: list[cocoax.Target]
) -> None:
    explicands = images(3)
    expected = METHODS[name].explain(encoder, explicands, targets)
    found = replace(METHODS[name], batch_size=batch_size).explain(encoder, explicands, targets)
    for before, after in zip(expected, found, strict=True):
        for one, other in zip(before, after, strict=True):
            torch.testing.assert_close(one.raw, other.raw, rtol=1e-5, atol=1e-6)


def test_explain__out_of_memory_on_a_single_point() -> None:
    def huge(batch: Tensor) -> Tensor:
        return torch.empty(10**15) if batch.requires_grad else batch.flatten(1)

    with pytest.raises(
        MemoryError, match=r"'huge' ran out of memory on the gradient of a single input of shape \[3, 16, 16\]"
    ):
        cocoax.IntegratedGradients(steps=4).explain(
            cocoax.Encoder(huge, name="huge"), images(1)[0], cocoax.representation_similarity()
        )


@pytest.mark.parametrize("name", [name for name in METHODS if name != "ExpectedGradients"])
def test_explain__explicands_of_different_sizes(name: str, encoder: cocoax.Encoder, targets: list[cocoax.Target]) -> None:
    explicands = [images(1, 16, 16)[0], images(1, 12, 20)[0], images(1, 16, 16, seed=4)[0]]
    found = METHODS[name].explain(encoder, explicands, targets)
    for explicand, results in zip(explicands, found, strict=True):
        assert [result.values.shape for result in results] == [explicand.shape[1:]] * 4
        for target, result in zip(targets, results, strict=True):
            raw, _ = slowly(METHODS[name], encoder, explicand, target)
            torch.testing.assert_close(result.raw, raw.float(), rtol=1e-5, atol=1e-6)


def test_explain__mixtures_are_as_if_each_target_were_asked_alone(encoder: cocoax.Encoder) -> None:
    """More targets than references, of two similarities, with weights: answered through the references."""
    a, b = (encoder.reference(images(3, seed=seed), name=f"r{seed}") for seed in (1, 2))
    targets = []
    for similarity in ("cosine", "dot"):
        first, second = (cocoax.similarity_to(reference, similarity) for reference in (a, b))
        own = cocoax.representation_similarity(similarity)
        targets += [first - second, second - first, 0.3 * first + 0.7 * second, own - first, 2.0 * own, own - 0.5 * second]
    parts, mixture = _shared_parts(targets)
    assert len(parts) == 6
    assert mixture.shape == (12, 6)
    method = cocoax.IntegratedGradients(steps=3)
    together = method.explain(encoder, images(1)[0], targets)
    for target, result in zip(targets, together, strict=True):
        alone = method.explain(encoder, images(1)[0], target)
        torch.testing.assert_close(result.raw, alone.raw, rtol=1e-4, atol=1e-6)


def test_explain__label_free_targets_use_each_explicands_own_representation(encoder: cocoax.Encoder) -> None:
    """Points of several explicands share a batch; each must be compared with its own explicand."""
    explicands = images(3)
    target = cocoax.representation_similarity("dot")
    found = cocoax.VanillaGradients(batch_size=3).explain(encoder, explicands, target)
    for explicand, result in zip(explicands, found, strict=True):
        own = encoder.represent(explicand[None])[0]
        at = explicand[None].clone().requires_grad_()
        (expected,) = torch.autograd.grad(encoder(at)[0] @ own, at)
        torch.testing.assert_close(result.raw, expected[0], rtol=1e-5, atol=1e-6)


def test_normal__depends_on_seed_and_row_only() -> None:
    one = normal(3, 5, (2, 4))
    normal(3, 6, (7,))
    assert torch.equal(one, normal(3, 5, (2, 4)))
    assert not torch.equal(one, normal(3, 6, (2, 4)))
    assert not torch.equal(one, normal(4, 5, (2, 4)))
    many = normal(0, 0, (100_000,))
    assert many.dtype == torch.float32
    assert float(many.mean()) == pytest.approx(0, abs=0.01)
    assert float(many.std()) == pytest.approx(1, abs=0.01)


# --- work -------------------------------------------------------------------------------------------------------------


def test_explain__forward_passes_do_not_depend_on_the_number_of_targets(
    net: SmallNet, encoder: cocoax.Encoder, targets: list[cocoax.Target]
) -> None:
    def work(asked: Any) -> tuple[int, int]:
        net.inputs = net.batches = 0
        cocoax.IntegratedGradients(steps=10, batch_size=4).explain(encoder, images(2), asked)
        return net.inputs, net.batches

    # For each of two explicands its two ends and 10 points; 20 points in batches of 4.
    assert work(targets[0]) == work(targets) == work(targets * 10) == (2 * (2 + 10), 2 + 5)


@pytest.mark.parametrize(
    ("choose", "expected"),
    [
        (lambda t: t[:1], 1),  # one target
        (lambda t: t[3:], 1),  # one target, two references
        (lambda t: t[2:], 2),  # two targets, two references
        (lambda t: t, 3),  # four targets of itself, corpus and foil
        (lambda t: t * 5, 3),
        (lambda t: [t[2]] * 4, 1),
        (lambda t: [t[1] + t[3], t[0] + t[2]], 2),  # two targets, three references
    ],
)
def test_explain__one_product_per_distinct_reference_or_target(
    choose: Callable[[list[cocoax.Target]], list[cocoax.Target]],
    expected: int,
    net: SmallNet,
    encoder: cocoax.Encoder,
    targets: list[cocoax.Target],
) -> None:
    counted = CountingBackward(net.fc)
    cocoax.VanillaGradients().explain(encoder, images(1)[0], choose(targets))
    assert counted.count == expected


def test_explain__products_of_two_similarities_are_distinct(net: SmallNet, encoder: cocoax.Encoder) -> None:
    targets = paper_targets(encoder, "cosine") + paper_targets(encoder, "dot")
    corpora = [targets[2], targets[6]]
    counted = CountingBackward(net.fc)
    cocoax.VanillaGradients().explain(encoder, images(1)[0], corpora * 3)
    assert counted.count == 2


def test_explain__one_product_per_batch(net: SmallNet, encoder: cocoax.Encoder, targets: list[cocoax.Target]) -> None:
    counted = CountingBackward(net.fc)
    cocoax.IntegratedGradients(steps=10, batch_size=4).explain(encoder, images(2), targets)
    assert counted.count == 5 * 3


def test_explain__contributions_of_earlier_batches_are_not_kept(
    encoder: cocoax.Encoder, targets: list[cocoax.Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[weakref.ref[Tensor]] = []
    alive: list[int] = []
    add = gradient._Sums.add

    def watched(self: Any, gradients: list[Tensor], factor: Tensor, weights: Tensor) -> None:
        assert all(len(one) <= 2 for one in gradients)
        alive.append(sum(one() is not None for one in seen))
        seen.append(weakref.ref(gradients[0]))
        add(self, gradients, factor, weights)

    monkeypatch.setattr(gradient._Sums, "add", watched)
    cocoax.IntegratedGradients(steps=20, batch_size=2).explain(encoder, images(1)[0], targets)
    assert len(seen) == 10
    assert max(alive) <= 1


# --- the encoder is left as it was ------------------------------------------------------------------------------------


@every_method
def test_explain__parameters_and_modes_are_given_back(name: str) -> None:
    net = SmallNet()
    net.train()
    net.act.eval()
    net.conv.bias.requires_grad_(False)
    encoder = cocoax.Encoder(net)
    METHODS[name].explain(encoder, images(1)[0], cocoax.representation_similarity())
    assert [part.training for part in (net, net.conv, net.act, net.pool, net.fc)] == [True, True, False, True, True]
    assert [name for name, parameter in net.named_parameters() if not parameter.requires_grad] == ["conv.bias"]
    assert all(parameter.grad is None for parameter in net.parameters())


class FailsOnGradients(SmallNet):
    def forward(self, images: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            raise RuntimeError("not today")
        return super().forward(images)


def test_explain__parameters_and_modes_are_given_back_after_an_exception() -> None:
    net = FailsOnGradients().train()
    net.fc.weight.requires_grad_(False)
    encoder = cocoax.Encoder(net)
    with pytest.raises(RuntimeError, match=r"'FailsOnGradients' failed on a batch \[1, 3, 16, 16\]: not today"):
        cocoax.VanillaGradients().explain(encoder, images(1)[0], cocoax.representation_similarity())
    assert all(part.training for part in net.modules())
    assert [name for name, parameter in net.named_parameters() if not parameter.requires_grad] == ["fc.weight"]
    assert not torch.is_inference_mode_enabled()
    assert torch.is_grad_enabled()


def test_explain__batch_norm_statistics_are_untouched() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3 * 8 * 8, 4)).train()
    before = net[0].running_mean.clone()
    cocoax.SmoothGrad(samples=3).explain(cocoax.Encoder(net), images(1, 8, 8)[0], cocoax.representation_similarity())
    assert torch.equal(net[0].running_mean, before)
    assert net[0].num_batches_tracked == 0


def test_explain__explicand_is_untouched(encoder: cocoax.Encoder) -> None:
    explicand = images(1)[0].requires_grad_()
    before = explicand.detach().clone()
    result = cocoax.SmoothGrad(samples=3).explain(encoder, explicand, cocoax.representation_similarity())
    assert torch.equal(explicand, before)
    assert explicand.grad is None
    assert not result.raw.requires_grad


@every_method
def test_explain__inside_no_grad(name: str, encoder: cocoax.Encoder, targets: list[cocoax.Target]) -> None:
    expected = METHODS[name].explain(encoder, images(1)[0], targets[3])
    with torch.no_grad():
        found = METHODS[name].explain(encoder, images(1)[0], targets[3])
        assert not torch.is_grad_enabled()
    assert torch.equal(found.raw, expected.raw)


def test_explain__inside_inference_mode(encoder: cocoax.Encoder, targets: list[cocoax.Target]) -> None:
    expected = cocoax.VanillaGradients().explain(encoder, images(1)[0], targets[3])
    with torch.inference_mode():
        found = cocoax.VanillaGradients().explain(encoder, images(1)[0], targets[3])
    assert torch.equal(found.raw, expected.raw)


# --- encoders without gradients ---------------------------------------------------------------------------------------


class Detached(SmallNet):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).detach()


class ThroughNumpy(SmallNet):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(torch.from_numpy(np.abs(images.detach().numpy())))


class UnusedInput(SmallNet):
    """Its output depends on a tensor that requires gradients, but not on the input."""

    def forward(self, images: Tensor) -> Tensor:
        return torch.ones(len(images), 8, requires_grad=True) * 2


@pytest.mark.parametrize("kind", [Detached, ThroughNumpy, UnusedInput])
def test_explain__not_differentiable(kind: type[SmallNet]) -> None:
    encoder = cocoax.Encoder(kind().eval())
    with pytest.raises(RuntimeError, match=f"'{kind.__name__}' is not differentiable: no gradient reaches its input. Use a"):
        cocoax.VanillaGradients().explain(encoder, images(1)[0], cocoax.representation_similarity("dot"))


class InfiniteSlope(SmallNet):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images.abs().sqrt())  # finite at 0, where its slope is not


def test_explain__gradient_that_is_not_finite() -> None:
    encoder = cocoax.Encoder(InfiniteSlope().eval())
    explicand = images(1)[0]
    explicand[:, :4] = 0
    with pytest.raises((ValueError, RuntimeError), match=r"gradient.* not finite"):
        cocoax.VanillaGradients().explain(encoder, explicand, cocoax.representation_similarity("dot"))


def test_explain__double_precision_encoder() -> None:
    net = SmallNet().double().eval()
    result = cocoax.VanillaGradients().explain(cocoax.Encoder(net), images(1)[0], cocoax.representation_similarity("dot"))
    at = images(1).double().requires_grad_()
    output = net(at)[0]
    (expected,) = torch.autograd.grad(output @ output.detach(), at)
    assert result.raw.dtype == torch.float32
    torch.testing.assert_close(result.raw, expected[0].float(), rtol=1e-4, atol=1e-6)
