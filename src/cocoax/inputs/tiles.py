"""Tiles: small pictures with their maps, drawn fast, for pages that show hundreds of them."""

from __future__ import annotations

import base64
import html
import io

import numpy as np
from PIL import Image
from torch import Tensor

from cocoax.inputs.drawing import BLUE, RED, Box, Shown, colour_scale

SIDE = 132  # pixels of the longer side
STRENGTH = 0.75  # of the strongest colour


def picture_tile(shown: Shown, picture: Tensor | None, box: Box, limit: float | None) -> str:
    """Return a picture in grey with its map over it, as an HTML image that loads nothing."""
    values = shown.relative.double().numpy()
    end = limit or colour_scale(values)[0]
    if picture is None:
        grey = np.full((SIDE * values.shape[0] // max(values.shape), SIDE * values.shape[1] // max(values.shape)), 235.0)
    else:
        small = Image.fromarray(picture.numpy()).convert("L")
        scale = SIDE / max(small.size)
        size = max(1, round(small.width * scale)), max(1, round(small.height * scale))
        grey = np.asarray(small.resize(size, Image.Resampling.BICUBIC), float)
    height, width = grey.shape
    left, top, right, bottom = (round(part * side) for part, side in zip(box, (width, height) * 2, strict=True))
    heat = Image.fromarray((values / end).clip(-1, 1).astype(np.float32)).resize(
        (max(1, right - left), max(1, bottom - top)), Image.Resampling.BICUBIC
    )
    strength = np.zeros((height, width))
    strength[top:bottom, left:right] = np.asarray(heat).clip(-1, 1)
    colour = np.where(strength[..., None] > 0, RED, BLUE)
    alpha = STRENGTH * np.abs(strength)[..., None]
    pixels = (grey[..., None] * (1 - alpha) + colour * alpha).round().astype(np.uint8)
    return _image(pixels, shown.name)


def _image(pixels: np.ndarray, text: str) -> str:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=80)
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{html.escape(text, quote=True)}" src="data:image/jpeg;base64,{data}">'
