"""``cocoax ask``: questions about pictures, in words and with pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import cocoax
from cocoax.cli.arguments import names_file
from cocoax.cli.methods import METHODS, method_with
from cocoax.cli.terminal import ASKED, HOW, OUTPUT, AsJson, Baseline, Crop, Device, EncoderName, draw_into_files
from cocoax.cli.view import seen

EXAMPLES = (
    'cocoax ask photo.jpg --like "a cat" --unlike "a cup of coffee"',
    'cocoax ask photo.jpg --like "a cat" --like-image cats/ --unlike-many cifar100',
    'cocoax ask photos/ more/1.jpg --question "a cat rather than a dog" --out out',
    'cocoax ask INDEX --like "a cat" --where label=cat --out answer.html',
)


def ask_picture(
    images: ImagesOption,
    like: LikeOption = None,
    like_image: LikeImageOption = None,
    unlike: UnlikeOption = None,
    unlike_image: UnlikeImageOption = None,
    unlike_many: UnlikeManyOption = None,
    template: TemplateOption = "a {}",
    question: QuestionOption = None,
    each: EachOption = False,
    encoder: EncoderName = "starter",
    device: Device = None,
    crop: Crop = False,
    method: MethodOption = "rise",
    samples: SamplesOption = None,
    grid: GridOption = None,
    tolerance: ToleranceOption = None,
    baseline: Baseline = None,
    seed: SeedOption = None,
    similarity: SimilarityOption = "cosine",
    where: WhereOption = None,
    top: TopOption = 50,
    out: OutOption = Path("answers"),
    as_json: AsJson = False,
) -> None:
    """Ask what in a picture is like some words or pictures, rather than like others.

    Without any --like the picture is compared with itself (label-free). A second question about the same picture is answered
    from the saved run. An index of a whole data set ('cocoax index') is asked all at once.
    """
    from cocoax.cli.indexes import ask_index, check_unused, is_index
    from cocoax.cli.pictures import Asking, ask_about, check_no_texts, pictures_of, print_answered
    from cocoax.inputs.image import open_image

    draw_into_files()
    check_no_texts(images)
    likes = cocoax.Side(like or (), like_image or ())
    many = captions_of(unlike_many, template, likes.captions) if unlike_many else []
    unlikes = cocoax.Side([*(unlike or ()), *many], unlike_image or ())
    questions = questions_of(likes, unlikes, question or (), each, similarity)
    if is_index(images):
        given: dict[str, object] = {"encoder": encoder != "starter", "method": method != "rise", "samples": samples}
        given |= {"grid": grid, "tolerance": tolerance, "baseline": baseline, "seed": seed, "device": device, "crop": crop}
        given |= {"similarity": similarity != "cosine"}
        check_unused({name: value for name, value in given.items() if value not in (None, False)})
        ask_index(images[0], questions, where or (), top, out, as_json)
        return
    if where:
        raise ValueError("--where chooses rows of an index; give one ('cocoax index'), or leave it out.")
    pictures = pictures_of(images, out)
    options = {"samples": samples, "grid": grid, "tolerance": tolerance, "baseline": baseline, "seed": seed}
    method_with(method, options)  # what is wrong with them, or with the picture, is told before the encoder is loaded
    if len(pictures) == 1:
        open_image(pictures[0].file)
    out.mkdir(parents=True, exist_ok=True)
    loaded = cocoax.load(encoder, device=device)
    seeing = seen(loaded, crop, baseline, seed or 0)
    asking = Asking(seeing, questions, method_of(method, options), at_least=samples is None, fitted=grid is None)
    print_answered(ask_about(pictures, asking), as_json)


def method_of(name: str, options: Mapping[str, Any]) -> cocoax.Method:
    """Return the method that options ask for; where they do not say how many samples, it stops when the answer is known.

    What removed parts become is left to the encoder, see :func:`cocoax.cli.view.seen`.
    """
    from cocoax.questions.answers import asking_method

    chosen = {option: value for option, value in options.items() if value is not None and option != "baseline"}
    if name != "rise" or "samples" in chosen:
        return method_with(name, chosen)
    most = {"most": cocoax.Rise.max_samples} if "tolerance" in chosen else {}
    return asking_method(**most, **chosen, baseline=None)


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
    check_captions([likes, unlikes, *(side for question in written for side in (question.like, question.unlike))])
    if each:
        return [*questions_one_by_one(likes, unlikes, similarity), *written]
    if likes or unlikes or not written:
        return [cocoax.Question(likes, unlikes, similarity=similarity), *written]
    return written


def check_captions(sides: Sequence[cocoax.Side]) -> None:
    """Raise if a caption is the name of a file."""
    if file := next((caption for side in sides for caption in side.captions if names_file(caption)), None):
        raise ValueError(
            f"{file!r} is the name of a file, and --like, --unlike and --question take words; pictures are given by "
            "--like-image and --unlike-image."
        )


def check_tolerance(tolerance: float | None) -> float | None:
    """Return a tolerance; raise if it was meant in per cent."""
    if tolerance is not None and tolerance > 1:
        raise ValueError(f"--tolerance is a fraction of at most 1: 0.1 is 10 %. Got {tolerance:g} instead.")
    return tolerance


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


ImagesOption = Annotated[list[Path], typer.Argument(help="The pictures to ask about, or folders of them, or an index.")]
LikeOption = Annotated[
    list[str] | None,
    typer.Option(help="A caption the picture should be like; may be repeated.", rich_help_panel=ASKED),
]
LikeImageOption = Annotated[
    list[Path] | None, typer.Option(help="A picture or folder it should be like.", rich_help_panel=ASKED)
]
UnlikeOption = Annotated[
    list[str] | None, typer.Option(help="A caption it should not be like; may be repeated.", rich_help_panel=ASKED)
]
UnlikeImageOption = Annotated[
    list[Path] | None, typer.Option(help="A picture or folder it should not be like.", rich_help_panel=ASKED)
]
UnlikeManyOption = Annotated[
    str | None, typer.Option(help="Many captions at once: cifar100, or a file of names.", rich_help_panel=ASKED)
]
TemplateOption = Annotated[str, typer.Option(help="Makes captions of the names of --unlike-many.", rich_help_panel=ASKED)]
QuestionOption = Annotated[
    list[str] | None,
    typer.Option(help="One more question: 'a cat / a kitten rather than a dog', or 'itself'.", rich_help_panel=ASKED),
]
EachOption = Annotated[
    bool,
    typer.Option("--each", help="Ask about each --like by itself, against the others too.", rich_help_panel=ASKED),
]
MethodOption = Annotated[str, typer.Option(help=f"One of {', '.join(METHODS)}, or module:Class.", rich_help_panel=HOW)]
SamplesOption = Annotated[
    int | None,
    typer.Option(help="Masked copies to encode; by default as many as it takes, up to 1000.", rich_help_panel=HOW),
]
GridOption = Annotated[int | None, typer.Option(help="Cells of a mask in each direction.", rich_help_panel=HOW)]
ToleranceOption = Annotated[
    float | None,
    typer.Option(
        help="Stop when the maps' relative error is below this; 0.1 if not given.",
        callback=check_tolerance,
        rich_help_panel=HOW,
    ),
]
SeedOption = Annotated[int | None, typer.Option(help="Seed of everything random.", rich_help_panel=HOW)]
SimilarityOption = Annotated[str, typer.Option(help="cosine, dot, rbf, laplacian or polynomial.", rich_help_panel=HOW)]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(help="Of an index: only rows with label=cat, or label=cat,dog; may be repeated.", rich_help_panel=ASKED),
]
TopOption = Annotated[
    int, typer.Option(help="Of an index: how many of the highest and lowest to show.", min=1, rich_help_panel=OUTPUT)
]
OutOption = Annotated[
    Path,
    typer.Option(
        help="Folder for heat maps, report and JSON; of several pictures each has a folder in it.",
        rich_help_panel=OUTPUT,
    ),
]
