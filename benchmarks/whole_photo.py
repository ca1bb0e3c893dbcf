"""Four ways to take in a wide or a tall photo, on strips of two to four photos: which of them finds what is where?

python benchmarks/whole_photo.py PHOTOS --count 40 --seed 2 --samples 150 --out results.jsonl

crop      the square that preprocessing cuts out of the centre
squeezed  all of it, as a square
whole     all of it at its own proportions, with as many pixels as the square
views     overlapping squares from end to end, whose maps are joined; all of them together have as many samples as the others

Each photo is asked about rather than the others, by its caption. Found: it is the photo with the highest mean heat.
Pointing: the strongest pixel lies on it. What is not seen is not found. With --samples 0, instead of maps there are the exact
Shapley values of the photos, each of them kept or blurred, which need ten calls of the encoder and leave nothing to chance.
Results are kept picture by picture; the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps

import cocoax
from cocoax.evaluation.localisation import seen_mask
from cocoax.evaluation.statistics import wilson
from cocoax.inputs import Explicand, Picture
from cocoax.inputs.image import open_image, picture_of
from cocoax.paper.annotations import Example, Masks, _draw_photos, _photos_by_class
from cocoax.seeding import stream
from cocoax.targets import Target

Region = tuple[int, int, int, int]


def strip_examples(folder: Path, count: int, seed: int, side: int = 256) -> list[Example]:
    """Draw strips of two to four photos of different classes, of unequal length: wide ones and tall ones by turns.

    Classes are the folders that photos lie in, or the names of files that lie together.
    """
    classes = _photos_by_class(folder, count)
    examples = []
    for number in range(count):
        random = stream(seed, number)
        photos = _draw_photos(classes, int(random.integers(2, 5)), random)
        lengths = [int(length) for length in random.integers(round(0.6 * side), round(1.7 * side), len(photos))]
        load = partial(_load_strip, photos, lengths, side, tall=number % 2 == 1)
        examples.append(Example(f"strip-{seed}-{number:03d}", tuple(photos), load))
    return examples


def _load_strip(photos: Mapping[str, Path], lengths: Sequence[int], side: int, *, tall: bool) -> tuple[Image.Image, Masks]:
    canvas = Image.new("RGB", (sum(lengths), side))
    masks, left = {}, 0
    for (name, path), length in zip(photos.items(), lengths, strict=True):
        size = (side, length) if tall else (length, side)
        photo = ImageOps.fit(open_image(path).convert("RGB"), size, Image.Resampling.BICUBIC)
        canvas.paste(photo.transpose(Image.Transpose.TRANSPOSE) if tall else photo, (left, 0))
        masks[name] = np.zeros((side, canvas.width), bool)
        masks[name][:, left : left + length] = True
        left += length
    if tall:
        return canvas.transpose(Image.Transpose.TRANSPOSE), {name: mask.T for name, mask in masks.items()}
    return canvas, masks


def ways(encoder: cocoax.Encoder, image: Image.Image, way: str) -> list[tuple[Explicand, Region]]:
    """Return what is explained of a picture, and where it lies: left, top, right, bottom."""
    width, height = image.size
    regions: list[Region] = [(0, 0, width, height)]
    preprocess = encoder.preprocess
    assert isinstance(preprocess, cocoax.ImagePreprocess)
    if way == "views":
        side = min(image.size)
        count = -(-2 * (max(image.size) - side) // side) + 1
        starts = np.linspace(0, max(image.size) - side, count).round().astype(int).tolist()
        regions = [(at, 0, at + side, side) if width > height else (0, at, side, at + side) for at in starts]
    if way != "crop":
        preprocess = preprocess.whole() if way == "whole" else preprocess.squeezed()
    return [(_explicand(image.crop(region), preprocess), region) for region in regions]


def _explicand(image: Image.Image, preprocess: cocoax.ImagePreprocess) -> Explicand:
    return Explicand(preprocess(image), Picture(picture_of(image), preprocess.box(image.size)))


def divided(explicand: Explicand, masks: Sequence[np.ndarray]) -> Explicand:
    """Return what is seen with the photos as its features."""
    shape = tuple(explicand.tensor.shape[1:])
    label = np.argmax([seen_mask(mask, explicand.box, *shape) for mask in masks], axis=0)
    return replace(explicand, feature_ids=torch.from_numpy(np.unique(label, return_inverse=True)[1].reshape(shape)))


def joined(
    encoder: cocoax.Encoder,
    image: Image.Image,
    masks: Sequence[np.ndarray],
    targets: Sequence[Target],
    way: str,
    samples: int,
) -> tuple[np.ndarray, float]:
    """Return maps of the picture's size, ``[targets, h, w]``, NaN where nothing was seen; and the squares encoded."""
    total, times, squares = np.zeros((len(targets), image.height, image.width)), np.zeros(image.size[::-1]), 0.0
    parts = ways(encoder, image, way)
    for explicand, (left, top, right, bottom) in parts:
        if samples:
            run = cocoax.Rise(samples=samples // len(parts)).run(encoder, explicand, progress=False)
        else:
            photos = divided(explicand, [mask[top:bottom, left:right] for mask in masks])
            run = cocoax.KernelShap(samples=100).run(encoder, photos, progress=False)
        squares += len(run) * explicand.tensor[0].numel() / 224**2
        box = [round(part * side) for part, side in zip(explicand.box, (right - left, bottom - top) * 2, strict=True)]
        seen = slice(top + box[1], top + box[3]), slice(left + box[0], left + box[2])
        for index, answer in enumerate(run.explain(targets)):
            heat = Image.fromarray(answer.relative.float().numpy())
            total[index][seen] += np.asarray(heat.resize((box[2] - box[0], box[3] - box[1]), Image.Resampling.BILINEAR))
        times[seen] += 1
    return np.where(times > 0, total / np.maximum(times, 1), np.nan), squares


def judged(maps: np.ndarray, masks: dict[str, np.ndarray]) -> list[dict[str, object]]:
    """Return how each photo of a strip did, whose map is ``maps[index]``."""
    records = []
    for index, (name, mask) in enumerate(masks.items()):
        values, seen = maps[index], ~np.isnan(maps[index])
        means = {key: float(values[own & seen].mean()) for key, own in masks.items() if (own & seen).any()}
        found = name in means and means[name] == max(means.values())
        pointing = float(mask[values == np.nanmax(values)].mean())
        records.append({"border": index in (0, len(masks) - 1), "found": found, "pointing": pointing})
    return records


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--samples", type=int, default=150)
    parser.add_argument("--ways", default="crop,squeezed,whole,views")
    parser.add_argument("--out", type=Path, default=Path("whole-photo.jsonl"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    encoder = cocoax.load("starter")
    kept = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    done = {(record["picture"], record["way"]) for record in kept}
    for example in strip_examples(options.photos, options.count, options.seed):
        image, masks = example.load()
        names = list(masks)
        questions = [cocoax.Question(f"a {name}", [f"a {other}" for other in names if other != name]) for name in names]
        targets = [question.target(encoder) for question in questions]
        for way in options.ways.split(","):
            if (example.name, way) in done:
                continue
            maps, squares = joined(encoder, image, list(masks.values()), targets, way, options.samples)
            kept.append({"picture": example.name, "way": way, "squares": squares, "records": judged(maps, masks)})
            with options.out.open("a") as file:
                file.write(json.dumps(kept[-1]) + "\n")
    report(kept)


def report(kept: list[dict[str, object]]) -> None:
    """Print found rates and pointing games, of all photos and of those at the ends of a strip, with Wilson's intervals."""
    for way in dict.fromkeys(str(record["way"]) for record in kept):
        mine = [record for record in kept if record["way"] == way]
        photos = [photo for record in mine for photo in record["records"]]  # type: ignore[attr-defined]
        ends = [photo for photo in photos if photo["border"]]
        squares = np.mean([record["squares"] for record in mine])  # type: ignore[list-item]
        figures = [
            f"{name} {_rate([photo[key] for photo in some])}"
            for name, key, some in (
                ("found", "found", photos),
                ("pointing", "pointing", photos),
                ("at the ends: found", "found", ends),
            )
        ]
        print(f"{way:9s} {len(mine)} strips, {len(photos)} photos; {'; '.join(figures)}; {squares:.0f} squares encoded")


def _rate(values: Sequence[float]) -> str:
    low, high = wilson(sum(values), len(values))
    return f"{100 * np.mean(values):.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


if __name__ == "__main__":
    main()
