"""Augmentations: the seven of the paper, on pictures, seeded.

Each takes a picture and a random stream and gives a picture of the same size (rotated ones have their sides swapped).
Definitions are those that self-supervised encoders are trained with (SimCLR: Chen et al. 2020).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from cocoax.seeding import stream

Augment = Callable[[Image.Image, np.random.Generator], Image.Image]


def flip(image: Image.Image, random: np.random.Generator) -> Image.Image:
    """Mirror a picture, left to right."""
    return ImageOps.mirror(image)


def resized_crop(image: Image.Image, random: np.random.Generator, scale: tuple[float, float] = (0.2, 0.5)) -> Image.Image:
    """Enlarge a random part, with 20 to 50 % of the area and an aspect ratio of 3/4 to 4/3, to the size of the whole."""
    width, height = image.size
    for _ in range(10):  # as torchvision does; a part that does not fit is drawn again
        area = random.uniform(*scale) * width * height
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            break
    else:
        w = h = max(1, min(width, height, round(math.sqrt(scale[1] * width * height))))
    left, top = int(random.integers(width - w + 1)), int(random.integers(height - h + 1))
    return image.resize(image.size, Image.Resampling.BILINEAR, box=(left, top, left + w, top + h))


def crop_and_flip(image: Image.Image, random: np.random.Generator) -> Image.Image:
    """Enlarge a random part and mirror it."""
    return ImageOps.mirror(resized_crop(image, random))


def greyscale(image: Image.Image, random: np.random.Generator) -> Image.Image:
    """Take the colours away."""
    return image.convert("L").convert(image.mode)


def colour_jitter(
    image: Image.Image,
    random: np.random.Generator,
    brightness: float = 0.8,
    contrast: float = 0.8,
    saturation: float = 0.8,
    hue: float = 0.2,
) -> Image.Image:
    """Change brightness, contrast and saturation by up to ± 80 % and the hue by up to ± .2 of its circle, in random order."""
    strengths = (brightness, contrast, saturation)
    enhancers = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)
    factors = [float(random.uniform(max(0.0, 1 - strength), 1 + strength)) for strength in strengths]
    turn = float(random.uniform(-hue, hue))
    image = image.convert("RGB")
    for step in random.permutation(4):
        image = _turn_hue(image, turn) if step == 3 else enhancers[step](image).enhance(factors[step])
    return image


def _turn_hue(image: Image.Image, turn: float) -> Image.Image:
    hue, saturation, value = image.convert("HSV").split()
    turned = (np.asarray(hue).astype(np.int16) + round(turn * 255)) % 256
    return Image.merge("HSV", (Image.fromarray(turned.astype(np.uint8)), saturation, value)).convert("RGB")


def cutout(
    image: Image.Image,
    random: np.random.Generator,
    area: tuple[float, float] = (0.1, 0.25),
    ratio: tuple[float, float] = (0.3, 3.3),
    value: float = 0.5,
) -> Image.Image:
    """Paint over a rectangle, with 10 to 25 % of the area, in mid-grey."""
    width, height = image.size
    for _ in range(10):
        size = random.uniform(*area) * width * height
        aspect = math.exp(random.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(size * aspect)), round(math.sqrt(size / aspect))
        if 0 < w < width and 0 < h < height:
            break
    else:
        w, h = (max(1, round(side * math.sqrt(area[0]))) for side in (width, height))
    left, top = int(random.integers(width - w + 1)), int(random.integers(height - h + 1))
    image = image.copy()
    grey = round(value * 255)
    image.paste(grey if image.mode == "L" else (grey,) * 3, (left, top, left + w, top + h))
    return image


def rotate(image: Image.Image, random: np.random.Generator) -> Image.Image:
    """Turn a picture by 90°, anticlockwise."""
    return image.transpose(Image.Transpose.ROTATE_90)


AUGMENTATIONS: dict[str, Augment] = {
    "flip": flip,
    "crop": resized_crop,
    "crop and flip": crop_and_flip,
    "greyscale": greyscale,
    "colour jitter": colour_jitter,
    "cutout": cutout,
    "rotation": rotate,
}


def augmented(image: Image.Image, seed: int = 0) -> dict[str, Image.Image]:
    """Return the picture after each of the seven augmentations, each with a random stream of its own."""
    return {name: augment(image, stream(seed, number)) for number, (name, augment) in enumerate(AUGMENTATIONS.items())}
