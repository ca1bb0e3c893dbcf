"""Stripes are a partition, and every method shows one value for each."""

import torch
from stripes import Stripes
from torch import nn

import cocoax

NETWORK = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.AdaptiveAvgPool2d(2), nn.Flatten())


def encoder():
    return cocoax.Encoder(NETWORK, name="small")


def test_stripes__cover_the_picture():
    labels = encoder().explicand(torch.rand(3, 20, 12), Stripes(5)).feature_ids
    assert torch.equal(labels.unique(), torch.arange(5))
    assert torch.equal(labels.bincount() if labels.ndim == 1 else labels.flatten().bincount(), torch.full((5,), 48))


def test_stripes__one_value_for_each():
    target = cocoax.representation_similarity()
    for method in (cocoax.Rise(samples=40), cocoax.KernelShap(samples=40)):
        answer = method.explain(encoder(), torch.rand(3, 20, 12), target, features=Stripes(4))
        assert answer.features.shape == (4,)
        assert answer.values[7].unique().numel() == 1
