"""Image processors of transformers as a preprocessing whose crop is known where possible."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from cocoax.inputs.image import ImagePreprocess

Preprocess = Callable[[Image.Image], Tensor]


def preprocess_of(processor: Any) -> Preprocess:
    """Return an image processor of transformers as an :class:`ImagePreprocess` if that gives the same pixels.

    The processors are many; whether one is expressed is not looked up but tried out, on a wide and on a tall picture.
    """
    wrapped = _ProcessorPreprocess(processor)
    expressed = _expressed(processor.to_dict())
    return wrapped if expressed is None or not same_pixels(expressed, wrapped) else expressed


def same_pixels(one: Preprocess, other: Preprocess) -> bool:
    """Whether two preprocessings give the same tensors, of a wide and of a tall picture."""
    for picture in (noise(211, 140), noise(140, 211)):
        pixels, expected = one(picture), other(picture)
        if pixels.shape != expected.shape or float((pixels - expected).abs().max()) > 1e-3:
            return False
    return True


@dataclass(frozen=True)
class _HubPreprocess(ImagePreprocess):
    """As transformers does it: like torchvision, but the margins of a crop are rounded down."""

    @staticmethod
    def _margin(left_over: int) -> int:
        return left_over // 2


class _ProcessorPreprocess:
    """An image processor of transformers, as it is; which part of a picture it shows is not known."""

    def __init__(self, processor: Any) -> None:
        self.processor = processor

    def __call__(self, image: Image.Image) -> Tensor:
        """The tensor of a picture."""
        pixels: Tensor = self.processor(images=image.convert("RGB"), return_tensors="pt")["pixel_values"][0]
        return pixels

    def __repr__(self) -> str:
        return f"{type(self).__name__}({json.dumps(self.processor.to_dict(), sort_keys=True, default=str)})"


def noise(width: int, height: int) -> Image.Image:
    """A picture of coarse coloured noise, the same every time."""
    coarse = np.random.default_rng(0).integers(0, 256, (height // 7, width // 7, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BILINEAR)


def _expressed(config: Mapping[str, Any]) -> ImagePreprocess | None:
    """The preprocessing that a processor's configuration seems to ask for, if it can be expressed at all."""
    size = dict(config.get("size") or {}) if config.get("do_resize") else {}
    resize: int | tuple[int, int] | None = size.get("shortest_edge")
    crop: int | tuple[int, int] | None = None
    if "height" in size and "width" in size:
        resize = (size["height"], size["width"])
    if config.get("do_center_crop"):
        cut = dict(config.get("crop_size") or {})
        crop = (cut["height"], cut["width"]) if "height" in cut and "width" in cut else None
        crop = crop[0] if crop is not None and crop[0] == crop[1] else crop
    if "crop_pct" in config and isinstance(resize, int):  # ConvNeXt: small pictures are cropped, large ones squeezed
        crop = resize
        resize = int(resize / (config["crop_pct"] or 224 / 256)) if resize < 384 else (resize, resize)
    # (v * factor - mean) / std for v in 0..255, in units of [0, 1].
    unit = 255 * (config.get("rescale_factor", 1 / 255) if config.get("do_rescale") else 1.0)
    normalises = config.get("do_normalize")
    mean = tuple(config["image_mean"]) if normalises and config.get("image_mean") else (0.0, 0.0, 0.0)
    std = tuple(config["image_std"]) if normalises and config.get("image_std") else (1.0, 1.0, 1.0)
    interpolation = {1: "lanczos", 2: "bilinear", 3: "bicubic"}.get(int(config.get("resample") or 2))
    if interpolation is None or not unit:
        return None
    try:
        return _HubPreprocess(
            resize, crop, tuple(value / unit for value in mean), tuple(value / unit for value in std), interpolation
        )
    except ValueError:
        return None
