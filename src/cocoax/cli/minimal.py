"""``cocoax minimal``: the least of an input that keeps its score, and the least whose loss takes it away."""

from __future__ import annotations

from typing import Annotated

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
    several,
    show,
    target_of,
)
from cocoax.cli.terminal import ASKED, HOW, AsJson, Baseline, Crop, Device, Seed, draw_into_files
from cocoax.cli.view import load_seeing

EXAMPLES = (
    'cocoax minimal photo.jpg --like "a cat" --unlike "a dog" --out least',
    'cocoax minimal "The violinist parked" --like music --unlike traffic',
)


def find_minimal(
    given: InputArgument,
    like: LikeOption,
    unlike: UnlikeOption = None,
    keep: Annotated[
        float, typer.Option(help="Share of the score to keep, from that of nothing on.", rich_help_panel=ASKED)
    ] = 0.8,
    level: Annotated[
        float | None, typer.Option(help="The score itself to keep, in place of --keep.", rich_help_panel=ASKED)
    ] = None,
    encoder: EncoderOption = None,
    device: Device = None,
    crop: Crop = False,
    samples: Annotated[int, typer.Option(help="Masked copies to encode.", min=10, rich_help_panel=HOW)] = 400,
    grid: GridOption = None,
    baseline: Baseline = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    out: OutOption = None,
) -> None:
    """What is the least of an input that keeps its score? And the least without which it falls?"""
    from cocoax.questions.answers import fitted

    draw_into_files()
    check_out(out, given, *like, *(unlike or []))
    item, likes, unlikes = read_input(given), several(like), several(unlike)
    loaded = load_seeing([item], encoder, device, crop, baseline, seed)
    explicand = loaded.explicand(item)
    method = cocoax.KernelShap(samples=samples, grid=7 if grid is None else grid, seed=seed)
    run = (fitted(method, explicand) if grid is None else method).run(loaded, explicand)
    show(cocoax.minimal(run, target_of(loaded, likes, unlikes), keep, level=level, encoder=loaded), out, as_json)
