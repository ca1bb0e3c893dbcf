"""Do interactions find what lies where? Collages of four photos, a caption that names them, and one of the photos alone.

    python benchmarks/collages.py PHOTOS FOLDER encode [--count 50] [--others]     # goes on where it stopped
    python benchmarks/collages.py PHOTOS FOLDER measure [--others] [--first 21]

PHOTOS is a folder of photos of many classes. For each collage of four of them there is one run of the collage, one of one of
its photos alone (the first photo for the first collage, the second for the second, …), both with EfficientNet-Lite0, and one
of the caption. ``--others`` takes collages of photos that are in none of the first 50. That a noun is looked for rather than
the other three was chosen on the first 21 of the 50, so ``--first 21`` measures what is left of them; which pair is the
strongest was chosen on the others.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from PIL import Image
from torch import Tensor

import cocoax
from cocoax.inputs.image import image_files
from cocoax.paper.annotations import Example, collage_examples

SIDE = 256
REPORTED = 50


def quadrant(collage: Image.Image, place: int) -> Image.Image:
    """Return one photo of a collage: 0 and 1 above, 2 and 3 below."""
    row, column = divmod(place, 2)
    return collage.crop((column * SIDE, row * SIDE, (column + 1) * SIDE, (row + 1) * SIDE))


def caption_of(example: Example) -> str:
    """Return a caption that names the four photos."""
    first, second, third, fourth = (name.lower() for name in example.classes)
    return f"a {first}, a {second}, a {third} and a {fourth}"


def as_starter(run: cocoax.Run, starter: cocoax.Encoder) -> cocoax.Run:
    """Return a run of EfficientNet-Lite0 as one of the starter, which is a function of its features."""
    module: Any = starter.owner
    with torch.no_grad():
        parts = [
            (module.features.network._fc(part) / module.TEMPERATURE).softmax(1) @ module.names
            for part in (run.representations, run.anchors)
        ]
    return replace(run, representations=parts[0], anchors=parts[1], encoder=starter.name, space=starter.space)


def examples_of(photos: Path, folder: Path, count: int, others: bool) -> list[Example]:
    """Return the collages that are reported, or others of photos that are in none of those."""
    reported = collage_examples(photos, REPORTED, cell=SIDE)
    if not others:
        return reported[:count]
    taken = {name for example in reported for name in example.classes}
    rest = folder / "photos"
    rest.mkdir(parents=True, exist_ok=True)
    for path in image_files(photos):
        if path.stem.partition("_")[2].replace("_", " ") not in taken and not (rest / path.name).exists():
            (rest / path.name).symlink_to(path.resolve())
    chosen = collage_examples(rest, count, seed=1, cell=SIDE)
    assert not taken & {name for example in chosen for name in example.classes}
    return chosen


def encode(examples: list[Example], folder: Path, samples: int, first: int = 0) -> None:
    """Encode what is missing, from the first collage on."""
    encoder, starter = cocoax.load("efficientnet-lite0"), cocoax.load("starter")
    assert starter.text is not None
    for number, example in enumerate(examples[first:], first):
        collage = example.load()[0]
        # Masks of two sides must be independent, so their seeds differ.
        for name, tower, content, method in (
            ("collage", encoder, collage, cocoax.Rise(samples)),
            ("photo", encoder, quadrant(collage, number % 4), cocoax.Rise(samples, seed=1)),
            ("caption", starter.text, caption_of(example), cocoax.Rise(500, seed=2)),
        ):
            path = folder / f"{name}-{number:03d}.safetensors"
            if not path.exists():
                method.run(tower, content, progress=False).save(path)
        print(f"{number + 1} of {len(examples)}: {', '.join(example.classes)}", flush=True)


def runs_of(examples: list[Example], folder: Path, first: int) -> Iterator[tuple[int, Example, dict[str, cocoax.Run]]]:
    """Go through the collages that are encoded, from the first on."""
    for number, example in enumerate(examples[first:], first):
        paths = {name: folder / f"{name}-{number:03d}.safetensors" for name in ("collage", "photo", "caption")}
        if all(path.exists() for path in paths.values()):
            yield number, example, {name: cocoax.Run.load(path) for name, path in paths.items()}


def nouns_of(example: Example, caption: cocoax.Run) -> list[list[int]]:
    """Return the numbers of the words of each name in the caption."""
    offsets, begin, nouns = caption.explicand.display.offsets, 0, []  # type: ignore[attr-defined]
    for name in example.classes:
        begin = caption_of(example).index(name.lower(), begin)
        end = begin + len(name)
        nouns.append([number for number, (left, right) in enumerate(offsets) if begin <= left and right <= end])
        begin = end
    return nouns


def best_quadrant(values: Tensor) -> int:
    """Return the quadrant of a map ``[8, 8]`` that has the highest mean."""
    return int(values.unflatten(0, (2, 4)).unflatten(2, (2, 4)).mean((1, 3)).argmax())


def measure(examples: list[Example], folder: Path, first: int = 0) -> dict[str, Any]:
    """Nouns of a caption in their quadrant of a collage, and one photo alone against a collage that holds it."""
    starter = cocoax.load("starter")
    right: dict[str, list[bool]] = defaultdict(list)
    for number, example, runs in runs_of(examples, folder, first):
        found = cocoax.interactions(as_starter(runs["collage"], starter), runs["caption"], grid=8)
        nouns = nouns_of(example, runs["caption"])
        for place, noun in enumerate(nouns):
            others = [*nouns[:place], *nouns[place + 1 :]]
            right["nouns"].append(best_quadrant(found.given(noun).values) == place)
            right["nouns, rather than the other three"].append(
                best_quadrant(found.given(noun, rather_than=others).values) == place
            )
        linked = cocoax.interactions(runs["collage"], runs["photo"], grid=8)
        for name, first in (("linked", linked.strongest(1)[0][0]), ("largest value", int(linked.matrix.argmax()) // 64)):
            right[name].append((first // 8 // 4) * 2 + first % 8 // 4 == number % 4)
    return {name: {"share": mean(each), "of": len(each)} for name, each in right.items()}


def main() -> None:
    """Encode or measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("what", choices=("encode", "measure"))
    parser.add_argument("--count", type=int, default=REPORTED)
    parser.add_argument("--first", type=int, default=0, help="the number of the first collage that is encoded or measured")
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--others", action="store_true")
    arguments = parser.parse_args()
    folder = arguments.folder / ("others" if arguments.others else "runs")
    folder.mkdir(parents=True, exist_ok=True)
    examples = examples_of(arguments.photos, arguments.folder, arguments.count, arguments.others)
    if arguments.what == "encode":
        encode(examples, folder, arguments.samples, arguments.first)
    else:
        print(json.dumps(measure(examples, folder, arguments.first), indent=1))


if __name__ == "__main__":
    main()
