"""Heat maps over pictures as pixels, and files as addresses that a page can hold."""

from __future__ import annotations

import base64
import io
import wave
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image

from cocoax.show.options import PlotOptions
from cocoax.show.views import WHOLE, HeatMap, colour_scale

LONGEST = 720  # pixels of the longer side
OPACITY = 0.65
STRIPES = 90  # of hatching along the longer side of a picture on a screen


@lru_cache
def colour_table(colours: str) -> np.ndarray:
    """Return the 256 colours of a colour map of matplotlib, ``[256, 3]`` in 0..255."""
    import matplotlib

    return np.asarray(matplotlib.colormaps[colours](np.arange(256)))[:, :3] * 255


def heat_image(
    view: HeatMap,
    options: PlotOptions | None = None,
    *,
    longest: int = LONGEST,
    strength: float | None = None,
    lines: bool = False,
    stripes: int = STRIPES,
) -> Image.Image:
    """Return a heat map over its picture in grey, ``longest`` pixels on the longer side.

    What the encoder did not see is faded; what is uncertain is hatched, or in grey. With ``strength`` the map is as opaque
    as its values are large, up to that, so that a small picture can be recognised. With ``lines`` there are lines between
    the cells of a map that is not smooth. Hatching has so many ``stripes`` along the longer side.
    """
    options = options or PlotOptions()
    values = view.effects.values
    limit = options.limit or colour_scale(values)[0]
    height, width = values.shape if view.picture is None else view.picture.shape[:2]
    size = max(1, round(width * longest / max(width, height))), max(1, round(height * longest / max(width, height)))
    if view.picture is None:
        grey = np.full((size[1], size[0], 3), 255, np.float32)
    else:
        resized = Image.fromarray(view.picture).resize(size, Image.Resampling.BILINEAR)
        grey = np.asarray(resized.convert("RGB"), np.float32).mean(2, keepdims=True).repeat(3, 2)
    left, top, right, bottom = (round(part * side) for part, side in zip(view.box, size * 2, strict=True))
    seen = max(1, right - left), max(1, bottom - top)
    inside = (slice(top, top + seen[1]), slice(left, left + seen[0]))
    shares = resized_map(values, seen, smooth=view.smooth) / limit
    heat = colour_table(options.cmap)[np.clip((shares + 1) * 127.5, 0, 255).round().astype(np.uint8)].astype(np.float32)
    opacity: Any = OPACITY if options.opacity is None else options.opacity
    if strength is not None:
        opacity = strength * np.abs(shares).clip(0, 1)[..., None]
    shown = grey[inside] * (1 - opacity) + heat * opacity
    if options.uncertainty != "none":
        unsure = resized_map(view.effects.uncertain(limit).astype(np.float32), seen, smooth=view.smooth) > 0.5
        _mark(shown, unsure, options.uncertainty == "hatch", max(3, round(longest / stripes)))
    if lines and not view.smooth:
        for drawn, cells, side in zip((shown, shown.transpose(1, 0, 2)), values.shape, seen[::-1], strict=True):
            drawn[[round(cell * side / cells) for cell in range(1, cells)]] *= 0.8
    canvas = grey * 0.25 + 255 * 0.75 if view.box != WHOLE else grey
    canvas[inside] = shown
    return Image.fromarray(canvas.clip(0, 255).astype(np.uint8))


def _mark(shown: np.ndarray, unsure: np.ndarray, hatch: bool, period: int) -> None:
    """Draw uncertain pixels paler, with stripes or in grey."""
    mean = shown[unsure].mean(1, keepdims=True)
    if hatch:
        shown[unsure] = (mean + shown[unsure]) / 2
        down, across = np.mgrid[: unsure.shape[0], : unsure.shape[1]]
        shown[unsure & ((down + across) % period < period / 4)] *= 0.72
    else:
        shown[unsure] = mean


def resized_map(values: np.ndarray, size: tuple[int, int], *, smooth: bool) -> np.ndarray:
    """Return a map at (width, height) pixels, interpolated or by its nearest value."""
    how = Image.Resampling.BILINEAR if smooth else Image.Resampling.NEAREST
    return np.asarray(Image.fromarray(values.astype(np.float32)).resize(size, how))


def data_uri(kind: str, content: bytes) -> str:
    """Return the content of a file of a MIME type as an address, which a page can hold: it then has nothing to load."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def jpeg_uri(image: Image.Image, quality: int = 85) -> str:
    """Return a picture as an address that holds it."""
    file = io.BytesIO()
    image.convert("RGB").save(file, "JPEG", quality=quality)
    return data_uri("image/jpeg", file.getvalue())


def photo_uri(picture: np.ndarray, longest: int, *, grey: bool = False) -> str:
    """Return pixels, uint8 ``[h, w, 3]``, as an address that holds them, at most ``longest`` on the longer side."""
    image = Image.fromarray(picture)
    image = image.convert("L") if grey else image
    image.thumbnail((longest, longest))
    return jpeg_uri(image)


def wav_uri(samples: np.ndarray, rate: int) -> str:
    """Return samples ``[T]`` as an address that holds a sound file; turned down if too loud."""
    quieter = samples / max(1.0, float(np.abs(samples).max(initial=0)))
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes((quieter * 32767).round().astype("<i2").tobytes())
    return data_uri("audio/wav", file.getvalue())
