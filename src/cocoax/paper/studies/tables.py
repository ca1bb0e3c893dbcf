"""Tables in the paper's layout, as Markdown and LaTeX, with the published numbers beside ours."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cocoax.evaluation import Interval, paper_interval
from cocoax.paper.studies.published import SETTINGS, PaperTable, published
from cocoax.paper.studies.records import Records, by_run
from cocoax.paper.studies.titles import METHOD_TITLES, METRICS
from cocoax.store import write_text


@dataclass(frozen=True)
class Variants:
    """The lines that a table has for each method.

    Attributes:
        head: over the column that tells them apart.
        lines: label, target and model of each.

    """

    head: str
    lines: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Row:
    """A line of a table: two words, our two intervals, and the published ones of the three settings (or ``None``)."""

    group: str
    label: str
    ours: tuple[Interval | None, Interval | None]
    theirs: tuple[Interval | None, ...]


def write_tables(
    tables: Iterable[PaperTable], variants: Variants, records: Records, encoder: str, folder: Path
) -> tuple[list[str], list[Path]]:
    """Write tables as Markdown and LaTeX; return the Markdown, and the files."""
    sections: list[str] = []
    written: list[Path] = []
    for table in tables:
        rows = rows_of(table, variants, records)
        sections.append(markdown(table, variants, rows, encoder))
        written.append(write_text(folder / f"{table.name}.md", sections[-1]))
        written.append(write_text(folder / f"{table.name}.tex", latex(table, variants, rows, encoder)))
    return sections, written


def rows_of(table: PaperTable, variants: Variants, records: Records) -> list[Row]:
    """Return the lines of a table of the paper, and lines of our own for the efficient estimator and the chance levels."""
    groups = records.grouped("class_case", "measure", "similarity", "method", "target", "model", "metric")

    def ours(
        method: str, similarity: str | None = None, target: str | None = None, model: str | None = None
    ) -> tuple[Interval | None, Interval | None]:
        key = (table.class_case, table.measure, similarity, method, target, model)
        insertion, deletion = (
            paper_interval(by_run(groups[(*key, metric)])) if (*key, metric) in groups else None for metric in METRICS
        )
        return insertion, deletion

    def theirs(method: str, target: str, model: str) -> tuple[Interval | None, ...]:
        return tuple(
            published().get((table.name, method, target, model, setting, metric))
            for setting, metric in itertools.product(SETTINGS, METRICS)
        )

    rows = []
    for method, title in METHOD_TITLES.items():
        for label, target, model in variants.lines:
            intervals = ours(method, table.similarity, target, model)
            rows.append(Row(title, label, intervals, theirs(method, target, model)))
        rows.append(Row(title, "Chance", ours(f"chance of {method}"), (None,) * 6))
    rows.append(Row("Random", "Pixel noise", ours("random"), theirs("random", "random", "trained")))
    return rows


def markdown(table: PaperTable, variants: Variants, rows: Sequence[Row], encoder: str) -> str:
    """Return the table as Markdown; the best of our values for each method is bold."""
    settings = [f"{title} {arrow}" for title in SETTINGS.values() for arrow in METRICS.values()]
    head = ["Method", variants.head, f"{encoder}, insertion ↑", "deletion ↓", *settings]
    best = _best(rows)
    lines = [f"### {table.title}", "", line_of(head), line_of(["---"] * len(head))]
    for row in rows:
        mine = [
            f"**{cell}**" if (row.label, index) in best[row.group] else str(cell or "–")
            for index, cell in enumerate(row.ours)
        ]
        lines.append(line_of([row.group, row.label, *mine, *(str(cell or "–") for cell in row.theirs)]))
    return "\n".join([*lines, ""])


def latex(table: PaperTable, variants: Variants, rows: Sequence[Row], encoder: str) -> str:
    """Return the table as LaTeX (booktabs), in the paper's layout: settings side by side, ours first."""
    best = _best(rows)
    settings = [re.sub(r"([&%$#_{}])", r"\\\1", encoder), *SETTINGS.values()]
    heads = " & ".join(rf"\multicolumn{{2}}{{c}}{{{title}}}" for title in settings)
    rules = " ".join(rf"\cmidrule(lr){{{3 + 2 * index}-{4 + 2 * index}}}" for index in range(len(settings)))
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{table.title}. Means (95\,\% confidence intervals) over runs; the last three settings as published.}}",
        rf"\label{{table:{table.name}}}",
        r"\begin{tabular}{ll" + "rr" * len(settings) + "}",
        r"\toprule",
        rf" & & {heads} \\ {rules}",
        f"Method & {variants.head} & "
        + " & ".join([r"Insertion ($\uparrow$) & Deletion ($\downarrow$)"] * len(settings))
        + r" \\",
    ]
    for group, several in itertools.groupby(rows, key=lambda row: row.group):
        lines.append(r"\midrule")
        for row in several:
            mine = [
                rf"\textbf{{{cell}}}" if (row.label, index) in best[group] else str(cell or "--")
                for index, cell in enumerate(row.ours)
            ]
            lines.append(" & ".join([group, row.label, *mine, *(str(cell or "--") for cell in row.theirs)]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def line_of(cells: Sequence[str]) -> str:
    """Return a line of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def _best(rows: Sequence[Row]) -> dict[str, set[tuple[str, int]]]:
    """Return for each method the labels of the highest insertion (0) and the lowest deletion (1) among its variants."""
    best: dict[str, set[tuple[str, int]]] = {row.group: set() for row in rows}
    for group, index in itertools.product(best, (0, 1)):
        candidates = [
            (cell.mean, row.label)
            for row in rows
            if row.group == group and row.label != "Chance" and (cell := row.ours[index]) is not None
        ]
        if len(candidates) > 1:
            best[group].add(((max if index == 0 else min)(candidates)[1], index))
    return best
