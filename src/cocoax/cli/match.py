"""``cocoax match``, ``why`` and ``ask-text``: why inputs match, why a search found them, which words of a text count."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cocoax
from cocoax.cli.options import (
    AsJson,
    Column,
    Device,
    EncoderName,
    EncoderOptions,
    MatchFeatures,
    MethodName,
    Output,
    RatherThan,
    SamplesOrAuto,
    Seed,
    TextFeatures,
    ask_option,
    check_out,
    features_named,
    how_option,
    method_with,
    out_option,
)
from cocoax.cli.terminal import (
    console,
    draw_into_files,
    print_plain,
    print_shown,
    resumable,
    show_result,
)

if TYPE_CHECKING:
    from cocoax.results import Result

_KEPT = "what was encoded is kept"
_SAMPLES = 500
_LISTED = 8  # words of a side that are printed with their values

# --- match ----------------------------------------------------------------------------------------------------------------


def explain_pair(
    first: Annotated[str, typer.Argument(help="A text, or a file: a text, a picture or a sound; - reads a text.")],
    second: Annotated[str, typer.Argument(help="What it matches: a text or a file.")],
    rather_than: RatherThan = None,
    *,
    how: EncoderOptions,
    output: Output,
    features: MatchFeatures = None,
    samples: SamplesOrAuto = None,
) -> None:
    """Why do two inputs match, rather than others? Any two of text, picture and sound that an encoder takes.

    Examples:
        cocoax match "repair a flat tyre" "Patch the tube of your bike."
        cocoax match photo.jpg "a cat on a motorbike" --out match.html
        cocoax match query.txt answer.txt --rather-than other.txt --json

    """
    from cocoax.inputs.open import open_input

    draw_into_files()
    names = (first, second, *(rather_than or []))
    output.check(*names)
    inputs = [open_input(name) for name in names]
    loaded = how.load(inputs)
    with resumable(_KEPT):
        method, divided = _rise_of(samples, how.seed), features_named(features)
        match = cocoax.explain_match(loaded, inputs[0], inputs[1], inputs[2:], method=method, features=divided)
    output.show(match, lambda: _print_matches(match, [match]))


def _rise_of(samples: int | None, seed: int) -> cocoax.Rise | None:
    """Return the method that options ask for; None leaves it to the kind and the length of inputs."""
    if samples is None and seed == 0:
        return None
    return cocoax.Rise(samples=_SAMPLES if samples is None else samples, seed=seed)


def _print_matches(result: Result, matches: Iterable[cocoax.Match]) -> None:
    """Print a result; where no terminal shows colours, also the most important words of both sides with their values."""
    from cocoax.questions.summaries import spans_of

    print_shown(result)
    if console.is_terminal:
        return
    for match in matches:
        for side, attribution in (("query", match.query), ("document", match.document)):
            if attribution.offsets is not None:
                spans = sorted(spans_of(attribution), key=lambda span: -abs(span.score))[:_LISTED]
                print_plain(f"{match.title} | {side}: {'; '.join(map(str, spans))}")


# --- why ------------------------------------------------------------------------------------------------------------------


def explain_search(
    query: Annotated[str, typer.Argument(help="What to search for: a text, or the file of a picture; - reads a text.")],
    index: Annotated[
        Path,
        ask_option(
            "Where to search: a folder of texts, pictures or sounds, a pattern of files, a file with one text per line, "
            "a table with --column, or vectors in a .npy file with --texts."
        ),
    ],
    top: Annotated[int, ask_option("How many hits to explain.", min=1)] = 10,
    rather_than: RatherThan = None,
    texts: Annotated[Path | None, ask_option("The texts of a .npy file's vectors, one per line.")] = None,
    column: Column = None,
    vector_column: Annotated[str | None, ask_option("Of a Parquet or Arrow file; without it the texts are encoded.")] = None,
    *,
    how: EncoderOptions,
    features: MatchFeatures = None,
    samples: SamplesOrAuto = None,
    as_json: AsJson = False,
    out: Annotated[Path | None, out_option("A folder, or a .html or .json file.")] = None,
) -> None:
    """Why did these come up? Searches by cosine, and explains each hit rather than the next ones.

    With --rather-than, each hit is compared with that instead of the next hits.

    Examples:
        cocoax why "find groups without labels" --index notes/ --top 5
        cocoax why "a red car" --index photos/ --out why
        cocoax why "refund" --index tickets.parquet --column body --json

    """
    from cocoax.inputs.open import open_input

    draw_into_files()
    check_out(out, endings=(".html", ".json"))
    asked = open_input(query)
    others = None if not rather_than else [open_input(name) for name in rather_than]
    documents = _Documents.open(index, texts, column, vector_column)
    loaded = how.load([asked, *documents.contents[:1]])
    found = documents.search(loaded, asked, top)
    with resumable(_KEPT):
        hits = cocoax.explain_hits(
            loaded, asked, found, others, method=_rise_of(samples, how.seed), features=features_named(features)
        )
    show_result(hits, out, as_json, write=lambda: _print_matches(hits, hits))


@dataclass(frozen=True)
class _Documents:
    """The documents of a search: texts or files of pictures, and a store of their vectors if there is one."""

    contents: Sequence[str | Path]
    store: Any = None
    column: str | None = None

    @classmethod
    def open(cls, index: Path, texts: Path | None, column: str | None, vector_column: str | None) -> _Documents:
        """Return the documents of a folder, file, table or pattern; raise if there are none, or if they are ambiguous."""
        from cocoax.inputs.open import open_inputs, read_lines

        if not index.exists() and "*" not in index.name:
            raise FileNotFoundError(f"No file or folder at {index}; check the path.")
        if index.suffix == ".npy":
            if texts is None:
                raise ValueError("A .npy file holds vectors alone; give the file of their texts, one per line, by --texts.")
            return cls(read_lines(texts), index)
        return cls(open_inputs(index, column), None if vector_column is None else index, vector_column)

    def search(self, encoder: cocoax.Encoder, query: str | Path, count: int) -> list[str | Path]:
        """Return the ``count`` documents whose cosine to the query is largest, best first."""
        import torch

        from cocoax.questions.windows import pieces_of, represent
        from cocoax.references import read_vectors

        own = represent(pieces_of(encoder, query)).double()
        owners = torch.arange(len(self.contents))
        if self.store is None:  # of a text that is longer than the encoder takes, the window that fits best counts
            pieces = [pieces_of(encoder, content) for content in self.contents]
            owners = torch.repeat_interleave(owners, torch.tensor([len(windows) for windows in pieces]))
            parts = [represent([piece for windows in pieces for piece in windows], progress=None).double()]
        else:
            parts = [vectors for vectors, _ in read_vectors(self.store, column=self.column)]
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


# --- ask-text -------------------------------------------------------------------------------------------------------------


def ask_text(
    text: Annotated[str, typer.Argument(help="The text to explain; - reads it from standard input.")],
    like: Annotated[list[str], ask_option("What it is compared with; may be given several times.")],
    unlike: Annotated[list[str] | None, ask_option("Rather than what; may be given several times.")] = None,
    match: Annotated[bool, ask_option("TEXT is a query, --like its document: explain both sides.", "--match")] = False,
    encoder: EncoderName = "minilm",
    device: Device = None,
    features: TextFeatures = None,
    removal: Annotated[str | None, how_option("How words are removed: mask, deletion or attention.")] = None,
    method: MethodName = "rise",
    samples: SamplesOrAuto = None,
    seed: Seed = 0,
    out: Annotated[Path | None, out_option("Folder for an HTML report and JSON.")] = None,
    as_json: AsJson = False,
) -> None:
    """Which words of a text make it similar to some things, rather than to others?

    Examples:
        cocoax ask-text "The violinist parked her car" --like music --unlike traffic
        cocoax ask-text "flat tyre" --match --like "Patch it." --unlike "Fix a tap."
        cocoax ask-text - --like "good news" --features sentences --json < article.txt

    """
    from cocoax.questions.matches import explain_text

    draw_into_files()
    _check_no_files([text, *like, *(unlike or [])])
    text = sys.stdin.read() if text == "-" else text
    _check_texts(text, like, unlike or [], match)
    chosen: cocoax.Method | None = None
    if (method, removal) != ("rise", None) or _rise_of(samples, seed) is not None:
        chosen = method_with(method, {"samples": samples or _SAMPLES, "seed": seed, "baseline": removal}, strict=False)
        features = "words" if features in (None, "auto") else features
    tower = _text_tower(encoder, device)
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)  # a text that was cut says so each time
        with resumable(_KEPT):
            if match:
                result: Result = cocoax.explain_match(tower, text, like[0], unlike or [], method=chosen, features=features)
            else:
                corpus = tower.reference(list(like), progress=False)
                foil = tower.reference(list(unlike), progress=False) if unlike else None
                result = explain_text(tower, text, corpus, foil, method=chosen, features=features)
    show_result(result, None, as_json, [] if out is None else _save_beside(result, out))


def _save_beside(result: Result, folder: Path) -> list[Path]:
    """Write a page and JSON; existing files of other hits stay."""
    from cocoax.store import folder_lock, free_ending

    with folder_lock(folder):
        ending = free_ending(folder, result.file)
        return [result.save(folder / f"{result.file}{ending}{suffix}") for suffix in (".json", ".html")]


def _check_no_files(texts: Sequence[str]) -> None:
    """Raise if what should be a text is the name of a file."""
    from cocoax.inputs.image import SUFFIXES
    from cocoax.inputs.open import names_file

    for text in texts:
        if names_file(text):
            if Path(text).suffix.lower() in SUFFIXES:
                raise ValueError(f"{text!r} is the name of a picture, and texts are explained here; use 'cocoax ask'.")
            raise ValueError(f"{text!r} is the name of a file; 'cocoax ask-text - < FILE' explains the text in it.")


def _check_texts(text: str, like: Sequence[str], unlike: Sequence[str], match: bool) -> None:
    """Raise if a text is empty, or if there is not exactly one document to match."""
    if not text.strip():
        raise ValueError("The text is empty; write at least one word.")
    for name, texts in (("like", like), ("unlike", unlike)):
        if any(not other.strip() for other in texts):
            raise ValueError(f"One of the texts of --{name} is empty; write at least one word.")
    if match and len(like) != 1:
        raise ValueError(f"A match is with one document; give --like once. Got {len(like)} instead.")


def _text_tower(name: str, device: str | None = None) -> cocoax.TextEncoder:
    """Load an encoder by name and return it, or its text tower; it cuts off long texts, with a warning."""
    loaded = cocoax.load(name, device=device)
    tower: Any = getattr(loaded, "text", None)
    if not hasattr(tower, "by"):
        raise TypeError(f"{name!r} does not encode texts whose words can be removed; use minilm or st:NAME_OR_FOLDER.")
    encoder: cocoax.TextEncoder = tower.by()
    encoder.inputs.too_long = "cut"  # with a warning, which says how much was left out
    return encoder
