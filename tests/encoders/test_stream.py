"""Streaming inputs through an encoder: names of references whose first inputs failed, and several shapes."""

from __future__ import annotations

import pytest
import torch

import cocoax
from tests.conftest import images
from tests.encoders.words import Words, tokenize


def test_reference__name_when_the_first_texts_were_skipped() -> None:
    text = cocoax.TextEncoder(Words(), tokenize, limit=4, name="toy")
    long = "a cat of the red dog"
    with pytest.warns(UserWarning, match="9 inputs were skipped"):
        reference = text.reference([long] * 9 + ["a cat", "a dog"], on_error="skip")
    assert reference.name == "a cat / a dog"
    with pytest.warns(UserWarning, match="300 inputs were skipped"):
        reference = text.reference([long] * 300 + ["a cat"], on_error="skip")
    assert reference.name == "a cat"


def test_reference__pictures_of_any_shape(net: torch.nn.Module) -> None:
    encoder = cocoax.Encoder(net, inputs=cocoax.inputs.Pictures(any_shape=True))
    pictures = [images(1, 16, 16)[0], images(1, 8, 12)[0], images(1, 16, 16, seed=1)[0]]
    expected = torch.cat([encoder.represent(picture) for picture in pictures])
    torch.testing.assert_close(encoder.represent(pictures), expected)
    reference = encoder.reference(pictures, keep_samples=True)
    torch.testing.assert_close(reference.samples, expected)
