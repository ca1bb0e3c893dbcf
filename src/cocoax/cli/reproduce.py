"""``cocoax reproduce``: the experiments of the paper."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

import cocoax
from cocoax.cli.terminal import ASKED, HOW, OUTPUT, Device, Kept, counted, draw_into_files, print_line, print_written

EXAMPLES = (
    "cocoax reproduce --list",
    "cocoax reproduce main --data cifar-10/ --runs 1 --classes cat,dog",
    "cocoax reproduce localisation --picture photo.jpg:tabby:sofa --out results",
)
SMALL_ENCODER = "simclr-cifar10-small"
SCALE = "At which scale"


def reproduce_study(
    name: NameOption = None,
    data: DataOption = None,
    classes: ClassesOption = None,
    picture: PictureOption = None,
    encoder: EncoderOption = SMALL_ENCODER,
    device: Device = None,
    preset: PresetOption = "small",
    runs: RunsOption = None,
    explicands: ExplicandsOption = None,
    corpus: CorpusOption = None,
    foil: FoilOption = None,
    samples: SamplesOption = None,
    grid: GridOption = None,
    out: OutOption = Path("results"),
    show_list: ShowListOption = False,
) -> None:
    """Run an experiment of the paper on any encoder and data, and see its numbers beside the published ones."""
    if show_list or name is None:
        list_studies()
        return
    check_name(name)
    changes = {"runs": runs, "explicands": explicands, "corpus": corpus, "foil": foil, "samples": samples, "grid": grid}
    draw_into_files()
    if name == "localisation":
        try:
            print_written(localise_pictures(encoder, device, picture or [], out, preset, changes))
        except KeyboardInterrupt as stop:
            raise Kept("finished runs are kept; the same command goes on from there") from stop
        return
    if data is None:
        raise ValueError(
            "Say where the data are: --data FOLDER, of CIFAR-10, ImageNet, Imagenette, MURA or of class folders."
        )
    from cocoax.data import open_data
    from cocoax.paper.studies.reproduce import class_numbers, options_of, run_study

    options, train, held_out = options_of(preset, changes, name), open_data(data, "train"), open_data(data, "test")
    if classes is not None:
        options = replace(options, classes=class_numbers(classes, train.classes))
    try:
        print_written(run_study(name, cocoax.load(encoder, device=device), train, held_out, out, options))
    except KeyboardInterrupt as stop:
        done = counted(sum(1 for _ in out.glob("*/*/units/*.safetensors")), "explicand")
        raise Kept(f"kept {done} and encoded images in {out}; the same command goes on from there") from stop


def list_studies() -> None:
    """Print the name of every table, figure and study, and what it is."""
    from cocoax.paper.studies import NAMES

    for name, (title, study) in NAMES.items():
        made_by = f" [dim](study {study})[/]" if study != name else ""
        print_line(f"[bold]{name}[/]{made_by}\n    {escape(title)}")


def check_name(name: str) -> None:
    """Raise if no study has this name."""
    from cocoax.paper.studies import NAMES

    if name not in NAMES:
        close = difflib.get_close_matches(name, NAMES, n=3, cutoff=0.3)
        raise ValueError(f"No study is called {name!r}; close are {', '.join(close) or 'none'}. --list names them all.")


def localise_pictures(
    encoder: str, device: str | None, pictures: Sequence[str], out: Path, preset: str, changes: Mapping[str, Any]
) -> list[Path]:
    """Make the figure of localisation, for pictures written as FILE:P:Q or else for two sample photos; return its files."""
    from cocoax.data.samples import collage, photo
    from cocoax.paper.studies.reproduce import options_of, run_localisation

    parts = [text.rsplit(":", 2) for text in pictures]
    wrong = [text for text, part in zip(pictures, parts, strict=True) if len(part) != 3]
    if wrong:
        raise ValueError(f"A picture for 'localisation' is FILE:P:Q, as in photo.jpg:cat:dog. Got {wrong[0]!r}.")
    written: list[Any] = [(file, p, q) for file, p, q in parts]
    shown = written or [(collage(), "cat", "motorbike"), (photo("astronaut"), "rocket", "helmet")]
    name = "starter" if encoder == SMALL_ENCODER else encoder  # captions need a text tower
    return run_localisation(cocoax.load(name, device=device), shown, out, options_of(preset, changes, "localisation"))


NameOption = Annotated[str | None, typer.Argument(help="A table, a figure or a study; --list names them.")]
DataOption = Annotated[
    Path | None,
    typer.Option(help="Folder of CIFAR-10, ImageNet, Imagenette, MURA or of class folders.", rich_help_panel=ASKED),
]
ClassesOption = Annotated[
    str | None,
    typer.Option(help="Those that take part, as names or numbers with commas between them; else all.", rich_help_panel=ASKED),
]
PictureOption = Annotated[
    list[str] | None,
    typer.Option(help="For 'localisation': FILE:P:Q, a picture and two things in it; repeatable.", rich_help_panel=ASKED),
]
EncoderOption = Annotated[str, typer.Option(help="An encoder with a head for the classes of the data.", rich_help_panel=HOW)]
PresetOption = Annotated[
    str, typer.Option(help="'paper' for the published scale, 'small' for minutes.", rich_help_panel=SCALE)
]
RunsOption = Annotated[int | None, typer.Option(min=1, help="How often everything is drawn anew.", rich_help_panel=SCALE)]
ExplicandsOption = Annotated[
    int | None, typer.Option(min=1, help="Pictures to explain, per class and run.", rich_help_panel=SCALE)
]
CorpusOption = Annotated[int | None, typer.Option(min=1, help="Images in a corpus.", rich_help_panel=SCALE)]
FoilOption = Annotated[int | None, typer.Option(min=1, help="Images in a foil.", rich_help_panel=SCALE)]
SamplesOption = Annotated[int | None, typer.Option(min=10, help="Masks of RISE.", rich_help_panel=SCALE)]
GridOption = Annotated[int | None, typer.Option(min=1, help="Cells of a mask.", rich_help_panel=SCALE)]
OutOption = Annotated[
    Path, typer.Option(help="Folder for results; a study that was stopped goes on.", rich_help_panel=OUTPUT)
]
ShowListOption = Annotated[bool, typer.Option("--list", help="Name every table and figure.")]
