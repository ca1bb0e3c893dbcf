"""``cocoax match``: why two inputs match, texts or pictures or one of each."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.padding import Padding

import cocoax
from cocoax.cli.arguments import read_input
from cocoax.cli.asked import OutOption, check_out
from cocoax.cli.terminal import (
    ASKED,
    HOW,
    AsJson,
    Baseline,
    Crop,
    Device,
    Kept,
    Seed,
    draw_into_files,
    print_json,
    print_line,
    print_plain,
    print_shown,
    print_written,
)
from cocoax.cli.view import load_seeing

EXAMPLES = (
    'cocoax match "repair a flat tyre" "Patch the tube of your bike."',
    'cocoax match photo.jpg "a cat on a motorbike" --out match.html',
    "cocoax match query.txt answer.txt --rather-than other.txt --json",
)


def explain_pair(
    first: Annotated[str, typer.Argument(help="A text, or a file: a text, a picture or a sound; - reads a text.")],
    second: Annotated[str, typer.Argument(help="What it matches: a text or a file.")],
    rather_than: Annotated[
        list[str] | None,
        typer.Option(help="What it should match less: a text or a file; may be repeated.", rich_help_panel=ASKED),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="What 'cocoax encoders' lists; by default minilm for texts, starter for pictures, resemblyzer for sounds.",
            rich_help_panel=HOW,
        ),
    ] = None,
    device: Device = None,
    crop: Crop = False,
    samples: Annotated[int, typer.Option(help="Masked copies of either input to encode.", min=10, rich_help_panel=HOW)] = 500,
    baseline: Baseline = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    out: OutOption = None,
) -> None:
    """Why do two inputs match, rather than others? Any two of text, picture and sound that an encoder takes."""
    from cocoax.questions.summaries import rich_of
    from cocoax.results.interactions import NOTHING

    draw_into_files()
    check_out(out, first, second, *(rather_than or []))
    inputs = [read_input(typed) for typed in (first, second, *(rather_than or []))]
    loaded = load_seeing(inputs, encoder, device, crop, baseline, seed)
    method = cocoax.Rise(samples=samples, seed=seed)
    try:
        match = cocoax.explain_match(loaded, inputs[0], inputs[1], inputs[2:], method=method)
    except KeyboardInterrupt as stop:
        raise Kept("nothing was kept; fewer --samples take less time") from stop
    if as_json:
        print_json(match.to_dict())
    else:
        print_plain(f"similarity {match.similarity:+.3f}" + "".join(f", other {score:+.3f}" for score in match.others))
        for heading, side in (("The first", match.query_side), ("The second", match.document_side)):
            print_line(f"\n[bold]{heading}[/]: {escape(str(side))}")
            print_shown(Padding(rich_of(side.attribution), (0, 3)))
        print_plain(f"\n{NOTHING if match.interactions.is_nothing else f'{match.interactions.ranked_by}:'}")
        for one, other, value, error in match.interactions.top(5):
            noise = error is not None and abs(value) < 2 * error
            unsure = "" if error is None else f" ± {error:.2g}" + (" (may be nothing)" if noise else "")
            print_plain(f"   {one} – {other} {value:+.3g}{unsure}")
    if out is not None:
        files = match.save_all(out)
        if not as_json:
            print_written(files)
