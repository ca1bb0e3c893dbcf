"""Asking about one picture or about many: each has a run, which is kept, and a folder of results."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.text import Text

import cocoax
from cocoax.cli.terminal import (
    Cell,
    Kept,
    counted,
    note,
    print_json,
    print_line,
    print_plain,
    print_table,
    print_written,
)
from cocoax.inputs.image import image_files, open_image
from cocoax.progress import bar
from cocoax.questions.answers import fitted
from cocoax.questions.report import compare, region_rows, write_answers
from cocoax.results import Region
from cocoax.targets import Target

# What may be wrong with a picture; an encoder that cannot cope with one raises a RuntimeError.
_PICTURE_ERRORS = (ValueError, TypeError, OSError, RuntimeError, MemoryError)


@dataclass(frozen=True)
class PictureFile:
    """A picture to ask about, and the folder for its results."""

    file: Path
    folder: Path


@dataclass(frozen=True)
class Asking:
    """What is asked about every picture, and how; cells are ``fitted`` to its proportions, or what the method has."""

    encoder: cocoax.Encoder
    questions: Sequence[cocoax.Question]
    method: cocoax.Method
    at_least: bool
    fitted: bool


@dataclass
class Answered:
    """The answers about pictures so far, as plain values; ``whole`` has those about the only picture, to be printed."""

    pictures: Sequence[PictureFile]
    records: list[dict[str, Any]] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    failed: dict[Path, str] = field(default_factory=dict)
    whole: list[cocoax.Answer] = field(default_factory=list)


class QuestionForMany(cocoax.Question):
    """A question whose references are made once, however many pictures it is asked about."""

    def parts(self, encoder: cocoax.Encoder) -> tuple[Target, Target | None]:
        """Return the corpus part and the foil part, which are made at the first time."""
        if "_parts" not in vars(self):
            object.__setattr__(self, "_parts", super().parts(encoder))
        parts: tuple[Target, Target | None] = vars(self)["_parts"]
        return parts


def check_no_texts(paths: Sequence[Path]) -> None:
    """Raise if what should be a picture is a text: it has spaces, no ending, and is nothing that is there."""
    for path in paths:
        ends = path.suffix.strip(".")
        if " " in str(path) and (not ends or " " in ends) and not os.path.exists(path):
            raise FileNotFoundError(f"No file at {path}; check the path, or explain a text by 'cocoax ask-text'.")


def pictures_of(paths: Sequence[Path], out: Path) -> list[PictureFile]:
    """Return every picture of files and folders, with the folder for its results.

    A single file has ``out`` itself; of several, each has a folder in it that is named after the file.
    """
    if out.is_file():
        raise ValueError(f"--out is a folder for pictures and a report, but {out} is a file; name a folder.")
    if len(paths) == 1 and not paths[0].is_dir():
        return [PictureFile(paths[0], out)]
    pictures: dict[Path, PictureFile] = {}
    taken: set[Path] = set()
    for path in paths:
        for file in image_files(path) if path.is_dir() else [path]:
            if file.resolve() not in pictures:
                name = file.relative_to(path) if path.is_dir() else Path(file.name)
                folder = next(folder for folder in _folder_names(name) if folder not in taken)
                taken.add(folder)
                pictures[file.resolve()] = PictureFile(file, out / folder)
    return list(pictures.values())


def _folder_names(name: Path) -> Iterator[Path]:
    """Yield what the folder of a picture may be called: as the file without its ending, or with it, or with a number."""
    yield name.with_suffix("")
    yield name
    number = 2
    while True:
        yield name.with_name(f"{name.name}-{number}")
        number += 1


def ask_about(pictures: Sequence[PictureFile], asking: Asking) -> Answered:
    """Ask about every picture and write the answers; one that fails is reported, and the others go on.

    What is wrong with the only picture, or with the questions, is raised. Ctrl-C says what was kept.
    """
    questions = [
        QuestionForMany(question.like, question.unlike, similarity=question.similarity) for question in asking.questions
    ]
    answered = Answered(pictures)
    alone = len(pictures) == 1
    try:
        if not alone:
            for question in questions:
                question.parts(asking.encoder)  # what is wrong with one is no fault of the pictures
        with bar(len(pictures), "pictures", False if alone else None) as shown:
            for picture in pictures:
                try:
                    _ask_about(picture, asking, questions, answered)
                except _PICTURE_ERRORS as error:
                    if alone:
                        raise
                    answered.failed[picture.file] = str(error)
                    named = "" if str(picture.file) in str(error) else f"{picture.file}: "
                    note(f"left out: {named}{error}")
                shown.update()
    except KeyboardInterrupt as stop:
        raise Kept(what_was_kept(answered, asking.method, stop)) from stop
    return answered


def _ask_about(picture: PictureFile, asking: Asking, questions: Sequence[cocoax.Question], answered: Answered) -> None:
    """Ask about one picture, write the answers and note them."""
    explicand = asking.encoder.explicand(open_image(picture.file))
    method = fitted(asking.method, explicand) if asking.fitted else asking.method
    answers = cocoax.ask(asking.encoder, explicand, questions, method, at_least=asking.at_least)
    files = write_answers(picture.folder, f"{picture.file.name}: what is it like?", answers)
    plain = [answer.describe(values=False) for answer in answers]
    answered.records.append({"picture": picture.file, "files": files, "answers": plain})
    for answer in answers:
        strongest = [_strongest(regions) for regions in (answer.regions, answer.against)]
        answered.rows.append([str(picture.file), answer.name, f"{answer.score:+.3f}", *strongest])
    if len(answered.pictures) == 1:  # the maps of many need not be held in memory
        answered.whole = answers


def _strongest(regions: Sequence[Region]) -> str:
    """Return the strongest region in a few words."""
    return f"{regions[0].place} {regions[0].value:+.3g}" if regions else "–"


def what_was_kept(answered: Answered, method: cocoax.Method, stop: KeyboardInterrupt) -> str:
    """Return what an interruption leaves, in a sentence."""
    kept = []
    if answered.records and len(answered.pictures) > 1:
        kept.append(f"the answers about {len(answered.records)} of {counted(len(answered.pictures), 'picture')}")
    if isinstance(stop, cocoax.Interrupted) and len(stop.run):
        options = vars(method)
        most = f" of {options['samples']}" if "samples" in options and not options.get("tolerance") else ""
        kept.append(f"{len(stop.run)}{most} samples")
    if not kept:
        return "nothing was kept but references encoded so far; the same command begins with those"
    return f"kept {' and '.join(kept)}; the same command goes on from there"


def print_answered(answered: Answered, as_json: bool) -> None:
    """Print the answers; raise at the end if there are pictures without."""
    if as_json:
        failed = [{"picture": file, "error": error} for file, error in answered.failed.items()]
        print_json({"pictures": answered.records, "failed": failed})
    elif answered.whole:
        print_answers(answered.whole)
        print_written(answered.records[0]["files"])
    elif answered.rows:
        header = ("picture", "question", "score", "raised most by", "lowered most by")
        print_table(header, answered.rows)
        print_written(record["files"][0] for record in answered.records)
    if answered.failed:
        names = [str(file) for file in answered.failed]
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        total = counted(len(answered.pictures), "picture")
        raise ValueError(f"{len(names)} of {total} could not be answered: {', '.join(names[:5])}{more}.")


def print_answers(answers: Sequence[cocoax.Answer]) -> None:
    """Print each answer's score, captions and regions, and at the end how the answers were made."""
    for answer in answers:
        print_line(f"\n[bold]{escape(answer.name)}[/]")
        print_line(f"score {escape(answer.split())}")
        if comparison := compare(answer):
            print_plain(comparison)
        for remark in answer.remarks:
            print_plain(remark)
        rows: list[list[Cell]] = [
            [Text("raised", "red") if effect == "raises" else Text("lowered", "blue"), *cells]
            for effect, *cells in region_rows(answer)
        ]
        if rows:
            print_table(("the score is …", "by the region", "of the picture", "mean change ± standard error"), rows)
    how = answers[0].attribution.metadata
    samples = f", {how['samples']} samples" if how.get("samples") else ""
    stopped = f": {how['stopped']}" if how.get("stopped") else ""
    print_plain(f"{how['method']} on {how['encoder']}{samples}{stopped}")
