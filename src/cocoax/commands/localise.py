"""``cocoax localise``: whether heat maps lie on what captions name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

import cocoax
from cocoax.commands.terminal import EncoderName, Grid, Samples, Seed, console, print_written

if TYPE_CHECKING:
    from cocoax.data.annotated import Example
    from cocoax.evaluation.localisation import MaskScores
    from cocoax.studies.localise import Summary


def localise_captions(
    folder: Annotated[Path, typer.Argument(help="Folder of pictures.")],
    annotations: Annotated[Path | None, typer.Option(help="COCO json: boxes, polygons or run lengths.")] = None,
    masks: Annotated[Path | None, typer.Option(help="Folder of masks: CLASS/NAME.png for the picture NAME.")] = None,
    collages: Annotated[int | None, typer.Option(help="Or make this many collages of four photos each.", min=1)] = None,
    boxes: Annotated[bool, typer.Option("--boxes", help="Use boxes even where there are outlines.")] = False,
    encoder: EncoderName = "starter",
    samples: Samples = 1000,
    grid: Grid = 7,
    seed: Seed = 0,
    template: Annotated[str, typer.Option(help="Makes a caption of a class name.")] = "a {}",
    foil: Annotated[
        str, typer.Option(help="Contrast with the other classes 'present' in the picture, or with 'all'.")
    ] = "present",
    tolerance: Annotated[float, typer.Option(help="Of the pointing game, in pixels of the picture.", min=0)] = 0.0,
    fraction: Annotated[float, typer.Option(help="Of the map's peak: the fixed threshold of the IoU.")] = 0.5,
    limit: Annotated[int | None, typer.Option(help="Only the first so many pictures.", min=1)] = None,
    keep_runs: Annotated[bool, typer.Option("--keep-runs", help="Keep the runs, to ask other questions later.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for results; run again to go on where it stopped.")] = Path(
        "localisation"
    ),
) -> None:
    """Measure whether heat maps lie on the things that captions name, over a folder of pictures."""
    from cocoax.data.annotated import class_names
    from cocoax.studies.localise import Asking, describe, localise, summarise

    if foil not in ("present", "all"):
        raise ValueError(f"--foil is 'present' or 'all'. Got {foil!r} instead.")
    examples = open_examples(folder, annotations, masks, collages, boxes, seed)
    out.mkdir(parents=True, exist_ok=True)
    records = localise(
        cocoax.load(encoder),
        examples[:limit],
        cocoax.Rise(samples=samples, grid=grid, seed=seed),
        Asking(template, class_names(examples) if foil == "all" else None, tolerance, fraction),
        folder=out,
        keep_runs=keep_runs,
        tell=lambda text: console.print(text, highlight=False, markup=False),
    )
    summaries = summarise(records)
    print_summaries(records, summaries, fraction)
    file = out / "summary.json"
    content = {"encoder": encoder, "samples": samples, "summaries": describe(summaries)}
    file.write_text(json.dumps(content, indent=1), encoding="utf-8")
    print_written((file, out / "results.jsonl"))


def open_examples(
    folder: Path, annotations: Path | None, masks: Path | None, collages: int | None, boxes: bool, seed: int
) -> list[Example]:
    """Return pictures with masks, from the one source that is not None; raise unless there is exactly one."""
    from cocoax.data.annotated import coco_examples, collage_examples, mask_examples

    if sum(source is not None for source in (annotations, masks, collages)) != 1:
        raise ValueError("Say what is where, in one way: --annotations FILE, --masks FOLDER or --collages NUMBER.")
    if annotations is not None:
        return coco_examples(annotations, folder, boxes=boxes)
    if masks is not None:
        return mask_examples(folder, masks)
    return collage_examples(folder, collages or 0, seed)


def print_summaries(records: Sequence[MaskScores], summaries: Sequence[Summary], fraction: float) -> None:
    """Print how each target did over all classes."""
    heading = ("asked", "found", "pointing game", "energy inside", f"IoU at {fraction:g}", "best IoU", "chance")
    table = Table(Column("target", no_wrap=True), *heading, title=f"{len({record.picture for record in records})} pictures")
    for summary in summaries:
        if not summary.name:  # one with a name is about a single class
            figures = (summary.found, summary.pointing, summary.energy, summary.iou, summary.best_iou)
            table.add_row(summary.target, str(summary.questions), *map(str, figures), f"{summary.area:.1%}")
    console.print(table)
    console.print("In brackets: 95 % intervals, Wilson's for found and pointing game, bootstrap over pictures for the rest.")
