from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import cocoax
from cocoax.encoders import Encoder
from cocoax.paper.studies.study import Library
from tests.conftest import SmallNet
from tests.paper.studies.tiny import TRAIN, coloured, small_encoder


def seen(encoder: Encoder) -> int:
    assert isinstance(encoder.module, SmallNet)
    return encoder.module.inputs


def test_library__references_equal_those_of_the_encoder(tmp_path: Path) -> None:
    encoder = small_encoder()
    numbers = np.array([7, 3, 11, 4])
    found = Library(encoder, TRAIN, tmp_path).reference(numbers, "some")
    expected = encoder.reference([TRAIN.images[number] for number in numbers], keep_samples=True)
    assert (found.count, found.name, found.space) == (4, "some", encoder.space)
    torch.testing.assert_close(found.samples, expected.samples, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.mean, expected.mean, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.mean_unit, expected.mean_unit, atol=1e-5, rtol=0)


def test_library__each_image_is_encoded_once(tmp_path: Path) -> None:
    encoder = small_encoder()
    encoder.represent(TRAIN.images[:2], progress=False)  # the first batch is checked for being deterministic
    library, start = Library(encoder, TRAIN, tmp_path), seen(encoder)
    library.reference(np.array([5, 2, 9]), "first")
    library.reference(np.array([9, 2, 14, 0]), "second")
    assert seen(encoder) - start == 5
    again = Library(encoder, TRAIN, tmp_path)  # another process
    reference = again.reference(np.array([14, 5]), "third")
    assert seen(encoder) - start == 5
    torch.testing.assert_close(reference.samples, library.reference(np.array([14, 5]), "third").samples, atol=0, rtol=0)


def test_library__encoders_have_files_of_their_own(tmp_path: Path) -> None:
    first, second = small_encoder(), cocoax.Encoder(SmallNet(seed=4).eval())
    for encoder in (first, second):
        found = Library(encoder, TRAIN, tmp_path).reference(np.array([1, 2]), "both")
        torch.testing.assert_close(found.samples, encoder.represent(TRAIN.images[1:3]), atol=1e-5, rtol=0)
    assert len(list(tmp_path.glob("representations-*"))) == 2


def test_library__damaged_or_of_other_data(tmp_path: Path) -> None:
    encoder = small_encoder()
    library = Library(encoder, TRAIN, tmp_path)
    library.encode(np.array([1, 2]))
    fewer = type(TRAIN)(TRAIN.images[:-1], TRAIN.labels[:-1], TRAIN.classes)
    as_many = coloured(8, 2)
    for other in (fewer, as_many):
        with pytest.raises(ValueError, match="is of another encoder or other data; move it away"):
            Library(encoder, other, tmp_path)
    whole = library.path.read_bytes()
    library.path.write_bytes(whole[:-5])
    with pytest.warns(UserWarning, match=rf"may be truncated. It was put aside as {library.path.name}.damaged"):
        again = Library(encoder, TRAIN, tmp_path)
    again.encode(np.array([1, 2]))
    assert library.path.read_bytes() == whole
