"""Answers in files: pictures, maps, numbers and one page."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path

from PIL import Image
from torch import Tensor

from cocoax.questions.answers import Answer
from cocoax.report import Section, write_report
from cocoax.show.raster import data_uri
from cocoax.store import folder_lock, to_json, write_text


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
        return _write_answers(folder, title, answers, free_ending(folder, "report{}.html"))


def _write_answers(folder: Path, title: str, answers: Sequence[Answer], ending: str) -> list[Path]:
    """Write files whose names have this ending; the report comes last, so that the ending is taken only by whole answers."""
    files = []
    sections = []
    plain = []
    for number, answer in enumerate(answers, 1):
        stem = f"{number}-{_slug(answer.name)}{ending}"
        files += [folder / f"{stem}.png", folder / f"{stem}.safetensors"]
        for file in files[-2:]:
            answer.attribution.save(file)
        sections.append(_answer_section(answer, files[-2].read_bytes()))
        plain.append({**answer.describe(values=False), "map": files[-1].name, "overlay": files[-2].name})
    content = {"title": title, "answers": plain}
    json_file = write_text(folder / f"answers{ending}.json", to_json(content, indent=1))
    return [write_report(folder / f"report{ending}.html", title, sections), json_file, *files]


def free_ending(folder: Path, name: str) -> str:
    """Return what goes into the braces of a file's name so that there is no such file yet: nothing, ``-2``, ``-3``, ….

    So what is there from an earlier time stays.
    """
    endings = chain([""], (f"-{time}" for time in count(2)))
    return next(ending for ending in endings if not (folder / name.format(ending)).exists())


def region_rows(answer: Answer) -> list[list[str]]:
    """Return what raises and what lowers the score most, as rows of a table: effect, place, share, value."""
    return [
        [effect, region.place, region.percent, region.change + ("" if region.certain else " (may be nothing)")]
        for effect, regions in (("raises", answer.regions), ("lowers", answer.against))
        for region in regions
    ]


def _answer_section(answer: Answer, overlay_png: bytes) -> Section:
    """Return the part of the report that is about one answer, with the picture and the overlay beside it."""
    metadata = answer.attribution.metadata
    method, samples = metadata.get("method", ""), metadata.get("samples")
    parts = [f"Score {answer.split()}.", compare(answer), f"By {method}{f', {samples} samples' if samples else ''}."]
    parts += answer.remarks
    text = " ".join(part for part in parts if part) + (
        " Red raises the score, blue lowers it, white makes no difference, and what is hatched is not known: within two "
        "standard errors there may be nothing. Values are means over a region, relative to a part that makes no difference; "
        "± is one standard error, at most."
    )
    pictures = [("heat map", data_uri("image/png", overlay_png))]
    if answer.attribution.picture is not None:
        pictures.insert(0, ("input", data_uri("image/jpeg", _small_jpeg(answer.attribution.picture))))
    images = "".join(f'<img alt="{name}" src="{content}" style="max-height: 24rem">' for name, content in pictures)
    header = ("", "region", "of the picture", "value")
    return Section(answer.name, text, header=header, rows=region_rows(answer), html=f"<figure>{images}</figure>")


def _small_jpeg(picture: Tensor) -> bytes:
    """Return a picture ``[H, W]`` or ``[H, W, 3]`` of 8 bits as the content of a JPEG file of at most 800 pixels."""
    image = Image.fromarray(picture.numpy())
    image.thumbnail((800, 800))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=90)
    return file.getvalue()


def compare(answer: Answer, most: int = 5) -> str:
    """Return how similar the picture is to the captions in play, in a sentence; empty if there is nothing to compare."""
    captions = answer.captions
    if len(captions) < 2:
        return ""
    first = ", ".join(f"{rival.name} {rival.score:+.3f}" for rival in captions[:most])
    beyond = ", …" if len(captions) > most else ""
    best = next((rival for rival in captions if rival.side == "like"), None)
    place = "" if best is None else f" {best.name!r} ({best.score:+.3f}) is number {answer.rank}."
    return f"Of {len(captions)} captions the picture is most similar to: {first}{beyond}.{place}"


def _slug(text: str) -> str:
    """Return a text as a file name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:80].rstrip("-") or "question"
