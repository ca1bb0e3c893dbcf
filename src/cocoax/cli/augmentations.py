"""``cocoax augmentations``: what of a picture survives each augmentation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import cocoax
from cocoax.cli.terminal import (
    ASKED,
    OUTPUT,
    Device,
    EncoderName,
    Grid,
    Kept,
    Samples,
    Seed,
    counted,
    draw_into_files,
    print_table,
    print_written,
)

if TYPE_CHECKING:
    from cocoax.paper.studies.augmentations import Augmented

EXAMPLES = (
    "cocoax augmentations photo.jpg --foil photos/",
    "cocoax augmentations cat.jpg dog.jpg --foil photos/ --most 500 --samples 500",
)


def compare_augmentations(
    images: Annotated[list[Path], typer.Argument(help="One or more pictures.")],
    foil: Annotated[
        Path, typer.Option(help="Folder of other pictures that the original is contrasted with.", rich_help_panel=ASKED)
    ],
    encoder: EncoderName = "efficientnet-lite0",
    device: Device = None,
    classes: Annotated[
        Path | None,
        typer.Option(help="Class names of the head, one per line; by default its own.", rich_help_panel=ASKED),
    ] = None,
    most: Annotated[int, typer.Option(help="Pictures of the foil, drawn at random.", min=1, rich_help_panel=ASKED)] = 1500,
    samples: Samples = 1000,
    grid: Grid = 7,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="Folder for the figure, the maps and the JSON.", rich_help_panel=OUTPUT)] = Path(
        "augmentations"
    ),
) -> None:
    """Show what still makes a picture look like the original after each of seven augmentations."""
    from cocoax.inputs.image import image_files, open_image
    from cocoax.paper.studies.augmentations import explain_augmentations, write_augmentations
    from cocoax.seeding import stream

    draw_into_files()
    for image in images:  # what is wrong with one is told before the encoder is loaded
        open_image(image)
    files = image_files(foil)
    drawn = [files[index] for index in sorted(stream(seed).permutation(len(files))[:most])]
    names = classes.read_text(encoding="utf-8").splitlines() if classes else None
    loaded = cocoax.load(encoder, device=device)
    method = cocoax.Rise(samples=samples, grid=grid, seed=seed)
    rows: list[Sequence[Augmented]] = []
    try:
        others = loaded.reference(drawn, name=counted(len(drawn), "other picture"))
        rows += (explain_augmentations(loaded, image, others, method, classes=names, seed=seed) for image in images)
    except KeyboardInterrupt as stop:
        raise Kept("runs and encoded pictures of the foil are kept; the same command goes on from there") from stop
    print_augmentations(images, rows)
    print_written(write_augmentations(out, [image.name for image in images], rows)[:2])


def print_augmentations(images: Sequence[Path], rows: Sequence[Sequence[Augmented]]) -> None:
    """Print what the encoder makes of each picture and its augmentations."""
    cells = []
    for image, row in zip(images, rows, strict=True):
        for version in row:
            predicted = "–" if version.prediction is None else f"{version.prediction} {version.probability:.0%}"
            score = f"{version.attribution.score:+.3f}"
            cells.append([image.stem, version.name, predicted, f"{version.similarity:.3f}", score])
    print_table(("picture", "augmentation", "prediction", "similarity to the original", "score"), cells)
