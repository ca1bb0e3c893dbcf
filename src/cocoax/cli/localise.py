"""``cocoax localise``: whether heat maps lie on what captions name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import cocoax
from cocoax.cli.terminal import (
    ASKED,
    HOW,
    OUTPUT,
    AsJson,
    Crop,
    Device,
    EncoderName,
    Grid,
    Kept,
    Samples,
    Seed,
    counted,
    note,
    print_json,
    print_plain,
    print_table,
    print_written,
)
from cocoax.store import to_json, write_text

if TYPE_CHECKING:
    from cocoax.evaluation.localisation import MaskScores
    from cocoax.paper.annotations import Example
    from cocoax.paper.studies.localisation_benchmark import Summary

EXAMPLES = (
    "cocoax localise photos/ --collages 50",
    "cocoax localise val2017/ --annotations instances.json --limit 200 --out coco",
    'cocoax localise photos/ --masks masks/ --template "a photo of a {}" --json',
)


def localise_captions(
    folder: FolderOption,
    annotations: AnnotationsOption = None,
    masks: MasksOption = None,
    collages: CollagesOption = None,
    strips: StripsOption = None,
    boxes: BoxesOption = False,
    encoder: EncoderName = "starter",
    device: Device = None,
    crop: Crop = False,
    samples: Samples = 1000,
    grid: Grid = 7,
    seed: Seed = 0,
    template: TemplateOption = "a {}",
    foil: FoilOption = "present",
    tolerance: ToleranceOption = 0.0,
    fraction: FractionOption = 0.5,
    limit: LimitOption = None,
    keep_runs: KeepRunsOption = False,
    out: OutOption = Path("localisation"),
    as_json: AsJson = False,
) -> None:
    """Measure whether heat maps lie on the things that captions name, over a folder of pictures."""
    from cocoax.paper.annotations import class_names
    from cocoax.paper.studies.localisation_benchmark import LocalisationOptions, describe, localise, summarise

    if foil not in ("present", "all"):
        raise ValueError(f"--foil is 'present' or 'all'. Got {foil!r} instead.")
    examples = open_examples(folder, annotations, masks, collages, strips, boxes, seed)
    out.mkdir(parents=True, exist_ok=True)
    loaded = cocoax.load(encoder, device=device)
    try:
        records = localise(
            loaded if crop else loaded.whole(),
            examples[:limit],
            cocoax.Rise(samples=samples, grid=grid, seed=seed),
            LocalisationOptions(template, class_names(examples) if foil == "all" else None, tolerance, fraction),
            folder=out,
            keep_runs=keep_runs,
            tell=note,
        )
    except KeyboardInterrupt as stop:
        kept = len(list((out / "units").glob("*.safetensors")))
        raise Kept(f"kept the results of {counted(kept, 'picture')} in {out}; the same command goes on from there") from stop
    summaries = summarise(records)
    content = {"encoder": encoder, "samples": samples, "summaries": describe(summaries)}
    lines = "".join(f"{to_json(asdict(record))}\n" for record in records)
    files = [write_text(out / "summary.json", to_json(content, indent=1)), write_text(out / "results.jsonl", lines)]
    if as_json:
        print_json({**content, "pictures": len({record.picture for record in records}), "files": files})
        return
    print_summaries(records, summaries, fraction)
    print_written(files)


def open_examples(
    folder: Path,
    annotations: Path | None,
    masks: Path | None,
    collages: int | None,
    strips: int | None,
    boxes: bool,
    seed: int,
) -> list[Example]:
    """Return pictures with masks, from the one source that is not None; raise unless there is exactly one."""
    from cocoax.paper.annotations import coco_examples, collage_examples, mask_examples, strip_examples

    if sum(source is not None for source in (annotations, masks, collages, strips)) != 1:
        raise ValueError(
            "Say what is where, in one way: --annotations FILE, --masks FOLDER, --collages NUMBER or --strips NUMBER."
        )
    if annotations is not None:
        return coco_examples(annotations, folder, boxes=boxes)
    if masks is not None:
        return mask_examples(folder, masks)
    return strip_examples(folder, strips, seed) if strips is not None else collage_examples(folder, collages or 0, seed)


def print_summaries(records: Sequence[MaskScores], summaries: Sequence[Summary], fraction: float) -> None:
    """Print how each target did over all classes."""
    header = ("target", "asked", "found", "pointing game", "energy inside", f"IoU at {fraction:g}", "best IoU", "chance")
    rows = []
    for summary in summaries:
        if not summary.name:  # one with a name is about a single class
            figures = (summary.found, summary.pointing, summary.energy, summary.iou, summary.best_iou)
            rows.append([summary.target, str(summary.questions), *map(str, figures), f"{summary.area:.1%}"])
    print_table(header, rows, title=counted(len({record.picture for record in records}), "picture"))
    print_plain("In brackets: 95 % intervals, Wilson's for found and pointing game, bootstrap over pictures for the rest.")


FolderOption = Annotated[Path, typer.Argument(help="Folder of pictures.")]
AnnotationsOption = Annotated[
    Path | None, typer.Option(help="COCO json: boxes, polygons or run lengths.", rich_help_panel=ASKED)
]
MasksOption = Annotated[
    Path | None, typer.Option(help="Folder of masks: CLASS/NAME.png for the picture NAME.", rich_help_panel=ASKED)
]
CollagesOption = Annotated[
    int | None, typer.Option(help="Or make this many collages of four photos each.", min=1, rich_help_panel=ASKED)
]
StripsOption = Annotated[
    int | None,
    typer.Option(help="Or this many wide and tall strips of two to four photos.", min=1, rich_help_panel=ASKED),
]
BoxesOption = Annotated[bool, typer.Option("--boxes", help="Use boxes even where there are outlines.", rich_help_panel=ASKED)]
TemplateOption = Annotated[str, typer.Option(help="Makes a caption of a class name.", rich_help_panel=ASKED)]
FoilOption = Annotated[
    str,
    typer.Option(help="Contrast with the other classes 'present' in the picture, or with 'all'.", rich_help_panel=ASKED),
]
ToleranceOption = Annotated[
    float, typer.Option(help="Of the pointing game, in pixels of the picture.", min=0, rich_help_panel=HOW)
]
FractionOption = Annotated[
    float, typer.Option(help="Of the map's peak: the fixed threshold of the IoU.", rich_help_panel=HOW)
]
LimitOption = Annotated[int | None, typer.Option(help="Only the first so many pictures.", min=1, rich_help_panel=ASKED)]
KeepRunsOption = Annotated[
    bool, typer.Option("--keep-runs", help="Keep the runs, to ask other questions later.", rich_help_panel=OUTPUT)
]
OutOption = Annotated[
    Path, typer.Option(help="Folder for results; run again to go on where it stopped.", rich_help_panel=OUTPUT)
]
