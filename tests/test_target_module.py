"""Targets as modules, for Captum and the like."""

from __future__ import annotations

import captum.attr
import numpy as np
import pytest
import torch
from torch import nn

import cocoax
from cocoax import (
    Reference,
    Target,
    contrastive_corpus_similarity,
    contrastive_similarity,
    representation_similarity,
    similarity_to,
)
from cocoax.similarity import Similarity
from tests.conftest import SmallNet, images
from tests.scoring import draw, every_similarity


@pytest.fixture
def target(encoder: cocoax.Encoder) -> Target:
    corpus, foil = encoder.reference(images(5, seed=1)), encoder.reference(images(6, seed=2))
    return contrastive_corpus_similarity(corpus, foil)


def test_as_module__forward_is_the_score(encoder: cocoax.Encoder, target: Target) -> None:
    inputs = images(3, seed=3)
    found = target.as_module(encoder)(inputs)
    assert found.shape == (3,)
    np.testing.assert_allclose(found.detach().numpy(), target.score(encoder.represent(inputs)).numpy(), rtol=1e-5, atol=1e-6)


def test_as_module__captum_saliency_unchanged(encoder: cocoax.Encoder, net: SmallNet, target: Target) -> None:
    inputs = images(2, seed=3).requires_grad_()
    found = captum.attr.Saliency(target.as_module(encoder)).attribute(inputs, abs=False)
    unit = nn.functional.normalize(net(inputs), dim=1)  # the paper's formula, by hand
    (expected,) = torch.autograd.grad((unit @ target.direction().float()).sum(), inputs)
    assert expected.abs().max() > 1e-4
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)


def test_as_module__captum_integrated_gradients_unchanged(encoder: cocoax.Encoder, target: Target) -> None:
    scalar = target.as_module(encoder)
    inputs, baselines = images(2, seed=3), torch.zeros(2, 3, 16, 16)
    found = captum.attr.IntegratedGradients(scalar).attribute(inputs, baselines, n_steps=20, method="riemann_middle")
    average = torch.zeros_like(inputs)
    for step in range(20):
        point = (baselines + (step + 0.5) / 20 * (inputs - baselines)).requires_grad_()
        (gradient,) = torch.autograd.grad(scalar(point).sum(), point)
        average += gradient / 20
    expected = average * (inputs - baselines)
    assert expected.abs().max() > 1e-4
    torch.testing.assert_close(found.float(), expected, rtol=1e-3, atol=1e-6)


def test_as_module__captum_layer_methods_find_the_layers(encoder: cocoax.Encoder, net: SmallNet, target: Target) -> None:
    inputs = images(2, seed=3)
    scalar = target.as_module(encoder)
    assert net.conv in set(scalar.modules())
    found = captum.attr.LayerGradCam(scalar, net.conv).attribute(inputs)
    hidden = net.conv(inputs).detach().requires_grad_()
    representations = net.fc(net.pool(net.act(hidden)).flatten(1))
    (gradient,) = torch.autograd.grad(target.score(representations).sum(), hidden)
    expected = (gradient.mean((2, 3), keepdim=True) * hidden).sum(1, keepdim=True)
    torch.testing.assert_close(found, expected.detach(), rtol=1e-4, atol=1e-6)


@every_similarity
def test_as_module__gradient_for_every_similarity(encoder: cocoax.Encoder, net: SmallNet, similarity: Similarity) -> None:
    corpus = encoder.reference(images(5, seed=1), keep_samples=True)
    target = similarity_to(corpus, similarity)
    inputs = images(2, seed=3).requires_grad_()
    (found,) = torch.autograd.grad(target.as_module(encoder)(inputs).sum(), inputs)
    (expected,) = torch.autograd.grad(target.score(net(inputs)).sum(), inputs)
    assert expected.abs().max() > 0
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("similarity", ["cosine", "dot", "rbf"])
def test_as_module__label_free_with_its_explicand(encoder: cocoax.Encoder, similarity: str) -> None:
    explicand, inputs = images(1, seed=4)[0], images(3, seed=3)
    own = encoder.represent(explicand)[0]
    target = contrastive_similarity(encoder.reference(images(5, seed=1), keep_samples=True), similarity)
    scalar = target.as_module(encoder, explicand=explicand)
    expected = target.score(encoder.represent(inputs), own)
    torch.testing.assert_close(scalar(inputs).detach(), expected, rtol=1e-5, atol=1e-6)
    as_batch = target.as_module(encoder, explicand=explicand[None])
    torch.testing.assert_close(as_batch(inputs).detach(), expected, rtol=1e-5, atol=1e-6)
    found = captum.attr.Saliency(scalar).attribute(inputs.requires_grad_())
    assert found.shape == inputs.shape
    assert found.abs().max() > 0


def test_as_module__label_free_without_its_explicand(encoder: cocoax.Encoder) -> None:
    with pytest.raises(ValueError, match="compares with the input; pass explicand="):
        representation_similarity().as_module(encoder)


def test_as_module__reference_of_another_encoder(target: Target) -> None:
    with pytest.raises(ValueError, match="lives in another representation space than the encoder"):
        target.as_module(cocoax.Encoder(SmallNet(seed=1)))
    elsewhere = similarity_to(Reference.from_representations(draw(0, 2, 5), name="other"))  # no space, another dimension
    with pytest.raises(ValueError, match="'other' has 5 dimensions but the encoder's representations have 8"):
        elsewhere.as_module(cocoax.Encoder(SmallNet()))(images(1))


@pytest.mark.parametrize("training", [True, False])
def test_as_module__leaves_the_mode_as_it_was(training: bool) -> None:
    """In eval mode for the forward pass, so without dropout, and back in the mode of before."""
    net = nn.Sequential(SmallNet(), nn.Dropout(0.5)).train(training)
    encoder = cocoax.Encoder(net)
    target = similarity_to(encoder.reference(images(5, seed=1)))
    scalar = target.as_module(encoder)
    inputs = images(3, seed=3)
    found = scalar(inputs)
    assert all(part.training == training for part in net.modules())
    assert not scalar.training
    assert torch.equal(found, scalar(inputs))
    torch.testing.assert_close(found, target.score(SmallNet().eval()(inputs)), rtol=1e-5, atol=1e-6)


def test_as_module__holds_the_parameters_and_nothing_else(encoder: cocoax.Encoder, net: SmallNet) -> None:
    scalar = representation_similarity().as_module(encoder, explicand=images(1))
    assert set(scalar.parameters()) == set(net.parameters())
    assert len(scalar.state_dict()) == len(net.state_dict())  # the explicand is not a weight


def test_as_module__of_a_callable(net: SmallNet) -> None:
    encoder = cocoax.Encoder(lambda batch: net(batch), name="mine")
    target = similarity_to(encoder.reference(images(5, seed=1)))
    inputs = images(2, seed=3).requires_grad_()
    found = captum.attr.Saliency(target.as_module(encoder)).attribute(inputs, abs=False)
    (expected,) = torch.autograd.grad(target.score(net(inputs)).sum(), inputs)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)
