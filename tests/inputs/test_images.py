"""Pictures: opened safely, turned into the right pixels, preprocessed as by hand, made ready to be explained."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import EpsImagePlugin, Image

from cocoax import Encoder, ImagePreprocess
from cocoax.inputs import image as source
from cocoax.inputs.image import _to_tensor, image_files, open_image, picture_of, picture_of_tensor
from cocoax.show import WHOLE
from tests.conftest import SmallNet, images


def pixels(height: int = 12, width: int = 10, seed: int = 0) -> np.ndarray:
    """A random picture, uint8 ``[H, W, 3]``."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def values(image: Image.Image) -> np.ndarray:
    return np.asarray(image).astype(int)


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims this size and has almost no data."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 8)) + chunk(b"IEND", b"")


# --- pixels of every mode -----------------------------------------------------------------------------------------------


def test_open_image__rgb_is_untouched(tmp_path: Path) -> None:
    array = pixels()
    Image.fromarray(array).save(tmp_path / "a.png")
    for given in (array, Image.fromarray(array), tmp_path / "a.png", str(tmp_path / "a.png")):
        image = open_image(given)
        assert image.mode == "RGB"
        assert np.array_equal(values(image), array)


def test_open_image__result_is_a_copy() -> None:
    image = Image.fromarray(pixels())
    opened = open_image(image)
    opened.putpixel((0, 0), (1, 2, 3))
    assert np.array_equal(values(image), pixels())


def test_open_image__grey() -> None:
    grey = pixels()[:, :, 0]
    for given in (grey, grey[:, :, None], Image.fromarray(grey)):
        image = open_image(given)
        assert image.mode == "L"
        assert np.array_equal(values(image), grey)


def test_open_image__one_bit() -> None:
    black = np.random.default_rng(0).random((5, 7)) < 0.5
    image = open_image(Image.fromarray(black))
    assert Image.fromarray(black).mode == "1"
    assert image.mode == "L"
    assert np.array_equal(values(image), black * 255)


def test_open_image__sixteen_bit_grey(tmp_path: Path) -> None:
    deep = np.array([[0, 257, 65535], [128 * 257, 1000, 200 * 257]], dtype=np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    expected = np.round(deep / 257)
    with Image.open(tmp_path / "deep.png") as image:
        assert image.mode.startswith("I")
    for given in (tmp_path / "deep.png", Image.fromarray(deep), Image.fromarray(deep.astype(np.int32))):
        image = open_image(given)
        assert image.mode == "L"
        assert np.array_equal(values(image), expected)


def test_open_image__cmyk(tmp_path: Path) -> None:
    inks = Image.new("CMYK", (8, 8), (0, 255, 255, 0))
    inks.paste((255, 255, 0, 0), (4, 0, 8, 8))
    image = open_image(inks)
    assert image.mode == "RGB"
    assert image.getpixel((1, 1)) == (255, 0, 0)
    assert image.getpixel((6, 1)) == (0, 0, 255)
    inks.save(tmp_path / "inks.jpg", quality=95)
    read = values(open_image(tmp_path / "inks.jpg"))
    assert np.abs(read - values(image)).max() < 40


def test_open_image__transparency_is_laid_on_white() -> None:
    layers = np.dstack([pixels(), np.random.default_rng(1).integers(0, 256, (12, 10), dtype=np.uint8)])
    layers[0, 0, 3], layers[0, 1, 3] = 0, 255
    alpha = layers[:, :, 3:] / 255
    expected = layers[:, :, :3] * alpha + 255 * (1 - alpha)
    for given in (layers, Image.fromarray(layers)):
        image = open_image(given)
        assert image.mode == "RGB"
        assert np.abs(values(image) - expected).max() <= 1
        assert image.getpixel((0, 0)) == (255, 255, 255)
        assert image.getpixel((1, 0)) == tuple(layers[0, 1, :3])


def test_open_image__grey_with_alpha() -> None:
    image = Image.new("LA", (4, 4), (100, 0))
    image.putpixel((2, 2), (100, 255))
    opened = open_image(image)
    assert opened.getpixel((0, 0)) == (255, 255, 255)
    assert opened.getpixel((2, 2)) == (100, 100, 100)


@pytest.mark.parametrize("transparency", [1, bytes([255, 0, 255])])
def test_open_image__palette_with_transparency(tmp_path: Path, transparency: Any) -> None:
    image = Image.new("P", (4, 4), 0)
    image.putpalette([10, 20, 30, 200, 0, 0, 0, 200, 0])
    image.putpixel((1, 0), 1)
    image.putpixel((2, 0), 2)
    image.save(tmp_path / "palette.png", transparency=transparency)
    opened = open_image(tmp_path / "palette.png")
    assert opened.mode == "RGB"
    assert [opened.getpixel((column, 0)) for column in range(3)] == [(10, 20, 30), (255, 255, 255), (0, 200, 0)]


@pytest.mark.parametrize(("mode", "clear", "solid"), [("L", 7, 90), ("RGB", (7, 8, 9), (1, 2, 3))])
def test_open_image__one_transparent_colour(tmp_path: Path, mode: str, clear: Any, solid: Any) -> None:
    image = Image.new(mode, (4, 4), clear)
    image.putpixel((2, 0), solid)
    image.save(tmp_path / "clear.png", transparency=clear)
    opened = open_image(tmp_path / "clear.png").convert("RGB")
    assert opened.getpixel((0, 0)) == (255, 255, 255)
    assert opened.getpixel((2, 0)) == (solid if mode == "RGB" else (solid,) * 3)


UPRIGHT: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    1: lambda array: array,
    2: lambda array: array[:, ::-1],
    3: lambda array: array[::-1, ::-1],
    4: lambda array: array[::-1],
    5: lambda array: array.swapaxes(0, 1),
    6: lambda array: np.rot90(array, -1),
    7: lambda array: array[::-1, ::-1].swapaxes(0, 1),
    8: lambda array: np.rot90(array, 1),
}


@pytest.mark.parametrize("orientation", UPRIGHT)
def test_open_image__turned_as_exif_says(tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels()).save(tmp_path / "turned.png", exif=exif)
    assert np.array_equal(values(open_image(tmp_path / "turned.png")), UPRIGHT[orientation](pixels()))
    with Image.open(tmp_path / "turned.png") as image:
        assert np.array_equal(values(open_image(image)), UPRIGHT[orientation](pixels()))


def test_open_image__damaged_exif_is_no_reason_to_fail(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.fromarray(pixels()).save(buffer, "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\x09\0")
    (tmp_path / "exif.jpg").write_bytes(buffer.getvalue())
    assert open_image(tmp_path / "exif.jpg").size == (10, 12)


# --- what cannot be opened ----------------------------------------------------------------------------------------------


def rejected(given: Any, error: type[Exception], match: str) -> None:
    """Both the opener and the encoder, which adds the number of the input, refuse."""
    with pytest.raises(error, match=match):
        open_image(given)
    with pytest.raises(error, match=r"Input 0: ") as caught:
        Encoder(SmallNet()).represent([given])
    assert not isinstance(given, Path) or str(given) in str(caught.value)


def jpeg(kept: float) -> bytes:
    """A JPEG that is cut off."""
    buffer = io.BytesIO()
    Image.fromarray(pixels(64, 64)).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()[: int(len(buffer.getvalue()) * kept)]


def dot() -> bytes:
    """A PNG of a single pixel."""
    buffer = io.BytesIO()
    Image.new("RGB", (1, 1)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        *[("a.jpg", jpeg(kept), r"a\.jpg is damaged or cut off \(.+\); fetch it again") for kept in (0.9, 0.5, 0.1)],
        *[("a.jpg", content, r"a\.jpg is not an image that can be read; expected JPEG, PNG") for content in (b"a text", b"")],
        ("a.ppm", b"P6\n3x 24\n255\n", r"a\.ppm is (damaged or cut off|not an image)"),
        ("a.ppm", b"P6\n32 24\n255", r"a\.ppm is (damaged or cut off|not an image)"),
        ("a.ppm", b"P6\n32 24\n2", r"a\.ppm is (damaged or cut off|not an image)"),
        ("a.png", dot(), r"a\.png has 1 x 1 pixels; at least 2 x 2 are needed"),
    ],
)
def test_open_image__damaged_files(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    rejected(tmp_path / name, ValueError, message)


ARRAY = r"must be uint8 of shape \[H, W\] or \[H, W, 1, 3 or 4\]. Got uint8 \[.*\] instead; pass a preprocessed"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        *[(Image.new("RGB", size), "pixels; at least 2 x 2 are needed") for size in ((0, 0), (0, 5), (1, 1), (1, 9), (9, 1))],
        (np.zeros((0, 4, 3), np.uint8), r"\[0, 4, 3\].*(needed|pass)"),
        (Image.new("F", (4, 4)), r"floating-point pixels \(mode F\); pass a tensor"),
        *[(np.zeros(shape, np.uint8), ARRAY) for shape in ((8, 8, 2), (3, 8, 8), (8, 8, 5), (7,))],
    ],
)
def test_open_image__what_is_no_picture(given: Any, message: str) -> None:
    rejected(given, ValueError, message)


def test_open_image__missing_file_or_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.png", tmp_path):
        rejected(path, FileNotFoundError, r"No file at .*; check the path")


def test_open_image__flipped_bits_in_the_pixels_of_a_png(tmp_path: Path) -> None:
    """They have a checksum, at which Pillow does not look unless it is told to."""
    buffer = io.BytesIO()
    Image.fromarray(pixels(64, 64)).save(buffer, "PNG", compress_level=0)  # so that every byte is a pixel, and can be read
    whole = buffer.getvalue()
    for place in range(whole.index(b"IDAT") + 100, len(whole) - 50, 997):
        (tmp_path / "flipped.png").write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        rejected(tmp_path / "flipped.png", ValueError, r"flipped\.png is damaged or cut off \(.+\); fetch it again")


def test_open_image__formats_that_start_other_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *what, **_options: started.append(what))
    Image.fromarray(pixels()).save(tmp_path / "a.eps")
    (tmp_path / "a.eps").rename(tmp_path / "a.png")
    rejected(tmp_path / "a.png", ValueError, r"a\.png is not an image that can be read; expected JPEG, PNG")
    assert not started


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp", "bmp", "gif", "tiff", "ppm"])
def test_open_image__usual_formats_whatever_the_file_is_called(tmp_path: Path, kind: str) -> None:
    Image.fromarray(pixels()).save(tmp_path / "a.png", kind)
    assert open_image(tmp_path / "a.png").size == (10, 12)


def test_open_image__several_pictures_in_a_jpeg(tmp_path: Path) -> None:
    first, second = (Image.fromarray(pixels(seed=seed)) for seed in range(2))
    first.save(tmp_path / "a.jpg", "MPO", save_all=True, append_images=[second])  # as phones write them
    assert open_image(tmp_path / "a.jpg").size == (10, 12)


def test_open_image__damaged_bytes_always_name_the_file(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    refused = 0
    for kind in ("png", "jpeg", "gif", "bmp", "webp"):
        buffer = io.BytesIO()
        Image.fromarray(pixels(24, 32)).save(buffer, kind)
        for _ in range(40):
            content = np.frombuffer(buffer.getvalue(), dtype=np.uint8).copy()
            content[generator.integers(0, min(200, len(content)), 5)] = generator.integers(0, 256, 5)
            path = tmp_path / f"damaged.{kind}"
            path.write_bytes(content.tobytes())
            try:
                assert open_image(path).mode in ("L", "RGB")
            except ValueError as error:
                refused += 1
                assert str(path) in str(error)  # noqa: PT017
    assert refused > 20


def test_open_image__decompression_bomb(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(png_header(12_000, 10_000))  # below Pillow's own limit, above ours
    rejected(
        path, ValueError, r"bomb\.png has 12000 x 10000 pixels, more than the 100,000,000 that are allowed; make it smaller"
    )
    path.write_bytes(png_header(50_000, 50_000))  # above Pillow's
    rejected(path, ValueError, r"bomb\.png has too many pixels \(.*2500000000 pixels.*; make it smaller first")


def test_open_image__limit_is_for_arrays_and_images_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_MAX_PIXELS", 119)
    for given in (pixels(), Image.fromarray(pixels())):
        rejected(given, ValueError, r"The image has 10 x 12 pixels, more than the 119 that are allowed; make it smaller")
    monkeypatch.setattr(source, "_MAX_PIXELS", 120)
    assert open_image(pixels()).size == (10, 12)


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif"])
@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "I;16"])
def test_open_image__reduced_to_an_area(mode: str, suffix: str, tmp_path: Path) -> None:
    if suffix == "jpg" and mode not in ("RGB", "L"):
        pytest.skip("JPEG has no such pixels")
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    large = np.zeros((400, 600), np.uint8)
    large[:, 300:] = 255
    picture = Image.fromarray(large.astype(np.uint16) * 257) if mode == "I;16" else Image.fromarray(large).convert(mode)
    picture.save(tmp_path / f"large.{suffix}", exif=exif)
    reduced = open_image(tmp_path / f"large.{suffix}", area=6000)
    whole = open_image(tmp_path / f"large.{suffix}")
    assert whole.size == (400, 600) or suffix == "tif"  # which Pillow turns by itself
    assert reduced.mode == whole.mode
    assert reduced.width * reduced.height == pytest.approx(6000, rel=0.05)
    assert np.abs(values(reduced) - values(whole.resize(reduced.size, Image.Resampling.BICUBIC))).mean() < 3
    assert open_image(tmp_path / f"large.{suffix}", area=600 * 400).tobytes() == whole.tobytes()


def test_open_image__only_a_jpeg_is_reduced_while_it_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_MAX_DECODED", 20_000)
    picture = Image.fromarray(pixels(200, 300))
    for name, options in (("a.tif", {}), ("a.png", {}), ("progressive.jpg", {"progressive": True})):
        picture.save(tmp_path / name, **options)
        with pytest.raises(ValueError, match=r"has 300 x 200 pixels, more than the 20,000"):
            open_image(tmp_path / name, area=5000)
    picture.save(tmp_path / "a.jpg")
    assert open_image(tmp_path / "a.jpg", area=5000).size == (87, 58)


def test_image_files__only_pictures_in_order(tmp_path: Path) -> None:
    for name in ("b.JPG", "a.png", "c/d.webp", "notes.txt", "z", "._a.png", ".thumbnails/a.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert image_files(tmp_path) == [tmp_path / "a.png", tmp_path / "b.JPG", tmp_path / "c" / "d.webp"]


# --- tensors ------------------------------------------------------------------------------------------------------------


def test_to_tensor__channels_first_between_zero_and_one() -> None:
    array = pixels()
    tensor = _to_tensor(Image.fromarray(array))
    assert tensor.dtype == torch.float32
    assert tensor.shape == (3, 12, 10)
    for channel, row, column in ((0, 0, 0), (1, 11, 9), (2, 3, 4)):
        assert float(tensor[channel, row, column]) == pytest.approx(array[row, column, channel] / 255, abs=1e-7)
    assert torch.equal(_to_tensor(Image.fromarray(array[:, :, 1])), tensor[1:2])


def by_hand(
    image: Image.Image,
    size: tuple[int, int],
    corner: tuple[int, int],
    crop: tuple[int, int],
    mean: tuple[float, ...],
    std: tuple[float, ...],
    resample: Image.Resampling = Image.Resampling.BICUBIC,
) -> np.ndarray:
    """Resized to ``size``, cut from ``corner``, normalised; ``[C, H, W]``."""
    array = np.asarray(image.resize(size, resample)).astype(np.float64) / 255
    array = array.reshape(size[1], size[0], -1)
    (left, top), (width, height) = corner, crop
    array = array[top : top + height, left : left + width]
    return ((array - np.array(mean)) / np.array(std)).transpose(2, 0, 1)


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.mark.parametrize(
    ("shape", "resized", "corner", "box"),
    [
        ((40, 80), (20, 10), (6, 1), (0.3, 0.1, 0.7, 0.9)),  # landscape
        ((80, 40), (10, 20), (1, 6), (0.1, 0.3, 0.9, 0.7)),  # portrait
        ((40, 40), (10, 10), (1, 1), (0.1, 0.1, 0.9, 0.9)),
        ((5, 5), (10, 10), (1, 1), (0.1, 0.1, 0.9, 0.9)),  # enlarged
    ],
)
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
def test_preprocess__as_by_hand(
    shape: tuple[int, int], resized: tuple[int, int], corner: tuple[int, int], box: tuple[float, ...], interpolation: str
) -> None:
    image = Image.fromarray(pixels(*shape))
    preprocess = ImagePreprocess(resize=10, crop=8, mean=MEAN, std=STD, interpolation=interpolation)
    found = preprocess(image)
    resample = Image.Resampling[interpolation.upper()]
    assert found.dtype == torch.float32
    assert found.shape == (3, 8, 8)
    np.testing.assert_allclose(found.numpy(), by_hand(image, resized, corner, (8, 8), MEAN, STD, resample), atol=1e-5)
    assert preprocess.box(image.size) == pytest.approx(box)


def test_preprocess__interpolations_differ() -> None:
    image = Image.fromarray(pixels(40, 40))
    cubic, linear = (ImagePreprocess(resize=10, interpolation=name)(image) for name in ("bicubic", "bilinear"))
    assert not torch.allclose(cubic, linear, atol=1e-2)


def test_preprocess__without_crop_or_resize() -> None:
    image = Image.fromarray(pixels(12, 10))
    assert torch.equal(ImagePreprocess()(image), _to_tensor(image))
    assert ImagePreprocess().box(image.size) == WHOLE
    assert ImagePreprocess(resize=5)(image).shape == (3, 6, 5)
    assert ImagePreprocess(resize=5).box(image.size) == WHOLE
    cropped = ImagePreprocess(crop=6)
    assert torch.equal(cropped(image), _to_tensor(image)[:, 3:9, 2:8])
    assert cropped.box(image.size) == pytest.approx((0.2, 0.25, 0.8, 0.75))


def test_preprocess__height_and_width() -> None:
    image = Image.fromarray(pixels(40, 80))
    preprocess = ImagePreprocess(resize=(20, 10), crop=(14, 8), mean=MEAN, std=STD, interpolation="lanczos")
    expected = by_hand(image, (10, 20), (1, 3), (8, 14), MEAN, STD, Image.Resampling.LANCZOS)
    np.testing.assert_allclose(preprocess(image).numpy(), expected, atol=1e-5)
    assert preprocess.box(image.size) == pytest.approx((0.1, 0.15, 0.9, 0.85))


def test_preprocess__narrow_picture_that_would_become_huge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("RGB", (2, 4000)).save(tmp_path / "narrow.png")
    assert (tmp_path / "narrow.png").stat().st_size < 300
    encoder = Encoder(SmallNet(), ImagePreprocess(resize=256, crop=8))
    monkeypatch.setattr(Image.Image, "resize", lambda *_what: pytest.fail("it was resized"))
    with pytest.raises(
        ValueError, match=r"2 x 4000 pixels would have 256 x 512000 once it is resized, more than the 100,000,000"
    ):
        encoder.represent([tmp_path / "narrow.png"])


def test_preprocess__narrow_picture_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_MAX_PIXELS", 10 * 200)
    assert ImagePreprocess(resize=10, crop=8)(Image.new("RGB", (2, 40))).shape == (3, 8, 8)
    with pytest.raises(ValueError, match="10 x 205 once it is resized"):
        ImagePreprocess(resize=10, crop=8)(Image.new("RGB", (2, 41)))


def test_preprocess__grey() -> None:
    image = Image.fromarray(pixels(40, 80))
    preprocess = ImagePreprocess(resize=10, crop=8, mean=(0.5,), std=(0.25,))
    expected = by_hand(image.convert("L"), (20, 10), (6, 1), (8, 8), (0.5,), (0.25,))
    np.testing.assert_allclose(preprocess(image).numpy(), expected, atol=1e-5)
    assert preprocess(image.convert("L")).shape == (1, 8, 8)


def test_preprocess__grey_picture_for_a_colour_encoder() -> None:
    tensor = ImagePreprocess()(Image.fromarray(pixels()[:, :, 0]))
    assert tensor.shape == (3, 12, 10)
    assert torch.equal(tensor[0], tensor[2])


@pytest.mark.parametrize(("width", "height"), [(300, 200), (200, 300), (451, 300), (37, 201), (64, 64)])
def test_box__is_the_region_the_tensor_shows(width: int, height: int) -> None:
    """On a picture whose red is x and whose green is y, the tensor's own values tell what it shows."""
    x, y = np.meshgrid((np.arange(width) + 0.5) / width, (np.arange(height) + 0.5) / height)
    image = Image.fromarray(np.dstack([x * 255, y * 255, x * 0]).round().astype(np.uint8))
    preprocess = ImagePreprocess(resize=64, crop=56)
    tensor = preprocess(image)
    left, top, right, bottom = preprocess.box(image.size)
    columns = left + (right - left) * (np.arange(56) + 0.5) / 56
    rows = top + (bottom - top) * (np.arange(56) + 0.5) / 56
    np.testing.assert_allclose(tensor[0].mean(0).numpy(), columns, atol=0.01)
    np.testing.assert_allclose(tensor[1].mean(1).numpy(), rows, atol=0.01)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"interpolation": "nearest"}, r"'interpolation' parameter must be 'bicubic', .*Got 'nearest' instead"),
        ({"mean": (0.5, 0.5)}, r"'mean' and 'std' must both have 1 or 3 entries.*Got mean=\(0\.5, 0\.5\)"),
        ({"mean": (0.5, 0.5), "std": (1.0, 1.0)}, r"must both have 1 or 3 entries"),
        ({"mean": (0.5,)}, r"must both have 1 or 3 entries"),
        ({"std": (1.0, 0.0, 1.0)}, r"'std' only positive ones.*Got .*std=\(1\.0, 0\.0, 1\.0\)"),
        ({"std": (1.0, -1.0, 1.0)}, r"'std' only positive ones"),
        ({"resize": 0}, r"'resize' parameter must be .*Got 0 instead"),
        ({"resize": -3}, r"'resize' parameter must be .*Got -3 instead"),
        ({"resize": 2.5}, r"'resize' parameter must be .*Got 2\.5 instead"),
        ({"crop": 0}, r"'crop' parameter must be .*Got 0 instead"),
        ({"crop": -2}, r"'crop' parameter must be .*Got -2 instead"),
        ({"crop": (8, 0)}, r"'crop' parameter must be .*Got \(8, 0\) instead"),
        ({"resize": (8, 8, 8)}, r"'resize' parameter must be .*\(height, width\) or None\. Got \(8, 8, 8\) instead"),
        ({"mean": 0.5, "std": 0.5}, r"must both have 1 or 3 entries.*Got mean=0\.5, std=0\.5"),
    ],
)
def test_preprocess__bad_arguments(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        ImagePreprocess(**arguments)


# --- pictures for display -----------------------------------------------------------------------------------------------


def test_picture_of__grey_becomes_colour_and_original_stays() -> None:
    image = Image.fromarray(pixels(20, 10)[:, :, 0])
    picture = picture_of(image, longest=10)
    assert picture.shape == (10, 5, 3)
    assert torch.equal(picture[..., 0], picture[..., 2])
    assert image.size == (10, 20)
    assert picture_of(image, longest=100).shape == (20, 10, 3)


def test_picture_of_tensor__stretched_to_its_range() -> None:
    tensor = torch.tensor([[[-2.0, 0.0], [2.0, 1.0]]])
    picture = picture_of_tensor(tensor)
    assert picture.shape == (2, 2, 3)
    assert picture[..., 1].tolist() == [[0, 128], [255, 191]]
    assert torch.equal(picture[..., 0], picture[..., 2])


def test_picture_of_tensor__constant_and_many_channels() -> None:
    assert picture_of_tensor(torch.full((3, 2, 2), 5.0)).max() == 0
    tensor = images(1, channels=5)[0]
    assert torch.equal(picture_of_tensor(tensor), picture_of_tensor(tensor[:3]))
    pair = images(1, channels=2)[0]
    assert torch.equal(picture_of_tensor(pair), picture_of_tensor(pair.mean(0, keepdim=True)))


@pytest.mark.parametrize("address", ["https://example.org/cat.jpg", "HTTP://example.org/cat", "s3://bucket/cat.png"])
def test_open_image__address(address: str) -> None:
    with pytest.raises(ValueError, match=rf"^{address} is an address, and nothing is fetched here; download it and pass"):
        open_image(address)
    with pytest.raises(ValueError, match=f"^Input 0: {address} is an address"):
        Encoder(SmallNet()).reference(address)
