"""Answers in files: pictures, maps, numbers and one page."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from cocoax.plots import overlay, panel
from cocoax.questions.asking import Answer
from cocoax.questions.regions import Region
from cocoax.report import Section, write_report


def write_answers(folder: str | Path, title: str, answers: Sequence[Answer]) -> list[Path]:
    """Write all there is to a set of answers about one picture; returns the files.

    For each question the overlay as PNG and the map with its errors as safetensors (``cocoax.Attribution.load`` reads it);
    for all of them ``answers.json``, which holds everything in numbers, and ``report.html``. What is there from an earlier
    time stays: the files of the second time end in ``-2``, and so on.
    """
    import matplotlib.pyplot as plt

    if not answers:
        raise ValueError("There are 0 answers to write; ask at least one question.")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    time = next(number for number in count(1) if not (folder / f"report{_ending(number)}.html").exists())
    files = []
    sections = []
    for number, answer in enumerate(answers, 1):
        stem = folder / f"{number}-{_slug(answer.name)}{_ending(time)}"
        figure = overlay(answer.attribution).get_figure(root=True)
        assert figure is not None
        files += [stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.safetensors")]
        figure.savefig(files[-2], dpi=150)
        plt.close(figure)
        answer.attribution.save(files[-1])
        sections.append(_answer_section(answer))
    json_file = folder / f"answers{_ending(time)}.json"
    json_file.write_text(json.dumps({"title": title, "answers": [one.describe() for one in answers]}), encoding="utf-8")
    report = write_report(folder / f"report{_ending(time)}.html", title, sections)
    for section in sections:
        plt.close(section.figure)
    return [report, json_file, *files]


def _ending(time: int) -> str:
    return "" if time == 1 else f"-{time}"


def region_rows(answer: Answer) -> list[list[str]]:
    """What raises and what lowers the score most, as rows of a table: effect, place, share, value."""
    return [
        [effect, *_region_cells(one)]
        for effect, found in (("raises", answer.regions), ("lowers", answer.against))
        for one in found
    ]


def _region_cells(region: Region) -> list[str]:
    error = "" if region.standard_error is None else f" ± {region.standard_error:.2g}"
    doubt = "" if region.certain else " (may be nothing)"
    return [region.place, region.percent, f"{region.value:+.3g}{error}{doubt}"]


def _answer_section(answer: Answer) -> Section:
    one = answer.attribution
    method, samples = one.metadata.get("method", ""), one.metadata.get("samples")
    parts = [f"Score {answer.split()}.", compare(answer), f"By {method}{f', {samples} samples' if samples else ''}."]
    text = " ".join(part for part in parts if part) + (
        " Red raises the score, blue lowers it, white makes no difference. Values are means over a region, relative to a "
        "part that makes no difference; ± is one standard error, at most."
    )
    return Section(
        answer.name, text, panel([one], titles=["heat map"]), ("", "region", "of the picture", "value"), region_rows(answer)
    )


def compare(answer: Answer, most: int = 5) -> str:
    """How similar the picture is to the captions in play, in a sentence; empty if there is nothing to compare."""
    captions = [rival for rival in answer.comparison if rival.is_caption]
    if len(captions) < 2:
        return ""
    first = ", ".join(f"{rival.name} {rival.score:+.3f}" for rival in captions[:most])
    beyond = ", …" if len(captions) > most else ""
    best = next((rival for rival in captions if rival.side == "like"), None)
    place = "" if best is None else f" {best.name!r} ({best.score:+.3f}) is number {answer.rank}."
    return f"Of {len(captions)} captions the picture is most similar to: {first}{beyond}.{place}"


def _slug(text: str) -> str:
    """Text as a file name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:80].rstrip("-") or "question"
