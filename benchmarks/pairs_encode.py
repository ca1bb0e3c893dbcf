"""Encode masked collages and photos, for ``pairs.py``.

    python benchmarks/pairs_encode.py PHOTOS FOLDER [--count 50] [--samples 400]

PHOTOS is a folder of photos of many classes. For each collage of four of them one run of the collage and one of one of its
photos alone (the first photo for the first collage, the second for the second, …) with EfficientNet-Lite0, saved as
``FOLDER/collage-NNN.safetensors`` and ``FOLDER/photo-NNN.safetensors``. What is there already is not encoded again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image

import cocoax
from cocoax.data.annotated import collage_examples

SIDE = 256


def quadrant(collage: Image.Image, place: int) -> Image.Image:
    """Return one photo of a collage: 0 and 1 above, 2 and 3 below."""
    row, column = divmod(place, 2)
    return collage.crop((column * SIDE, row * SIDE, (column + 1) * SIDE, (row + 1) * SIDE))


def main() -> None:
    """Encode what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--samples", type=int, default=400)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    encoder = cocoax.load("efficientnet-lite0")
    for number, example in enumerate(collage_examples(arguments.photos, arguments.count, cell=SIDE)):
        collage = example.load()[0]
        for name, picture, seed in (("collage", collage, 0), ("photo", quadrant(collage, number % 4), 1)):
            path = arguments.folder / f"{name}-{number:03d}.safetensors"
            if not path.exists():
                # Masks of the two sides must be independent, so their seeds differ.
                cocoax.Rise(arguments.samples, seed=seed).run(encoder, picture, progress=False).save(path)
        print(f"{number + 1} of {arguments.count}: {', '.join(example.classes)}", flush=True)


if __name__ == "__main__":
    main()
