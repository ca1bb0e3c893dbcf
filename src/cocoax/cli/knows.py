"""``cocoax knows``: can the encoder tell a corpus from a foil at all?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

import cocoax
from cocoax.cli.terminal import (
    ASKED,
    HOW,
    OUTPUT,
    AsJson,
    Device,
    Seed,
    draw_into_files,
    print_json,
    print_plain,
    print_table,
    print_written,
)
from cocoax.cli.view import LOOKED_AT, note_crop

EXAMPLES = (
    "cocoax knows cats/ dogs/",
    "cocoax knows questions.txt answers.txt --encoder minilm --out knows.html",
    'cocoax knows "a cat" "a dog" --shown cats/ --others dogs/',
    'cocoax knows "a cat" "a thing" --shown photos/',
)
VECTORS = (".npy", ".parquet", ".arrow")


def ask_knowledge(
    corpus: Annotated[
        str, typer.Argument(help="A folder of pictures, a file of texts (one a line) or of embeddings, or a caption.")
    ],
    foil: Annotated[str, typer.Argument(help="What it should be told from, in the same ways.")],
    shown: Annotated[
        str | None, typer.Option(help="Test captions with these: inputs that show the corpus.", rich_help_panel=ASKED)
    ] = None,
    others: Annotated[
        str | None, typer.Option(help="Inputs that do not; without, --shown meets random captions.", rich_help_panel=ASKED)
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="By default minilm for texts, else the starter.", rich_help_panel=HOW)
    ] = None,
    permutations: Annotated[int, typer.Option(help="Random corpora for the p-value.", min=39, rich_help_panel=HOW)] = 999,
    seed: Seed = 0,
    device: Device = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write (.html, .png, .json), or a folder for all.", rich_help_panel=OUTPUT)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Test whether the encoder tells a corpus from a foil: if it cannot, a map of the difference shows noise."""
    draw_into_files()
    given = [side for side in (corpus, foil, shown, others) if side is not None]
    if shown is None:
        check_no_captions(corpus, foil)
        check_alike(corpus, foil)
    embedded = [Path(side).suffix in VECTORS and Path(side).is_file() for side in given]
    loaded = None
    if not all(embedded):
        texts = all(Path(side).is_file() for side in given)
        loaded = cocoax.load(encoder or ("minilm" if texts else "starter"), device=device)
    sides = {side: reference_of(side, loaded) for side in given}
    captions = random_captions(corpus, loaded) if shown is not None and others is None else None
    knowledge = cocoax.knows(
        sides[corpus],
        sides[foil],
        shown=None if shown is None else sides[shown],
        others=None if others is None else sides[others],
        captions=captions,
        permutations=permutations,
        seed=seed,
    )
    files = [] if out is None else knowledge.save(out)
    if as_json:
        print_json({**knowledge.describe(), "files": [str(file) for file in files]})
        return
    if loaded is not None:
        folders = [loaded.as_list(Path(side)) for side in given if Path(side).is_dir()]
        note_crop(loaded.explicand(item).display for items in folders for item in items[:LOOKED_AT])
    print_plain(f"{knowledge.sentence} p = {knowledge.p_value:.2g}")
    if knowledge.size_sentence:
        print_plain(knowledge.size_sentence)
        print_table(("members", "AUC"), [[str(of.size), f"{of.auc:.2f} ± {of.deviation:.2f}"] for of in knowledge.sizes])
    print_written(files)


def random_captions(corpus: str, encoder: cocoax.Encoder | None) -> cocoax.Reference:
    """Return captions of things that are not the corpus; raise if there is no encoder for them."""
    if encoder is None:
        raise ValueError(
            "Random captions are encoded by the text tower of an encoder, and all sides are vectors; give --others, "
            "what the corpus is told from."
        )
    from cocoax.data import caption, cifar100

    return encoder.text.reference([caption(name, "a {}") for name in cifar100([corpus])], keep_samples=True)


def check_no_captions(*sides: str) -> None:
    """Raise if a side is a caption: a single sample, with which nothing can be tested."""
    for side in sides:
        if (" " in side or not Path(side).suffix) and not os.path.exists(side):
            raise ValueError(
                f"{side!r} is no file or folder, so it is a caption, and captions are tested with inputs; give those that "
                "show the corpus by --shown, and those that do not by --others."
            )


def check_alike(corpus: str, foil: str) -> None:
    """Raise if one side is of texts and the other of pictures, which an encoder tells apart whatever they show."""
    for texts, folder in ((corpus, foil), (foil, corpus)):
        if Path(texts).suffix == ".txt" and Path(folder).is_dir():
            raise ValueError(
                f"{texts} holds texts and {folder} pictures, which an encoder tells apart whatever they are about; compare "
                "texts with texts, or test captions with pictures by --shown and --others."
            )


def reference_of(side: str, encoder: cocoax.Encoder | None) -> cocoax.Reference:
    """Return what an argument stands for: pictures of a folder, lines of a text file, embeddings, or a caption."""
    path = Path(side)
    if path.suffix in VECTORS and path.is_file():
        return cocoax.Reference.from_vectors(path, name=path.stem, keep_samples=True)
    assert encoder is not None
    if path.is_dir():
        return encoder.reference(path, name=path.name, keep_samples=True)
    if path.is_file() and path.suffix == ".txt":
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        return encoder.text.reference(lines, name=path.stem, keep_samples=True)
    if path.suffix and " " not in side:
        raise FileNotFoundError(
            f"{side} is no folder of pictures, no .txt file of texts and no file of embeddings ({', '.join(VECTORS)}); check "
            "the path."
        )
    return encoder.text.reference([side], name=side, keep_samples=True)
