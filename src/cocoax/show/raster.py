"""Heat maps over pictures as pixels, and files as addresses that a page can hold.

Below colours the photo is in muted grey: a map's colour is multiplied with it, so that white leaves the photo as it is.
"""

from __future__ import annotations

import base64
import io
import wave
from functools import lru_cache

import numpy as np
from PIL import Image

from cocoax.show.options import PlotOptions
from cocoax.show.palette import LONGEST, NEUTRAL, OPACITY, OUTLINE, PALE, STRIPES, UNKNOWN, colour_table
from cocoax.show.views import WHOLE, Box, HeatMap

_LOST = 0.5  # of the height of a smoothed part, below which it has no outline
_COARSE = 20  # cells or fewer along a side: a grid
_MOST_REGIONS = 400  # whose outlines are drawn smoothly


def heat_image(
    view: HeatMap,
    options: PlotOptions | None = None,
    *,
    longest: int = LONGEST,
    strength: float | None = None,
    stripes: int = STRIPES,
) -> Image.Image:
    """Return a heat map over its picture in grey, ``longest`` pixels on the longer side.

    What the encoder did not see is faded; what is uncertain is in grey, or hatched. With ``strength`` the map is as opaque
    as its values are large, up to that, so that a small picture can be recognised. Hatching has so many ``stripes`` along
    the longer side.
    """
    options = options or PlotOptions()
    limit = options.limit or view.effects.limit
    ratio = view.ratio
    size = max(1, round(longest / max(ratio, 1))), max(1, round(longest * min(ratio, 1)))
    if view.picture is None:
        grey = np.full((size[1], size[0], 1), 255, np.float32)
    else:
        resized = Image.fromarray(view.picture).resize(size, Image.Resampling.LANCZOS)
        grey = np.asarray(resized.convert("L"), np.float32)[..., None]
    left, top, right, bottom = (round(part * side) for part, side in zip(view.box, size * 2, strict=True))
    seen = max(1, right - left), max(1, bottom - top)
    inside = (slice(top, top + seen[1]), slice(left, left + seen[0]))
    values, unsure, edges = _at_pixels(view, seen, limit, longest)
    heat = colour_table(options.cmap)[np.clip((values / limit + 1) * 127.5, 0, 255).round().astype(np.uint8)]
    unsure = unsure[..., None]
    if options.uncertainty == "hatch":  # hatched parts keep some of their colour
        heat = heat * (1 - 0.5 * unsure) + np.array(NEUTRAL) * 0.5 * unsure
    effect = np.abs(values / limit).clip(0, 1)[..., None]
    if strength is not None:
        shown = grey[inside] * (1 - strength * effect) + heat * strength * effect
    else:
        opacity = OPACITY if options.opacity is None else options.opacity
        colour = min(1.0, opacity / (0.7 * OPACITY))  # how strong colours are; 0 leaves the photo alone
        # The photo is paler where there is no effect, so that colours stand out.
        paper = opacity + (1 - opacity) * PALE * colour * (1 - effect)
        shown = (255 * (1 - colour) + heat * colour) * (paper + (1 - paper) * grey[inside] / 255)
        if options.uncertainty == "fade":
            fog = np.array(UNKNOWN) * colour + grey[inside] * (1 - colour)
            shown = shown * (1 - unsure) + (fog * 0.9 + grey[inside] * 0.1) * unsure
    if options.uncertainty == "hatch":
        period = max(3, round(longest / stripes))
        down, across = np.mgrid[: seen[1], : seen[0]]
        shown[(unsure[..., 0] > 0.5) & ((down + across) % period < period / 4)] *= 0.72
    if edges is not None:
        # Dark, and white around what lowers the score: so signs differ without colours too. Fine where there is no effect.
        ink = np.where((values < -0.15 * limit)[..., None], 255.0, 25.0)
        edges = edges * (0.45 + 0.55 * np.sqrt(effect))
        shown = shown * (1 - edges) + ink * edges
    canvas = (grey * 0.25 + 255 * 0.75 if view.box != WHOLE else grey).repeat(3, 2)
    canvas[inside] = shown
    return Image.fromarray(canvas.clip(0, 255).astype(np.uint8))


def _at_pixels(
    view: HeatMap, size: tuple[int, int], limit: float, longest: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return values, what is uncertain (from 0 to 1) and the opacity of outlines at (width, height) pixels."""
    values, unknown = view.effects.values, view.effects.uncertain(limit)
    regions = view.regions
    if regions is None and not view.smooth and values.size <= _MOST_REGIONS and values.size > 1:
        regions = np.arange(values.size).reshape(values.shape)
    if regions is None:
        resized = (_resized_map(part.astype(np.float32), size, smooth=view.smooth) for part in (values, unknown))
        return *resized, None  # type: ignore[return-value]
    enlarged = _enlarged_regions(regions, size, rounded=view.regions is not None)
    first = np.unique(regions, return_index=True)[1]
    numbers = regions.flat[first]
    lookup = np.zeros((2, int(numbers.max()) + 2))
    lookup[0, numbers], lookup[1, numbers] = values.flat[first], unknown.flat[first]
    lookup[:, -1] = 0  # of -1, what is in no region
    shown, unsure = lookup[:, enlarged]
    return shown, unsure, 0.55 * _outlines(enlarged, max(1.0, longest * OUTLINE))[..., None]


def _enlarged_regions(regions: np.ndarray, size: tuple[int, int], *, rounded: bool = True) -> np.ndarray:
    """Return a map of regions ``[H, W]`` at (width, height) pixels, ``rounded`` with smooth edges instead of steps."""
    return _enlarged(np.ascontiguousarray(regions, np.int32).tobytes(), regions.shape, size, rounded)


@lru_cache(maxsize=8)
def _enlarged(content: bytes, shape: tuple[int, int], size: tuple[int, int], rounded: bool) -> np.ndarray:
    regions = np.frombuffer(content, np.int32).reshape(shape)
    numbers = np.unique(regions)
    if not rounded or len(numbers) > _MOST_REGIONS:
        return np.asarray(Image.fromarray(regions).resize(size, Image.Resampling.NEAREST))
    from scipy.ndimage import find_objects, gaussian_filter

    best = np.full(size[::-1], -1.0, np.float32)
    enlarged = np.zeros(size[::-1], np.int32)
    scale = size[0] / shape[1], size[1] / shape[0]
    for number, (rows, columns) in zip(numbers, find_objects(np.searchsorted(numbers, regions) + 1), strict=True):
        # Around each region alone, since a region is a small part of a picture.
        top, bottom = max(0, rows.start - 4), min(shape[0], rows.stop + 4)
        left, right = max(0, columns.start - 4), min(shape[1], columns.stop + 4)
        inside = gaussian_filter((regions[top:bottom, left:right] == number).astype(np.float32), 1.0, mode="nearest")
        y, y_end = round(top * scale[1]), round(bottom * scale[1])
        x, x_end = round(left * scale[0]), round(right * scale[0])
        if y_end <= y or x_end <= x:
            continue
        part = np.asarray(Image.fromarray(inside).resize((x_end - x, y_end - y), Image.Resampling.BICUBIC))
        more = part > best[y:y_end, x:x_end]
        best[y:y_end, x:x_end][more] = part[more]
        enlarged[y:y_end, x:x_end][more] = number
    return enlarged


def _outlines(regions: np.ndarray, width: float) -> np.ndarray:
    """Return lines between regions with soft edges, from 0 to 1, about so many pixels wide."""
    from scipy.ndimage import gaussian_filter

    edges = np.zeros(regions.shape, np.float32)
    edges[:-1] = regions[1:] != regions[:-1]
    edges[:, :-1] = np.maximum(edges[:, :-1], regions[:, 1:] != regions[:, :-1])
    lines: np.ndarray = np.clip(gaussian_filter(edges, 0.5 * width) * 1.6 * width, 0, 1)
    return lines


def fitted_photo(picture: np.ndarray, longest: int) -> np.ndarray:
    """Return a photo with so many pixels on its longer side, at most."""
    image = Image.fromarray(picture)
    image.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    return np.asarray(image)


def outlined_places(inside: np.ndarray, box: Box, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x and y of columns and rows over a box of a picture, and a field whose outline at one half is that of a mask.

    The picture is ``size`` wide and high. The field has a border; outlines of pixels are smooth, those of the cells of a grid
    have corners.
    """
    from scipy.ndimage import gaussian_filter, label, maximum

    mask = inside.astype(np.float32)
    coarse = min(inside.shape) <= _COARSE
    field = np.kron(mask, np.ones((_COARSE, _COARSE))) if coarse else gaussian_filter(mask, 1.2, mode="nearest")
    if not coarse:  # small and thin parts are not smoothed away
        parts, count = label(mask)
        peaks = np.atleast_1d(maximum(field, parts, np.arange(1, count + 1))) if count else np.zeros(0)
        field[np.isin(parts, 1 + np.flatnonzero(peaks <= _LOST))] = 1
    field = np.pad(field, 1)
    left, top, right, bottom = box
    down, across = ((np.arange(-1, side - 1) + 0.5).clip(0, side - 2) / (side - 2) for side in field.shape)
    xs, ys = left + across * (right - left), top + down * (bottom - top)
    return size[0] * xs - 0.5, size[1] * ys - 0.5, field


def inner_place(inside: np.ndarray) -> tuple[float, float]:
    """Return x and y of a place well inside of a mask ``[H, W]``, as fractions."""
    from scipy.ndimage import distance_transform_edt

    row, column = np.unravel_index(int(distance_transform_edt(np.pad(inside, 1)).argmax()), np.add(inside.shape, 2))
    return float((column - 0.5) / inside.shape[1]), float((row - 0.5) / inside.shape[0])


def _resized_map(values: np.ndarray, size: tuple[int, int], *, smooth: bool) -> np.ndarray:
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
