"""Answers about texts: in the terminal, as an HTML report and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.padding import Padding

from cocoax.cli.terminal import print_line, print_plain, print_shown, print_table
from cocoax.questions.matches import MatchSide
from cocoax.questions.report import free_ending
from cocoax.questions.summaries import rich_of
from cocoax.report import Section, write_report
from cocoax.store import folder_lock, to_json, write_text

HOW_TO_READ = (
    "Red words raise the score, blue ones lower it; point at a word to see its value. What is underlined with dots is not "
    "known: within two standard errors there may be nothing. The score is the similarity to the corpus minus that to the "
    "foil, and so is each word's value."
)


def print_side(heading: str, side: MatchSide, most: int = 8) -> None:
    """Print a text in colour, its score in parts, and the ``most`` words that count most for and against."""
    print_line(f"[bold]{escape(heading)}[/]: {escape(side.attribution.name)}")
    print_shown(Padding(rich_of(side.attribution), (1, 2)))
    print_plain(str(side))
    header, rows = _word_table(side, most)
    print_table(header, rows)
    more = len(side.attribution.values) - len(rows)
    if more > 0:
        counts = "counts" if more == 1 else "count"
        print_plain(f"and {more} more that {counts} less; --out writes them all")
    for remark in side.attribution.remarks:
        print_plain(remark)


def _word_table(side: MatchSide, most: int | None = None) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of a table of words, largest values first, with standard errors and parts if there are any."""
    whole = side.attribution
    assert whole.tokens is not None
    shown = whole.relative
    header = ["word", "value"]
    header += ["±"] if whole.standard_error is not None else []
    header += ["corpus", "foil"] if side.foil is not None else []
    rows = []
    for index in shown.abs().argsort(descending=True, stable=True)[:most].tolist():
        row = [whole.tokens[index], f"{float(shown[index]):+.4f}"]
        if whole.standard_error is not None:
            error = float(whole.standard_error[index])
            row.append(f"{error:.4f}" + (" (may be nothing)" if abs(float(shown[index])) < 2 * error else ""))
        if side.foil is not None:
            row += [f"{float(part.relative[index]):+.4f}" for part in (side.corpus, side.foil)]
        rows.append(row)
    return header, rows


def write_sides(folder: Path, sides: Mapping[str, MatchSide]) -> list[Path]:
    """Write an HTML report and the numbers as JSON; return the files. Those that are there from an earlier time stay."""
    sections = []
    for heading, side in sides.items():
        header, rows = _word_table(side)
        text = " ".join((f"{side.attribution.name}: {side}. {HOW_TO_READ}", *side.attribution.remarks))
        sections.append(Section(heading, text, header=header, rows=rows, html=side.attribution.html()))
    with folder_lock(folder):
        ending = free_ending(folder, "answer{}.html")
        numbers = write_text(folder / f"answer{ending}.json", to_json(describe_sides(sides), indent=1))
        page = write_report(folder / f"answer{ending}.html", "What makes this text similar to that?", sections)
    return [page, numbers]


def describe_sides(sides: Mapping[str, MatchSide]) -> dict[str, Any]:
    """Return everything about each side as plain values, by heading."""
    return {heading: _numbers(side) for heading, side in sides.items()}


def _numbers(side: MatchSide) -> dict[str, Any]:
    """Return everything about a side as plain values."""
    whole = side.attribution
    return {
        "question": whole.name,
        "text": whole.text,
        "score": whole.score,
        "corpus": side.corpus.score,
        "foil": None if side.foil is None else side.foil.score,
        "neutral": whole.neutral,
        "remarks": list(whole.remarks),
        "tokens": whole.tokens,
        "offsets": whole.offsets,
        "values": whole.values.tolist(),
        "standard_error": None if whole.standard_error is None else whole.standard_error.tolist(),
        "corpus_values": side.corpus.values.tolist(),
        "foil_values": None if side.foil is None else side.foil.values.tolist(),
        "metadata": dict(whole.metadata),
    }
