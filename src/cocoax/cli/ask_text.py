"""``cocoax ask-text``: which words of a text make it similar to something."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cocoax
from cocoax.cli.arguments import names_file, names_picture
from cocoax.cli.methods import METHODS, method_class, option_names
from cocoax.cli.terminal import ASKED, HOW, OUTPUT, AsJson, Device, Kept, print_json, print_written

if TYPE_CHECKING:
    from cocoax.questions.matches import MatchSide

EXAMPLES = (
    'cocoax ask-text "The violinist parked her car" --like music --unlike traffic',
    'cocoax ask-text "flat tyre" --match --like "Patch it." --unlike "Fix a tap."',
    'cocoax ask-text - --like "good news" --features sentences --json < article.txt',
)


def explain_text(
    text: Annotated[str, typer.Argument(help="The text to explain; - reads it from standard input.")],
    like: Annotated[
        list[str], typer.Option(help="What it is compared with; may be given several times.", rich_help_panel=ASKED)
    ],
    unlike: Annotated[
        list[str] | None, typer.Option(help="Rather than what; may be given several times.", rich_help_panel=ASKED)
    ] = None,
    match: Annotated[
        bool,
        typer.Option(
            "--match", help="TEXT is a query, --like the document it found: explain both sides.", rich_help_panel=ASKED
        ),
    ] = False,
    encoder: Annotated[
        str,
        typer.Option(help="The text encoder, as for cocoax.load: minilm, st:NAME_OR_FOLDER, …", rich_help_panel=HOW),
    ] = "minilm",
    device: Device = None,
    features: Annotated[str, typer.Option(help="words, tokens or sentences", rich_help_panel=HOW)] = "words",
    removal: Annotated[
        str | None, typer.Option(help="How words are removed: mask, deletion or attention.", rich_help_panel=HOW)
    ] = None,
    method: Annotated[str, typer.Option(help=f"One of {', '.join(METHODS)}, or module:Class.", rich_help_panel=HOW)] = "rise",
    samples: Annotated[int, typer.Option(help="Texts with words removed to encode.", min=10, rich_help_panel=HOW)] = 500,
    seed: Annotated[int, typer.Option(help="Seed of what is removed.", rich_help_panel=HOW)] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for an HTML report and JSON.", rich_help_panel=OUTPUT)] = None,
    as_json: AsJson = False,
) -> None:
    """Which words of a text make it similar to some things, rather than to others?"""
    from cocoax.cli.text_report import describe_sides, print_side, write_sides

    check_no_files([text, *like, *(unlike or [])])
    text = sys.stdin.read() if text == "-" else text
    check_texts(text, like, unlike or [], match)
    chosen = method_for_texts(method, {"samples": samples, "seed": seed, "baseline": removal})
    tower = text_tower(encoder, features, device)
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)  # a text that was cut says so each time
        explain = sides_of_match if match else side_of_text
        try:
            sides = explain(tower, text, like, unlike or [], chosen)
        except KeyboardInterrupt as stop:
            raise Kept("nothing was kept; fewer --samples take less time") from stop
    files = [] if out is None else write_sides(out, sides)
    if as_json:
        print_json({"answers": describe_sides(sides), "files": files})
        return
    for heading, side in sides.items():
        print_side(heading, side)
    print_written(files)


def check_no_files(texts: Sequence[str]) -> None:
    """Raise if what should be a text is the name of a file."""
    for text in texts:
        if names_picture(text):
            raise ValueError(f"{text!r} is the name of a picture, and texts are explained here; use 'cocoax ask'.")
        if names_file(text):
            raise ValueError(f"{text!r} is the name of a file; 'cocoax ask-text - < FILE' explains the text in it.")


def check_texts(text: str, like: Sequence[str], unlike: Sequence[str], match: bool) -> None:
    """Raise if a text is empty, or if there is not exactly one document to match."""
    if not text.strip():
        raise ValueError("The text is empty; write at least one word.")
    for name, texts in (("like", like), ("unlike", unlike)):
        if any(not other.strip() for other in texts):
            raise ValueError(f"One of the texts of --{name} is empty; write at least one word.")
    if match and len(like) != 1:
        raise ValueError(f"A match is with one document; give --like once. Got {len(like)} instead.")


def method_for_texts(name: str, options: dict[str, Any]) -> cocoax.Method:
    """Return a method with those of the options that it has and that are not None."""
    method = method_class(name)
    has = option_names(method)
    return method(**{option: value for option, value in options.items() if option in has and value is not None})


def text_tower(name: str, features: str, device: str | None = None) -> cocoax.TextEncoder:
    """Load an encoder by name and return it, or its text tower, set to explain words, tokens or sentences."""
    from cocoax.inputs.text import check_features

    kind = check_features(features)
    loaded = cocoax.load(name, device=device)
    tower: Any = getattr(loaded, "text", None)
    if not hasattr(tower, "by"):
        raise TypeError(f"{name!r} does not encode texts whose words can be removed; use minilm or st:NAME_OR_FOLDER.")
    encoder: cocoax.TextEncoder = tower.by(kind)
    encoder.inputs.too_long = "cut"  # with a warning, which says how much was left out
    return encoder


def sides_of_match(
    tower: cocoax.TextEncoder, query: str, like: Sequence[str], unlike: Sequence[str], method: cocoax.Method
) -> dict[str, MatchSide]:
    """Explain by heading why a query found the one document of ``like`` rather than others, seen from either."""
    match = cocoax.explain_match(tower, query, like[0], unlike, method=method)
    return {"The query": match.query_side, "The document": match.document_side}


def side_of_text(
    tower: cocoax.TextEncoder, text: str, like: Sequence[str], unlike: Sequence[str], method: cocoax.Method
) -> dict[str, MatchSide]:
    """Explain by heading why a text is like some texts rather than like others."""
    from cocoax.questions.matches import explain_text

    corpus = tower.reference(list(like), progress=False)
    foil = tower.reference(list(unlike), progress=False) if unlike else None
    return {"The text": explain_text(tower, text, corpus, foil, method=method)}
