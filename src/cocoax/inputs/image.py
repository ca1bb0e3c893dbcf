"""Pictures: opening them safely, and turning them into the tensor that an encoder takes."""

from __future__ import annotations

import copy
import math
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from cocoax.cautions import caution
from cocoax.checks import as_numbers, check_plain
from cocoax.inputs.base import Fitting, Inputs, check_elements
from cocoax.inputs.explicand import Explicand, Picture
from cocoax.show import WHOLE, Box
from cocoax.store import as_path, digest, file_digest, files_below

_SHORTEST = 8  # pixels of a side of a picture
UNIT = 32  # pixels; most networks halve the sides of a picture five times
_MAX_PIXELS = 100_000_000  # a larger picture is taken for a decompression bomb
_MAX_DECODED = 32_000_000  # pixels that are decoded of a picture of which a small copy is wanted
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


def open_image(source: str | Path | Image.Image | np.ndarray, area: int | None = None) -> Image.Image:
    """Return a picture as upright 8-bit RGB (or L, for grey ones), from a file, a PIL image or an array.

    Turned as its EXIF data says, transparency laid on white, 16-bit grey scaled down to 8 bits. An array is uint8
    ``[H, W]`` or ``[H, W, 1, 3 or 4]``, or floats from 0 to 1 as of :func:`is_float_picture`.

    A file of more pixels than ``area`` is reduced to them, in little memory: a JPEG is decoded at a half, a quarter or an
    eighth of its size, and other files of more than ``_MAX_DECODED`` pixels are refused.
    """
    if isinstance(source, np.ndarray):
        image = _from_array(source)
    elif isinstance(source, Image.Image):
        image = source
    else:
        if str(source).lower().startswith(("http:", "https:", "ftp:", "s3:", "gs:", "data:")):
            raise ValueError(f"{source} is an address, and nothing is fetched here; download it and pass the file.")
        return read_file(as_path(source), _to_rgb if area is None else partial(_reduced, area=area), area)
    if error := _size_error(image.size, _MAX_PIXELS):
        raise ValueError(f"The image {error}")
    return _to_rgb(image)


def read_file(path: Path, convert: Callable[[Image.Image], Read], area: int | None = None) -> Read:
    """Return what ``convert`` makes of a picture as the file has it, neither turned nor converted; errors name it.

    With ``area``, a JPEG of many times that number of pixels is decoded smaller.
    """
    most = _MAX_PIXELS if area is None else _MAX_DECODED
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
                if area is not None and not image.info.get("progressive"):  # libjpeg decodes progressive ones whole
                    image.draft(None, _within(image.size, area))
                size = image.size
                if _size_error(size, most) is None:
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
    raise ValueError(f"{path} {_size_error(size, most)}")


def _size_error(size: tuple[int, int], most: int) -> str | None:
    """Return what is wrong with the size of a picture, if anything."""
    width, height = size
    if width * height > most:
        return f"has {width} x {height} pixels, more than the {most:,} that are allowed; make it smaller first."
    if min(size) < 2:
        return f"has {width} x {height} pixels; at least 2 x 2 are needed to explain anything."
    return None


def _within(size: tuple[int, int], area: int) -> tuple[int, int]:
    """Return a size of the same proportions with at most about ``area`` pixels; sides have at least 2."""
    scale = min(1.0, math.sqrt(area / (size[0] * size[1])))
    width, height = (max(2, round(scale * side)) for side in size)
    return width, height


def _reduced(image: Image.Image, area: int) -> Image.Image:
    """Return a picture as upright RGB or grey, with about ``area`` pixels at most."""
    size = _within(image.size, area)
    if image.mode not in ("L", "RGB", "LA", "RGBA") or "transparency" in image.info:
        image = _to_rgb(image)
        size = _within(image.size, area)  # it may have been turned
    image.thumbnail(size, Image.Resampling.BICUBIC, reducing_gap=3.0)  # before it is copied; a small one stays as it is
    return _to_rgb(image)


def _to_rgb(image: Image.Image) -> Image.Image:
    image = ImageOps.exif_transpose(image)
    if image.mode in ("L", "RGB") and "transparency" not in image.info:
        return image
    if image.mode.startswith("I"):  # 16-bit grey, which Pillow gives as I;16 or I
        values = np.asarray(image).astype(np.float32)
        values /= 257  # in place, as pictures may be large
        return Image.fromarray(values.clip(0, 255, out=values).round(out=values).astype(np.uint8))
    if image.mode == "F":
        raise ValueError("The image has floating-point pixels (mode F); pass a tensor in the encoder's range instead.")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("L" if image.mode == "1" else "RGB")


def is_float_picture(array: object) -> bool:
    """Whether an array or a tensor holds a picture as scikit-image and matplotlib do.

    That is floats ``[H, W]`` or ``[H, W, 3 or 4]`` from 0 to 1, with at least ``_SHORTEST`` rows and columns: with fewer they
    are preprocessed, with channels in place of rows.
    """
    is_float = (
        array.is_floating_point() if isinstance(array, Tensor) else isinstance(array, np.ndarray) and array.dtype.kind == "f"
    )
    if not is_float:
        return False
    assert isinstance(array, Tensor | np.ndarray)
    shape = tuple(array.shape)
    if not (len(shape) == 2 or _ends_in_channels(shape)) or min(shape[:2]) < _SHORTEST:
        return False
    return math.prod(shape) <= 4 * _MAX_PIXELS and bool(array.min() >= 0 and array.max() <= 1)


def _ends_in_channels(shape: Sequence[int]) -> bool:
    """Whether a shape is that of a picture ``[H, W, 3 or 4]``, and not of ``[C, H, W]``."""
    return len(shape) == 3 and min(shape[:2]) >= _SHORTEST and shape[2] in (3, 4)


def _from_array(array: np.ndarray) -> Image.Image:
    if is_float_picture(array):
        array = (array * 255).round().astype(np.uint8)
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


def _to_tensor(image: Image.Image) -> Tensor:
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
        if width * height > _MAX_PIXELS:  # a narrow picture of a few bytes would take gigabytes
            raise ValueError(
                f"The image of {image.width} x {image.height} pixels would have {width} x {height} once it is resized, more "
                f"than the {_MAX_PIXELS:,} that are allowed; cut it to a less narrow shape first."
            )
        image = image.resize((width, height), Image.Resampling[self.interpolation.upper()])
        left, top, right, bottom = self._cropped((width, height))
        pixels = _to_tensor(image.crop((left, top, right, bottom)))
        mean, std = (torch.tensor(values, dtype=torch.float32).view(-1, 1, 1) for values in (self.mean, self.std))
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

    def alters(self, shape: Sequence[int]) -> bool:
        """Whether it normalises pixels and gives no tensor of this shape ``[C, H, W]``."""
        normalises = any(self.mean) or any(std != 1 for std in self.std)
        if not normalises or len(shape) != 3 or shape[0] != len(self.mean):
            return False
        if self.sides is not None:
            return tuple(shape[1:]) != self.sides
        return self.resize is not None and min(shape[1:]) != self.resize

    def squeezed(self) -> ImagePreprocess:
        """Return the same for all of a picture, whose proportions become those that all pictures end up with."""
        return self if self.sides is None else replace(self, resize=self.sides, crop=None)

    def whole(self, patch: int = 1) -> ImagePreprocess:
        """Return the same for all of a picture, at its own proportions; sides are multiples of ``patch``."""
        if self.sides is None:
            return self
        return _WholePicture(min(self.sides), None, self.mean, self.std, self.interpolation, patch)

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
class _WholePicture(ImagePreprocess):
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


# --- image ------------------------------------------------------------------------------------------------------------------

Preprocess = Callable[[Image.Image], Tensor]
_Takes = Callable[[Sequence[tuple[int, ...]]], bool]
_ENLARGED = 8  # times, from which on a picture has next to no detail
_SQUEEZED = 2.5  # times as much across as down, or as much down as across
_LARGE = 20  # no network's preprocessing gives only numbers from 0 up to more than this


class _Whole:
    """A view of all of a picture: at its own proportions if the module ``takes`` those, otherwise squeezed."""

    def __init__(self, squeezed: ImagePreprocess, own: ImagePreprocess, takes: _Takes) -> None:
        self.squeezed = squeezed
        self.own = own
        self.takes = takes

    def preprocess(self, size: tuple[int, int]) -> ImagePreprocess:
        """Return the preprocessing of a picture of ``size``; nothing is tried out where both are the same."""
        return self.own if self.own.size(size) != self.squeezed.size(size) and self._takes_any else self.squeezed

    @cached_property
    def _takes_any(self) -> bool:
        channels = len(self.own.mean)
        return self.takes([(channels, *reversed(way.size((4, 3)))) for way in (self.squeezed, self.own)])


class Pictures(Inputs):
    """Pictures: paths, folders, PIL images, uint8 arrays ``[H, W, C]``, or preprocessed float tensors ``[C, H, W]``.

    Args:
        preprocess: from an upright RGB or grey PIL image to a tensor ``[C, H, W]``; without it pixels become floats in
            [0, 1].
        any_shape: the module takes pictures of any shape, and the preprocessing gives them.

    """

    noun = "image"
    feature_kind = "image"
    hint = "Check the number of channels and the size that it expects."
    removals: ClassVar[tuple[str, ...]] = (
        "Blur",
        "Constant",
        "Mean",
        "Noise",
        "Fixed",
        "Background",
        "Several",
        "DropTokens",
    )
    advice = "Pictures take cocoax.Blur(), Mean(), Constant(0.0), Noise(), or a picture."
    default_features: Any = "segments"

    def __init__(self, preprocess: Preprocess | None = None, any_shape: bool = False) -> None:
        self.preprocess = preprocess
        self.any_shape = any_shape
        self._seen: _Whole | None = None  # how all of a picture is taken in where it is explained
        self._removal: Fitting[Any] | None = None  # in place of the default

    @property
    def settings(self) -> tuple[object, ...]:
        """The preprocessing."""
        return (self.preprocess,)

    @property
    def view_settings(self) -> tuple[object, ...]:
        """The preprocessing of what is explained, where it is another one."""
        return () if self._seen is None else ("whole",)

    @property
    def default_removal(self) -> str | Fitting[Any]:
        """A strong blur, or the baseline given to :meth:`with_baseline`."""
        return self.removals[0] if self._removal is None else self._removal

    def with_baseline(self, removal: Fitting[Any]) -> Pictures:
        """Return the same kind with this as its default removal."""
        other = copy.copy(self)
        other._removal = removal
        return other

    def probe(self) -> Tensor:
        """Return a picture of coloured squares, preprocessed; without preprocessing, ``[3, 64, 64]``."""
        squares = torch.randint(256, (13, 16, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
        size = (64, 64) if self.preprocess is None else (320, 260)
        picture = Image.fromarray(squares.numpy()).resize(size, Image.Resampling.NEAREST)
        return _to_tensor(picture) if self.preprocess is None else self.preprocess(picture)

    def is_one(self, inputs: object) -> bool:
        """Whether this is one picture rather than many."""
        if isinstance(inputs, np.ndarray) and inputs.dtype == np.uint8:
            return inputs.ndim <= 3
        if self._is_float_picture(inputs):
            return True
        if isinstance(inputs, Tensor | np.ndarray):
            return inputs.ndim in (1, 3)
        return isinstance(inputs, Image.Image | Explicand) or (isinstance(inputs, str | Path) and not os.path.isdir(inputs))

    def _is_float_picture(self, item: object) -> bool:
        """Whether it is a picture of floats; what an encoder without preprocessing takes may be rows or a tensor as well."""
        given = self.preprocess is not None or (isinstance(item, np.ndarray) and item.ndim == 3)
        return given and is_float_picture(item)

    def many(self, inputs: Any) -> Iterable[Any]:
        """Return the pictures of a folder, or what an iterable gives."""
        if isinstance(inputs, str | Path):
            return image_files(Path(inputs))
        if not isinstance(inputs, Iterable) or getattr(inputs, "ndim", None) == 0:
            raise TypeError(f"Inputs must be pictures, tensors or an iterable of those. Got {type(inputs).__name__}.")
        return inputs

    def prepare(self, item: Any) -> Tensor:
        """Return one picture as the tensor ``[C, H, W]`` that the module takes; tensors and float arrays as they are."""
        return item.tensor if isinstance(item, Explicand) else self._read(item, None)[0]

    def explicand(self, item: Any) -> Explicand:
        """Return one picture made ready to be explained."""
        if isinstance(item, Explicand):
            return item
        tensor, image = self._read(item, self._seen)
        if tensor.ndim != 3:
            raise ValueError(f"An input must be one image [C, H, W]. Got shape {list(tensor.shape)} instead.")
        if tensor.shape[1] * tensor.shape[2] < 2:
            raise ValueError("The image has a single pixel; there is nothing to compare. Pass a larger image.")
        tensor = tensor.detach().to("cpu", torch.float32)
        whole = self.preprocess is None or self._seen is not None
        box_of = (lambda _size: WHOLE) if whole else getattr(self.preprocess, "box", None)
        if image is None or box_of is None:  # which part of a picture it shows is not known
            return Explicand(tensor, Picture(picture_of_tensor(tensor)))
        box = box_of(image.size)
        self._check_box(box)
        self._check_size(image.size, box, tensor)
        return Explicand(tensor, Picture(picture_of(image), box))

    def _check_box(self, box: Box) -> None:
        """Caution if most of a picture is cut off."""
        seen = (box[2] - box[0]) * (box[3] - box[1])
        if seen < 0.5:
            caution(
                "crop",
                self.encoder,
                f"{self.encoder!r} sees {seen:.0%} of the picture: its preprocessing cuts off the rest. "
                "encoder.whole() takes all of it in; or cut the picture to what matters first.",
            )

    def _check_size(self, size: tuple[int, int], box: Box, tensor: Tensor) -> None:
        """Caution if a picture is much smaller than its tensor, or squeezed; ``box`` is the part of it in the tensor."""
        across = tensor.shape[2] / (size[0] * (box[2] - box[0]))
        down = tensor.shape[1] / (size[1] * (box[3] - box[1]))
        if min(across, down) > _ENLARGED:
            caution(
                "size",
                self.encoder,
                f"The picture of {size[0]} x {size[1]} pixels is enlarged {min(across, down):.0f} times for "
                f"{self.encoder!r}, which was made for more detail than it has. Use a larger one.",
            )
        if max(across / down, down / across) > _SQUEEZED:
            caution(
                "squeezed",
                self.encoder,
                f"The picture of {size[0]} x {size[1]} pixels is squeezed to {tensor.shape[2]} x {tensor.shape[1]} "
                f"for {self.encoder!r}, which may not recognise what is in it. Cut it into less narrow pictures.",
            )

    def whole(self, takes: _Takes, patch: int) -> Pictures:
        """Return the same kind, of whose pictures all is explained: at their own proportions if the module takes those.

        Otherwise they are squeezed. What is only prepared, such as the pictures of a reference, is what it was, and so is the
        representation space. A preprocessing of one's own does what it does.
        """
        if not isinstance(self.preprocess, ImagePreprocess) or self.preprocess.sides is None:
            return self
        other = copy.copy(self)
        other._seen = _Whole(self.preprocess.squeezed(), self.preprocess.whole(patch), takes)
        other.any_shape = True  # explicands have the proportions of their photos
        return other

    def cropped(self) -> Pictures:
        """Return the same kind, of whose pictures only what the preprocessing cuts out is explained."""
        other = copy.copy(self)
        other._seen = None
        return other

    def _check_range(self, tensor: Tensor) -> None:
        """Caution if a tensor that should be preprocessed looks like pixels from 0 to 255, or from 0 to 1; raise for others
        than 0 to 1 of a picture ``[H, W, 3 or 4]``."""
        most, least = float(tensor.detach().max()), float(tensor.detach().min())
        if self.preprocess is not None and _ends_in_channels(tensor.shape):
            raise ValueError(
                f"A picture of floats [H, W, 3 or 4] must have values from 0 to 1. Got {list(tensor.shape)} with values from "
                f"{least:.4g} to {most:.4g} instead; divide it by its largest possible value, or pass a uint8 "
                "array, or a prepared tensor [C, H, W]."
            )
        if 0 <= least < most <= 1 and isinstance(self.preprocess, ImagePreprocess) and self.preprocess.alters(tensor.shape):
            caution(
                "not normalised",
                self.encoder,
                f"A tensor {list(tensor.shape)} with values from 0 to 1 is taken as prepared for {self.encoder!r}: it is "
                "neither resized nor normalised. Pass a picture instead: tensor.permute(1, 2, 0), a PIL image or a uint8 "
                "array [H, W, C].",
            )
        if most > _LARGE and least >= 0:
            caution(
                "range",
                self.encoder,
                f"A tensor for {self.encoder!r} has values up to {most:.4g}, as pixels that are not "
                "preprocessed have, and tensors go in as they are. Pass a PIL image or a uint8 array [H, W, C] instead.",
            )

    def _read(self, item: Any, seen: _Whole | None) -> tuple[Tensor, Image.Image | None]:
        """Return the prepared tensor, and the picture it was made of if it was not a tensor before.

        With ``seen`` all of the picture is in it.
        """
        if self._is_float_picture(item):
            item = item.detach().cpu().numpy() if isinstance(item, Tensor) else item
        elif isinstance(item, Tensor) or (isinstance(item, np.ndarray) and item.dtype != np.uint8):
            tensor = _check_tensor(item)
            self._check_range(tensor)
            return tensor, None
        if not isinstance(item, str | Path | Image.Image | np.ndarray):
            raise TypeError(f"An input must be a path, a PIL image, an array or a tensor. Got {type(item).__name__} instead.")
        image = open_image(item)
        if self.preprocess is None:
            caution(
                "preprocess",
                self.encoder,
                f"{self.encoder!r} has no preprocess=, so that pictures go in with the size they have and pixels from 0 to "
                "1. Most networks expect another size and normalised pixels: preprocess=cocoax.ImagePreprocess(...).",
            )
            return _to_tensor(image), image
        tensor = (self.preprocess if seen is None else seen.preprocess(image.size))(image)
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"The encoder's preprocess must return a float tensor [C, H, W]. Got {type(tensor).__name__} instead."
            )
        return _check_tensor(tensor), image

    def collate(self, prepared: Sequence[Tensor] | Tensor, like: Tensor) -> Tensor:
        """Return pictures as one batch ``[n, C, H, W]``."""
        if not isinstance(prepared, Tensor) and len(shapes := {tuple(tensor.shape) for tensor in prepared}) > 1:
            raise ValueError(
                f"Inputs have different shapes, {' and '.join(str(list(shape)) for shape in sorted(shapes)[:2])}, and cannot "
                "form a batch; give the encoder a preprocess= that resizes, such as "
                "cocoax.ImagePreprocess(resize=224, crop=224), or pass batch_size=1."
            )
        batch: Tensor = super().collate(prepared, like)
        # Channels innermost, in which convolutions run up to twice as fast; the values are the same.
        return batch.contiguous(memory_format=torch.channels_last) if batch.ndim == 4 else batch

    def digest(self, item: Any) -> str:
        """Return a digest of one picture: the content of its file, or the prepared tensor."""
        if isinstance(item, str | Path):
            return file_digest(item)
        if isinstance(item, Image.Image):
            return digest(item.mode, np.asarray(item))
        return digest(item)

    def label(self, item: Any) -> str:
        """Return the name of a file without its ending; Pillow remembers that of a picture it has opened."""
        path = item if isinstance(item, str | Path) else getattr(item, "filename", None)
        return Path(path).stem if path else self.noun


def _check_tensor(item: Tensor | np.ndarray) -> Tensor:
    check_elements(item)
    # Arrays are copied: torch cannot take those that run backwards or cannot be written.
    tensor = as_numbers("A picture", np.array(item)) if isinstance(item, np.ndarray) else item
    check_plain(tensor)
    if not tensor.is_floating_point():
        raise TypeError(
            f"{'An array' if isinstance(item, np.ndarray) else 'A tensor'} must be a preprocessed float input [C, H, W]. "
            f"Got {item.dtype} instead; "
            "pass pictures as PIL images, paths or uint8 arrays [H, W, C]."
        )
    if tensor.numel() == 0:
        raise ValueError(
            f"The input has no elements: its shape is {list(tensor.shape)}; pass a float tensor [C, H, W] with pixels."
        )
    return tensor
