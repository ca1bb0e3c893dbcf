"""What is asked of an input as it is typed: texts, files and folders that it should be like, and unlike."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import cocoax
from cocoax.cli.arguments import read_input
from cocoax.cli.terminal import ASKED, HOW, OUTPUT, print_json, print_plain, print_written

if TYPE_CHECKING:
    from cocoax.insight.results import Result
    from cocoax.targets import Target

RESULTS = (".html", ".json", ".png")  # files that --out may name

InputArgument = Annotated[str, typer.Argument(help="A text, or the file of a picture or a sound; - reads a text.")]
LikeOption = Annotated[
    list[str], typer.Option(help="What it is like: a text, a file or a folder; may be repeated.", rich_help_panel=ASKED)
]
UnlikeOption = Annotated[
    list[str] | None,
    typer.Option(help="Rather than what: a text, file or folder; may be repeated.", rich_help_panel=ASKED),
]
EncoderOption = Annotated[
    str | None,
    typer.Option(help="What 'cocoax encoders' lists; minilm for texts, starter for pictures.", rich_help_panel=HOW),
]
GridOption = Annotated[
    int | None,
    typer.Option(
        help="Cells of a picture in each direction; if not given, about 49 in its proportions.", min=2, rich_help_panel=HOW
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        help="Folder for a page, a picture and JSON; or one file that ends in .html, .json or .png.", rich_help_panel=OUTPUT
    ),
]


def check_out(out: Path | None, *typed: str, endings: Sequence[str] = RESULTS) -> None:
    """Raise, before anything is encoded, if results cannot be written as --out says, or would replace an input."""
    from cocoax.store import check_ending

    if out is None:
        return
    check_ending(out, endings)
    if any(os.path.isfile(each) and out.exists() and os.path.samefile(out, each) for each in typed):
        raise ValueError(f"--out {out} is an input, which the result would replace; name another file, or a folder.")


def several(typed: Sequence[str] | None) -> list[str | Path]:
    """Return what was typed as texts and files; a folder as it is."""
    return [Path(each) if Path(each).is_dir() else read_input(each) for each in typed or []]


def target_of(encoder: cocoax.Encoder, like: Sequence[str | Path], unlike: Sequence[str | Path]) -> Target:
    """Return the target that two sides ask for."""
    sides = [
        cocoax.Side([each for each in side if isinstance(each, str)], [each for each in side if isinstance(each, Path)])
        for side in (like, unlike)
    ]
    return cocoax.Question(*sides).target(encoder)


def listed(encoder: cocoax.Encoder, typed: Sequence[str | Path]) -> list[str | Path]:
    """Return inputs one by one, those of folders too."""
    return [item for each in typed for item in (encoder.as_list(each) if isinstance(each, Path) else [each])]


def show(result: Result, out: Path | None, as_json: bool) -> None:
    """Print what was found and write its files."""
    files = [] if out is None else result.save(out)
    if as_json:
        print_json({**result.describe(), "files": files})
        return
    for sentence in result.sentences:
        print_plain(sentence)
    print_written(files)
