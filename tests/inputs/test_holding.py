"""What training loops hold: loaders, data sets and batches come apart into the inputs that are in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import cocoax
from cocoax.inputs import Pictures
from cocoax.inputs.unpack import each_input

IMAGES = torch.arange(5 * 3 * 2 * 2, dtype=torch.float32).view(5, 3, 2, 2)
ROWS = [{"image": image, "label": number} for number, image in enumerate(IMAGES)]


def loader(data: Any) -> DataLoader[Any]:
    return DataLoader(data, batch_size=2, generator=torch.Generator())  # or else it draws from the global random state


def taken(inputs: Any, key: str | None = None) -> Tensor:
    items, _ = each_input(inputs, Pictures(), key)
    return torch.stack([torch.as_tensor(item) for item in items])


@pytest.mark.parametrize(
    ("inputs", "key"),
    [
        (IMAGES, None),
        (list(IMAGES), None),
        (IMAGES.numpy(), None),
        (iter([IMAGES[:2], IMAGES[2:]]), None),
        (loader(IMAGES), None),
        (TensorDataset(IMAGES, torch.arange(5)), None),
        (loader(TensorDataset(IMAGES, torch.arange(5))), None),
        (loader(ROWS), "image"),
        (ROWS, "image"),
        ([{"image": IMAGES[:3]}, {"image": IMAGES[3:]}], "image"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_input__the_same_images(inputs: Any, key: str | None) -> None:
    assert torch.equal(taken(inputs, key), IMAGES)


def test_each_input__knows_how_many_where_that_can_be_known() -> None:
    assert each_input(loader(IMAGES), Pictures())[1] == 5
    assert each_input(iter(IMAGES), Pictures())[1] is None


@pytest.mark.parametrize(
    ("key", "what"), [(None, "say which entry is the input"), ("picture", "there is no entry 'picture'")]
)
def test_each_input__dicts_without_the_key(key: str | None, what: str) -> None:
    message = rf"The inputs come as dicts with the keys 'image', 'label'; {what}, as in key='image'\."
    with pytest.raises(ValueError, match=message):
        taken(loader(ROWS), key)


def test_each_input__one_array_is_one_picture() -> None:
    assert [np.shape(item) for item in each_input(np.zeros((4, 6, 3), np.uint8), Pictures())[0]] == [(4, 6, 3)]


def test_each_input__examples_of_a_data_set_are_single_whatever_their_labels_are() -> None:
    class Reviews:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> tuple[str, str]:
            return [("I like it", "positive"), ("I hate it", "negative")][index]

    kind = cocoax.TextEncoder(torch.nn.Identity(), str.split, limit=8, name="words").inputs  # type: ignore[arg-type]
    assert list(each_input(Reviews(), kind)[0]) == ["I like it", "I hate it"]


@pytest.mark.parametrize(
    "pairs",
    [
        list(zip(IMAGES, range(5), strict=True)),
        iter(zip(IMAGES, "abcde", strict=False)),
        ((image.numpy(), torch.tensor(3)) for image in IMAGES),
        [(IMAGES[:2], torch.arange(2)), (IMAGES[2:], torch.arange(3))],
    ],
    ids=["list", "iterator", "generator", "batches"],
)
def test_each_input__pairs_with_labels(pairs: Any) -> None:
    pairs = [(image, 0 if isinstance(label, str) else label) for image, label in pairs]  # a string may be a picture's path
    assert torch.equal(taken(pairs), IMAGES)
    assert torch.equal(taken(iter(pairs)), IMAGES)


def test_each_input__two_inputs_are_no_pair() -> None:
    kind = cocoax.TextEncoder(torch.nn.Identity(), str.split, limit=8, name="words").inputs  # type: ignore[arg-type]
    assert list(each_input([("I like it", "positive")], kind)[0]) == [("I like it", "positive")]


@pytest.mark.parametrize("labelled", [TensorDataset(IMAGES, torch.arange(5)), loader(IMAGES)], ids=["data set", "loader"])
def test_explain__what_training_loops_hold(labelled: Any) -> None:
    encoder = cocoax.Encoder(torch.nn.Flatten(), name="flat")
    target = cocoax.similarity_to(encoder.reference(IMAGES[:2]))
    method = cocoax.Occlusion(window=1, baseline=cocoax.Constant(0.5))
    for one, other in zip(
        method.explain(encoder, labelled, target), method.explain(encoder, list(IMAGES), target), strict=True
    ):
        assert torch.equal(one.values, other.values)
