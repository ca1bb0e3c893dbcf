"""Tables in the paper's layout, with the published numbers beside ours."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cocoax.evaluation import Interval, paired_difference, paper_interval
from cocoax.storage import write_text
from cocoax.studies.figures import curve_figure, size_figure
from cocoax.studies.published import SETTINGS, PaperTable, paper_tables, published
from cocoax.studies.study import MEASURES, METHODS, TARGETS, Records, Study, by_run, versions

MODELS = {"trained": "Trained", "randomized": "Randomised"}
METRICS = ("insertion", "deletion")


@dataclass(frozen=True)
class Row:
    """A line of a table: two words, our two intervals, and the published ones of the three settings (or ``None``)."""

    group: str
    label: str
    ours: tuple[Interval | None, Interval | None]
    theirs: tuple[Interval | None, ...]


def rows_of(table: PaperTable, records: Records) -> list[Row]:
    """The lines of one of the paper's tables, with lines of our own for the efficient estimator and the chance levels."""
    fields = ("class_case", "measure", "similarity", "method", "target", "model", "metric")
    groups = records.grouped(*fields)

    def ours(similarity: str | None, method: str, target: str | None, model: str | None, metric: str) -> Interval | None:
        found = groups.get((table.class_case, table.measure, similarity, method, target, model, metric))
        return None if found is None else paper_interval(by_run(found))

    def theirs(method: str, target: str, model: str) -> tuple[Interval | None, ...]:
        return tuple(
            published().get((table.name, method, target, model, setting, metric))
            for setting, metric in itertools.product(SETTINGS, METRICS)
        )

    variants = (
        [(target, "trained") for target in TARGETS] if table.study == "main" else [("cocoa", model) for model in MODELS]
    )
    rows = []
    for method, title in METHODS.items():
        for target, model in variants:
            label = TARGETS[target] if table.study == "main" else MODELS[model]
            intervals = [ours(table.similarity, method, target, model, metric) for metric in METRICS]
            rows.append(Row(title, label, (intervals[0], intervals[1]), theirs(method, target, model)))
        chance = [ours(None, f"chance of {method}", None, None, metric) for metric in METRICS]
        rows.append(Row(title, "Chance", (chance[0], chance[1]), (None,) * 6))
    noise = [ours(None, "random", None, None, metric) for metric in METRICS]
    rows.append(Row("Random", "Pixel noise", (noise[0], noise[1]), theirs("random", "random", "trained")))
    return rows


def markdown(table: PaperTable, rows: Sequence[Row], encoder: str) -> str:
    """The table as Markdown; the best of our values for each method is bold."""
    settings = [f"{title} {arrow}" for title in SETTINGS.values() for arrow in ("↑", "↓")]
    head = ["Method", _second(table), f"{encoder}, insertion ↑", "deletion ↓", *settings]
    best = _best(rows)
    lines = [f"### {table.title}", "", _line(head), _line(["---"] * len(head))]
    for row in rows:
        mine = [
            f"**{cell}**" if (row.label, index) in best[row.group] else str(cell or "–")
            for index, cell in enumerate(row.ours)
        ]
        lines.append(_line([row.group, row.label, *mine, *(str(cell or "–") for cell in row.theirs)]))
    return "\n".join([*lines, ""])


def latex(table: PaperTable, rows: Sequence[Row], encoder: str) -> str:
    """The table as LaTeX (booktabs), in the paper's layout: settings side by side, ours first."""
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
        f"Method & {_second(table)} & "
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


def differences(records: Records) -> str:
    """COCOA minus each of the other targets on the same explicands, with Student's interval, as Markdown."""
    fields = ("class_case", "measure", "similarity", "method", "metric", "target")
    groups = {key: _by_explicand(found) for key, found in records.grouped(*fields).items()}
    lines = [
        "### COCOA minus the other targets, on the same explicands",
        "",
        "Mean difference (half-width of its 95 % t-interval); bold: COCOA is better beyond it; italic: it is worse.",
        "",
    ]
    for class_case, measure, similarity in itertools.product(("same", "different"), MEASURES, ("cosine", "dot")):
        others = [target for target in TARGETS if target != "cocoa"]
        heads = [f"{TARGETS[other]} {arrow}" for other in others for arrow in ("↑", "↓")]
        block = [
            f"**{measure.replace('_', ' ').capitalize()}, {similarity}, {class_case} class**",
            "",
            _line(["Method", *heads]),
        ]
        block.append(_line(["---"] * (1 + len(heads))))
        for method, title in METHODS.items():
            cells = []
            for other, metric in itertools.product(others, METRICS):
                key = (class_case, measure, similarity, method, metric)
                if (*key, "cocoa") not in groups or (*key, other) not in groups:
                    break
                ours, theirs = groups[(*key, "cocoa")], groups[(*key, other)]
                cells.append(_marked(paired_difference([ours[one] for one in ours], [theirs[one] for one in ours]), metric))
            if cells:
                block.append(_line([title, *cells]))
        if len(block) > 4:
            lines += [*block, ""]
    return "\n".join(lines)


def write_results(study: Study, records: Records) -> list[Path]:
    """Tables, every value as JSON, and plots, into the study's folder."""
    folder, encoder = study.results.folder, study.encoder.name
    if len(records) == 0:
        raise ValueError(f"{folder} has no results yet.")
    written: list[Path] = []
    made: list[str] = []
    for table in paper_tables().values():
        if table.study == study.name:
            rows = rows_of(table, records)
            made.append(markdown(table, rows, encoder))
            written.append(write_text(folder / f"{table.name}.md", made[-1]))
            written.append(write_text(folder / f"{table.name}.tex", latex(table, rows, encoder)))
    if study.name == "main":
        made.append(differences(records))
        written += curve_figure(records, folder)
    if study.name in ("corpus-size", "foil-size"):
        made.append(size_table(records))
        written += size_figure(records, folder)
    runs = "1 run" if study.options.runs == 1 else f"{study.options.runs} runs"
    title = f"# {study.name.capitalize()} study of {encoder}\n\n{len(records)} explicands in {runs}.\n"
    written.append(write_text(folder / "summary.md", "\n".join([title, *made])))
    every = {"options": study.results.options, "versions": versions(), "values": list(records)}
    written.append(write_text(folder / "results.json", json.dumps(every) + "\n"))
    return written


def size_table(records: Records) -> str:
    """Means for every size of corpus and foil, as Markdown."""
    groups = records.grouped("class_case", "measure", "method", "corpus", "foil", "metric")
    lines = [_line(["Explicands", "Measure", "Method", "Corpus", "Foil", "insertion ↑", "deletion ↓"]), _line(["---"] * 7)]
    for key in dict.fromkeys(key[:5] for key in groups):
        cells = [str(paper_interval(by_run(groups[(*key, metric)]))) for metric in METRICS]
        lines.append(_line([key[0], key[1].replace("_", " "), METHODS.get(key[2], key[2]), str(key[3]), str(key[4]), *cells]))
    return "\n".join([*lines, ""])


def _by_explicand(found: Sequence[dict[str, Any]]) -> dict[tuple[int, int], float]:
    return {(record["run"], record["explicand"]): record["value"] for record in found}


def _best(rows: Sequence[Row]) -> dict[str, set[tuple[str, int]]]:
    """For each method the labels of the highest insertion (0) and the lowest deletion (1) among its targets."""
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


def _second(table: PaperTable) -> str:
    """What the second column tells apart."""
    return "Target" if table.study == "main" else "Encoder"


def _marked(difference: Interval, metric: str) -> str:
    digits = ".3f" if max(abs(difference.mean), difference.half) >= 0.01 else ".2e"
    text = f"{difference.mean:+{digits}} ({difference.half:{digits}})"
    if not difference.excludes_zero:
        return text
    return f"**{text}**" if (difference.mean > 0) == (metric == "insertion") else f"*{text}*"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
