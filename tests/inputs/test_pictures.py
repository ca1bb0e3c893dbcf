"""Pictures as inputs: all forms of them, one or many, ready to be encoded or explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import cocoax
from cocoax import Encoder, Explicand, ImagePreprocess
from cocoax.inputs import Picture
from cocoax.inputs.image import _to_tensor
from cocoax.show import WHOLE
from tests.conftest import SmallNet, images


def pixels(count: int = 5, height: int = 12, width: int = 10, seed: int = 0) -> np.ndarray:
    """Random pictures, uint8 ``[count, H, W, 3]``."""
    return np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


def one_array(height: int = 12, width: int = 10, seed: int = 0) -> np.ndarray:
    """A random picture, uint8 ``[H, W, 3]``."""
    return pixels(1, height, width, seed)[0]


def saved(folder: Path, arrays: np.ndarray) -> list[Path]:
    folder.mkdir()
    paths = [folder / f"{index:02}.png" for index in range(len(arrays))]
    for path, array in zip(paths, arrays, strict=True):
        Image.fromarray(array).save(path)
    return paths


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


# --- every kind of input ------------------------------------------------------------------------------------------------


def test_represent__every_kind_of_input_gives_the_same(encoder: Encoder, net: SmallNet, tmp_path: Path) -> None:
    arrays = pixels()
    tensors = torch.from_numpy(arrays.transpose(0, 3, 1, 2) / 255).float()
    paths = saved(tmp_path / "pictures", arrays)
    (tmp_path / "pictures" / "notes.txt").write_text("not a picture")
    expected = net(tensors).detach()
    kinds: dict[str, Any] = {
        "batch tensor": tensors,
        "list of tensors": list(tensors),
        "tuple of tensors": tuple(tensors),
        "double tensors": tensors.double(),
        "float arrays": [tensor.numpy() for tensor in tensors],
        "batch of float arrays": tensors.numpy(),
        "uint8 arrays": list(arrays),
        "batch of uint8 arrays": arrays,
        "PIL images": [Image.fromarray(array) for array in arrays],
        "paths": paths,
        "strings": [str(path) for path in paths],
        "folder": tmp_path / "pictures",
        "folder as a string": str(tmp_path / "pictures"),
        "generator": (tensor for tensor in tensors),
        "explicands": [encoder.explicand(path) for path in paths],
        "mixed": [tensors[0], arrays[1], Image.fromarray(arrays[2]), paths[3], str(paths[4])],
    }
    for kind, inputs in kinds.items():
        found = encoder.represent(inputs)
        assert found.shape == (5, 8), kind
        assert torch.allclose(found, expected, rtol=0, atol=1e-5), kind


def test_represent__one_input_of_each_kind(encoder: Encoder, net: SmallNet, tmp_path: Path) -> None:
    array = pixels(1)[0]
    tensor = torch.from_numpy(array.transpose(2, 0, 1) / 255).float()
    Image.fromarray(array).save(tmp_path / "one.png")
    expected = net(tensor[None]).detach()
    for one in (tensor, tensor.numpy(), array, Image.fromarray(array), tmp_path / "one.png", str(tmp_path / "one.png")):
        assert encoder.is_one(one)
        close(encoder.represent(one), expected)


def test_represent__folder_is_searched_in_depth_and_sorted(encoder: Encoder, tmp_path: Path) -> None:
    arrays = pixels(3)
    for array, name in zip(arrays, ("b/1.png", "a/2.PNG", "a/1.png"), strict=True):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(array).save(tmp_path / name)
    close(encoder.represent(tmp_path), encoder.represent([arrays[2], arrays[1], arrays[0]]))


def test_represent__folder_with_a_subfolder_named_like_a_picture(encoder: Encoder, tmp_path: Path) -> None:
    (tmp_path / "album.jpg").mkdir()
    Image.fromarray(pixels(1)[0]).save(tmp_path / "album.jpg" / "1.png")
    assert encoder.represent(tmp_path).shape == (1, 8)


def test_represent__arrays_that_share_or_reverse_their_memory(encoder: Encoder) -> None:
    array = images(1)[0].numpy()
    close(encoder.represent(array[:, ::-1]), encoder.represent(array[:, ::-1].copy()))
    read_only = array.copy()
    read_only.setflags(write=False)
    close(encoder.represent(read_only), encoder.represent(array))


def test_represent__tensor_with_gradient_is_taken_without_it(encoder: Encoder) -> None:
    batch = images(3).requires_grad_()
    assert not encoder.represent(list(batch)).requires_grad
    assert batch.grad is None


def test_represent__preprocess_is_for_pictures_only(net: SmallNet) -> None:
    preprocess = cocoax.ImagePreprocess(resize=9, crop=8, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
    encoder = Encoder(net, preprocess)
    picture = Image.fromarray(pixels(1)[0])
    expected = net(preprocess(picture)[None]).detach()
    close(encoder.represent(picture), expected)
    close(encoder.represent(preprocess(picture)), expected)


def test_represent__rows_of_a_table(net: SmallNet) -> None:
    table = images(6)[:, 0, 0]
    encoder = Encoder(nn.Tanh())
    close(encoder.represent(table), table.tanh())
    close(encoder.represent(table[0]), table[:1].tanh())


# --- explicands ---------------------------------------------------------------------------------------------------------


def test_explicand__picture_and_box_of_a_picture(tmp_path: Path) -> None:
    array = one_array(40, 80)
    Image.fromarray(array).save(tmp_path / "a.png")
    preprocess = ImagePreprocess(resize=10, crop=8)
    encoder = Encoder(SmallNet(), preprocess).cropped()
    for given in (tmp_path / "a.png", str(tmp_path / "a.png"), Image.fromarray(array), array):
        explicand = encoder.explicand(given)
        assert torch.equal(explicand.tensor, preprocess(Image.fromarray(array)))
        assert explicand.picture.dtype == torch.uint8
        assert np.array_equal(explicand.picture.numpy(), array)
        assert explicand.box == pytest.approx((0.3, 0.1, 0.7, 0.9))


def test_explicand__without_preprocess_shows_the_whole_picture() -> None:
    array = one_array()
    explicand = Encoder(SmallNet()).explicand(array)
    assert torch.equal(explicand.tensor, _to_tensor(Image.fromarray(array)))
    assert np.array_equal(explicand.picture.numpy(), array)
    assert explicand.box == WHOLE


def test_explicand__own_preprocess_without_box_is_drawn_on_what_it_made() -> None:
    def preprocess(image: Image.Image) -> Tensor:
        return _to_tensor(image)[:, 2:8, 1:5] * 2 - 1

    explicand = Encoder(SmallNet(), preprocess).explicand(one_array())
    assert explicand.tensor.shape == (3, 6, 4)
    assert explicand.box == WHOLE
    expected = (explicand.tensor - explicand.tensor.min()) / (explicand.tensor.max() - explicand.tensor.min()) * 255
    assert torch.equal(explicand.picture, expected.round().to(torch.uint8).permute(1, 2, 0))


def test_explicand__own_preprocess_with_box() -> None:
    class Corner:
        def __call__(self, image: Image.Image) -> Tensor:
            return _to_tensor(image)[:, :6, :5]

        def box(self, size: tuple[int, int]) -> tuple[float, float, float, float]:
            return 0.0, 0.0, 5 / size[0], 6 / size[1]

    explicand = Encoder(SmallNet(), Corner()).explicand(one_array(12, 10))
    assert explicand.box == (0.0, 0.0, 0.5, 0.5)
    assert np.array_equal(explicand.picture.numpy(), one_array(12, 10))


def test_explicand__tensor() -> None:
    encoder = Encoder(SmallNet(), ImagePreprocess(resize=10, crop=8))
    tensor = images(1)[0].double().requires_grad_()
    explicand = encoder.explicand(tensor)
    assert explicand.tensor.dtype == torch.float32
    assert not explicand.tensor.requires_grad
    assert torch.equal(explicand.tensor, tensor.detach().float())
    assert explicand.box == WHOLE
    assert explicand.picture.shape == (16, 16, 3)
    assert (int(explicand.picture.min()), int(explicand.picture.max())) == (0, 255)
    array = encoder.explicand(tensor.detach().numpy())
    assert torch.equal(array.tensor, explicand.tensor)


def test_explicand__of_an_explicand_is_itself() -> None:
    explicand = Explicand(images(1)[0], Picture(torch.zeros(4, 4, 3, dtype=torch.uint8), (0.1, 0.1, 0.9, 0.9)))
    assert Encoder(SmallNet()).explicand(explicand) is explicand


def test_explicand__large_picture_is_kept_small() -> None:
    encoder = Encoder(SmallNet(), ImagePreprocess(resize=10, crop=8)).cropped()
    explicand = encoder.explicand(Image.new("RGB", (2400, 1200), (1, 2, 3)))
    assert explicand.picture.shape == (512, 1024, 3)
    assert explicand.box == pytest.approx((0.3, 0.1, 0.7, 0.9))


def test_explicand__single_pixel() -> None:
    encoder = Encoder(SmallNet())
    with pytest.raises(ValueError, match=r"The image has a single pixel; .* Pass a larger image"):
        encoder.explicand(torch.zeros(3, 1, 1))


def test_explicand__more_than_one() -> None:
    with pytest.raises(ValueError, match=r"An input must be one image \[C, H, W\]\. Got shape \[2, 3, 8, 8\] instead"):
        Encoder(SmallNet()).explicand(torch.zeros(2, 3, 8, 8))


# --- bad input ----------------------------------------------------------------------------------------------------------


def test_input__none_at_all(encoder: Encoder) -> None:
    for empty in ([], iter([]), torch.zeros(0, 3, 8, 8)):
        with pytest.raises(ValueError, match="There are 0 inputs; pass at least one"):
            encoder.represent(empty)


@pytest.mark.parametrize("inputs", [5, None, 2.5, torch.tensor(1.0)])
def test_input__not_iterable(encoder: Encoder, inputs: object) -> None:
    with pytest.raises(TypeError, match=r"Inputs must be pictures, tensors or an iterable of those\. Got \w+"):
        encoder.represent(inputs)


def test_input__wrong_channel_count_names_the_batch(encoder: Encoder) -> None:
    with pytest.raises(RuntimeError, match=r"'SmallNet' failed on a batch \[2, 1, 16, 16\]: .*Check the number of channels"):
        encoder.represent(images(2, channels=1))


def test_input__different_sizes_in_one_batch(encoder: Encoder) -> None:
    mixed = [images(1, 16)[0], images(1, 16)[0], images(1, 8)[0]]
    with pytest.raises(ValueError, match=r"different shapes, \[3, 8, 16\] and \[3, 16, 16\].*preprocess=.*batch_size=1"):
        encoder.represent(mixed)
    assert encoder.represent(mixed, batch_size=1).shape == (3, 8)  # what the message advises


def test_input__integer_tensor(encoder: Encoder) -> None:
    with pytest.raises(
        TypeError, match=r"Input 0: .*float input \[C, H, W\]\. Got torch\.int64 instead; pass pictures as PIL"
    ):
        encoder.represent(torch.zeros(2, 3, 8, 8, dtype=torch.int64))
    with pytest.raises(TypeError, match=r"Got torch\.uint8 instead"):
        encoder.represent(torch.zeros(3, 8, 8, dtype=torch.uint8))


def test_input__tensor_without_elements(encoder: Encoder) -> None:
    with pytest.raises(ValueError, match=r"Input 0: .*\[3, 0, 8\].*pass"):
        encoder.represent(torch.zeros(3, 0, 8))


def test_input__wrong_type_in_a_list(encoder: Encoder) -> None:
    with pytest.raises(
        TypeError, match=r"Input 1: An input must be a path, a PIL image, an array or a tensor\. Got int instead"
    ):
        encoder.represent([images(1)[0], 7])


@pytest.mark.parametrize("ready", [False, True])
def test_input__preprocess_that_gives_no_tensor(net: SmallNet, ready: bool) -> None:
    encoder = Encoder(net, preprocess=np.asarray)
    picture = Image.new("RGB", (8, 8))
    with pytest.raises(TypeError, match=r"preprocess.*tensor \[C, H, W\].*Got ndarray"):
        encoder.explicand(picture) if ready else encoder.represent(picture)


def test_input__missing_path(encoder: Encoder, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"Input 1: No file at .*nowhere\.jpg; check the path"):
        encoder.represent([images(1)[0], tmp_path / "nowhere.jpg"])
    with pytest.raises(FileNotFoundError, match=r"nowhere; check the path"):
        encoder.represent(str(tmp_path / "nowhere"))


def test_single__the_only_input(encoder: Encoder) -> None:
    image = images(1)[0]
    assert encoder.single(image) is image
    assert encoder.single([image]) is image
    assert len(encoder.as_list(images(3))) == 3
    with pytest.raises(ValueError, match=r"Expected one input, got 3"):
        encoder.single(images(3))


def test_removing__another_default_removal() -> None:
    encoder = Encoder(SmallNet().eval(), ImagePreprocess(resize=18, crop=16))
    other = encoder.inputs.with_baseline(cocoax.Mean())
    assert (encoder.inputs.default_removal, other.default_removal) == ("Blur", cocoax.Mean())
    assert other.whole(lambda _shapes: True, 1).default_removal == cocoax.Mean()


def test_preprocess__does_not_depend_on_the_default_dtype() -> None:
    preprocess = ImagePreprocess(resize=8, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (12, 10, 3), np.uint8))
    expected, before = preprocess(picture), torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(preprocess(picture), expected)
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_explicand__floats_from_0_to_1_are_a_picture(dtype: type) -> None:
    """As scikit-image and matplotlib hold them."""
    encoder = Encoder(SmallNet().eval(), ImagePreprocess(resize=16, crop=16)).cropped()
    array = one_array(40, 30)
    expected, floats = encoder.explicand(array), (array / 255).astype(dtype)
    assert encoder.is_one(floats)
    for item in (encoder.explicand(floats), encoder.explicand(np.concatenate([floats, np.ones_like(floats[..., :1])], 2))):
        assert torch.equal(item.tensor, expected.tensor)
        assert item.shape == (16, 16)
    assert torch.equal(encoder.represent(floats[None]), encoder.represent(array[None]))
    assert torch.equal(encoder.represent(torch.from_numpy(floats)), encoder.represent(array))
    grey = Encoder(nn.Flatten(), ImagePreprocess(resize=16, crop=16, mean=(0.5,), std=(0.5,)))
    assert grey.is_one(floats[..., 0])
    assert torch.equal(grey.represent(floats[..., 0]), grey.represent(array[..., 0]))
    assert torch.equal(encoder.prepare(floats.transpose(2, 0, 1)), torch.from_numpy(floats.transpose(2, 0, 1)))


@pytest.mark.parametrize("low", [0.0, -4.0])
@pytest.mark.parametrize("channels", [3, 4])
def test_explicand__floats_beyond_1_are_no_picture_and_no_tensor(low: float, channels: int) -> None:
    encoder = Encoder(SmallNet(), ImagePreprocess(resize=8, crop=8))
    floats = np.linspace(low, 255, 12 * 10 * channels).reshape(12, 10, channels)
    for item in (floats, torch.from_numpy(floats)):
        with pytest.raises(ValueError, match=r"must have values from 0 to 1. Got \[12, 10, .*to 255 instead; divide"):
            encoder.explicand(item)
