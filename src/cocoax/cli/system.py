"""``cocoax demo``, ``app``, ``cache`` and ``encoders``."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

import cocoax
from cocoax.cli.options import AsJson, Crop, Device, EncoderName, FeaturesOption, Seed, features_named, how_option, out_option
from cocoax.cli.terminal import (
    Cell,
    ExplainedInterrupt,
    counted,
    draw_into_files,
    note,
    print_json,
    print_plain,
    print_table,
    print_written,
    resumable,
)

if TYPE_CHECKING:
    from torch import Tensor

    from cocoax.store import CachedFile, CacheInfo

# --- demo -----------------------------------------------------------------------------------------------------------------

CAPTIONS = {"cat": "a cat", "coffee": "a cup of coffee", "rocket": "a rocket", "motorbike": "a motorbike"}
SEGMENTS = 20  # of a photo
QUADRANTS = ("top left", "top right", "bottom left", "bottom right")


def show_demo(
    out: Annotated[Path, out_option("Folder for the pictures and the report.")] = Path("demo"),
    samples: Annotated[int, how_option("Masked copies of each photo to encode.", min=10)] = 1000,
    seed: Seed = 0,
    device: Device = None,
) -> None:
    """Ask the starter encoder about a collage and a portrait, in words and with pictures.

    Examples:
        cocoax demo
        cocoax demo --samples 300 --out quick-demo

    """
    from cocoax.data import collage, photo
    from cocoax.inputs.features import Segments
    from cocoax.plots import panel_view
    from cocoax.show import PlotOptions, Table
    from cocoax.show import figure as drawing
    from cocoax.show.html import page
    from cocoax.store import free_ending, write_text

    draw_into_files()
    options = PlotOptions.of({})
    out.mkdir(parents=True, exist_ok=True)  # now rather than after all the work
    note(f"Encoding {samples} masked copies of each of two photos; every question is answered from those.")
    encoder = cocoax.load("starter", device=device).by(Segments(SEGMENTS))
    method = cocoax.KernelShap(samples=samples, seed=seed)
    with resumable("runs are kept"):
        answers = cocoax.ask(encoder, collage(), _collage_questions(), method)
        portrait = cocoax.ask(encoder, photo("astronaut"), _portrait_questions(), method)
    rows: list[tuple[str, ...]] = []
    cells: list[list[Cell]] = []
    for number, answer in enumerate(answers):
        expected, strongest = QUADRANTS[number % 4], _strongest_quadrant(answer.attribution.relative)
        mark = Text("yes", "green") if strongest == expected else Text(f"no, expected {expected}", "red")
        rows.append((answer.name, f"{answer.score:+.3f}", expected, strongest))
        cells.append([answer.name, f"{answer.score:+.3f}", strongest, mark])
    panels = [panel_view(several) for several in (answers, portrait)]
    how = (
        f"{samples} masked copies were encoded once; every question below was answered from them. Red raises the similarity "
        "that the title asks about, blue lowers it, white has no visible effect, and grey is within noise. A score says how "
        "similar the whole picture is, and may be negative where the heat is still in the right place."
    )
    known = "The encoder knows ImageNet's classes: rockets and helmets are among them, women are not, and it shows."
    ending = free_ending(out, "collage", "astronaut", "report")
    files = [out / f"collage{ending}.png", out / f"astronaut{ending}.png", out / f"report{ending}.html"]
    for file, view in zip(files, panels, strict=False):
        drawing.write(file, drawing.plot([view], options, interactive=False), options)
    table = Table(("question", "score", "where it is", "strongest quadrant"), tuple(rows))
    views = [replace(panels[0], title="Four photos in one"), table, replace(panels[1], title="An astronaut", note=known)]
    write_text(files[-1], page("Cocoax demo: what makes this picture similar to that?", (how,), views))
    print_table(("What makes the collage similar to …", "score", "strongest quadrant", "as expected"), cells)
    print_written(files)


def _collage_questions() -> list[cocoax.Question]:
    """Return questions about each photo of the collage against the other three, in words and then with pictures."""
    from cocoax.data import COLLAGE, photo

    questions = []
    for name in COLLAGE:
        others = [CAPTIONS[other] for other in COLLAGE if other != name]
        questions.append(cocoax.Question(cocoax.Side(CAPTIONS[name]), cocoax.Side(others, name="the other captions")))
    for name in COLLAGE:
        pictures = [photo(other) for other in COLLAGE if other != name]
        like = cocoax.Side(images=[photo(name)], name=f"the {name} photo")
        questions.append(cocoax.Question(like, cocoax.Side(images=pictures, name="the other photos")))
    return questions


def _portrait_questions() -> list[cocoax.Question]:
    """Return questions about the portrait: itself, a woman, a rocket, a helmet."""
    others = cocoax.Side(list(CAPTIONS.values()), name="the captions of the collage")
    woman = cocoax.Side("a woman")
    return [
        cocoax.Question(),
        cocoax.Question(woman, others),
        cocoax.Question(cocoax.Side("a rocket"), woman),
        cocoax.Question(cocoax.Side("a helmet"), woman),
    ]


def _strongest_quadrant(values: Tensor) -> str:
    """Return the quadrant of a map ``[H, W]`` with most of its heat: of values above half of the largest."""
    height, width = (side // 2 for side in values.shape)
    hot = values.clamp(min=0) * (values >= values.max() / 2)
    quadrants = (hot[:height, :width], hot[:height, width:], hot[height:, :width], hot[height:, width:])
    sums = [float(quadrant.sum()) for quadrant in quadrants]
    return QUADRANTS[sums.index(max(sums))]


# --- app ------------------------------------------------------------------------------------------------------------------


def serve_page(
    encoder: EncoderName = "starter",
    device: Device = None,
    crop: Crop = False,
    samples: Annotated[int, how_option("Masked copies of a photo to look at.", min=50, max=5000)] = 1000,
    features: FeaturesOption = None,
    index: Annotated[Path | None, how_option("The folder of an index, to ask about its data set.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port; by default the first free one from 7860 on.", min=1, max=65535)
    ] = None,
    kept: Annotated[int, how_option("Visitors whose runs are kept.", min=1)] = 32,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in a browser.")] = True,
) -> None:
    """Serve the web page, to this machine only: photos or sounds, matches, searches, and the data set of an index.

    Examples:
        cocoax app
        cocoax app --index index
        cocoax app --encoder minilm
        cocoax app --encoder clip:FOLDER --port 8000 --no-browser

    """
    from cocoax.app import launch

    note(f"Loading {encoder} …")
    loaded = cocoax.load(encoder, device=device)
    viewed = loaded.cropped() if crop else loaded
    page, address = launch(
        viewed if features is None else viewed.by(features_named(features)),
        index=index,
        samples=samples,
        port=port,
        kept=kept,
        browser=browser,
        wait=False,
    )
    print_plain(f"The page is at {address} (Ctrl-C ends it)")
    with closing(page):
        page.blocks.block_thread()


# --- encoders -------------------------------------------------------------------------------------------------------------


def list_encoders(as_json: AsJson = False) -> None:
    """List the encoders that can be loaded by name, and how to install the others.

    Examples:
        cocoax encoders
        cocoax encoders --json

    """
    from cocoax.encoders import ENCODERS

    listed = []
    for name, known in ENCODERS.items():
        shown = f"{name}{known.takes}" if name.endswith(":") else name
        install = f"pip install 'cocoax[{known.extra}]'" if known.missing else None
        listed.append((shown, known.what, install))
    if as_json:
        print_json([{"name": name, "what": what, "installed": not how, "install": how} for name, what, how in listed])
        return
    rows: list[list[Cell]] = [
        [name, what, Text("yes", "green") if install is None else Text(f"no: {install}", "red")]
        for name, what, install in listed
    ]
    print_table(("name", "what it is", "installed"), rows)


# --- cache ----------------------------------------------------------------------------------------------------------------

_WHICH = "Only a part of it"
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class _Kind(StrEnum):
    """A kind of cached file."""

    references = "references"
    runs = "runs"
    vectors = "vectors"
    leftovers = "leftovers"


def show_cache(
    clear: Annotated[bool, typer.Option("--clear", help="Delete what is in it, after asking.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --clear: do not ask.")] = False,
    kind: Annotated[_Kind | None, typer.Option(help="Only files of this kind.", rich_help_panel=_WHICH)] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Only what the encoder of this name made.", rich_help_panel=_WHICH)
    ] = None,
    older_than: Annotated[
        str | None, typer.Option(help="Only what was written longer ago: 30d, 12h, 2w.", rich_help_panel=_WHICH)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look at the cache of encoded references and saved runs, or clear it.

    Leftovers are what killed processes left half written.

    Examples:
        cocoax cache
        cocoax cache --clear --older-than 30d
        cocoax cache --clear --kind runs --encoder starter --yes

    """
    which: dict[str, Any] = {
        "kind": None if kind is None else kind.value,
        "encoder": encoder,
        "older_than": None if older_than is None else _duration_of(older_than),
    }
    info = cocoax.cache_info(**which)
    if clear and info.contents and not (yes or _confirmed(info)):
        note("nothing was deleted")
        raise typer.Exit(1)
    if clear:
        info = cocoax.clear_cache(**which)
    if as_json:
        print_json(_describe(info, deleted=clear))
    else:
        _print_cache(info, "deleted" if clear else "holds")


def _duration_of(text: str) -> timedelta:
    """Return the time that is written as a number and a unit: ``30d``."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*", text.lower())
    if match is None:
        raise ValueError(f"--older-than is a number and one of s, m, h, d and w, as in 30d. Got {text!r} instead.")
    return timedelta(**{_UNITS[match[2]]: float(match[1])})


def _confirmed(info: CacheInfo) -> bool:
    """Return whether the user, who is asked on standard error, wants this to be deleted."""
    files = counted(len(info.contents), "file")
    note(f"Delete {files} ({_size_of(info.bytes)}) from {info.folder}? [y/N] ", end="")
    try:
        answer = sys.stdin.readline()
    except KeyboardInterrupt as stop:
        raise ExplainedInterrupt("nothing was deleted") from stop
    if not answer:  # not even a line
        note("\n--clear asks before it deletes; give --yes where nobody can answer")
    return answer.strip().lower() in ("y", "yes")


def _print_cache(info: CacheInfo, verb: str) -> None:
    """Print how much the cache holds of each kind, or how much was deleted."""
    print_plain(f"{info.folder}: {verb} {counted(len(info.contents), 'file')}, {_size_of(info.bytes)}")
    rows = []
    for kind in _Kind:
        files = info.of(kind.value)
        oldest = f"{datetime.fromtimestamp(min(file.written for file in files)):%Y-%m-%d %H:%M}" if files else "–"
        number, size = str(len(files)), _size_of(sum(file.bytes for file in files))
        rows.append([kind.value, number, size, oldest, ", ".join(_encoders_of(files)) or "–"])
    print_table(("kind", "number", "size", "oldest", "of encoders"), rows)


def _encoders_of(files: Sequence[CachedFile]) -> list[str]:
    """Return the names of the encoders that made these files."""
    return sorted({file.encoder for file in files if file.encoder is not None})


def _describe(info: CacheInfo, deleted: bool) -> dict[str, Any]:
    """Return what the cache holds, or what was deleted, as plain values."""
    kinds = {}
    for kind in _Kind:
        files = info.of(kind.value)
        oldest = min((file.written for file in files), default=None)
        kinds[kind.value] = {
            "number": len(files),
            "bytes": sum(file.bytes for file in files),
            "oldest": None if oldest is None else datetime.fromtimestamp(oldest).astimezone().isoformat(),
            "encoders": _encoders_of(files),
        }
    return {"folder": info.folder, "deleted": deleted, "bytes": info.bytes, "kinds": kinds}


def _size_of(number: int) -> str:
    """Return a number of bytes in words."""
    return f"{number / 1e9:.2f} GB" if number >= 1e9 else f"{number / 1e6:.1f} MB"
