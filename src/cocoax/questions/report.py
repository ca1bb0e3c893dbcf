"""Answers in files: pictures, maps, numbers and one page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cocoax.questions.answers import Answer
from cocoax.show import Table, View
from cocoax.show.html import page
from cocoax.store import folder_lock, free_ending, to_json, write_text

_UNFINISHED = ".cocoax.unfinished"  # names the files that are being written


def write_answers(folder: str | Path, title: str, answers: Sequence[Answer]) -> list[Path]:
    """Write all there is to a set of answers about one picture; returns the files.

    For each question the overlay as PNG and the map with its errors as safetensors (``cocoax.Attribution.load`` reads it);
    for all of them ``answers.json``, which holds everything else in numbers and names the files of the maps, and
    ``report.html``. What is there from an earlier time stays: the files of the second time end in ``-2``, and so on, also
    where two processes write at the same time.
    """
    if not answers:
        raise ValueError("There are 0 answers to write; ask at least one question.")
    folder = Path(folder)
    with folder_lock(folder):
        return _write_answers(folder, title, answers)


def _write_answers(folder: Path, title: str, answers: Sequence[Answer]) -> list[Path]:
    """Write files of names that are free; what a killed process left half done, by its note, is written again."""
    stems = [f"{number}-{_slug(answer.name)}" for number, answer in enumerate(answers, 1)]
    every, unfinished = ("report", "answers", *stems), folder / _UNFINISHED
    killed = unfinished.read_text(encoding="utf-8").splitlines() if unfinished.is_file() else []
    ending = free_ending(folder, *every, own=killed)
    write_text(unfinished, "\n".join(f"{stem}{ending}" for stem in every))
    files = []
    views: list[View] = []
    plain = []
    for stem, answer in zip(stems, answers, strict=True):
        files += [folder / f"{stem}{ending}.png", folder / f"{stem}{ending}.safetensors"]
        for file in files[-2:]:
            answer.attribution.save(file)
        first, *others = answer.views()
        note = " ".join(filter(None, (answer.summary, first.note, *answer.remarks)))
        views += [replace(first, title=answer.name, note=note, part=answer.name)]
        views += [replace(other, part=answer.name) for other in others]
        plain.append({**answer.facts(values=False), "map": files[-1].name, "overlay": files[-2].name})
    content = {"title": title, "answers": plain}
    json_file = write_text(folder / f"answers{ending}.json", to_json(content, indent=1))
    report = write_text(folder / f"report{ending}.html", page(title, (), views, table=_scores(answers)))
    unfinished.unlink()
    return [report, json_file, *files]


def _scores(answers: Sequence[Answer]) -> Table:
    """Return the score of each answer, and what it is the difference of."""
    rows = tuple((answer.name, answer.score, answer.corpus_score, answer.foil_score) for answer in answers)
    return Table(("question", "score", "corpus_score", "foil_score"), rows)


def _slug(text: str) -> str:
    """Return a text as a file name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:80].rstrip("-") or "question"
