"""``cocoax ask``: questions about a picture, in words and with pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

import cocoax
from cocoax.commands.methods import METHODS, method_with
from cocoax.commands.terminal import EncoderName, console, draw_into_files, print_plain, print_written


def ask_picture(
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
    samples: Annotated[
        int | None, typer.Option(help="Masked copies to encode; by default 1000, or more where more are saved.")
    ] = None,
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
    from cocoax.inputs.images import open_image
    from cocoax.questions.report import write_answers

    draw_into_files()
    if image.is_dir():
        raise ValueError(f"{image} is a folder; ask about one picture at a time.")
    likes = cocoax.Side(like or (), like_image or ())
    many = captions_of(unlike_many, template, likes.captions) if unlike_many else []
    unlikes = cocoax.Side([*(unlike or ()), *many], unlike_image or ())
    questions = questions_of(likes, unlikes, question or (), each, similarity)
    chosen = method_with(method, {"samples": samples, "grid": grid, "tolerance": tolerance, "seed": seed})
    picture = open_image(image)  # what is wrong with it is told before the encoder is loaded
    out.mkdir(parents=True, exist_ok=True)
    loaded = cocoax.load(encoder)
    answers = cocoax.ask(loaded, loaded.explicand(picture), questions, chosen, at_least=samples is None)
    print_answers(answers)
    print_written(write_answers(out, f"{image.name}: what is it like?", answers))


def captions_of(source: str, template: str, without: Sequence[str]) -> list[str]:
    """Return the captions of a ready-made foil or of a text file with one name per line, without those that are asked for."""
    from cocoax.data import caption, cifar100

    if source == "cifar100":
        names = cifar100(without=list(without))
    elif Path(source).is_file():
        names = [line.strip() for line in Path(source).read_text(encoding="utf-8").splitlines() if line.strip()]
    else:
        raise ValueError(f"--unlike-many takes cifar100 or a text file with one name per line. Got {source!r} instead.")
    captions = [text for name in names if (text := caption(name, template)) not in without and name not in without]
    if not captions:
        raise ValueError(f"{source} leaves no captions to compare with.")
    return captions


def questions_of(
    likes: cocoax.Side, unlikes: cocoax.Side, texts: Sequence[str], each: bool, similarity: str
) -> list[cocoax.Question]:
    """Return the questions that --like and --unlike ask, then those that are written out in ``texts``."""
    written = [cocoax.Question.parse(text, similarity) for text in texts]
    if each:
        return [*questions_one_by_one(likes, unlikes, similarity), *written]
    if likes or unlikes or not written:
        return [cocoax.Question(likes, unlikes, similarity=similarity), *written]
    return written


def questions_one_by_one(likes: cocoax.Side, unlikes: cocoax.Side, similarity: str) -> list[cocoax.Question]:
    """Return one question for each caption and picture of ``likes``: it rather than all others and ``unlikes``."""
    if len(likes.captions) + len(likes.images) < 2:
        raise ValueError("--each asks about several things; give --like or --like-image at least twice.")
    questions = []
    for like in [*(cocoax.Side([text]) for text in likes.captions), *(cocoax.Side(images=[path]) for path in likes.images)]:
        captions = [text for text in likes.captions if text not in like.captions]
        images = [path for path in likes.images if path not in like.images]
        others = cocoax.Side([*captions, *unlikes.captions], [*images, *unlikes.images])
        questions.append(cocoax.Question(like, others, similarity=similarity))
    return questions


def print_answers(answers: Sequence[cocoax.Answer]) -> None:
    """Print each answer's score, captions and regions, and at the end how the answers were made."""
    from cocoax.questions.report import compare, region_rows

    for answer in answers:
        console.print(f"\n[bold]{escape(answer.name)}[/]", highlight=False, soft_wrap=True)
        console.print(f"score {escape(answer.split())}", highlight=False, soft_wrap=True)
        if comparison := compare(answer):
            print_plain(comparison)
        table = Table("the score is …", "by the region", "of the picture", "mean change ± standard error")
        for effect, *cells in region_rows(answer):
            table.add_row("[red]raised[/]" if effect == "raises" else "[blue]lowered[/]", *map(escape, cells))
        console.print(table)
    how = answers[0].attribution.metadata
    counted = f", {how['samples']} samples" if how.get("samples") else ""
    stopped = f": {how['stopped']}" if how.get("stopped") else ""
    console.print(f"{how['method']} on {how['encoder']}{counted}{stopped}", highlight=False, markup=False)
