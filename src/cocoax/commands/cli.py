"""The command line: a thin layer over the public API."""

from __future__ import annotations

import difflib
import json
import warnings
from collections.abc import Iterable
from dataclasses import fields, replace
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


def _show_written(files: Iterable[Path]) -> None:
    for file in files:
        console.print(f"wrote {file}", highlight=False, soft_wrap=True, markup=False)


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

    from cocoax.commands.demo import run_demo

    matplotlib.use("Agg")

    console.print(f"Encoding {samples} masked copies of each of two photos; every question is answered from those.")
    answers, files = run_demo(out, samples, seed)
    table = Table("What makes the collage similar to …", "score", "hottest quadrant", "as expected")
    for answer in answers:
        mark = "[green]yes[/]" if answer.found == answer.expected else f"[red]no, expected {answer.expected}[/]"
        table.add_row(escape(answer.attribution.name), f"{answer.attribution.score:+.3f}", answer.found, mark)
    console.print(table)
    _show_written(files)


@app.command(name="ask-text")
def ask_text(
    text: Annotated[str, typer.Argument(help="The text to explain; - reads it from standard input.")],
    like: Annotated[list[str], typer.Option(help="What it is compared with; may be given several times.")],
    unlike: Annotated[list[str] | None, typer.Option(help="Rather than what; may be given several times.")] = None,
    match: Annotated[
        bool, typer.Option("--match", help="TEXT is a query, --like the document it found: explain both sides.")
    ] = False,
    encoder: Annotated[
        str, typer.Option(help="The text encoder, as for cocoax.load: minilm, st:NAME_OR_FOLDER, …")
    ] = "minilm",
    features: Annotated[str, typer.Option(help="words, tokens or sentences")] = "words",
    removal: Annotated[str | None, typer.Option(help="How words are removed: mask, deletion or attention.")] = None,
    method: Annotated[str, typer.Option(help="rise, kernel-shap, occlusion or integrated-gradients")] = "rise",
    samples: Annotated[int, typer.Option(help="Texts with words removed to encode.", min=10)] = 500,
    seed: Annotated[int, typer.Option(help="Seed of what is removed.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for an HTML report and JSON.")] = None,
) -> None:
    """Which words of a text make it similar to some things, rather than to others?"""
    import sys

    from cocoax.commands.ask_text import answer, print_side, write_answers

    sides = answer(
        sys.stdin.read() if text == "-" else text,
        like,
        unlike or [],
        match=match,
        encoder=encoder,
        features=features,
        removal=removal,
        method=method,
        samples=samples,
        seed=seed,
    )
    for heading, side in sides.items():
        print_side(console, heading, side)
    if out is not None:
        _show_written(write_answers(out, sides))


@app.command()
def bench(
    quick: Annotated[bool, typer.Option("--quick/--full", help="A few minutes, or all of it.")] = True,
    repeats: Annotated[int | None, typer.Option(help="Repetitions of each timing.", min=1)] = None,
    out: Annotated[Path, typer.Option(help="The JSON to write; a plot goes beside it.", dir_okay=False)] = Path("bench.json"),
) -> None:
    """Measure speed and accuracy against the bare encoder, Captum and the published call pattern."""
    import matplotlib
    import torch

    from cocoax.commands.bench import plot_errors, run_bench, write_json

    matplotlib.use("Agg")
    figures = run_bench(quick, repeats, lambda text: console.print(f"[dim]{text}[/]", highlight=False))
    table = Table("figure", "subject", "median", "spread", "goal", "", title=f"{torch.get_num_threads()} threads")
    for figure in figures:
        spread = f"{min(figure.values):.3g} to {max(figure.values):.3g}"
        mark = "[green]reached[/]" if figure.reached else "[red]not reached[/]"
        table.add_row(figure.name, figure.subject, f"{figure.median:.3g}", spread, figure.goal, mark)
    console.print(table)
    _show_written((write_json(out, figures), plot_errors(figures, out.with_suffix(".png"))))


@app.command(name="app")
def web_page(
    encoder: Annotated[str, typer.Option(help="What to ask; `cocoax encoders` lists them.")] = "starter",
    samples: Annotated[int, typer.Option(help="Masked copies of a photo to look at.", min=50, max=5000)] = 1000,
    port: Annotated[
        int | None, typer.Option(help="Port; by default the first free one from 7860 on.", min=1, max=65535)
    ] = None,
    kept: Annotated[int, typer.Option(help="Visitors whose runs are kept.", min=1)] = 16,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in a browser.")] = True,
) -> None:
    """Serve the web page, to this machine only: choose a photo, ask in words or pictures, look at the answer."""
    from cocoax.app import launch

    console.print(f"Loading {encoder} …", highlight=False, markup=False)
    page, address = launch(encoder, samples=samples, port=port, kept=kept, browser=browser, wait=False)
    console.print(f"The page is at {address} (Ctrl-C ends it)", highlight=False, soft_wrap=True, markup=False)
    page.blocks.block_thread()
    page.close()


@app.command()
def cache(clear: Annotated[bool, typer.Option("--clear", help="Delete everything in it.")] = False) -> None:
    """Look at the cache of encoded references and saved runs, or clear it."""
    info = cocoax.clear_cache() if clear else cocoax.cache_info()
    what = "deleted" if clear else "holds"
    console.print(
        f"{info.folder}: {what} {info.files} chunks of references, {info.runs} runs, {info.bytes / 1e6:.1f} MB",
        highlight=False,
        soft_wrap=True,
        markup=False,
    )


@app.command()
def encoders() -> None:
    """List the encoders that can be loaded by name, and how to get those that cannot yet."""
    from cocoax.encoders import ENCODERS

    table = Table("name", "what it is", "installed")
    for name, known in ENCODERS.items():
        here = f"[red]no[/]: pip install 'cocoax\\[{known.extra}]'" if known.missing else "[green]yes[/]"
        table.add_row(f"{name}{known.takes}" if name.endswith(":") else name, escape(known.what), here)
    console.print(table)


# --- questions --------------------------------------------------------------------------------------------------------

EncoderName = Annotated[str, typer.Option("--encoder", help="What 'cocoax encoders' lists, such as clip:NAME_OR_FOLDER.")]
Samples = Annotated[int | None, typer.Option(help="Masked copies to encode; by default 1000, or more where more are saved.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]
METHODS: dict[str, Any] = {
    "rise": cocoax.Rise,
    "kernel-shap": cocoax.KernelShap,
    "occlusion": cocoax.Occlusion,
    "vanilla-gradients": cocoax.VanillaGradients,
    "smoothgrad": cocoax.SmoothGrad,
    "integrated-gradients": cocoax.IntegratedGradients,
    "gradient-shap": cocoax.GradientShap,
}


def _method(name: str, given: dict[str, Any]) -> Any:
    """A method by its name, with the options that were given; one that it does not have is an error."""
    if name not in METHODS:
        close = difflib.get_close_matches(name, METHODS, n=1, cutoff=0.4)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"No method is called {name!r}; known are {', '.join(METHODS)}.{hint}")
    options = {key: value for key, value in given.items() if value is not None}
    has = {item.name for item in fields(METHODS[name])}
    for option in options:
        if option not in has:
            raise ValueError(f"The method {name!r} has no option --{option}; it has {', '.join(sorted(has - {'baseline'}))}.")
    return METHODS[name](**options)


def _captions_of(many: str, template: str, without: list[str]) -> list[str]:
    """The captions of a ready-made foil, or of a text file with one name per line."""
    from cocoax.data import caption, cifar100

    if many == "cifar100":
        names = cifar100(without=without)
    elif Path(many).is_file():
        names = [line.strip() for line in Path(many).read_text(encoding="utf-8").splitlines() if line.strip()]
    else:
        raise ValueError(f"--unlike-many takes cifar100 or a text file with one name per line. Got {many!r} instead.")
    found = [one for name in names if (one := caption(name, template)) not in without and name not in without]
    if not found:
        raise ValueError(f"{many} leaves no captions to compare with.")
    return found


@app.command()
def ask(
    image: Annotated[Path, typer.Argument(help="The picture to ask about.")],
    like: Annotated[list[str] | None, typer.Option(help="A caption the picture should be like; may be repeated.")] = None,
    like_image: Annotated[list[Path] | None, typer.Option(help="A picture or folder it should be like.")] = None,
    unlike: Annotated[list[str] | None, typer.Option(help="A caption it should not be like; may be repeated.")] = None,
    unlike_image: Annotated[list[Path] | None, typer.Option(help="A picture or folder it should not be like.")] = None,
    unlike_many: Annotated[str | None, typer.Option(help="Many captions at once: cifar100, or a file of names.")] = None,
    question: Annotated[
        list[str] | None, typer.Option(help="One more question: 'a cat / a kitten rather than a dog', or 'itself'.")
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="Ask about each --like by itself, against the others too.")] = False,
    encoder: EncoderName = "starter",
    method: Annotated[str, typer.Option(help=f"One of {', '.join(METHODS)}.")] = "rise",
    samples: Samples = None,
    grid: Annotated[int | None, typer.Option(help="Cells of a mask in each direction.")] = None,
    tolerance: Annotated[float | None, typer.Option(help="Sample until the map's relative error is below this.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    similarity: Annotated[str, typer.Option(help="cosine, dot, rbf, laplacian or polynomial.")] = "cosine",
    template: Annotated[str, typer.Option(help="Makes captions of the names of --unlike-many.")] = "a {}",
    out: Annotated[Path, typer.Option(help="Folder for pictures, maps, report and JSON.")] = Path("answers"),
) -> None:
    """Ask what in a picture is like some words or pictures, rather than like others.

    Without any --like the picture is compared with itself (label-free). A second question about the same picture is answered
    from the saved run.
    """
    import matplotlib

    from cocoax.inputs.images import open_image
    from cocoax.questions.asking import Question, Side
    from cocoax.questions.report import compare, region_rows, write_answers

    matplotlib.use("Agg")
    if image.is_dir():
        raise ValueError(f"{image} is a folder; ask about one picture at a time.")
    likes = Side(like or (), like_image or ())
    unlikes = Side(
        [*(unlike or ()), *(_captions_of(unlike_many, template, list(likes.captions)) if unlike_many else ())],
        unlike_image or (),
    )
    questions = [Question.parse(text, similarity) for text in question or ()]
    if each:
        if len(likes.captions) + len(likes.images) < 2:
            raise ValueError("--each asks about several things; give --like or --like-image at least twice.")
        alone = [Side([one]) for one in likes.captions] + [Side(images=[one]) for one in likes.images]
        for one in reversed(alone):
            captions = [caption for caption in likes.captions if caption not in one.captions]
            images = [path for path in likes.images if path not in one.images]
            others = Side([*captions, *unlikes.captions], [*images, *unlikes.images])
            questions.insert(0, Question(one, others, similarity=similarity))
    elif likes or unlikes or not questions:
        questions.insert(0, Question(likes, unlikes, similarity=similarity))
    chosen = _method(method, {"samples": samples, "grid": grid, "tolerance": tolerance, "seed": seed})
    picture = open_image(image)  # what is wrong with it is told before the encoder is loaded
    out.mkdir(parents=True, exist_ok=True)
    loaded = cocoax.load(encoder)
    answers = cocoax.ask(loaded, loaded.explicand(picture), questions, chosen, at_least=samples is None)
    for answer in answers:
        console.print(f"\n[bold]{escape(answer.name)}[/]", highlight=False, soft_wrap=True)
        console.print(f"score {escape(answer.split())}", highlight=False, soft_wrap=True)
        if text := compare(answer):
            console.print(text, highlight=False, soft_wrap=True, markup=False)
        table = Table("the score is …", "by the region", "of the picture", "mean change ± standard error")
        for effect, *cells in region_rows(answer):
            table.add_row("[red]raised[/]" if effect == "raises" else "[blue]lowered[/]", *map(escape, cells))
        console.print(table)
    how = answers[0].attribution.metadata
    counted = f", {how['samples']} samples" if how.get("samples") else ""
    stopped = f": {how['stopped']}" if how.get("stopped") else ""
    console.print(f"{how['method']} on {how['encoder']}{counted}{stopped}", highlight=False, markup=False)
    _show_written(write_answers(out, f"{image.name}: what is it like?", answers))


@app.command()
def localise(
    folder: Annotated[Path, typer.Argument(help="Folder of pictures.")],
    annotations: Annotated[Path | None, typer.Option(help="COCO json: boxes, polygons or run lengths.")] = None,
    masks: Annotated[Path | None, typer.Option(help="Folder of masks: CLASS/NAME.png for the picture NAME.")] = None,
    collages: Annotated[int | None, typer.Option(help="Or make this many collages of four photos each.", min=1)] = None,
    boxes: Annotated[bool, typer.Option("--boxes", help="Use boxes even where there are outlines.")] = False,
    encoder: EncoderName = "starter",
    samples: Annotated[int, typer.Option(help="Masked copies of each picture to encode.")] = 1000,
    grid: Annotated[int, typer.Option(help="Cells of a mask in each direction.")] = 7,
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
    from cocoax.data.annotated import class_names, coco_examples, collage_examples, mask_examples
    from cocoax.studies.localise import Asking, describe, summarise
    from cocoax.studies.localise import localise as run

    if sum(given is not None for given in (annotations, masks, collages)) != 1:
        raise ValueError("Say what is where, in one way: --annotations FILE, --masks FOLDER or --collages NUMBER.")
    if foil not in ("present", "all"):
        raise ValueError(f"--foil is 'present' or 'all'. Got {foil!r} instead.")
    if annotations is not None:
        examples = coco_examples(annotations, folder, boxes=boxes)
    elif masks is not None:
        examples = mask_examples(folder, masks)
    else:
        examples = collage_examples(folder, collages or 0, seed)
    names = class_names(examples) if foil == "all" else None
    out.mkdir(parents=True, exist_ok=True)
    records = run(
        cocoax.load(encoder),
        examples[:limit],
        cocoax.Rise(samples=samples, grid=grid, seed=seed),
        Asking(template, names, tolerance, fraction),
        folder=out,
        keep_runs=keep_runs,
        tell=lambda text: console.print(text, highlight=False, markup=False),
    )
    summaries = summarise(records)
    heading = ("asked", "found", "pointing game", "energy inside", f"IoU at {fraction:g}", "best IoU", "chance")
    table = Table(Column("target", no_wrap=True), *heading, title=f"{len({record.picture for record in records})} pictures")
    for one in summaries:
        if not one.name:
            figures = (one.found, one.pointing, one.energy, one.iou, one.best_iou)
            table.add_row(one.target, str(one.questions), *map(str, figures), f"{one.area:.1%}")
    console.print(table)
    console.print("In brackets: 95 % intervals, Wilson's for found and pointing game, bootstrap over pictures for the rest.")
    file = out / "summary.json"
    file.write_text(
        json.dumps({"encoder": encoder, "samples": samples, "summaries": describe(summaries)}, indent=1), encoding="utf-8"
    )
    _show_written((file, out / "results.jsonl"))


@app.command()
def augmentations(
    images: Annotated[list[Path], typer.Argument(help="One or more pictures.")],
    foil: Annotated[Path, typer.Option(help="Folder of other pictures that the original is contrasted with.")],
    encoder: EncoderName = "efficientnet-lite0",
    classes: Annotated[Path | None, typer.Option(help="Class names of the head, one per line; by default its own.")] = None,
    most: Annotated[int, typer.Option(help="Pictures of the foil, drawn at random.", min=1)] = 1500,
    samples: Annotated[int, typer.Option(help="Masked copies of each picture to encode.")] = 1000,
    grid: Annotated[int, typer.Option(help="Cells of a mask in each direction.")] = 7,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="Folder for the figure, the maps and the JSON.")] = Path("augmentations"),
) -> None:
    """Show what still makes a picture look like the original after each of seven augmentations."""
    import matplotlib

    from cocoax.inputs.images import image_files, open_image
    from cocoax.seeding import stream
    from cocoax.studies.augmentations import explain_augmentations, write_augmentations

    matplotlib.use("Agg")
    for image in images:  # what is wrong with one is told before the encoder is loaded
        open_image(image)
    files = image_files(foil)
    drawn = [files[index] for index in sorted(stream(seed).permutation(len(files))[:most])]
    names = classes.read_text(encoding="utf-8").splitlines() if classes else None
    loaded = cocoax.load(encoder)
    others = loaded.reference(drawn, name=f"{len(drawn)} other pictures")
    method = cocoax.Rise(samples=samples, grid=grid, seed=seed)
    rows = [explain_augmentations(loaded, image, others, method, classes=names, seed=seed) for image in images]
    table = Table("picture", "augmentation", "prediction", "similarity to the original", "score")
    for image, row in zip(images, rows, strict=True):
        for one in row:
            predicted = "–" if one.prediction is None else f"{one.prediction} {one.probability:.0%}"
            cells = (image.stem, one.name, predicted, f"{one.similarity:.3f}", f"{one.attribution.score:+.3f}")
            table.add_row(*map(escape, cells))
    console.print(table)
    _show_written(write_augmentations(out, [image.name for image in images], rows)[:2])


@app.command("convert-simclr")
def convert_simclr(
    checkpoint: Annotated[Path, typer.Argument(help="Folder of the TensorFlow checkpoint, or the prefix of its files.")],
    out: Annotated[Path, typer.Argument(help="File to write, *.safetensors.")],
) -> None:
    """Convert a published SimCLR checkpoint (ResNet-50, TensorFlow) with its classifier; TensorFlow is not needed."""
    from cocoax.encoders.load.simclr import convert_simclr

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
    if what is Trained.linear and encoder is None:
        raise ValueError("Say which encoder gets the classifier, as in --encoder simclr:training/encoder.safetensors.")
    if what is Trained.linear and (small or architecture is not None):
        raise ValueError("--small and --architecture choose a new network; 'linear' takes the one of --encoder.")
    if what is not Trained.linear and encoder is not None:
        raise ValueError(f"--encoder is for 'linear'; {what.value} trains a new encoder.")
    training, held_out = open_data(data, "train"), open_data(data, "test")
    if encoder is not None:
        from cocoax.training.linear import train_linear

        accuracy = train_linear(encoder, training, held_out, out, solver, **options)
        console.print(f"held-out accuracy {accuracy:.4f}", highlight=False)
        console.print(f"wrote {out}", highlight=False, soft_wrap=True, markup=False)
        return
    from cocoax.training.recipes import RECIPES
    from cocoax.training.trainer import Training

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
    classes: Annotated[
        str | None, typer.Option(help="Those that take part, as names or numbers with commas between them; else all.")
    ] = None,
    picture: Annotated[
        list[str] | None, typer.Option(help="For 'localisation': FILE:P:Q, a picture and two things in it; repeatable.")
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="Name every table and figure.")] = False,
) -> None:
    """Run an experiment of the paper on any encoder and data, and see its numbers beside the published ones."""
    from cocoax.studies import NAMES

    if show_list or name is None:
        for known, (what, study) in NAMES.items():
            made_by = f" [dim](study {study})[/]" if study != known else ""
            console.print(f"[bold]{known}[/]{made_by}\n    {escape(what)}", highlight=False)
        return
    if name not in NAMES:
        close = difflib.get_close_matches(name, NAMES, n=3, cutoff=0.3)
        raise ValueError(f"No study is called {name!r}; close are {', '.join(close) or 'none'}. --list names them all.")
    asked = {"runs": runs, "explicands": explicands, "corpus": corpus, "foil": foil, "samples": samples, "grid": grid}
    if name == "localisation":
        _show_written(_localisation(encoder, picture or [], out, preset, asked))
        return
    if data is None:
        raise ValueError(
            "Say where the data are: --data FOLDER, of CIFAR-10, ImageNet, Imagenette, MURA or of class folders."
        )
    import matplotlib

    from cocoax.data import open_data
    from cocoax.studies.reproduce import class_numbers, options_of, run_study

    matplotlib.use("Agg")
    options, train, held_out = options_of(preset, asked), open_data(data, "train"), open_data(data, "test")
    if classes is not None:
        options = replace(options, classes=class_numbers(classes, train.classes))
    _show_written(run_study(name, cocoax.load(encoder), train, held_out, out, options))


def _localisation(encoder: str, pictures: list[str], out: Path, preset: str, asked: dict[str, Any]) -> list[Path]:
    import matplotlib

    from cocoax.data.samples import collage, photo
    from cocoax.studies.reproduce import options_of, run_localisation

    matplotlib.use("Agg")
    parts = [text.rsplit(":", 2) for text in pictures]
    wrong = [text for text, part in zip(pictures, parts, strict=True) if len(part) != 3]
    if wrong:
        raise ValueError(f"A picture for 'localisation' is FILE:P:Q, as in photo.jpg:cat:dog. Got {wrong[0]!r}.")
    given = [(file, p, q) for file, p, q in parts]
    shown: list[Any] = [*given] or [(collage(), "cat", "motorbike"), (photo("astronaut"), "rocket", "helmet")]
    name = "starter" if encoder == "simclr-cifar10-small" else encoder  # captions need a text tower
    return run_localisation(cocoax.load(name), shown, out, options_of(preset, asked, "localisation"))


def main() -> None:
    """Run the command line; what a user did wrong is told in a sentence, not in a traceback."""
    # What a library would tell a programmer, a user gets as a sentence.
    warnings.showwarning = lambda message, *_where: Console(stderr=True).print(
        f"[yellow]note:[/] {escape(str(message))}", highlight=False, soft_wrap=True
    )
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
