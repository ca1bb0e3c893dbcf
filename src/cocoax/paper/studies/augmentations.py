"""What survives an augmentation: the paper's figure of an image and seven augmentations of it.

The corpus is the original picture, the foil is other pictures: red is what still makes the augmented picture look like the
original to the encoder, rather than like any other picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps

from cocoax.encoders import Encoder, Explicand, ImagePreprocess
from cocoax.evaluation.curves import logits_of
from cocoax.inputs import Picture
from cocoax.inputs.image import open_image, picture_of
from cocoax.methods import Attribution, Method, Rise
from cocoax.methods.run import RemovalMethod
from cocoax.methods.run_cache import cached_run
from cocoax.paper.studies.study import RUN_SEEDS, LabelledStudy, Library, draw_foil, draw_of, grid_of
from cocoax.references import Reference
from cocoax.results import ResultList
from cocoax.seeding import stream
from cocoax.show import Gallery, Photo, Table, View
from cocoax.store import free_ending
from cocoax.targets import contrastive_corpus_similarity

ORIGINAL = "original"


class AugmentationsStudy(LabelledStudy):
    """Held-out pictures of the first three classes, with random training images as the foil."""

    name = "augmentations"

    def write(self, progress: bool | None = None) -> list[Path]:
        """Write the figure, its maps and its numbers; return the files."""
        options, random = self.options, stream(RUN_SEEDS[0])
        classes = np.unique(self.held_out.labels) if options.classes is None else options.classes
        numbers = [int(draw_of(self.held_out, label, 1, random, "explicands")[0]) for label in classes[:3]]
        others = draw_foil(self.train, options.foil, random, without=[])
        foil = Library(self.encoder, self.train, self.folder).reference(others, "random images")
        images = [self.held_out.images[number] for number in numbers]
        method = Rise(options.samples, grid_of(self.encoder, images[0], options.grid), estimator=options.estimator)
        files: list[Path] = []
        for number, image in zip(numbers, images, strict=True):
            variants = explain_augmentations(self.encoder, image, foil, method, progress=progress)
            files += variants.save_all(self.folder / f"held-out image {number}")
        return files


@dataclass(frozen=True, eq=False)
class _Augmented:
    """The original or one augmentation of it.

    Attributes:
        name: of the augmentation; ``original`` for none.
        attribution: what makes it similar to the original rather than to the foil.
        similarity: to the original (cosine).
        prediction: the class that the head predicts, or its number; None without a head.
        probability: of that class.

    """

    name: str
    attribution: Attribution
    similarity: float
    prediction: str | None = None
    probability: float | None = None


@dataclass(frozen=True, eq=False)
class AugmentedPicture(ResultList[_Augmented]):
    """A picture and what survives each of its augmentations."""

    variants: tuple[_Augmented, ...]
    file: ClassVar[str] = "augmentations"

    @property
    def parts(self) -> Sequence[_Augmented]:
        """The original and its augmentations."""
        return self.variants

    @property
    def summary(self) -> str:
        """The similarities of the augmented pictures to the original one."""
        kept = [variant.similarity for variant in self.variants if variant.name != ORIGINAL]
        return f"After an augmentation, the cosine similarity to the original is {np.mean(kept):.2f} on average."

    def views(self) -> list[View]:
        """Return a row of variants with predictions, and their heat maps on one scale in the row below."""
        photos: list[View | None] = []
        for each in self.variants:
            predicted = "" if each.prediction is None else f"\n{each.prediction:.20} {each.probability:.0%}"
            picture = each.attribution.picture
            photos.append(None if picture is None else Photo(picture.numpy(), title=each.name + predicted))
        maps = [
            replace(each.attribution.view(), title=f"similarity {each.similarity:.2f}", note="") for each in self.variants
        ]
        limit = max(float(each.attribution.relative.abs().max()) for each in self.variants) or 1.0
        return [Gallery((*photos, *maps), columns=len(maps), limit=limit, scale="row", colour_bars=True, inches=2.0)]

    def table(self) -> Table:
        """Return a row for each variant."""
        rows = [
            (each.name, each.prediction, each.probability, each.similarity, each.attribution.score) for each in self.variants
        ]
        return Table(("augmentation", "prediction", "probability", "similarity", "score"), tuple(rows))

    def save_all(self, path: str | Path, **options: Any) -> list[Path]:
        """Write it as :meth:`save` does, and into a folder also each map as safetensors; return the files."""
        files = super().save_all(path, **options)
        if len(files) == 1:
            return files
        stems = [f"{number}-{each.name.replace(' ', '-')}" for number, each in enumerate(self)]
        ending = free_ending(Path(path), *stems)
        named = [Path(path) / f"{stem}{ending}.safetensors" for stem in stems]
        return files + [each.attribution.save(file) for file, each in zip(named, self, strict=True)]


def explain_augmentations(
    encoder: Encoder,
    image: Any,
    foil: Reference,
    method: Method | None = None,
    *,
    seed: int = 0,
    progress: bool | None = None,
) -> AugmentedPicture:
    """Explain the picture and its seven augmentations.

    Args:
        encoder: any image encoder; its ``head``, if it has one, predicts classes.
        image: a picture.
        foil: what the original is contrasted with; the paper takes 1500 random training images.
        method: Rise by default.
        seed: of the augmentations.
        progress: show a progress bar (``None``: when it takes long).

    """
    whole = _seen(encoder, open_image(image).convert("RGB"))
    pictures = {ORIGINAL: whole, **_augmented(whole, seed)}
    explicands = {name: _explicand(encoder, picture) for name, picture in pictures.items()}
    original = encoder.reference([explicands[ORIGINAL]], name="the original", progress=False)
    target = contrastive_corpus_similarity(original, foil)
    representations = encoder.represent(list(explicands.values()), progress=False)
    similarities = torch.cosine_similarity(representations, representations[:1])
    predictions = _predict(encoder, representations)
    method = Rise(grid=7) if method is None else method
    if isinstance(method, RemovalMethod):
        runs = [cached_run(encoder, explicand, method, [target], progress=progress) for explicand in explicands.values()]
        attributions = [run.explain(target) for run in runs]
    else:
        attributions = method.explain(encoder, list(explicands.values()), target, progress=progress)
    parts = zip(explicands, attributions, similarities.tolist(), predictions, strict=True)
    return AugmentedPicture(tuple(_Augmented(name, each, cosine, *predicted) for name, each, cosine, predicted in parts))


def _seen(encoder: Encoder, image: Image.Image) -> Image.Image:
    """Return the part of a picture that the encoder sees: augmentations come after preprocessing, as in the paper."""
    box_of = getattr(encoder.preprocess, "box", None)
    if box_of is None:
        return image
    left, top, right, bottom = box_of(image.size)
    width, height = image.size
    return image.crop((round(left * width), round(top * height), round(right * width), round(bottom * height)))


def _explicand(encoder: Encoder, image: Image.Image) -> Explicand:
    """Return the explicand of a whole picture, whose border preprocessing would otherwise cut off once more."""
    preprocess = encoder.preprocess
    if isinstance(preprocess, ImagePreprocess) and preprocess.crop is not None:
        return Explicand(replace(preprocess, resize=preprocess.crop)(image), Picture(picture_of(image)))
    return encoder.explicand(image)


def _predict(encoder: Encoder, representations: torch.Tensor) -> list[tuple[str | None, float | None]]:
    """Return the most probable class of each representation and its probability; ``None`` for both without a head."""
    if encoder.head is None:
        return [(None, None)] * len(representations)
    probabilities = logits_of(encoder.head, representations).softmax(1)
    best, index = probabilities.max(1)
    names = encoder.classes or range(probabilities.shape[1])
    return [(str(names[int(i)]), float(p)) for p, i in zip(best, index, strict=True)]


# --- the seven augmentations --------------------------------------------------------------------------------------------
# Each takes a picture and a random stream and gives a picture of the same size (rotated ones have their sides swapped).
# Definitions are those that self-supervised encoders are trained with (SimCLR: Chen et al. 2020).

_Augment = Callable[[Image.Image, np.random.Generator], Image.Image]


def _flip(image: Image.Image, random: np.random.Generator) -> Image.Image:
    return ImageOps.mirror(image)


def _random_box(
    size: tuple[int, int], random: np.random.Generator, areas: tuple[float, float], ratios: tuple[float, float]
) -> tuple[int, int, int, int]:
    """Draw a box within a picture with a share of its area and a ratio of its sides.

    Where ten boxes do not fit, it has the proportions of the picture and the smallest share.
    """
    width, height = size
    for _ in range(10):  # as torchvision does
        area = random.uniform(*areas) * width * height
        ratio = math.exp(random.uniform(*np.log(ratios)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            break
    else:
        w, h = (max(1, round(side * math.sqrt(areas[0]))) for side in size)
    left, top = int(random.integers(width - w + 1)), int(random.integers(height - h + 1))
    return left, top, left + w, top + h


def _resized_crop(image: Image.Image, random: np.random.Generator) -> Image.Image:
    """Enlarge a random part, with 20 to 50 % of the area and an aspect ratio of 3/4 to 4/3, to the size of the whole."""
    box = _random_box(image.size, random, (0.2, 0.5), (3 / 4, 4 / 3))
    return image.resize(image.size, Image.Resampling.BILINEAR, box=box)


def _crop_and_flip(image: Image.Image, random: np.random.Generator) -> Image.Image:
    return ImageOps.mirror(_resized_crop(image, random))


def _greyscale(image: Image.Image, random: np.random.Generator) -> Image.Image:
    return image.convert("L").convert(image.mode)


def _colour_jitter(image: Image.Image, random: np.random.Generator, strength: float = 0.8, hue: float = 0.2) -> Image.Image:
    """Change brightness, contrast and saturation by up to ± 80 % and the hue by up to ± .2 of its circle, in random order."""
    enhancers = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)
    factors = [float(random.uniform(1 - strength, 1 + strength)) for _ in enhancers]
    turn = float(random.uniform(-hue, hue))
    image = image.convert("RGB")
    for step in random.permutation(4):
        image = _turn_hue(image, turn) if step == 3 else enhancers[step](image).enhance(factors[step])
    return image


def _turn_hue(image: Image.Image, turn: float) -> Image.Image:
    hue, saturation, value = image.convert("HSV").split()
    turned = (np.asarray(hue).astype(np.int16) + round(turn * 255)) % 256
    return Image.merge("HSV", (Image.fromarray(turned.astype(np.uint8)), saturation, value)).convert("RGB")


def _cutout(image: Image.Image, random: np.random.Generator) -> Image.Image:
    """Paint over a rectangle, with 10 to 25 % of the area, in mid-grey."""
    box = _random_box(image.size, random, (0.1, 0.25), (0.3, 3.3))
    image = image.copy()
    image.paste(128 if image.mode == "L" else (128,) * 3, box)
    return image


def _rotate(image: Image.Image, random: np.random.Generator) -> Image.Image:
    """Turn a picture by 90°, anticlockwise."""
    return image.transpose(Image.Transpose.ROTATE_90)


AUGMENTATIONS: dict[str, _Augment] = {
    "flip": _flip,
    "crop": _resized_crop,
    "crop and flip": _crop_and_flip,
    "greyscale": _greyscale,
    "colour jitter": _colour_jitter,
    "cutout": _cutout,
    "rotation": _rotate,
}


def _augmented(image: Image.Image, seed: int = 0) -> dict[str, Image.Image]:
    """Return the picture after each of the seven augmentations, each with a random stream of its own."""
    return {name: augment(image, stream(seed, number)) for number, (name, augment) in enumerate(AUGMENTATIONS.items())}
