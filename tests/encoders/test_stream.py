"""Streaming inputs into a reference: in chunks, by any name, with inputs that fail."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import cocoax
from cocoax.encoders import stream
from tests.conftest import SmallNet, images
from tests.encoders.streams import assert_same, checked, draw, flat_encoder, slow_means, write_pictures

# --- streaming --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 255, 256, 257, 600])
def test_reference__stream_equals_all_at_once(encoder: cocoax.Encoder, count: int) -> None:
    inputs = images(count, 8, 8)
    with torch.no_grad():
        representations = encoder.module(inputs)
    raw, unit = slow_means(representations)
    reference = encoder.reference((one for one in inputs), keep_samples=True)
    # the network itself differs by a few float32 roundings between batch sizes
    np.testing.assert_allclose(reference.mean.numpy(), raw, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(reference.mean_unit.numpy(), unit, rtol=1e-5, atol=1e-6)
    assert (reference.count, reference.dimension, reference.space) == (count, 8, encoder.space)
    assert reference.samples is not None
    torch.testing.assert_close(reference.samples, representations, rtol=1e-5, atol=1e-5)  # so they are in order, too


def test_reference__list_tensor_and_generator_are_the_same(encoder: cocoax.Encoder) -> None:
    inputs = images(300, 8, 8)
    expected = encoder.reference(inputs, keep_samples=True, cache=False)
    assert_same(encoder.reference(list(inputs), keep_samples=True, cache=False), expected)
    assert_same(encoder.reference(iter(inputs), keep_samples=True, cache=False), expected)
    assert_same(encoder.reference(inputs.numpy(), keep_samples=True, cache=False), expected)


def test_reference__keeps_few_samples_unless_told_otherwise(encoder: cocoax.Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = images(5)
    assert encoder.reference(inputs, keep_samples=False).samples is None
    assert encoder.reference(inputs).samples is not None
    monkeypatch.setattr(stream, "KEPT", 4)
    assert encoder.reference(inputs).samples is None
    kept = encoder.reference(inputs, keep_samples=True)
    assert kept.samples is not None
    assert kept.samples.shape == (5, 8)


@pytest.mark.parametrize("chunk", [1, 2, 3])
def test_reference__very_long_streams_are_folded_without_loss(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """After 256 chunks of 256 inputs the parts are merged into one; small chunks make that happen here."""
    monkeypatch.setattr(stream, "_CHUNK", chunk)
    inputs = images(40, 2, 2, channels=1)
    reference = flat_encoder().reference(inputs, keep_samples=True)
    raw, unit = slow_means(inputs.flatten(1))
    np.testing.assert_allclose(reference.mean.numpy(), raw, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(reference.mean_unit.numpy(), unit, rtol=1e-12, atol=1e-14)
    assert reference.count == 40
    assert reference.samples is not None
    assert torch.equal(reference.samples, inputs.flatten(1))


def test_reference__a_stream_is_not_read_ahead(encoder: cocoax.Encoder) -> None:
    """A stream of any length is held one chunk at a time: what was encoded is never far behind what was read."""
    net = encoder.module
    assert isinstance(net, SmallNet)
    behind: list[int] = []

    def watched() -> Iterator[Tensor]:
        for read, one in enumerate(images(700, 4, 4)):
            behind.append(read - net.inputs)
            yield one

    encoder.reference(watched())
    assert max(behind) <= 256


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_reference__batch_size_is_obeyed_and_changes_nothing(net: SmallNet, batch_size: int) -> None:
    encoder = checked(cocoax.Encoder(net))
    expected = encoder.reference(images(20), cache=False)
    before = net.batches
    reference = encoder.reference(images(20), batch_size=batch_size, cache=False)
    assert net.batches - before == math.ceil(20 / batch_size)
    torch.testing.assert_close(reference.mean, expected.mean, rtol=1e-5, atol=1e-6)


# --- names, folders, towers -------------------------------------------------------------------------------------------


def test_reference__folder(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    paths = write_pictures(folder, ["b.png", "a.png", "deeper/c.PNG"])
    (folder / "notes.txt").write_text("not a picture")
    expected = encoder.reference([paths[1], paths[0], paths[2]], keep_samples=True, cache=False)  # sorted
    for source in (folder, str(folder)):
        reference = encoder.reference(source, keep_samples=True, cache=False)
        assert_same(reference, expected)
        assert reference.name == "pictures"


def test_reference__names(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    paths = write_pictures(tmp_path, ["cat.png", "dog.png", "cup.png", "car.png"])
    assert encoder.reference(paths[0]).name == "cat"
    assert encoder.reference(paths[:3]).name == "cat, dog, cup"
    assert encoder.reference(paths).name == "4 images"
    assert encoder.reference(images(1)).name == "1 image"
    assert encoder.reference(paths, name="things").name == "things"
    assert encoder.reference(Image.open(paths[0])).name == "cat"
    folder = paths[0].parent
    assert encoder.reference(folder).name == encoder.reference(str(folder)).name == folder.name
    long = paths[0].rename(folder / f"{'a cat ' * 10}.png")
    assert encoder.reference(long).name == long.stem


class Bag(nn.Module):
    """A text encoder: the sum of the embeddings of the characters."""

    def __init__(self, dimension: int = 8) -> None:
        super().__init__()
        self.register_buffer("table", draw(5, 128, dimension))

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        table: Tensor = self.get_buffer("table")
        return (table[batch["input_ids"]] * batch["attention_mask"][..., None]).sum(1)


def text_tower() -> cocoax.TextEncoder:
    return cocoax.TextEncoder(Bag(), lambda text: [ord(letter) for letter in text], limit=50, name="bag")


def test_reference__of_texts(net: SmallNet) -> None:
    encoder = cocoax.Encoder(net, text=text_tower())
    texts = ["a cat", "a dog, far away"]
    reference = encoder.text.reference(texts, keep_samples=True)
    table = draw(5, 128, 8)
    expected = torch.stack([sum((table[ord(letter)] for letter in text), torch.zeros(8)) for text in texts])
    assert reference.samples is not None
    torch.testing.assert_close(reference.samples, expected, rtol=1e-5, atol=1e-5)
    assert reference.name == "a cat / a dog, far away"
    assert encoder.text.reference("a cat").name == "a cat"
    assert encoder.text.reference([*texts, "a cup", "a car"]).name == "a cat and 3 more"


# --- inputs that fail -------------------------------------------------------------------------------------------------


def test_on_error_raise__bad_file_names_the_input(encoder: cocoax.Encoder, four_files: list[Path]) -> None:
    with pytest.raises(ValueError, match=r"Input 2: .*bad\.png is not an image that can be read"):
        encoder.reference(four_files)
    with pytest.raises(FileNotFoundError, match=r"Input 1: No file at .*gone\.png; check the path"):
        encoder.reference([four_files[0], four_files[0].with_name("gone.png")])
    with pytest.raises(TypeError, match=r"Input 1: An input must be a path, a PIL image, an array or a tensor\. Got int"):
        encoder.reference([four_files[0], 7])


@pytest.mark.parametrize(
    ("value", "reason"),
    [(math.nan, "is not finite"), (math.inf, "is not finite"), (0.0, "is zero, so it has no direction")],
)
def test_on_error__representation_without_a_direction(value: float, reason: str) -> None:
    encoder = flat_encoder()
    inputs = images(300, 2, 2, channels=1)
    inputs[[0, 5, 290]] = value  # the first of the stream, within a batch, in another chunk
    message = f"Input {{}}: its representation {reason}"
    with pytest.raises(ValueError, match=message.format(0)):
        encoder.reference(inputs)
    with pytest.raises(ValueError, match=message.format(4)):
        encoder.reference(inputs[1:])
    with pytest.warns(UserWarning, match=r"3 input.* skipped"):
        reference = encoder.reference(inputs, on_error="skip", keep_samples=True)
    assert [index for index, _ in reference.skipped] == [0, 5, 290]
    assert all(message.format(index) in text for index, text in reference.skipped)
    good = [index for index in range(300) if index not in (0, 5, 290)]
    assert reference.samples is not None
    assert torch.equal(reference.samples, inputs[good].flatten(1))
    np.testing.assert_allclose(reference.mean.numpy(), slow_means(inputs[good].flatten(1))[0], rtol=1e-11, atol=1e-14)


def test_on_error_skip__input_that_the_encoder_refuses(encoder: cocoax.Encoder) -> None:
    """It fails its whole batch; the others of the batch are encoded all the same, in order."""
    good = images(5)
    with pytest.warns(UserWarning, match=r"1 input.* skipped"):
        reference = encoder.reference([*good[:3], images(1, channels=1)[0], *good[3:]], on_error="skip", keep_samples=True)
    assert [index for index, _ in reference.skipped] == [3]
    assert "to have 3 channels, but got 1" in reference.skipped[0][1]
    assert reference.samples is not None
    torch.testing.assert_close(reference.samples, encoder.represent(good), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["picture", "path"])
def test_on_error__preprocess_that_raises_as_torch_does(net: SmallNet, tmp_path: Path, kind: str) -> None:
    def preprocess(image: Image.Image) -> Tensor:
        array = np.array(image, dtype=np.float32) / 255
        pixels = torch.from_numpy(array.reshape(image.height, image.width, -1)).permute(2, 0, 1).contiguous()
        return pixels.sub_(torch.full((3, 1, 1), 0.5))  # in place, so one channel cannot become three

    encoder = cocoax.Encoder(net, preprocess=preprocess)
    paths = write_pictures(tmp_path, ["a.png", "grey.png"])
    Image.new("L", (16, 16), 128).save(paths[1])
    inputs = [Image.open(path).copy() for path in paths] if kind == "picture" else paths
    with pytest.warns(UserWarning, match=r"1 input.* skipped"):
        reference = encoder.reference(inputs, on_error="skip")
    assert [index for index, _ in reference.skipped] == [1]
    with pytest.raises(Exception, match="Input 1: "):
        encoder.reference(inputs)


def test_on_error_skip__everything_fails() -> None:
    with pytest.warns(UserWarning, match=r"2 input.* skipped"), pytest.raises(ValueError, match="0 inputs"):
        flat_encoder().reference(torch.zeros(2, 1, 2, 2), on_error="skip")


def test_reference__pictures_of_any_shape(net: torch.nn.Module) -> None:
    encoder = cocoax.Encoder(net, inputs=cocoax.inputs.Pictures(any_shape=True))
    pictures = [images(1, 16, 16)[0], images(1, 8, 12)[0], images(1, 16, 16, seed=1)[0]]
    expected = torch.cat([encoder.represent(picture) for picture in pictures])
    torch.testing.assert_close(encoder.represent(pictures), expected)
    reference = encoder.reference(pictures, keep_samples=True)
    torch.testing.assert_close(reference.samples, expected)
