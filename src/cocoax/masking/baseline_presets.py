"""Baselines of pictures that can be chosen by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from cocoax.encoders import Encoder
from cocoax.encoders.patches import patches_of
from cocoax.inputs import Inputs
from cocoax.inputs.image import image_files
from cocoax.masking.baselines import STRONG_BLUR, Baseline, Blur, Fixed, Mean, Removal, Several
from cocoax.masking.token_removals import DropTokens
from cocoax.seeding import stream

MAX_OTHER_PICTURES = 3  # other pictures that scores are averaged over
# docs/explanation/removals.md has how good their maps are.
PRESETS: dict[str, Baseline] = {
    "blur": Blur(),
    "strong blur": STRONG_BLUR,
    "mean colour": Mean(),
    "strong blur and mean colour": Several((STRONG_BLUR, Mean())),
}
TOKEN_PRESETS = {"drop tokens": DropTokens()}  # of a vision transformer
DEFAULT_PRESET = "strong blur"  # what all take unless told otherwise


def presets_of(encoder: Encoder) -> dict[str, Removal]:
    """Return what may be chosen by name with an encoder: tokens are dropped only where it has them."""
    noise = stream(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    try:
        patches_of(encoder, encoder.explicand(Image.fromarray(noise)).tensor)
    except ValueError:
        return {**PRESETS}
    return {**PRESETS, **TOKEN_PRESETS}


def preset(name: str, inputs: Inputs, seed: int = 0) -> Any:
    """Return the baseline that a name, a picture's path or a folder of pictures stands for.

    Of a folder ``MAX_OTHER_PICTURES`` are drawn; pictures are stretched over the explicand. Raise if there is no such thing.
    """
    plain = name.replace("-", " ").strip().lower()
    known = {**PRESETS, **TOKEN_PRESETS}
    if plain in known:
        return known[plain]
    path = Path(name)
    if path.is_dir():
        files: Sequence[Path] = image_files(path)
        chosen = stream(seed).choice(len(files), min(MAX_OTHER_PICTURES, len(files)), replace=False)
        pictures = [files[index] for index in sorted(chosen)]
    else:
        pictures = [path] if path.is_file() else []
    if pictures:
        return Several(tuple(Fixed(inputs.explicand(picture).tensor, stretch=True) for picture in pictures))
    names = ", ".join(one.replace(" ", "-") for one in known)
    raise ValueError(f"Removed parts become one of {names}, a picture, or pictures of a folder. Got {name!r} instead.")
