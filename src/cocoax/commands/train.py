"""``cocoax train``: train an encoder, or a classifier on one."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cocoax.commands.terminal import console, print_plain

if TYPE_CHECKING:
    from cocoax.data.labelled import LabelledImages
    from cocoax.training.recipes import Recipe
    from cocoax.training.trainer import Training


class Trained(StrEnum):
    """What can be trained."""

    simsiam = "simsiam"
    simclr = "simclr"
    classifier = "classifier"
    linear = "linear"


def train_encoder(
    what: Annotated[Trained, typer.Argument(help="A method, or 'linear' for a classifier on a frozen encoder.")],
    data: Annotated[Path, typer.Option(help="Folder of CIFAR-10, ImageNet, Imagenette, MURA or of class folders.")],
    out: Annotated[Path, typer.Option(help="Folder of the training; one that was stopped goes on. For 'linear', a file.")],
    small: Annotated[bool, typer.Option("--small", help="The recipe that two cores manage in two hours.")] = False,
    encoder: Annotated[str | None, typer.Option(help="For 'linear': the encoder that gets the classifier.")] = None,
    solver: Annotated[str, typer.Option(help="For 'linear': 'sgd' (the paper's) or 'logistic'.")] = "sgd",
    epochs: Annotated[int | None, typer.Option(min=1)] = None,
    batch_size: Annotated[int | None, typer.Option(min=2)] = None,
    learning_rate: Annotated[float | None, typer.Option()] = None,
    architecture: Annotated[str | None, typer.Option(help="A network, such as cifar-resnet18.")] = None,
    seed: Annotated[int | None, typer.Option(min=0)] = None,
) -> None:
    """Train an encoder, or a linear classifier on one; the published hyperparameters unless told otherwise."""
    from cocoax.data import open_data

    check_options(what, encoder, small, architecture)
    training, held_out = open_data(data, "train"), open_data(data, "test")
    changes = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate, "seed": seed}
    options: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    if encoder is not None:
        from cocoax.training.linear import train_linear

        accuracy = train_linear(encoder, training, held_out, out, solver, **options)
        console.print(f"held-out accuracy {accuracy:.4f}", highlight=False)
        print_plain(f"wrote {out}")
        return
    from cocoax.training.trainer import Training

    run_training(Training(recipe_of(what, small, architecture, options), training, out), held_out)


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
    from cocoax.training.recipes import RECIPES

    name = f"{kind.value}-small" if small else kind.value
    if name not in RECIPES:
        raise ValueError(f"There is no small recipe for {kind.value}; leave --small out.")
    return replace(RECIPES[name], **options, architecture=architecture or RECIPES[name].architecture)


def run_training(training: Training, held_out: LabelledImages) -> None:
    """Train to the end, from where an earlier training stopped; say where it is when interrupted."""
    if training.step:
        console.print(f"going on from step {training.step} of {training.steps}", highlight=False)
    try:
        finished = training.run(held_out, say=lambda line: console.print(line, highlight=False))
    except KeyboardInterrupt:
        stopped = f"stopped at step {training.step} of {training.steps}; the same command goes on from there"
        console.print(stopped, highlight=False)
        raise
    print_plain(f"wrote {finished}")
