"""``cocoax examples``: which members of a corpus matter to an input."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import cocoax
from cocoax.cli.arguments import load_for, read_input
from cocoax.cli.asked import EncoderOption, InputArgument, OutOption, check_out, listed, several, show
from cocoax.cli.terminal import ASKED, HOW, AsJson, Baseline, Crop, Device, draw_into_files
from cocoax.cli.view import load_seeing, note_crop

EXAMPLES = (
    "cocoax examples photo.jpg --member cats/ --out ranked",
    'cocoax examples "a flat tyre" --member "Patch it." --member "A tap."',
    "cocoax examples photo.jpg --member cats/ --method tracin --checkpoint a.pt",
)
AS_TRAINED = ("tracin", "influence")  # about examples of the training, and so about what was seen in it


def rank_examples(
    given: InputArgument,
    member: Annotated[
        list[str],
        typer.Option(help="A member of the corpus: a text, file or folder; may be repeated.", rich_help_panel=ASKED),
    ],
    method: Annotated[
        str,
        typer.Option(help="contribution, simplex, neighbours, tracin or influence.", rich_help_panel=HOW),
    ] = "contribution",
    checkpoint: Annotated[
        list[Path] | None, typer.Option(help="Of tracin: weights from the training; may be repeated.", rich_help_panel=HOW)
    ] = None,
    layer: Annotated[
        list[str] | None,
        typer.Option(help="Of tracin and influence: a layer to look at; may be repeated.", rich_help_panel=HOW),
    ] = None,
    encoder: EncoderOption = None,
    device: Device = None,
    crop: Crop = False,
    baseline: Baseline = None,
    as_json: AsJson = False,
    out: OutOption = None,
) -> None:
    """Which members of a corpus matter to an input, and to each part of its map?"""
    draw_into_files()
    check_out(out, given, *member)
    item, given_members = read_input(given), several(member)
    if baseline is not None and method != "contribution":
        raise ValueError(f"--baseline is about the parts that 'contribution' removes, and {method!r} has none; leave it out.")
    as_trained = method in AS_TRAINED
    loaded = load_for([item], encoder, device) if as_trained else load_seeing([item], encoder, device, crop, baseline)
    members = listed(loaded, given_members)
    options: dict[str, Any] = {"checkpoints": checkpoint or []} if method == "tracin" else {}
    options |= {"layers": layer} if layer else {}
    explicand = loaded.explicand(item)
    show(cocoax.examples(loaded, explicand, members, method, **options), out, as_json)
    if as_trained and not crop:
        note_crop([explicand.display])
