"""Sides of a question: what they hold, and the references they become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cocoax
from cocoax import Question, Side
from cocoax.similarity import Similarity
from cocoax.spaces import same_space
from tests.similarities import Overlap, Signs
from tests.towers import picture


@pytest.mark.parametrize("caption", ["", "   ", "\n"])
def test_side__empty_caption(caption: str) -> None:
    with pytest.raises(ValueError, match="A caption is empty; write at least one word"):
        Side(["a cat", caption])
    with pytest.raises(ValueError, match="A caption is empty"):
        Question("a cat", caption)


def test_side__caption_that_is_no_string() -> None:
    with pytest.raises(TypeError, match=r"A caption must be a string. Got Image instead; pictures go into images="):
        Side([picture()])  # type: ignore[list-item]


def test_side__one_or_many_pictures() -> None:
    shot = picture()
    array = np.zeros((4, 4, 3), np.uint8)
    assert Side(images=shot).images == (shot,)
    assert Side(images=array).images[0] is array
    assert Side(images=(image for image in (shot, shot))).images == (shot, shot)
    assert Side(images="cats/").images == ("cats/",)


@pytest.mark.parametrize("content", ["a cat", ["a cat"], ("a cat",), Side("a cat")])
def test_of__strings_are_captions(content: Any) -> None:
    side = Side.of(content)
    assert (side.captions, side.images) == (("a cat",), ())


def test_of__everything_else_is_pictures() -> None:
    shot, path = picture(), Path("cats/tom.png")
    assert Side.of(path).images == (path,)
    assert Side.of([shot, path]).images == (shot, path)
    assert Side.of([shot, "tom.png"]).images == (shot, "tom.png")
    assert not Side.of(None)
    assert not Side.of([])


# --- references -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("similarity", ["cosine", "rbf", Signs(), Overlap()], ids=str)
def test_references__keep_samples(similarity: str | Similarity, towers: cocoax.Encoder) -> None:
    captions, pictures = Side("a cat", [picture(1), picture(2)]).references(towers, similarity)
    assert captions.samples is not None
    assert pictures.samples is not None  # a similarity may need them, and so does a test of what the encoder knows


def test_references__in_the_space_of_the_encoder(towers: cocoax.Encoder) -> None:
    (captions,) = Side("a cat").references(towers)
    assert captions.space is not None
    assert same_space(captions.space, towers.space)


def test_describe__pictures_by_their_files() -> None:
    side = Side("a cat", [picture(), Path("cats/tom.png")], name="cats")
    assert side.describe() == {"name": "cats", "captions": ["a cat"], "images": ["Image", "cats/tom.png"], "encoded": []}
