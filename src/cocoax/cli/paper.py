"""``cocoax paper …``: the experiments of the paper, and what only they need."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cocoax
from cocoax.cli.options import AsJson, Crop, Device, EncoderName, Grid, Samples, Seed, ask_option, how_option, out_option
from cocoax.cli.terminal import (
    counted,
    draw_into_files,
    note,
    print_plain,
    print_table,
    print_written,
    resumable,
    show_result,
)

if TYPE_CHECKING:
    from cocoax.paper.annotations import Example


# --- reproduce ------------------------------------------------------------------------------------------------------------

_SMALL_ENCODER = "simclr-cifar10-small"
_SCALE = "At which scale"


def reproduce_study(
    name: Annotated[str | None, typer.Argument(help="A table, a figure or a study; --list names them.")] = None,
    data: Annotated[Path | None, ask_option("Folder of CIFAR-10, ImageNet, Imagenette, MURA or of class folders.")] = None,
    classes: Annotated[str | None, ask_option("Names or numbers of those that take part; else all.")] = None,
    picture: Annotated[list[str] | None, ask_option("For 'localisation': FILE:P:Q, a picture and two things in it.")] = None,
    encoder: Annotated[str, how_option("An encoder with a head for the classes of the data.")] = _SMALL_ENCODER,
    device: Device = None,
    preset: Annotated[
        str, typer.Option(help="'paper' for the published scale, 'small' for minutes.", rich_help_panel=_SCALE)
    ] = "small",
    runs: Annotated[
        int | None, typer.Option(min=1, help="How often everything is drawn anew.", rich_help_panel=_SCALE)
    ] = None,
    explicands: Annotated[
        int | None, typer.Option(min=1, help="Pictures to explain, per class and run.", rich_help_panel=_SCALE)
    ] = None,
    corpus: Annotated[int | None, typer.Option(min=1, help="Images in a corpus.", rich_help_panel=_SCALE)] = None,
    foil: Annotated[int | None, typer.Option(min=1, help="Images in a foil.", rich_help_panel=_SCALE)] = None,
    samples: Annotated[int | None, typer.Option(min=10, help="Masks of RISE.", rich_help_panel=_SCALE)] = None,
    grid: Annotated[int | None, typer.Option(min=1, help="Cells of a mask.", rich_help_panel=_SCALE)] = None,
    out: Annotated[Path, out_option("Folder for results; a study that was stopped goes on.")] = Path("results"),
    show_list: Annotated[bool, typer.Option("--list", help="Name every table and figure.")] = False,
) -> None:
    """Run an experiment of the paper on any encoder and data, and see its numbers beside the published ones.

    Examples:
        cocoax paper reproduce --list
        cocoax paper reproduce main --data cifar-10/ --runs 1 --classes cat,dog
        cocoax paper reproduce localisation --picture photo.jpg:tabby:sofa

    """
    if show_list or name is None:
        from cocoax.paper.studies import NAMES

        print_table(("name", "what it is", "study"), [[key, title, study] for key, (title, study) in NAMES.items()])
        return
    _check_name(name)
    changes = {"runs": runs, "explicands": explicands, "corpus": corpus, "foil": foil, "samples": samples, "grid": grid}
    draw_into_files()
    if name == "localisation":
        with resumable("finished runs are kept"):
            print_written(_localise_pictures(encoder, device, picture or [], out, preset, changes))
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
    with resumable(lambda: f"kept {_kept_units(out, '*/*/units', 'explicand')} and encoded images in {out}"):
        print_written(run_study(name, cocoax.load(encoder, device=device), train, held_out, out, options))


def _kept_units(out: Path, folder: str, thing: str) -> str:
    """Return how many results of a study are kept, in words."""
    return counted(len(list(out.glob(f"{folder}/*.safetensors"))), thing)


def _check_name(name: str) -> None:
    """Raise if no study has this name."""
    from cocoax.paper.studies import NAMES

    if name not in NAMES:
        close = difflib.get_close_matches(name, NAMES, n=3, cutoff=0.3)
        raise ValueError(f"No study is called {name!r}; close are {', '.join(close) or 'none'}. --list names them all.")


def _localise_pictures(
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
    name = "starter" if encoder == _SMALL_ENCODER else encoder  # captions need a text tower
    return run_localisation(cocoax.load(name, device=device), shown, out, options_of(preset, changes, "localisation"))


# --- train ----------------------------------------------------------------------------------------------------------------

_RECIPE = "In place of the published recipe"
_LINEAR = "For 'linear'"


class _Objective(StrEnum):
    """A training objective."""

    simsiam = "simsiam"
    simclr = "simclr"
    classifier = "classifier"
    linear = "linear"


def train_encoder(
    what: Annotated[_Objective, typer.Argument(help="simsiam, simclr or classifier; 'linear' for one on a frozen encoder.")],
    data: Annotated[Path, typer.Option(help="Folder of CIFAR-10, ImageNet, Imagenette, MURA or of class folders.")],
    out: Annotated[Path, out_option("Folder of the training; one that was stopped goes on. For 'linear', a file.")],
    small: Annotated[
        bool, typer.Option("--small", help="The recipe that two cores manage in two hours.", rich_help_panel=_RECIPE)
    ] = False,
    encoder: Annotated[str | None, typer.Option(help="The encoder that gets it.", rich_help_panel=_LINEAR)] = None,
    solver: Annotated[str, typer.Option(help="'sgd' (the paper's) or 'logistic'.", rich_help_panel=_LINEAR)] = "sgd",
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the data.", rich_help_panel=_RECIPE)] = None,
    batch_size: Annotated[int | None, typer.Option(min=2, help="Images in a step.", rich_help_panel=_RECIPE)] = None,
    device: Device = None,
) -> None:
    """Train an encoder, or a linear classifier on one; the published hyperparameters unless told otherwise.

    Examples:
        cocoax paper train simclr --data cifar-10/ --out training --small
        cocoax paper train linear --data cifar/ --encoder simsiam:a.pth --out b
        cocoax paper train simsiam --data photos/ --out training --epochs 100

    """
    from cocoax.data import open_data
    from cocoax.paper.training.recipes import recipe_of
    from cocoax.paper.training.trainer import Training, train_linear

    changes = {"epochs": epochs, "batch_size": batch_size}
    options: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    linear = what is _Objective.linear
    if linear != (encoder is not None) or (linear and small):
        raise ValueError("'linear' takes the network of --encoder FAMILY:FILE, without --small; others train a new one.")
    if encoder is not None:
        train, held_out = open_data(data, "train"), open_data(data, "test")
        accuracy = train_linear(encoder, train, held_out, out, solver, device=device, **options)
        print_plain(f"held-out accuracy {accuracy:.4f}")
        print_written([out])
        return
    recipe = recipe_of(what.value, small=small, **options)
    training = Training(recipe, open_data(data, "train"), out, device)
    if training.step:
        note(f"going on from step {training.step} of {training.steps}")
    with resumable(lambda: f"kept {training.step} of {training.steps} steps"):
        finished = training.run(open_data(data, "test"), say=print_plain)
    print_written([finished] if finished else [])


# --- localise -------------------------------------------------------------------------------------------------------------


def localise_captions(
    folder: Annotated[Path, typer.Argument(help="Folder of pictures.")],
    annotations: Annotated[Path | None, ask_option("COCO json: boxes, polygons or run lengths.")] = None,
    masks: Annotated[Path | None, ask_option("Folder of masks: CLASS/NAME.png for the picture NAME.")] = None,
    collages: Annotated[int | None, ask_option("Or make this many collages of four photos each.", min=1)] = None,
    encoder: EncoderName = "starter",
    device: Device = None,
    crop: Crop = False,
    samples: Samples = 1000,
    grid: Grid = 7,
    seed: Seed = 0,
    foil: Annotated[str, ask_option("Contrast with the other classes 'present' in the picture, or with 'all'.")] = "present",
    limit: Annotated[int | None, ask_option("Only the first so many pictures.", min=1)] = None,
    out: Annotated[Path, out_option("Folder for results; run again to go on where it stopped.")] = Path("localisation"),
    as_json: AsJson = False,
) -> None:
    """Measure whether heat maps lie on the things that captions name, over a folder of pictures.

    Examples:
        cocoax paper localise photos/ --collages 50
        cocoax paper localise val2017/ --annotations instances.json --limit 200
        cocoax paper localise photos/ --masks masks/ --json

    """
    from cocoax.paper.annotations import class_names
    from cocoax.paper.studies.localisation_benchmark import localise

    if foil not in ("present", "all"):
        raise ValueError(f"--foil is 'present' or 'all'. Got {foil!r} instead.")
    examples = _open_examples(folder, annotations, masks, collages, seed)
    out.mkdir(parents=True, exist_ok=True)
    loaded = cocoax.load(encoder, device=device)
    with resumable(lambda: f"kept the results of {_kept_units(out, 'units', 'picture')} in {out}"):
        scores = localise(
            loaded.cropped() if crop else loaded,
            examples[:limit],
            cocoax.Rise(samples=samples, grid=grid, seed=seed, baseline=cocoax.Blur()),
            class_names(examples) if foil == "all" else None,
            folder=out,
            tell=note,
        )
    show_result(scores, out / "summary.json", as_json)


def _open_examples(
    folder: Path, annotations: Path | None, masks: Path | None, collages: int | None, seed: int
) -> list[Example]:
    """Return pictures with masks, from the one source that is not None; raise unless there is exactly one."""
    from cocoax.paper.annotations import coco_examples, collage_examples, mask_examples

    if sum(source is not None for source in (annotations, masks, collages)) != 1:
        raise ValueError("Say what is where, in one way: --annotations FILE, --masks FOLDER or --collages NUMBER.")
    if annotations is not None:
        return coco_examples(annotations, folder)
    return mask_examples(folder, masks) if masks is not None else collage_examples(folder, collages or 0, seed)


# --- augmentations --------------------------------------------------------------------------------------------------------


def compare_augmentations(
    images: Annotated[list[Path], typer.Argument(help="One or more pictures.")],
    foil: Annotated[Path, ask_option("Folder of other pictures that the original is contrasted with.")],
    encoder: EncoderName = "efficientnet-lite0",
    device: Device = None,
    most: Annotated[int, ask_option("Pictures of the foil, drawn at random.", min=1)] = 1500,
    samples: Samples = 1000,
    grid: Grid = 7,
    seed: Seed = 0,
    out: Annotated[Path, out_option("Folder for the figure, the maps and the JSON.")] = Path("augmentations"),
) -> None:
    """Show what still makes a picture look like the original after each of seven augmentations.

    Examples:
        cocoax paper augmentations photo.jpg --foil photos/
        cocoax paper augmentations cat.jpg dog.jpg --foil photos/ --most 500

    """
    from cocoax.inputs.image import image_files, open_image
    from cocoax.paper.studies.augmentations import explain_augmentations
    from cocoax.seeding import stream

    draw_into_files()
    opened = [open_image(image) for image in images]  # what is wrong with one is told before the encoder is loaded
    files = image_files(foil)
    drawn = [files[index] for index in sorted(stream(seed).permutation(len(files))[:most])]
    loaded = cocoax.load(encoder, device=device)
    method = cocoax.Rise(samples=samples, grid=grid, seed=seed)
    with resumable("runs and encoded pictures of the foil are kept"):
        others = loaded.reference(drawn, name=counted(len(drawn), "other picture"))
        for number, (file, image) in enumerate(zip(images, opened, strict=True), 1):
            result = explain_augmentations(loaded, image, others, method, seed=seed)
            print_plain(str(file))
            show_result(result, out if len(images) == 1 else out / f"{number}-{file.stem}", as_json=False)


# --- convert-simclr -------------------------------------------------------------------------------------------------------


def convert_checkpoint(
    checkpoint: Annotated[Path, typer.Argument(help="Folder of the TensorFlow checkpoint, or the prefix of its files.")],
    out: Annotated[Path, typer.Argument(help="File to write, *.safetensors.")],
) -> None:
    """Convert a published SimCLR checkpoint (ResNet-50, TensorFlow) with its classifier; needs TensorFlow.

    Examples:
        cocoax paper convert-simclr r50_1x_sk0/ simclr.safetensors
        cocoax paper convert-simclr checkpoints/model.ckpt-250228 simclr.safetensors

    """
    from cocoax.paper.networks.simclr_converter import convert_simclr

    path = convert_simclr(checkpoint, out)
    print_plain(f"wrote {path}; load it with cocoax.load('simclr:{path}')")
