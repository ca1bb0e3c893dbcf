"""``cocoax index``, ``survey`` and ``compare``: a whole data set, explained once and asked anything."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

import cocoax
from cocoax.cli.options import (
    DISPLAYS_FOR_NOTE,
    AsJson,
    Baseline,
    Column,
    Crop,
    Device,
    EncoderName,
    FeaturesOption,
    GridOrFitted,
    Out,
    QuestionOptions,
    Samples,
    Seed,
    ask_option,
    features_named,
    how_option,
    note_crop,
    out_option,
)
from cocoax.cli.terminal import (
    counted,
    draw_into_files,
    note,
    print_json,
    print_plain,
    print_table,
    print_written,
    resumable,
    show_result,
)

if TYPE_CHECKING:
    from cocoax.data.labelled import Split

_WHERE = "Where it runs"
_SUFFIXES = (".html", ".json", ".parquet")
_USUAL = (".html", ".json")  # a Parquet file has the strongest cell of every input, for which all fields are read


def build_index(
    data: Annotated[
        Path, typer.Argument(help="A folder of pictures, texts or sounds, a data set, or a table with --column.")
    ],
    encoder: EncoderName = "starter",
    column: Column = None,
    id_column: Annotated[str | None, ask_option("Of a table: what tells rows apart; else they are numbered.")] = None,
    split: Annotated[str, ask_option("train or test, of data that has both.")] = "train",
    samples: Samples = 200,
    grid: GridOrFitted = None,
    features: FeaturesOption = None,
    crop: Crop = False,
    baseline: Baseline = None,
    seed: Seed = 0,
    device: Device = None,
    workers: Annotated[
        int, typer.Option(help="Processes of a local Ray; 0 works in this one.", min=0, rich_help_panel=_WHERE)
    ] = 0,
    ray: Annotated[
        str | None, typer.Option(help="Address of a running Ray, or auto; --workers of it.", rich_help_panel=_WHERE)
    ] = None,
    shard: Annotated[int | None, out_option("Inputs in a file; if not given, as many as take a minute.", min=1)] = None,
    retry: Annotated[bool, how_option("Try inputs again that failed.", "--retry")] = False,
    drop: Annotated[bool, how_option("Drop entries whose inputs are gone, even if most are.", "--drop")] = False,
    out: Annotated[Path, out_option("Folder of the index; run again to go on.")] = Path("index"),
    as_json: AsJson = False,
) -> None:
    """Explain every input of a data set once; then 'cocoax survey INDEX' asks all of them.

    A build that was stopped goes on where it was; inputs that are new or have changed are added.

    Examples:
        cocoax index photos/ --out photos-index
        cocoax index texts.parquet --column body --encoder minilm --out texts-index
        cocoax index cifar-10/ --encoder simclr-cifar10-small --samples 64 --workers 2

    """
    from cocoax.data.labelled import check_split
    from cocoax.survey import build
    from cocoax.survey.storage import read_metadata, shard_files

    check_split(split)
    method = cocoax.Rise(samples=samples, seed=seed)
    method = method if grid is None else replace(method, grid=grid)
    with resumable(lambda: f"kept {counted(sum(len(read_metadata(file)) for file in shard_files(out)), 'input')} in {out}"):
        index = build(
            encoder,
            data,
            out,
            method,
            column=column,
            id_column=id_column,
            split=cast("Split", split),
            device=device,
            workers=workers,
            ray=ray,
            features=features_named(features),
            shard=shard,
            crop=crop,
            baseline=baseline,
            retry=retry,
            drop=drop,
            announce=note,
        )
    if as_json:
        print_json({"index": out, "inputs": len(index), "failed": index.failed, "columns": list(index.columns)})
        return
    note_crop(index.displays(range(min(DISPLAYS_FOR_NOTE, len(index)))))
    inputs = counted(len(index), index.manifest.noun, index.manifest.nouns)
    print_plain(f"{inputs} in {out}; {counted(len(index.failed), 'input')} failed")
    for name, why in list(index.failed.items())[:5]:
        print_plain(f"   {name}: {why}")
    print_plain(f'ask it: cocoax survey {out} --like "…" --out answer.html, or in Python cocoax.survey.Index.open("{out}")')


def is_index(folder: Path) -> bool:
    """Return whether a folder is an index, even one that was only begun."""
    manifest = folder / "manifest.json"
    if not os.path.isfile(manifest):  # a Path raises where a name is long
        return False
    return (folder / "shards").is_dir() or '"kind": "index"' in manifest.read_text(encoding="utf-8", errors="replace")


def ask_index(
    folder: Annotated[Path, typer.Argument(metavar="INDEX", help="An index, as 'cocoax index' makes it.")],
    asked: QuestionOptions,
    where: Annotated[list[str] | None, ask_option("Only rows with label=cat, or label=cat,dog; may be repeated.")] = None,
    top: Annotated[int, out_option("How many of the highest and lowest to show.", min=1)] = 50,
    out: Annotated[Path, out_option("A folder, or a file that ends in .html, .json or .parquet.")] = Path("answers"),
    as_json: AsJson = False,
) -> None:
    """Ask all inputs of an index at once: which are most like some words or pictures, and what in them is?

    Without any --like every input is compared with itself (label-free).

    Examples:
        cocoax survey photos-index --like "a cat" --where label=pets --out a.html
        cocoax survey texts-index --question "music rather than traffic"

    """
    from cocoax.store import free_ending
    from cocoax.survey import Index

    questions = asked.questions()
    single = out.suffix in _SUFFIXES
    if single and len(questions) > 1:
        raise ValueError(f"{len(questions)} questions do not fit in one file; give a folder as --out.")
    index = Index.open(folder)
    rows = _rows_where(where or ())
    described = []
    for number, question in enumerate(questions):
        survey = index.ask(question, rows, top=top)
        stem = "answer" if len(questions) == 1 else f"answer-{number + 1}"
        stem += "" if single else free_ending(out, stem)
        paths = [out] if single else [out / f"{stem}{suffix}" for suffix in _USUAL]
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        files = [survey.save(path) for path in paths]
        described.append({**survey.to_dict(), "files": [str(path) for path in files]})
        if as_json:
            continue
        print_plain(
            f"{survey.question}: {counted(len(survey.rows), index.manifest.noun, index.manifest.nouns)}, "
            f"mean score {survey.scores.mean():+.3f}"
        )
        half = max(1, len(survey.rows) // 2)
        shown = [*survey.highest[: min(5, half)], *survey.lowest[: min(5, len(survey.rows) - half)][::-1]]
        cells = [
            [str(item.place), item.id, f"{item.attribution.score:+.3f}", ", ".join(map(str, item.columns.values()))]
            for item in shown
        ]
        print_table(("place", "input", "score", ", ".join(index.columns) or ""), cells)
        print_written(files)
    if as_json:
        print_json({"answers": described})


def _rows_where(conditions: Sequence[str]) -> dict[str, list[str]] | None:
    """Return the selection that ``label=cat,dog`` and the like write down; None for all rows."""
    selection: dict[str, list[str]] = {}
    for condition in conditions:
        name, equals, values = condition.partition("=")
        if not equals or not name.strip() or not values.strip():
            raise ValueError(f"A condition reads label=cat, or label=cat,dog for several. Got {condition!r} instead.")
        selection.setdefault(name.strip(), []).extend(value.strip() for value in values.split(","))
    return selection or None


def compare_indexes(
    first: Annotated[Path, typer.Argument(help="An index, as 'cocoax index' makes it.")],
    second: Annotated[Path, typer.Argument(help="One of the same data by another encoder.")],
    label: Annotated[str | None, ask_option("The column of classes: ask each input about its own; else itself.")] = None,
    question: Annotated[str | None, ask_option("Ask both this instead: 'a cat rather than a dog'.")] = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Show where scores and maps of the same inputs differ most between two encoders.

    Examples:
        cocoax compare index-before/ index-after/
        cocoax compare index-a/ index-b/ --label label --out comparison.json
        cocoax compare index-a/ index-b/ --question "a cat rather than a dog"

    """
    from cocoax.survey import Index, compare

    indexes = Index.open(first), Index.open(second)
    if first.resolve() == second.resolve():
        raise ValueError(
            f"Both are the index {first}; name the indexes of two encoders. Two classes of one index are compared in Python: "
            "index.ask(cocoax.contrastive_corpus_similarity(index.reference({'label': 'dog'}), index.reference({'label': "
            "'bird'})))."
        )
    draw_into_files()
    show_result(compare(*indexes, label, question), out, as_json)
