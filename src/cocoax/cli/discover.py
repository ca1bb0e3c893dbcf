"""``cocoax discover``: corpora that nobody had to write down."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import cocoax
from cocoax.cli.indexes import check_unused, is_index
from cocoax.cli.terminal import (
    ASKED,
    HOW,
    OUTPUT,
    AsJson,
    Baseline,
    Device,
    Seed,
    draw_into_files,
    print_json,
    print_plain,
    print_table,
    print_written,
)
from cocoax.cli.view import LOOKED_AT, check_pictured, note_crop, seen

if TYPE_CHECKING:
    from cocoax.insight import Discovery

SPLITS: tuple[Literal["train", "test"], ...] = ("train", "test")
EXAMPLES = (
    "cocoax discover photos/",
    "cocoax discover photos/ --method fields --corpora 6 --out parts/",
    "cocoax discover reviews.txt --encoder minilm",
    'cocoax discover photos-index/ --check "a dog"',
)


def discover_corpora(
    data: Annotated[
        Path, typer.Argument(help="A folder of inputs, a data set, a .txt file with a text a line, or an index.")
    ],
    corpora: Annotated[int, typer.Option(help="How many to find.", min=2, rich_help_panel=ASKED)] = 10,
    method: Annotated[
        str, typer.Option(help="kmeans or hdbscan (whole inputs), fields or crops (their parts).", rich_help_panel=ASKED)
    ] = "kmeans",
    check: Annotated[
        list[str] | None, typer.Option(help="A word to check the corpora against; may be repeated.", rich_help_panel=ASKED)
    ] = None,
    label: Annotated[
        str | None,
        typer.Option("--class", help="A class of the head: how much each corpus matters to it.", rich_help_panel=ASKED),
    ] = None,
    words: Annotated[
        Path | None, typer.Option(help="A file of words to name corpora with, one a line.", rich_help_panel=HOW)
    ] = None,
    limit: Annotated[int, typer.Option(help="Inputs to look at; of more, so many are drawn.", rich_help_panel=HOW)] = 2000,
    encoder: Annotated[
        str | None, typer.Option(help="By default minilm for texts, else the starter.", rich_help_panel=HOW)
    ] = None,
    baseline: Baseline = None,
    seed: Seed = 0,
    device: Device = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the page, the picture and a reference each.", rich_help_panel=OUTPUT)
    ] = Path("discovery"),
    as_json: AsJson = False,
) -> None:
    """Find corpora in a data set: what the encoder itself puts together, with names, typical members and their maps."""
    draw_into_files()
    loaded, inputs, labels = open_inputs(data, encoder, device, limit, seed)
    if loaded is None:
        check_unused({} if baseline is None else {"baseline": baseline})
    else:
        check_pictured(inputs[:1], False, baseline)
        loaded = seen(loaded, crop=True, baseline=baseline, seed=seed)
    vocabulary = None
    if words is not None:
        vocabulary = [line.strip() for line in words.read_text(encoding="utf-8").splitlines() if line.strip()]
    discovery = cocoax.discover(loaded, inputs, corpora, method, vocabulary=vocabulary, seed=seed)  # type: ignore[arg-type]
    discovery = replace(
        discovery,
        checked={word: discovery.check(word) for word in check or ()},
        importances=() if label is None else tuple(discovery.importance(label)),
    )
    files = discovery.save(out)
    if as_json:
        print_json({**discovery.describe(), "files": [str(file) for file in files]})
        return
    if loaded is not None:
        note_crop(loaded.explicand(item).display for item in inputs[:LOOKED_AT])
    _print(discovery, labels)
    print_written(files)


def open_inputs(
    data: Path, name: str | None, device: str | None, limit: int, seed: int
) -> tuple[cocoax.Encoder | None, Any, list[str]]:
    """Return an encoder, what it encodes, and what is known about each input, if anything is."""
    if is_index([data]):
        from cocoax.survey import Index

        if name is not None:
            raise ValueError("--encoder was settled when the index was made; leave it out.")
        index = Index.open(data)
        return None, index, [str(value) for value in index.columns.get("label", ())]
    if not data.exists():
        raise FileNotFoundError(f"No file or folder at {data}; check the path.")
    from cocoax.data import open_data
    from cocoax.seeding import stream

    if data.is_file():
        if data.suffix != ".txt":
            raise ValueError(f"{data} is no .txt file with a text a line; index other tables first ('cocoax index').")
        items: Any = [line.strip() for line in data.read_text(encoding="utf-8").splitlines() if line.strip()]
        labels: list[str] = []
    else:
        images = [open_data(data, split) for split in SPLITS]  # a folder without splits is divided, and all of it is wanted
        items = [image for part in images for image in part.images]
        labels = [part.classes[int(label)] for part in images for label in part.labels]
    loaded = cocoax.load(name or ("minilm" if data.is_file() else "starter"), device=device)
    if len(items) > limit:
        chosen = sorted(stream(seed).choice(len(items), limit, replace=False).tolist())
        items, labels = [items[row] for row in chosen], [labels[row] for row in chosen] if labels else []
    return loaded, list(items), labels


def _print(discovery: Discovery, labels: list[str]) -> None:
    from cocoax.insight.discovery import PARTS
    from cocoax.insight.gallery import tables

    print_plain(str(discovery))
    known = discovery.beside(labels) if len(set(labels)) > 1 else {}
    header = ("corpus", "inputs", "stability", "typical", *(["most frequent label"] if known else []))
    rows = []
    for found in discovery:
        typical = ", ".join(discovery.collection.label(number) for number in found.members[:2].tolist())
        row = [f"{found.number}. {found.name}", str(len(found.members)), found.how_stable, typical]
        rows.append([*row, *([f"{known[found.number][0]} ({known[found.number][1]})"] if found.number in known else [])])
    print_table(header, [row + [""] * (len(header) - len(row)) for row in rows])
    if known and discovery.method not in PARTS:
        print_plain(f"purity beside the labels: {discovery.purity(labels):.2f}")
    for header, lines in tables(discovery):
        print_table(header, lines)
