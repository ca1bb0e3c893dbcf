"""``cocoax counterfactual``: the smallest change of an input that flips the sign of its score."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import cocoax
from cocoax.cli.arguments import read_input
from cocoax.cli.asked import (
    EncoderOption,
    GridOption,
    InputArgument,
    LikeOption,
    OutOption,
    UnlikeOption,
    check_out,
    listed,
    several,
    show,
    target_of,
)
from cocoax.cli.terminal import ASKED, HOW, AsJson, Baseline, Crop, Device, Seed, draw_into_files, note
from cocoax.cli.view import load_seeing

EXAMPLES = (
    'cocoax counterfactual cat.jpg --like "a cat" --unlike dogs/ --out flipped',
    'cocoax counterfactual "A violin" --like music --unlike cars --count 2',
    'cocoax counterfactual cat.jpg --like "a cat" --unlike dogs/ --gradient',
)


def find_counterfactual(
    given: InputArgument,
    like: LikeOption,
    unlike: UnlikeOption = None,
    donor: Annotated[
        list[str] | None,
        typer.Option(
            help="An input, or a folder of them, that gives parts; by default those of --unlike.", rich_help_panel=ASKED
        ),
    ] = None,
    count: Annotated[int, typer.Option(help="How many different ones.", min=1, rich_help_panel=ASKED)] = 1,
    fixed: Annotated[list[str] | None, typer.Option(help="A word that stays; repeatable.", rich_help_panel=ASKED)] = None,
    gradient: Annotated[
        bool, typer.Option("--gradient", help="Change all pixels smoothly instead of parts.", rich_help_panel=HOW)
    ] = False,
    smoothness: Annotated[float, typer.Option(help="Of --gradient, in pixels.", min=0, rich_help_panel=HOW)] = 4.0,
    encoder: EncoderOption = None,
    device: Device = None,
    crop: Crop = False,
    grid: GridOption = None,
    baseline: Baseline = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    out: OutOption = None,
) -> None:
    """What is the smallest change of an input that makes it more like the other side?"""
    from cocoax.insight import gradient_counterfactual
    from cocoax.insight.exchange import exchange_type
    from cocoax.masking.segments import in_proportion

    draw_into_files()
    check_out(out, given, *like, *(unlike or []))
    item, likes, unlikes = read_input(given), several(like), several(unlike)
    offered = several(donor) or [each for each in unlikes if isinstance(each, str) == isinstance(item, str)]
    loaded = load_seeing([item], encoder, device, crop, baseline, seed)
    target = target_of(loaded, likes, unlikes)
    if gradient:
        show(gradient_counterfactual(loaded, item, target, smoothness=smoothness), out, as_json)
        return
    if not offered and not isinstance(item, str):
        raise ValueError("Which pictures give parts? Pass --donor with a file or a folder, or --unlike with one.")
    explicand = loaded.explicand(item)
    donors: list[Any] = listed(loaded, offered)
    options: dict[str, Any] = {"fixed": fixed} if fixed else {}
    if "grid" in exchange_type(loaded.inputs).options:
        options["grid"] = in_proportion(7, *explicand.shape) if grid is None else grid
        donors = cut_alike(loaded, donors, Path(item), explicand)
    show(cocoax.counterfactual(loaded, explicand, target, donors, count=count, seed=seed, **options), out, as_json)


def cut_alike(
    encoder: cocoax.Encoder, donors: Sequence[str | Path], photo: Path, explicand: cocoax.Explicand
) -> list[cocoax.Explicand]:
    """Return donors whose cells have the size of the photo's: of those with other proportions, as much of the centre."""
    from PIL import ImageOps

    from cocoax.inputs.image import open_image

    size = open_image(photo).size
    made = [encoder.explicand(donor) for donor in donors]
    others = [number for number, donor in enumerate(made) if donor.tensor.shape != explicand.tensor.shape]
    for number in others:
        made[number] = encoder.explicand(ImageOps.fit(open_image(donors[number]), size))
    if others:
        note("Of donors with other proportions than the photo's, the centre gives parts.")
    return made
