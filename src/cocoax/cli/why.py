"""``cocoax why``: search a small index, and explain why its hits came up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import cocoax
from cocoax.cli.arguments import TEXT_FILES, read_input
from cocoax.cli.asked import check_out
from cocoax.cli.terminal import (
    ASKED,
    HOW,
    OUTPUT,
    AsJson,
    Baseline,
    Crop,
    Device,
    Kept,
    Seed,
    draw_into_files,
    print_json,
    print_shown,
    print_written,
)
from cocoax.cli.view import load_seeing

EXAMPLES = (
    'cocoax why "find groups without labels" --index notes/ --top 5',
    'cocoax why "a red car" --index photos/ --out why',
    'cocoax why "refund" --index tickets.parquet --json',
)


def explain_search(
    query: Annotated[str, typer.Argument(help="What to search for: a text, or the file of a picture; - reads a text.")],
    index: Annotated[
        Path,
        typer.Option(
            help="Where to search: a folder of texts, pictures or sounds, a file with one text per line, a Parquet or Arrow "
            "file, or vectors in a .npy file (with --texts).",
            rich_help_panel=ASKED,
        ),
    ],
    top: Annotated[int, typer.Option(help="How many hits to explain.", min=1, rich_help_panel=ASKED)] = 10,
    rather_than: Annotated[
        list[str] | None,
        typer.Option(
            help="What each hit is compared with, instead of the next hits; may be repeated.", rich_help_panel=ASKED
        ),
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
    texts: Annotated[
        Path | None, typer.Option(help="The texts of a .npy file's vectors, one per line.", rich_help_panel=ASKED)
    ] = None,
    text_column: Annotated[str, typer.Option(help="Of a Parquet or Arrow file.", rich_help_panel=ASKED)] = "text",
    vector_column: Annotated[
        str | None, typer.Option(help="Of a Parquet or Arrow file; without it the texts are encoded.", rich_help_panel=ASKED)
    ] = None,
    samples: Annotated[int, typer.Option(help="Masked copies of each input to encode.", min=10, rich_help_panel=HOW)] = 500,
    baseline: Baseline = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    out: Annotated[Path | None, typer.Option(help="A folder, or a .html or .json file.", rich_help_panel=OUTPUT)] = None,
) -> None:
    """Why did these come up? Searches by cosine, and explains each hit rather than the next ones."""
    draw_into_files()
    check_out(out, endings=(".html", ".json"))
    asked = read_input(query)
    others = None if not rather_than else [read_input(typed) for typed in rather_than]
    documents = read_index(index, texts, text_column, vector_column)
    loaded = load_seeing([asked, *documents.contents[:1]], encoder, device, crop, baseline, seed)
    found = documents.search(loaded, asked, top)
    method = cocoax.Rise(samples=samples, seed=seed)
    try:
        hits = cocoax.explain_hits(loaded, asked, found, others, method=method)
    except KeyboardInterrupt as stop:
        raise Kept("nothing was kept; fewer --samples or hits take less time") from stop
    if as_json:
        print_json(hits.to_dict())
    else:
        print_shown(hits)
    files = [] if out is None else hits.save_all(out)
    if not as_json:
        print_written(files)


@dataclass(frozen=True)
class Documents:
    """What is searched: texts or files of pictures, and a store of their vectors if there is one."""

    contents: Sequence[str | Path]
    store: Any = None
    column: str | None = None

    def search(self, encoder: cocoax.Encoder, query: str | Path, count: int) -> list[str | Path]:
        """Return the ``count`` documents whose cosine to the query is largest, best first."""
        import torch

        from cocoax.questions.windows import pieces_of, represent
        from cocoax.vectors import Selection, read_vectors

        own = represent(pieces_of(encoder, query)).double()
        owners = torch.arange(len(self.contents))
        if self.store is None:  # of a text that is longer than the encoder takes, the window that fits best counts
            pieces = [pieces_of(encoder, content) for content in self.contents]
            owners = torch.repeat_interleave(owners, torch.tensor([len(windows) for windows in pieces]))
            parts = [represent([piece for windows in pieces for piece in windows], progress=None).double()]
        else:
            parts = [vectors for _, vectors, _ in read_vectors(self.store, Selection(self.column))]
        scores = []
        for vectors in parts:
            if vectors.shape[1] != own.shape[1]:
                raise ValueError(
                    f"The index has vectors of {vectors.shape[1]} dimensions, but {encoder.name!r} gives {own.shape[1]}; "
                    "name the encoder that made the index by --encoder."
                )
            cosines = torch.nn.functional.normalize(vectors, dim=1) @ torch.nn.functional.normalize(own, dim=1).T
            scores.append(cosines.amax(1))
        every = torch.cat(scores)
        if len(every) != len(owners):
            raise ValueError(f"The index has {len(every)} vectors but {len(self.contents)} texts; give one for each.")
        best = torch.full((len(self.contents),), -torch.inf, dtype=every.dtype).scatter_reduce(0, owners, every, "amax")
        return [self.contents[row] for row in best.argsort(descending=True, stable=True)[:count].tolist()]


def read_index(index: Path, texts: Path | None, text_column: str, vector_column: str | None) -> Documents:
    """Return the documents of a folder or a file; raise if there are none, or if it is not clear what they are."""
    if not index.exists():
        raise FileNotFoundError(f"No file or folder at {index}; check the path.")
    if index.is_dir():
        return Documents(_folder(index))
    if index.suffix == ".npy":
        if texts is None:
            raise ValueError("A .npy file holds vectors alone; give the file of their texts, one per line, by --texts.")
        return Documents(_lines(texts), index)
    if index.suffix in (".parquet", ".arrow", ".feather"):
        contents = _column(index, text_column)
        return Documents(contents, None if vector_column is None else index, vector_column)
    return Documents(_lines(index))


def _folder(folder: Path) -> Sequence[str | Path]:
    """Return the texts of a folder's text files, or else its sounds, or else its pictures."""
    from cocoax.inputs.image import image_files
    from cocoax.inputs.sound import SUFFIXES as SOUNDS
    from cocoax.store import files_below

    texts = [text for path in files_below(folder, TEXT_FILES) if (text := path.read_text(encoding="utf-8").strip())]
    return texts or files_below(folder, SOUNDS) or image_files(folder)


def _lines(file: Path) -> list[str]:
    from cocoax.store import readable

    if not file.is_file():
        raise FileNotFoundError(f"No file at {file}; check the path.")
    with readable(file, "texts, one per line"):
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{file} holds no texts; write one per line.")
    return lines


def _column(file: Path, name: str) -> list[str]:
    """Return the texts of a column of a Parquet or Arrow file."""
    from cocoax.vectors import arrow_dataset

    dataset = arrow_dataset(file)
    if name not in dataset.schema.names:
        names = ", ".join(dataset.schema.names)
        raise ValueError(f"{file} has no column {name!r}; the columns are {names}. Say which holds texts by --text-column.")
    texts = dataset.to_table(columns=[name]).column(0).to_pylist()
    if not texts:
        raise ValueError(f"{file} has no rows; there is nothing to search.")
    if None in texts:
        raise ValueError(
            f"Row {texts.index(None)} of {file} has no text in the column {name!r}; leave that row out of the file."
        )
    return [str(text) for text in texts]
