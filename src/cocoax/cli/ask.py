"""``cocoax ask``: questions about pictures, in words and with pictures; each picture has a run, which is kept."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.text import Text

import cocoax
from cocoax.cli.options import (
    AsJson,
    Baseline,
    Crop,
    Device,
    EncoderName,
    MethodName,
    PictureFeatures,
    QuestionOptions,
    SamplesOrTolerance,
    SeedOrNone,
    SimilarityName,
    Tolerance,
    configured,
    features_named,
    method_with,
    out_option,
)
from cocoax.cli.terminal import (
    Cell,
    ExplainedInterrupt,
    counted,
    draw_into_files,
    note,
    print_json,
    print_line,
    print_plain,
    print_table,
    print_written,
)

if TYPE_CHECKING:
    from cocoax.targets import Target

# What may be wrong with a picture; an encoder that cannot cope with one raises a RuntimeError.
_PICTURE_ERRORS = (ValueError, TypeError, OSError, RuntimeError, MemoryError)


def ask_pictures(
    images: Annotated[list[Path], typer.Argument(help="The pictures to ask about, or folders of them.")],
    asked: QuestionOptions,
    encoder: EncoderName = "starter",
    device: Device = None,
    crop: Crop = False,
    method: MethodName = "rise",
    samples: SamplesOrTolerance = None,
    features: PictureFeatures = None,
    tolerance: Tolerance = None,
    baseline: Baseline = None,
    seed: SeedOrNone = None,
    similarity: SimilarityName = "cosine",
    out: Annotated[Path, out_option("Folder for heat maps, report and JSON; of several, one each.")] = Path("answers"),
    as_json: AsJson = False,
) -> None:
    """Ask what in a picture is like some words or pictures, rather than like others.

    Without any --like the picture is compared with itself (label-free). A second question about the same picture is answered
    from the saved run.

    Examples:
        cocoax ask photo.jpg --like "a cat" --unlike "a cup of coffee"
        cocoax ask photo.jpg --like "a cat" --like-image cats/ --unlike-many cifar100
        cocoax ask photos/ more/1.jpg --question "a cat rather than a dog" --out out

    """
    from cocoax.cli.survey import is_index
    from cocoax.inputs.image import open_image

    draw_into_files()
    if index := next((path for path in images if is_index(path)), None):
        raise ValueError(f"{index} is an index; ask it by 'cocoax survey {index}'.")
    questions = asked.questions(similarity)
    pictures = _pictures_of(images, out)
    options = {"samples": samples, "tolerance": tolerance, "baseline": baseline, "seed": seed}
    method_with(method, options)  # what is wrong with them, or with the picture, is told before the encoder is loaded
    if len(pictures) == 1:
        open_image(pictures[0].file)
    out.mkdir(parents=True, exist_ok=True)
    loaded = configured(cocoax.load(encoder, device=device), crop, baseline, seed or 0)
    job = _AskJob(loaded, _method_of(method, options), questions, at_least=samples is None, features=features_named(features))
    job.ask(pictures)
    job.print(as_json)


def _method_of(name: str, options: Mapping[str, Any]) -> cocoax.Method:
    """Return the method that options ask for; where they do not say how many samples, it stops when the answer is known.

    What removed parts become is left to the encoder, see :func:`cocoax.cli.options.configured`.
    """
    from cocoax.questions.answers import asking_method

    chosen = {option: value for option, value in options.items() if value is not None and option != "baseline"}
    if name != "rise" or "samples" in chosen:
        return method_with(name, chosen)
    most = {"most": cocoax.Rise.max_samples} if "tolerance" in chosen else {}
    return asking_method(**most, **chosen)


# --- pictures, and folders for their answers ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _PictureFile:
    """A picture to ask about, and the folder for its results."""

    file: Path
    folder: Path


def _pictures_of(paths: Sequence[Path], out: Path) -> list[_PictureFile]:
    """Return every picture of files, folders, patterns and tables, with the folder for its results.

    A single file has ``out`` itself; of several, each has a folder in it that is named after the file.
    """
    from cocoax.inputs.image import SUFFIXES
    from cocoax.inputs.open import open_inputs

    if out.is_file():
        raise ValueError(f"--out is a folder for pictures and a report, but {out} is a file; name a folder.")
    pictures: dict[Path, _PictureFile] = {}
    taken: set[Path] = set()
    for path in paths:
        ending = path.suffix.strip(".")
        if " " in str(path) and (not ending or " " in ending) and not os.path.exists(path):
            raise FileNotFoundError(f"No file at {path}; check the path, or explain a text by 'cocoax ask-text'.")
        named = path.suffix.lower() in SUFFIXES and "*" not in path.name
        several = [path] if named and not path.is_dir() else open_inputs(path, noun="image")
        for file in several:
            if not isinstance(file, Path):
                raise ValueError(f"{path} holds texts, and pictures are asked about here; use 'cocoax ask-text'.")
            if len(paths) == len(several) == 1 and not path.is_dir():
                return [_PictureFile(file, out)]
            if file.resolve() not in pictures:
                name = file.relative_to(path) if path.is_dir() else Path(file.name)
                folder = next(folder for folder in _folder_names(name) if folder not in taken)
                taken.add(folder)
                pictures[file.resolve()] = _PictureFile(file, out / folder)
    return list(pictures.values())


def _folder_names(name: Path) -> Iterator[Path]:
    """Yield what the folder of a picture may be called: as the file without its ending, or with it, or with a number."""
    yield name.with_suffix("")
    yield name
    number = 2
    while True:
        yield name.with_name(f"{name.name}-{number}")
        number += 1


# --- asking ---------------------------------------------------------------------------------------------------------------


@dataclass
class _AskJob:
    """Questions about pictures with their options, and the answers so far, as plain values.

    Attributes:
        encoder, method: what answers.
        questions: what is asked; their references are made once.
        at_least: use more samples than asked for where there are more.
        features: what is removed as one part of a picture.
        records: of each picture that was answered, its files and answers.
        rows: of a table, one for each question about each picture.
        failed: what is wrong with the other pictures.
        answers: those about the only picture; the maps of many need not be held in memory.

    """

    encoder: cocoax.Encoder
    method: cocoax.Method
    questions: Sequence[cocoax.Question]
    at_least: bool
    features: Any
    records: list[dict[str, Any]] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    failed: dict[Path, str] = field(default_factory=dict)
    answers: list[cocoax.Answer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.questions = [_cached(question) for question in self.questions]

    def ask(self, pictures: Sequence[_PictureFile]) -> None:
        """Ask about every picture and write the answers; one that fails is reported, and the others go on.

        What is wrong with the only picture, or with the questions, is raised. Ctrl-C says what was kept.
        """
        from cocoax.progress import bar

        alone = len(pictures) == 1
        try:
            if not alone:
                for question in self.questions:
                    question.parts(self.encoder)  # what is wrong with one is no fault of the pictures
            with bar(len(pictures), "pictures", False if alone else None) as shown:
                for picture in pictures:
                    try:
                        answers = self._ask(picture)
                        self.answers = answers if alone else []
                    except _PICTURE_ERRORS as error:
                        if alone:
                            raise
                        self.failed[picture.file] = str(error)
                        named = "" if str(picture.file) in str(error) else f"{picture.file}: "
                        note(f"left out: {named}{error}")
                    shown.update()
        except KeyboardInterrupt as stop:
            raise ExplainedInterrupt(self._kept(len(pictures), stop)) from stop

    def _ask(self, picture: _PictureFile) -> list[cocoax.Answer]:
        """Ask about one picture, write the answers and note them."""
        from cocoax.inputs.image import open_image
        from cocoax.questions.report import write_answers

        explicand = self.encoder.explicand(open_image(picture.file))
        options: dict[str, Any] = {"features": self.features, "at_least": self.at_least}
        answers = cocoax.ask(self.encoder, explicand, self.questions, self.method, **options)
        files = write_answers(picture.folder, f"{picture.file.name}: what is it like?", answers)
        plain = [answer.facts(values=False) for answer in answers]
        self.records.append({"picture": picture.file, "files": files, "answers": plain})
        for answer in answers:
            strongest = [
                f"{regions[0].place} {regions[0].value:+.3g}" if regions else "–"
                for regions in (answer.regions, answer.against)
            ]
            self.rows.append([str(picture.file), answer.name, f"{answer.score:+.3f}", *strongest])
        return answers

    def _kept(self, total: int, stop: KeyboardInterrupt) -> str:
        """Return what an interruption leaves, in a sentence."""
        kept = []
        if self.records and total > 1:
            kept.append(f"the answers about {len(self.records)} of {counted(total, 'picture')}")
        if isinstance(stop, cocoax.Interrupted) and len(stop.run):
            options = vars(self.method)
            most = f" of {options['samples']}" if "samples" in options and not options.get("tolerance") else ""
            kept.append(f"{len(stop.run)}{most} samples")
        if not kept:
            return "nothing was kept but references encoded so far; the same command begins with those"
        return f"kept {' and '.join(kept)}; the same command goes on from there"

    def print(self, as_json: bool) -> None:
        """Print the answers; raise at the end if there are pictures without."""
        if as_json:
            failed = [{"picture": file, "error": error} for file, error in self.failed.items()]
            print_json({"pictures": self.records, "failed": failed})
        elif self.answers:
            _print_answers(self.answers)
            print_written(self.records[0]["files"])
        elif self.rows:
            print_table(("picture", "question", "score", "raised most by", "lowered most by"), self.rows)
            print_written(record["files"][0] for record in self.records)
        if self.failed:
            names = [str(file) for file in self.failed]
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            total = counted(len(self.failed) + len(self.records), "picture")
            raise ValueError(f"{len(names)} of {total} could not be answered: {', '.join(names[:5])}{more}.")


def _cached(question: cocoax.Question) -> cocoax.Question:
    """Return a question whose references are made once, however many pictures it is asked about."""

    class CachedQuestion(cocoax.Question):
        def parts(self, encoder: cocoax.Encoder) -> tuple[Target, Target | None]:
            if "_parts" not in vars(self):
                object.__setattr__(self, "_parts", super().parts(encoder))
            parts: tuple[Target, Target | None] = vars(self)["_parts"]
            return parts

    return CachedQuestion(question.like, question.unlike, similarity=question.similarity)


def _print_answers(answers: Sequence[cocoax.Answer]) -> None:
    """Print each answer's score, captions and regions, and at the end how the answers were made."""
    for answer in answers:
        print_line(f"\n[bold]{escape(answer.name)}[/]")
        for sentence in filter(None, (f"score {answer.split()}", answer.compared(), *answer.remarks)):
            print_plain(sentence)
        rows: list[list[Cell]] = [
            [Text("raised", "red") if effect == "raises" else Text("lowered", "blue"), *cells]
            for effect, *cells in answer.region_table.rows
        ]
        if rows:
            print_table(("the score is …", "by the region", "of the picture", "mean change ± standard error"), rows)
    how = answers[0].attribution.metadata
    samples = f", {how['samples']} samples" if how.get("samples") else ""
    stopped = f": {how['stopped']}" if how.get("stopped") else ""
    print_plain(f"{how['method']} on {how['encoder']}{samples}{stopped}")
