"""``cocoax train``: train an encoder, or a classifier on one."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cocoax.cli.terminal import OUTPUT, Device, Kept, note, print_plain

if TYPE_CHECKING:
    from cocoax.data.labelled import LabelledImages
    from cocoax.paper.training.recipes import Recipe
    from cocoax.paper.training.trainer import Training

EXAMPLES = (
    "cocoax train simclr --data cifar-10/ --out training --small",
    "cocoax train linear --data cifar/ --encoder simsiam:a.pth --out b.safetensors",
    "cocoax train simsiam --data photos/ --out training --epochs 100",
)
RECIPE = "In place of the published recipe"
LINEAR = "For 'linear'"


class Trained(StrEnum):
    """What can be trained."""

    simsiam = "simsiam"
    simclr = "simclr"
    classifier = "classifier"
    linear = "linear"


def train_encoder(
    what: Annotated[Trained, typer.Argument(help="simsiam, simclr or classifier; 'linear' for one on a frozen encoder.")],
    data: Annotated[Path, typer.Option(help="Folder of CIFAR-10, ImageNet, Imagenette, MURA or of class folders.")],
    out: Annotated[
        Path,
        typer.Option(
            help="Folder of the training; one that was stopped goes on. For 'linear', a file.", rich_help_panel=OUTPUT
        ),
    ],
    small: Annotated[
        bool, typer.Option("--small", help="The recipe that two cores manage in two hours.", rich_help_panel=RECIPE)
    ] = False,
    encoder: Annotated[str | None, typer.Option(help="The encoder that gets the classifier.", rich_help_panel=LINEAR)] = None,
    solver: Annotated[str, typer.Option(help="'sgd' (the paper's) or 'logistic'.", rich_help_panel=LINEAR)] = "sgd",
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the data.", rich_help_panel=RECIPE)] = None,
    batch_size: Annotated[int | None, typer.Option(min=2, help="Images in a step.", rich_help_panel=RECIPE)] = None,
    learning_rate: Annotated[float | None, typer.Option(help="At its highest.", rich_help_panel=RECIPE)] = None,
    architecture: Annotated[
        str | None, typer.Option(help="A network, such as cifar-resnet18.", rich_help_panel=RECIPE)
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of everything random.", rich_help_panel=RECIPE)] = None,
    device: Device = None,
) -> None:
    """Train an encoder, or a linear classifier on one; the published hyperparameters unless told otherwise."""
    from cocoax.data import open_data

    check_options(what, encoder, small, architecture)
    training, held_out = open_data(data, "train"), open_data(data, "test")
    changes = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate, "seed": seed}
    options: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    if encoder is not None:
        from cocoax.paper.training.trainer import train_linear

        try:
            accuracy = train_linear(encoder, training, held_out, out, solver, device=device, **options)
        except KeyboardInterrupt as stop:
            raise Kept("nothing was kept; the classifier is trained anew next time") from stop
        print_plain(f"held-out accuracy {accuracy:.4f}")
        print_plain(f"wrote {out}")
        return
    from cocoax.paper.training.trainer import Training

    run_training(Training(recipe_of(what, small, architecture, options), training, out, device), held_out)


def check_options(kind: Trained, encoder: str | None, small: bool, architecture: str | None) -> None:
    """Raise if options of a classifier were given for a new encoder, or the other way round."""
    if kind is Trained.linear and encoder is None:
        raise ValueError("Say which encoder gets the classifier, as in --encoder simclr:training/encoder.safetensors.")
    if kind is Trained.linear and (small or architecture is not None):
        raise ValueError("--small and --architecture choose a new network; 'linear' takes the one of --encoder.")
    if kind is not Trained.linear and encoder is not None:
        raise ValueError(f"--encoder is for 'linear'; {kind.value} trains a new encoder.")


def recipe_of(kind: Trained, small: bool, architecture: str | None, options: dict[str, Any]) -> Recipe:
    """Return the published recipe, or the small one, with the options that were given."""
    from cocoax.paper.training.recipes import RECIPES

    name = f"{kind.value}-small" if small else kind.value
    if name not in RECIPES:
        raise ValueError(f"There is no small recipe for {kind.value}; leave --small out.")
    return replace(RECIPES[name], **options, architecture=architecture or RECIPES[name].architecture)


def run_training(training: Training, held_out: LabelledImages) -> None:
    """Train to the end, from where an earlier training stopped; say where it is when interrupted."""
    if training.step:
        note(f"going on from step {training.step} of {training.steps}")
    try:
        finished = training.run(held_out, say=print_plain)
    except KeyboardInterrupt as stop:
        raise Kept(f"kept {training.step} of {training.steps} steps; the same command goes on from there") from stop
    print_plain(f"wrote {finished}")
