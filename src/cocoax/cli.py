"""The command line: a thin layer over the public API."""

from __future__ import annotations

import difflib
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

import cocoax

app = typer.Typer(help="What in an input makes its representation similar to these things, rather than to those?")
console = Console()


def _version(asked: bool) -> None:
    if asked:
        console.print(cocoax.__version__)
        raise typer.Exit


@app.callback(no_args_is_help=True, invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures and the report.")] = Path("demo"),
    samples: Annotated[int, typer.Option(help="Masked copies of each photo to encode.", min=10)] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the masks.")] = 0,
) -> None:
    """Ask the starter encoder about a collage and a portrait, in words and with pictures."""
    import matplotlib

    from cocoax.demo import run_demo

    matplotlib.use("Agg")

    console.print(f"Encoding {samples} masked copies of each of two photos; every question is answered from those.")
    answers, files = run_demo(out, samples, seed)
    table = Table("What makes the collage similar to …", "score", "hottest quadrant", "as expected")
    for answer in answers:
        mark = "[green]yes[/]" if answer.found == answer.expected else f"[red]no, expected {answer.expected}[/]"
        table.add_row(escape(answer.attribution.name), f"{answer.attribution.score:+.3f}", answer.found, mark)
    console.print(table)
    for file in files:
        console.print(f"wrote {file}", highlight=False, soft_wrap=True, markup=False)


@app.command()
def bench(
    quick: Annotated[bool, typer.Option("--quick/--full", help="A few minutes, or all of it.")] = True,
    repeats: Annotated[int | None, typer.Option(help="Repetitions of each timing.", min=1)] = None,
    out: Annotated[Path, typer.Option(help="Where to write the JSON; a plot goes beside it.")] = Path("bench.json"),
) -> None:
    """Measure speed and accuracy against the bare encoder, Captum and the published call pattern."""
    import matplotlib
    import torch

    from cocoax.bench import plot_errors, run_bench, write_json

    matplotlib.use("Agg")
    figures = run_bench(quick, repeats, lambda text: console.print(f"[dim]{text}[/]", highlight=False))
    table = Table("figure", "subject", "median", "spread", "goal", "", title=f"{torch.get_num_threads()} threads")
    for figure in figures:
        spread = f"{min(figure.values):.3g} to {max(figure.values):.3g}"
        mark = "[green]reached[/]" if figure.reached else "[red]not reached[/]"
        table.add_row(figure.name, figure.subject, f"{figure.median:.3g}", spread, figure.goal, mark)
    console.print(table)
    for path in (write_json(out, figures), plot_errors(figures, out.with_suffix(".png"))):
        console.print(f"wrote {path}", highlight=False, soft_wrap=True, markup=False)


@app.command()
def cache(clear: Annotated[bool, typer.Option("--clear", help="Delete everything in it.")] = False) -> None:
    """Look at the cache of encoded references, or clear it."""
    info = cocoax.clear_cache() if clear else cocoax.cache_info()
    what = "deleted" if clear else "holds"
    console.print(
        f"{info.folder}: {what} {info.files} chunks, {info.bytes / 1e6:.1f} MB", highlight=False, soft_wrap=True, markup=False
    )


@app.command()
def encoders() -> None:
    """List the encoders that can be loaded by name, and how to get those that cannot yet."""
    from cocoax.encoders import ENCODERS

    table = Table("name", "what it is", "installed")
    for name, known in ENCODERS.items():
        here = f"[red]no[/]: pip install 'cocoax\\[{known.extra}]'" if known.missing else "[green]yes[/]"
        table.add_row(f"{name}NAME_OR_FOLDER" if name.endswith(":") else name, escape(known.what), here)
    console.print(table)


@app.command("convert-simclr")
def convert_simclr(
    checkpoint: Annotated[Path, typer.Argument(help="Folder of the TensorFlow checkpoint, or the prefix of its files.")],
    out: Annotated[Path, typer.Argument(help="File to write, *.safetensors.")],
) -> None:
    """Convert a published SimCLR checkpoint (ResNet-50, TensorFlow) with its classifier; TensorFlow is not needed."""
    from cocoax.encoders.simclr import convert_simclr

    path = convert_simclr(checkpoint, out)
    console.print(f"wrote {path}; load it with cocoax.load('simclr:{path}')", highlight=False, soft_wrap=True, markup=False)


class Trained(StrEnum):
    """What can be trained."""

    simsiam = "simsiam"
    simclr = "simclr"
    classifier = "classifier"
    linear = "linear"


@app.command()
def train(
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

    given = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate, "seed": seed}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    training, held_out = open_data(data, "train"), open_data(data, "test")
    if what is Trained.linear:
        from cocoax.training.linear import train_linear

        if encoder is None:
            raise ValueError("Say which encoder gets the classifier, as in --encoder simclr:training/encoder.safetensors.")
        accuracy = train_linear(encoder, training, held_out, out, solver, **options)
        console.print(f"held-out accuracy {accuracy:.4f}", highlight=False)
        console.print(f"wrote {out}", highlight=False, soft_wrap=True, markup=False)
        return
    from cocoax.training.trainer import RECIPES, Training

    name = f"{what.value}-small" if small else what.value
    if name not in RECIPES:
        raise ValueError(f"There is no small recipe for {what.value}; leave --small out.")
    recipe = replace(RECIPES[name], **options, architecture=architecture or RECIPES[name].architecture)
    work = Training(recipe, training, out)
    if work.step:
        console.print(f"going on from step {work.step} of {work.steps}", highlight=False)
    try:
        finished = work.run(held_out, say=lambda line: console.print(line, highlight=False))
    except KeyboardInterrupt:
        console.print(f"stopped at step {work.step} of {work.steps}; the same command goes on from there", highlight=False)
        raise
    console.print(f"wrote {finished}", highlight=False, soft_wrap=True, markup=False)


@app.command()
def reproduce(
    name: Annotated[str | None, typer.Argument(help="A table, a figure or a study; --list names them.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of CIFAR-10, ImageNet, Imagenette, MURA or of class folders.")
    ] = None,
    encoder: Annotated[
        str, typer.Option(help="An encoder with a head for the classes of the data.")
    ] = "simclr-cifar10-small",
    out: Annotated[Path, typer.Option(help="Folder for results; a study that was stopped goes on.")] = Path("results"),
    preset: Annotated[str, typer.Option(help="'paper' for the published scale, 'small' for minutes.")] = "small",
    runs: Annotated[int | None, typer.Option(min=1)] = None,
    explicands: Annotated[int | None, typer.Option(min=1, help="Per class and run.")] = None,
    corpus: Annotated[int | None, typer.Option(min=1)] = None,
    foil: Annotated[int | None, typer.Option(min=1)] = None,
    samples: Annotated[int | None, typer.Option(min=10, help="Masks of RISE.")] = None,
    grid: Annotated[int | None, typer.Option(min=1, help="Cells of a mask.")] = None,
    show_list: Annotated[bool, typer.Option("--list", help="Name every table and figure.")] = False,
) -> None:
    """Run an experiment of the paper on any encoder and data, and see its numbers beside the published ones."""
    from cocoax.studies import NAMES

    if show_list or name is None:
        table = Table(Column("name", no_wrap=True), "what it is", "study")
        for known, (what, study) in NAMES.items():
            table.add_row(known, escape(what), study)
        console.print(table)
        return
    if name not in NAMES:
        close = difflib.get_close_matches(name, NAMES, n=3, cutoff=0.3)
        raise ValueError(f"No study is called {name!r}; close are {', '.join(close) or 'none'}. --list names them all.")
    if data is None:
        raise ValueError(
            "Say where the data are: --data FOLDER, of CIFAR-10, ImageNet, Imagenette, MURA or of class folders."
        )
    import matplotlib

    from cocoax.data import open_data
    from cocoax.studies.reproduce import options_of, run_study

    matplotlib.use("Agg")
    asked = {"runs": runs, "explicands": explicands, "corpus": corpus, "foil": foil, "samples": samples, "grid": grid}
    written = run_study(
        name, cocoax.load(encoder), open_data(data, "train"), open_data(data, "test"), out, options_of(preset, asked)
    )
    for file in written:
        console.print(f"wrote {file}", highlight=False, soft_wrap=True, markup=False)


def main() -> None:
    """Run the command line; what a user did wrong is told in a sentence, not in a traceback."""
    try:
        app()
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted", highlight=False)
        raise SystemExit(130) from None
    except (ValueError, TypeError, OSError, ImportError, MemoryError, RuntimeError) as error:
        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
