"""Results of the studies: values of all explicands, and tables in the paper's layout beside the published numbers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cocoax.evaluation import Interval, paper_interval
from cocoax.paper.studies.published import METHOD_TITLES, METRICS, SETTINGS, PaperTable, published
from cocoax.store import write_figure, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Records:
    """The curves of all explicands of a study, and the areas under them."""

    def __init__(self, units: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> None:
        self.units = units

    def __len__(self) -> int:
        return len(self.units)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Give every value: the row's key, the measure, the metric, its run, its explicand and the area under its curve."""
        for tensors, header in self.units:
            for metric in METRICS:
                areas = torch.trapezoid(tensors[metric].double(), dx=1 / (tensors[metric].shape[-1] - 1))
                for row, values in zip(header["rows"], areas.tolist(), strict=True):
                    for measure, value in zip(header["measures"], values, strict=True):
                        yield {
                            **row,
                            "measure": measure,
                            "metric": metric,
                            "run": header["run"],
                            "explicand": header["explicand"],
                            "value": value,
                        }

    def grouped(self, *by: str) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
        """Group the values that agree in these fields; ``None`` where a row has no such field."""
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for record in self:
            groups.setdefault(tuple(record.get(name) for name in by), []).append(record)
        return groups

    def mean_curves(self, *by: str) -> dict[tuple[Any, ...], torch.Tensor]:
        """Return mean curves ``[points]`` over explicands for rows that agree in these fields, each measure and metric."""
        groups: dict[tuple[Any, ...], list[torch.Tensor]] = {}
        for tensors, header in self.units:
            for metric in METRICS:
                for row, several in zip(header["rows"], tensors[metric], strict=True):
                    for measure, curve in zip(header["measures"], several, strict=True):
                        key = (*(row.get(name) for name in by), measure, metric)
                        groups.setdefault(key, []).append(curve)
        return {key: torch.stack(several).mean(0) for key, several in groups.items()}


def by_run(records: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the mean of each run."""
    runs: dict[int, list[float]] = {}
    for record in records:
        runs.setdefault(record["run"], []).append(record["value"])
    return [float(np.mean(values)) for values in runs.values()]


# Colours that people with colour-blindness can tell apart (Okabe & Ito).
LINE_COLOURS = {
    "label_free": "#E69F00",
    "contrastive_label_free": "#CC79A7",
    "corpus": "#56B4E9",
    "cocoa": "#0072B2",
    "integrated_gradients": "#E69F00",
    "gradient_shap": "#CC79A7",
    "rise": "#56B4E9",
    "rise_efficient": "#0072B2",
    "random": "#777777",
}


def save_figure(figure: Figure, path: Path, dpi: int = 150) -> list[Path]:
    """Write a figure as PNG and PDF, and close it; return the files."""
    import matplotlib.pyplot as plt

    written = [write_figure(path.with_suffix(ending), figure, dpi) for ending in (".png", ".pdf")]
    plt.close(figure)
    return written


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
