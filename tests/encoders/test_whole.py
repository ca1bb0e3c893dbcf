"""The whole photo: what an encoder sees of it, and that nothing else changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import cocoax
from cocoax import Encoder, ImagePreprocess
from cocoax.cautions import Caution
from cocoax.methods.run_cache import cached_run
from cocoax.show import WHOLE
from tests.encoders.families import tiny

CROPPED = ImagePreprocess(resize=64, crop=56)


class Convolutional(nn.Module):
    """Takes pictures of any shape."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layers = nn.Sequential(nn.Conv2d(3, 6, 5, 2), nn.Tanh(), nn.Conv2d(6, 8, 3, 2))

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images).mean((2, 3))


class Rigid(Convolutional):
    """Takes pictures of one shape."""

    def forward(self, images: Tensor) -> Tensor:
        if images.shape[2:] != (56, 56):
            raise ValueError("expected 56 x 56")
        return super().forward(images)


class Flat(Convolutional):
    """Takes any shape, too, but gives longer representations of larger pictures."""

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images).flatten(1)


def photo(width: int, height: int) -> Image.Image:
    """A picture that gets redder to the right and greener to the bottom."""
    down, across = np.mgrid[0:height, 0:width]
    pixels = np.stack([255 * across / width, 255 * down / height, np.zeros((height, width))], axis=2)
    return Image.fromarray(pixels.astype(np.uint8))


@pytest.mark.parametrize(
    ("size", "shape"),
    [((120, 60), (40, 80)), ((60, 120), (80, 40)), ((90, 90), (56, 56)), ((80, 60), (48, 64)), ((20, 15), (48, 64))],
)
def test_whole__own_proportions(size: tuple[int, int], shape: tuple[int, int]) -> None:
    encoder = Encoder(Convolutional().eval(), CROPPED).whole()
    explicand = encoder.explicand(photo(*size))
    assert tuple(explicand.tensor.shape[1:]) == shape
    assert explicand.box == WHOLE
    corners = explicand.tensor[0, 0, [0, -1]], explicand.tensor[1, [0, -1], 0]  # red from left to right, green downwards
    for low, high in corners:
        assert float(low) < 0.06
        assert float(high) > 0.9


@pytest.mark.parametrize("network", [Rigid, Flat])
def test_whole__squeezed_where_the_module_takes_one_shape(network: type[nn.Module]) -> None:
    explicand = Encoder(network().eval(), CROPPED).whole().explicand(photo(100, 50))
    assert tuple(explicand.tensor.shape) == (3, 56, 56)
    assert explicand.box == WHOLE
    torch.testing.assert_close(explicand.tensor, ImagePreprocess(resize=(56, 56))(photo(100, 50)))


def test_whole__transformers(tmp_path: Path) -> None:
    with tiny.making():
        tiny.VISION["clip_vision"](tmp_path / "clip")
        tiny.VISION["dinov2"](tmp_path / "dinov2")
    shapes = {}
    for name in ("clip", "dinov2"):
        encoder = cocoax.load(f"hf:{tmp_path / name}").whole()
        explicand = encoder.explicand(photo(100, 50))
        shapes[name] = tuple(explicand.tensor.shape[1:])
        result = cocoax.Rise(samples=12, grid=2, baseline=cocoax.DropTokens()).explain(
            encoder, explicand, cocoax.representation_similarity()
        )
        assert tuple(result.values.shape) == shapes[name]
    # DINOv2 interpolates the embeddings of its positions, which the other does not.
    assert shapes == {"clip": (24, 24), "dinov2": (18, 36)}


def test_whole__references_and_space_stay(tmp_path: Path) -> None:
    encoder = Encoder(Convolutional().eval(), CROPPED).cropped()
    whole = encoder.whole()
    assert whole.space == encoder.space
    pictures = [photo(100, 50), photo(60, 90)]
    torch.testing.assert_close(whole.represent(pictures), encoder.represent(pictures), rtol=0, atol=0)
    target = cocoax.similarity_to(encoder.reference(pictures))
    assert cocoax.Rise(samples=10).explain(whole, photo(100, 50), target).values.shape == (40, 80)
    assert encoder.explicand(photo(100, 50)).box != WHOLE  # the encoder itself is what it was


def test_whole__saved_runs_are_told_apart(tmp_path: Path) -> None:
    encoder = Encoder(Convolutional().eval(), CROPPED)
    for view in (encoder.cropped(), encoder, Encoder(Rigid().eval(), CROPPED).whole()):
        cached_run(view, photo(100, 50), cocoax.Rise(samples=10), folder=tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) == 3


def test_whole__nothing_is_tried_for_a_square_photo() -> None:
    def unused(_images: Tensor) -> Tensor:
        raise AssertionError

    explicand = Encoder(unused, CROPPED, name="unused").whole().explicand(photo(70, 70))
    assert tuple(explicand.tensor.shape) == (3, 56, 56)


@pytest.mark.parametrize(
    "preprocess", [None, ImagePreprocess(resize=(56, 56)), ImagePreprocess(), lambda image: torch.ones(3, 56, 56)]
)
def test_whole__nothing_to_change(preprocess: Any) -> None:
    encoder = Encoder(Convolutional().eval(), preprocess)
    image = photo(56, 56)
    with pytest.warns(Caution, match="no preprocess=") if preprocess is None else _nothing():
        torch.testing.assert_close(encoder.whole().explicand(image).tensor, encoder.explicand(image).tensor)
    texts = cocoax.TabularEncoder(lambda rows: rows, columns=["a", "b"], name="rows")
    assert texts.whole().explicand([1.0, 2.0]).shape == (2,)


class _nothing:  # noqa: N801 (used like a function)
    def __enter__(self) -> None: ...

    def __exit__(self, *_error: object) -> None: ...


def test_whole__a_very_long_photo() -> None:
    encoder = Encoder(Convolutional().eval(), ImagePreprocess(resize=256, crop=224)).whole()
    explicand = encoder.explicand(photo(3000, 200))
    height, width = explicand.tensor.shape[1:]
    assert (height, width) == (64, 864)  # as many pixels as 224 x 224, but for rounding
    with pytest.warns(Caution, match="3000 x 20 pixels is squeezed to"):
        explicand = encoder.explicand(photo(3000, 20))
    assert min(explicand.tensor.shape[1:]) >= 56


def test_whole__a_long_photo_that_is_squeezed() -> None:
    encoder = Encoder(Rigid().eval(), CROPPED, name="rigid").whole()
    with pytest.warns(Caution, match="200 x 40 pixels is squeezed to 56 x 56 for 'rigid'"):
        assert tuple(encoder.explicand(photo(200, 40)).tensor.shape) == (3, 56, 56)


def test_whole__a_tiny_photo() -> None:
    encoder = Encoder(Convolutional().eval(), ImagePreprocess(resize=256, crop=224), name="net").whole()
    with pytest.warns(Caution, match="12 x 10 pixels is enlarged 19 times for 'net'"):
        assert tuple(encoder.explicand(photo(12, 10)).tensor.shape) == (3, 192, 256)


def test_crop__caution_names_the_way_out() -> None:
    with pytest.warns(Caution, match=r"sees 38% of the picture: .*encoder\.whole\(\) takes all of it in"):
        Encoder(Convolutional().eval(), CROPPED, name="narrow").cropped().explicand(photo(120, 60))
