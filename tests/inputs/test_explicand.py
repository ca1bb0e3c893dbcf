"""Explicands: the shape of their features, and values of elements as values of features."""

from __future__ import annotations

from dataclasses import replace

import torch

from cocoax import Explicand
from cocoax.inputs import Names, Text
from tests.conftest import images

TEXT = Explicand(torch.tensor([2, 7, 8, 9, 3]), Text("big violins", ((0, 3), (4, 11))), torch.tensor([-1, 0, 1, 1, -1]))


def test_shape__of_images_texts_and_rows() -> None:
    assert Explicand(torch.zeros(3, 4, 5)).shape == (4, 5)
    assert Explicand(torch.zeros(1, 3), Names(("a", "b", "c"))).shape == (3,)
    assert TEXT.shape == (2,)


def test_per_feature__channel_mean_of_an_image() -> None:
    raw = images(2)
    assert torch.equal(Explicand(raw[0]).per_feature(raw), raw.mean(1))


def test_per_feature__sum_over_the_embedding_and_the_tokens_of_a_word() -> None:
    raw = torch.randn(3, 2, 6, 5, generator=torch.Generator().manual_seed(0))
    expected = torch.stack([raw[..., 1].sum(-1), raw[..., 2:4].sum((-1, -2))], dim=-1)
    torch.testing.assert_close(replace(TEXT, tensor=torch.zeros(6, 5)).per_feature(raw), expected)
    assert TEXT.per_feature(torch.ones(4, 5)).tolist() == [[1.0, 2.0]] * 4  # of token ids, which have no embedding


def test_per_feature__columns_are_themselves() -> None:
    raw = torch.randn(4, 1, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(Explicand(torch.zeros(1, 3), Names(("a", "b", "c"))).per_feature(raw), raw[:, 0])
