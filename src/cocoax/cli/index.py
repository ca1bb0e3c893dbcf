"""``cocoax index``: a whole data set, explained once, so that any question can be asked of all of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

import cocoax
from cocoax.cli.terminal import (
    ASKED,
    HOW,
    OUTPUT,
    AsJson,
    Device,
    EncoderName,
    Kept,
    Seed,
    counted,
    print_json,
    print_plain,
)
from cocoax.cli.view import LOOKED_AT, note_crop

if TYPE_CHECKING:
    from cocoax.data.labelled import Split

EXAMPLES = (
    "cocoax index photos/ --out photos-index",
    "cocoax index texts.parquet --column body --encoder minilm --out texts-index",
    "cocoax index cifar-10/ --encoder simclr-cifar10-small --samples 64 --workers 2",
)
WHERE = "Where it runs"


def build_index(
    data: DataOption,
    encoder: EncoderName = "starter",
    column: ColumnOption = None,
    id_column: IdOption = None,
    split: SplitOption = "train",
    samples: SamplesOption = 200,
    grid: GridOption = None,
    seed: Seed = 0,
    device: Device = None,
    workers: WorkersOption = 0,
    ray: RayOption = None,
    shard: ShardOption = 256,
    retry: RetryOption = False,
    drop: DropOption = False,
    out: OutOption = Path("index"),
    as_json: AsJson = False,
) -> None:
    """Explain every input of a data set once; then 'cocoax ask INDEX' asks all of them.

    A build that was stopped goes on where it was; inputs that are new or have changed are added.
    """
    from cocoax.data.labelled import check_split
    from cocoax.survey import build
    from cocoax.survey.storage import shard_files

    check_split(split)
    method = cocoax.Rise(samples=samples, seed=seed)
    method = method if grid is None else replace(method, grid=grid)
    try:
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
            shard=shard,
            retry=retry,
            drop=drop,
        )
    except KeyboardInterrupt as stop:
        kept = counted(len(shard_files(out)), "file")
        raise Kept(f"kept {kept} of up to {shard} inputs each in {out}; the same command goes on from there") from stop
    if as_json:
        print_json({"index": out, "inputs": len(index), "failed": index.failed, "columns": list(index.columns)})
        return
    note_crop(index.displays(range(min(LOOKED_AT, len(index)))))
    print_plain(f"{counted(len(index), index.manifest.noun)} in {out}; {counted(len(index.failed), 'input')} failed")
    for name, why in list(index.failed.items())[:5]:
        print_plain(f"   {name}: {why}")
    print_plain(f'ask it: cocoax ask {out} --like "…" --out answer.html, or in Python cocoax.survey.Index.open("{out}")')


DataOption = Annotated[
    Path, typer.Argument(help="A folder of pictures, texts or sounds, a data set, or a table with --column.")
]
ColumnOption = Annotated[
    str | None, typer.Option(help="Of a table: the one that holds texts, or the paths of files.", rich_help_panel=ASKED)
]
IdOption = Annotated[
    str | None, typer.Option(help="Of a table: what tells rows apart; else they are numbered.", rich_help_panel=ASKED)
]
SplitOption = Annotated[str, typer.Option(help="train or test, of data that has both.", rich_help_panel=ASKED)]
SamplesOption = Annotated[int, typer.Option(help="Masked copies of each input to encode.", min=10, rich_help_panel=HOW)]
GridOption = Annotated[int | None, typer.Option(help="Cells of a picture in each direction.", min=1, rich_help_panel=HOW)]
WorkersOption = Annotated[
    int, typer.Option(help="Processes of a local Ray; 0 works in this one.", min=0, rich_help_panel=WHERE)
]
RayOption = Annotated[
    str | None, typer.Option(help="Address of a running Ray, or auto; --workers of it.", rich_help_panel=WHERE)
]
ShardOption = Annotated[int, typer.Option(help="Inputs in a file.", min=1, rich_help_panel=OUTPUT)]
RetryOption = Annotated[bool, typer.Option("--retry", help="Try inputs again that failed.", rich_help_panel=HOW)]
DropOption = Annotated[
    bool, typer.Option("--drop", help="Drop entries whose inputs are gone, even if most are.", rich_help_panel=HOW)
]
OutOption = Annotated[Path, typer.Option(help="Folder of the index; run again to go on.", rich_help_panel=OUTPUT)]
