"""Pictures: opening them safely, and turning them into the tensor that an encoder takes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from cocoax.inputs.drawing import WHOLE as WHOLE
from cocoax.inputs.drawing import Box as Box
from cocoax.store import as_path, files_below

_SHORTEST = 8  # pixels of a side of a long picture
UNIT = 32  # pixels; most networks halve the sides of a picture five times
MAX_PIXELS = 100_000_000  # a larger picture is taken for a decompression bomb
SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"})
# Whatever a file is called, Pillow would try all it knows, some of which start other programs (EPS starts Ghostscript).
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")

Read = TypeVar("Read")


def image_files(folder: Path) -> list[Path]:
    """Return every picture below a folder, in sorted order; hidden files and folders are left out."""
    files = files_below(folder, SUFFIXES)
    if not files:
        raise ValueError(f"No pictures below {folder}; expected files such as {', '.join(sorted(SUFFIXES)[:4])}.")
    return files


def open_image(source: str | Path | Image.Image | np.ndarray) -> Image.Image:
    """Return a picture as upright 8-bit RGB (or L, for grey ones), from a file, a PIL image or an array.

    Turned as its EXIF data says, transparency laid on white, 16-bit grey scaled down to 8 bits. An array is uint8
    ``[H, W]`` or ``[H, W, 1, 3 or 4]``.
    """
    if isinstance(source, np.ndarray):
        image = _from_array(source)
    elif isinstance(source, Image.Image):
        image = source
    else:
        if str(source).lower().startswith(("http:", "https:", "ftp:", "s3:", "gs:", "data:")):
            raise ValueError(f"{source} is an address, and nothing is fetched here; download it and pass the file.")
        return read_file(as_path(source), _to_rgb)
    if error := _size_error(image.size):
        raise ValueError(f"The image {error}")
    return _to_rgb(image)


def read_file(path: Path, convert: Callable[[Image.Image], Read]) -> Read:
    """Return what ``convert`` makes of a picture as the file has it, neither turned nor converted; errors name it."""
    if not path.is_file():
        raise FileNotFoundError(f"No file at {path}; check the path.")
    try:
        with warnings.catch_warnings():
            # Our own limit is checked next, and damaged EXIF data is no reason to complain about a picture that is whole.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            warnings.simplefilter("ignore", UserWarning)
            with Image.open(path, formats=_FORMATS) as image:
                if image.format == "PNG":
                    image.verify()  # pixels have checksums, which are not looked at otherwise
            with Image.open(path, formats=_FORMATS) as image:
                size = image.size
                if _size_error(size) is None:
                    image.load()
                    return convert(image)
    except UnidentifiedImageError as error:
        raise ValueError(f"{path} is not an image that can be read; expected JPEG, PNG, WebP or the like.") from error
    except Image.DecompressionBombError as error:
        raise ValueError(f"{path} has too many pixels ({error}); make it smaller first.") from error
    except (OSError, SyntaxError, ValueError) as error:  # Pillow raises any of them for broken files
        if "floating-point" in str(error):
            raise
        raise ValueError(f"{path} is damaged or cut off ({error}); fetch it again.") from error
    raise ValueError(f"{path} {_size_error(size)}")


def _size_error(size: tuple[int, int]) -> str | None:
    """Return what is wrong with the size of a picture, if anything."""
    width, height = size
    if width * height > MAX_PIXELS:
        return f"has {width} x {height} pixels, more than the {MAX_PIXELS:,} that are allowed; make it smaller first."
    if min(size) < 2:
        return f"has {width} x {height} pixels; at least 2 x 2 are needed to explain anything."
    return None


def _to_rgb(image: Image.Image) -> Image.Image:
    image = ImageOps.exif_transpose(image)
    if image.mode in ("L", "RGB") and "transparency" not in image.info:
        return image
    if image.mode.startswith("I"):  # 16-bit grey, which Pillow gives as I;16 or I
        values = np.asarray(image).astype(np.float64)
        return Image.fromarray(np.clip(values / 257, 0, 255).round().astype(np.uint8))
    if image.mode == "F":
        raise ValueError("The image has floating-point pixels (mode F); pass a tensor in the encoder's range instead.")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("L" if image.mode == "1" else "RGB")


def _from_array(array: np.ndarray) -> Image.Image:
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        raise ValueError(
            "An array that is a picture must be uint8 of shape [H, W] or [H, W, 1, 3 or 4]. "
            f"Got {array.dtype} {list(array.shape)} instead; pass a preprocessed input as a float tensor [C, H, W]."
        )
    if 0 in array.shape:
        raise ValueError(f"The image has no pixels: its shape is {list(array.shape)}; at least 2 x 2 are needed.")
    return Image.fromarray(array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array)


def resize_of(side: int) -> int:
    """Return the shorter side of pictures before the square of ``side`` is cut out: as ImageNet's 256 for 224.

    What is trained here is trained and loaded with it.
    """
    return round(side * 256 / 224) if side >= 64 else side


def to_tensor(image: Image.Image) -> Tensor:
    """Return a picture as a float tensor ``[C, H, W]`` in [0, 1]."""
    array = np.asarray(image, dtype=np.float32)
    return torch.from_numpy(array.reshape(image.height, image.width, -1).transpose(2, 0, 1).copy() / 255)


@dataclass(frozen=True)
class ImagePreprocess:
    """Resize, crop the centre, scale to [0, 1] and normalise.

    Attributes:
        resize: length of the short side after resizing; or (height, width), whatever the picture's proportions; or None.
        crop: side of the square cut from the centre, or (height, width), or None.
        mean, std: per channel, in units of [0, 1]; their length is the number of channels (1 or 3).
        interpolation: ``bicubic``, ``bilinear`` or ``lanczos``.

    """

    resize: int | tuple[int, int] | None = None
    crop: int | tuple[int, int] | None = None
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    interpolation: str = "bicubic"

    def __post_init__(self) -> None:
        if self.interpolation not in ("bicubic", "bilinear", "lanczos"):
            raise ValueError(
                "The 'interpolation' parameter must be 'bicubic', 'bilinear' or 'lanczos'. "
                f"Got {self.interpolation!r} instead."
            )
        for name, size in (("resize", self.resize), ("crop", self.crop)):
            sides = size if isinstance(size, tuple) and len(size) == 2 else (size,)
            if size is not None and not all(isinstance(side, int) and side >= 1 for side in sides):
                raise ValueError(
                    f"The '{name}' parameter must be a positive integer, (height, width) or None. Got {size!r} instead."
                )
        sizes = {len(values) if isinstance(values, Sequence) else 0 for values in (self.mean, self.std)}
        if sizes not in ({1}, {3}) or min(self.std) <= 0:
            raise ValueError(
                "'mean' and 'std' must both have 1 or 3 entries, and 'std' only positive ones. "
                f"Got mean={self.mean}, std={self.std} instead."
            )

    def __call__(self, image: Image.Image) -> Tensor:
        """Return the tensor ``[C, H, W]`` of a picture."""
        image = image.convert("RGB" if len(self.mean) == 3 else "L")
        width, height = self.size(image.size)
        if width * height > MAX_PIXELS:  # a narrow picture of a few bytes would take gigabytes
            raise ValueError(
                f"The image of {image.width} x {image.height} pixels would have {width} x {height} once it is resized, more "
                f"than the {MAX_PIXELS:,} that are allowed; cut it to a less narrow shape first."
            )
        image = image.resize((width, height), Image.Resampling[self.interpolation.upper()])
        left, top, right, bottom = self._cropped((width, height))
        pixels = to_tensor(image.crop((left, top, right, bottom)))
        mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (self.mean, self.std))
        return (pixels - mean) / std

    def box(self, size: tuple[int, int]) -> Box:
        """Return what the tensor shows of a picture of ``size`` (width, height): left, top, right, bottom in [0, 1]."""
        width, height = self.size(size)
        left, top, right, bottom = self._cropped((width, height))
        return left / width, top / height, right / width, bottom / height

    @property
    def sides(self) -> tuple[int, int] | None:
        """Height and width that all pictures end up with, cut out or squeezed; None where they keep their proportions."""
        if isinstance(self.crop, int):
            return self.crop, self.crop
        return self.crop or (self.resize if isinstance(self.resize, tuple) else None)

    def squeezed(self) -> ImagePreprocess:
        """Return the same for all of a picture, whose proportions become those that all pictures end up with."""
        return self if self.sides is None else replace(self, resize=self.sides, crop=None)

    def whole(self, patch: int = 1) -> ImagePreprocess:
        """Return the same for all of a picture, at its own proportions; sides are multiples of ``patch``."""
        if self.sides is None:
            return self
        return WholePicture(min(self.sides), None, self.mean, self.std, self.interpolation, patch)

    def size(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return the width and height of a picture of ``size`` once it is resized, before anything is cut off."""
        if self.resize is None:
            return size
        if isinstance(self.resize, tuple):
            return self.resize[1], self.resize[0]
        short = min(size)
        width, height = (int(side * self.resize / short) for side in size)  # as torchvision does
        return width, height

    def _cropped(self, size: tuple[int, int]) -> tuple[int, int, int, int]:
        width, height = size
        if self.crop is None:
            return 0, 0, width, height
        high, wide = self.crop if isinstance(self.crop, tuple) else (self.crop, self.crop)
        left, top = self._margin(width - wide), self._margin(height - high)
        return left, top, left + wide, top + high

    @staticmethod
    def _margin(left_over: int) -> int:
        """Return how many pixels are cut off before the crop, of so many on both sides: as torchvision does."""
        return round(left_over / 2)


@dataclass(frozen=True)
class WholePicture(ImagePreprocess):
    """All of a picture at its own proportions, with as many pixels as a square of side ``resize``: it takes no longer.

    The sides are rounded to multiples of 32, or of less where ``resize`` is small; for a transformer, of its ``patch``. A
    picture that is more than 16 times as long as wide is squeezed, too: no side is shorter than a quarter of ``resize``,
    nor than 8 pixels.
    """

    patch: int = 1

    def size(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return width and height of a picture of ``size`` once it is resized."""
        assert isinstance(self.resize, int)
        stretch = min(math.sqrt(max(size) / min(size)), 4.0, max(1.0, self.resize / _SHORTEST))
        usual = min(UNIT, max(1, self.resize // 7))
        unit = self.patch if UNIT % self.patch else max(self.patch, usual - usual % self.patch)
        whole = [max(1, round(side / unit)) * unit for side in (self.resize / stretch, self.resize * stretch)]
        return (whole[0], whole[1]) if size[0] <= size[1] else (whole[1], whole[0])


def picture_of(image: Image.Image, longest: int = 1024) -> Tensor:
    """Return a picture for display: uint8 ``[h, w, 3]``, no side longer than ``longest``."""
    image = image.convert("RGB")
    image.thumbnail((longest, longest), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(image))


def picture_of_tensor(tensor: Tensor) -> Tensor:
    """Return a preprocessed input for display, stretched to its own range: its normalisation is not known here."""
    pixels = tensor.detach().to("cpu", torch.float32)
    pixels = pixels[:3] if len(pixels) >= 3 else pixels.mean(0, keepdim=True).expand(3, -1, -1)
    low, high = pixels.min(), pixels.max()
    return ((pixels - low) / (high - low).clamp(min=1e-12) * 255).round().to(torch.uint8).permute(1, 2, 0).contiguous()
