"""Results of curve studies: values of all explicands, tables in the paper's layout beside the published numbers, curves."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from cocoax.evaluation import Interval, paired_difference, paper_interval
from cocoax.paper.studies.published import METHOD_TITLES, METRICS, SETTINGS, TARGET_TITLES, PaperTable, published
from cocoax.results import Result
from cocoax.show import Curves, Gallery, Line, PlotOptions, Table, View
from cocoax.store import write_text
from cocoax.version import versions


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


def _run_means(records: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the mean of each run."""
    runs: dict[int, list[float]] = {}
    for record in records:
        runs.setdefault(record["run"], []).append(record["value"])
    return [float(np.mean(values)) for values in runs.values()]


@dataclass(frozen=True, eq=False)
class StudyPart(Result):
    """A table or figure of a study: what it shows, its views and numbers, and the files it is written as."""

    name: str
    about: str
    shown: tuple[View, ...]
    numbers: Table
    endings: tuple[str, ...]

    @property
    def summary(self) -> str:
        """The title of the table."""
        return self.about

    def views(self) -> tuple[View, ...]:
        """Return the table or the charts."""
        return self.shown

    def table(self) -> Table:
        """Return the numbers."""
        return self.numbers


@dataclass(frozen=True, eq=False)
class StudyReport(Result):
    """Everything that a study of curves found.

    Attributes:
        study, encoder: their names.
        options: that it was run with.
        records: every value.
        parts: its tables and figures.

    """

    study: str
    encoder: str
    options: Mapping[str, Any]
    records: Records
    parts: Sequence[StudyPart]
    file: ClassVar[str] = "results"

    @property
    def title(self) -> str:
        """The study and the encoder."""
        return f"{self.study.capitalize()} study of {self.encoder}"

    @property
    def summary(self) -> str:
        """The number of explicands."""
        return f"{len(self.records)} explicands, runs: {self.options['runs']}."

    def views(self) -> list[View]:
        """Return the views of all parts."""
        return [view for part in self.parts for view in part.views()]

    def table(self) -> Table:
        """Return every value."""
        columns = tuple(dict.fromkeys(name for record in self.records for name in record))
        return Table(columns, tuple(tuple(record.get(name) for name in columns) for record in self.records))

    def facts(self) -> dict[str, Any]:
        """Return the options, the versions of libraries and every value."""
        return {"options": self.options, "versions": versions(), "values": list(self.records)}

    def save_all(self, path: str | Path, **options: Any) -> list[Path]:
        """Write the parts, a page about all of them and every value as JSON into a folder; return the files."""
        folder = Path(path)
        parts = [part.save(folder / f"{part.name}{ending}", **options) for part in self.parts for ending in part.endings]
        return [*parts, *(self.save(folder / f"{self.file}{ending}", **options) for ending in (".html", ".json"))]


# --- tables of the paper ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _StudyTable(StudyPart):
    """A table of the paper, which is also written as Markdown and LaTeX, our best values in bold.

    ``best`` are the places ``(row, column)`` of those values; ``settings`` are the heads over pairs of columns.
    """

    best: frozenset[tuple[int, int]]
    settings: tuple[str, ...]

    def _writers(self) -> dict[str, Callable[[Path, PlotOptions], object]]:
        return {
            **super()._writers(),
            ".md": lambda path, options: write_text(path, self.markdown()),
            ".tex": lambda path, options: write_text(path, self.latex()),
        }

    @property
    def _shown(self) -> Table:
        (table,) = self.shown
        assert isinstance(table, Table)
        return table

    def _lines(self, bold: str) -> list[tuple[str, ...]]:
        """Return the cells of each row, the best ones in ``bold``."""
        return [
            tuple((bold if (at, column) in self.best else "{}").format(cell) for column, cell in enumerate(row))
            for at, row in enumerate(self._shown.rows)
        ]

    def markdown(self) -> str:
        """Return the table as Markdown."""
        columns = self._shown.columns
        lines = [columns, ("---",) * len(columns), *self._lines("**{}**")]
        return "\n".join([f"### {self.about}", "", *("| " + " | ".join(line) + " |" for line in lines), ""])

    def latex(self) -> str:
        """Return the table as LaTeX (booktabs)."""
        pairs = len(self.settings)
        escaped = (re.sub(r"([&%$#_{}])", r"\\\1", setting) for setting in self.settings)
        heads = [rf"\multicolumn{{2}}{{c}}{{{setting}}}" for setting in escaped]
        rules = [rf"\cmidrule(lr){{{3 + 2 * at}-{4 + 2 * at}}}" for at in range(pairs)]
        caption = f"{self.about}. Means (95\\,\\% confidence intervals) over runs; the last three settings as published."
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{caption}}}",
            rf"\label{{table:{self.name}}}",
            r"\begin{tabular}{ll" + "rr" * pairs + "}",
            r"\toprule",
            rf" & & {' & '.join(heads)} \\ {' '.join(rules)}",
            " & ".join([*self._shown.columns[:2], *[r"Insertion ($\uparrow$) & Deletion ($\downarrow$)"] * pairs]) + r" \\",
        ]
        for _, several in itertools.groupby(self._lines(r"\textbf{{{}}}"), key=lambda line: line[0]):
            lines += [r"\midrule", *(" & ".join(line).replace("–", "--") + r" \\" for line in several)]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


# The head over the column that tells the lines of a method apart, and label, target and model of each line.
Variants = tuple[str, Sequence[tuple[str, str, str]]]


def paper_table(paper: PaperTable, variants: Variants, records: Records, encoder: str) -> _StudyTable:
    """Return a table of the paper: our values beside the published ones.

    It has lines of our own for the efficient estimator of RISE and for the chance levels.
    """
    head, own_lines = variants
    groups = records.grouped("class_case", "measure", "similarity", "method", "target", "model", "metric")
    columns = [*itertools.product((encoder,), METRICS), *itertools.product(SETTINGS, METRICS)]
    found: list[tuple[str, str, list[Interval | None]]] = []

    def add(group: str, label: str, method: str, similarity: str | None, target: str | None, model: str | None) -> None:
        key = (paper.class_case, paper.measure, similarity, method, target, model)
        ours = [
            paper_interval(_run_means(groups[(*key, metric)])) if (*key, metric) in groups else None for metric in METRICS
        ]
        printed = (paper.name, method, target or method, model or "trained")
        found.append((group, label, [*ours, *(published().get((*printed, *column)) for column in columns[2:])]))

    for method, title in METHOD_TITLES.items():
        for label, target, model in own_lines:
            add(title, label, method, paper.similarity, target, model)
        add(title, "Chance", f"chance of {method}", None, None, None)
    add("Random", "Pixel noise", "random", None, None, None)
    best = set()
    for title, (at, choose) in itertools.product(METHOD_TITLES.values(), enumerate((max, min))):
        means = {
            row: cell.mean
            for row, (group, label, cells) in enumerate(found)
            if group == title and label != "Chance" and (cell := cells[at]) is not None
        }
        if len(means) > 1:
            best.add((choose(means, key=means.__getitem__), 2 + at))
    settings = (encoder, *SETTINGS.values())
    heads = [f"{setting} {arrow}" for setting in settings for arrow in METRICS.values()]
    lines = tuple((group, label, *(str(cell or "–") for cell in cells)) for group, label, cells in found)
    numbers = tuple(
        (group, label, *column, cell.mean, cell.half, cell.count)
        for group, label, cells in found
        for column, cell in zip(columns, cells, strict=True)
        if cell is not None
    )
    return _StudyTable(
        paper.name,
        paper.title,
        (Table(("Method", head, *heads), lines, title=paper.title),),
        Table(("method", head.lower(), "setting", "metric", "mean", "half width", "runs"), numbers),
        (".md", ".tex"),
        frozenset(best),
        settings,
    )


def differences(records: Records) -> StudyPart:
    """Return COCOA minus each of the other targets on the same explicands: mean and Student's 95 % interval.

    A cell of the tables says better or worse where the interval excludes zero.
    """
    groups = {
        key: {(record["run"], record["explicand"]): record["value"] for record in several}
        for key, several in records.grouped("class_case", "measure", "similarity", "method", "target", "metric").items()
    }
    tables: dict[tuple[str, ...], dict[str, dict[str, str]]] = {}
    numbers = []
    for (*place, target, metric), rival in groups.items():
        cocoa = groups.get((*place, "cocoa", metric))
        if target not in TARGET_TITLES or target == "cocoa" or cocoa is None:
            continue
        each = paired_difference(list(cocoa.values()), [rival[explicand] for explicand in cocoa])
        better = (each.mean > 0) == (metric == "insertion")
        verdict = ("better" if better else "worse") if each.excludes_zero else ""
        numbers.append((*place, target, metric, each.mean, each.half, verdict))
        digits = ".3f" if max(abs(each.mean), each.half) >= 0.01 else ".2e"
        row = tables.setdefault(tuple(place[:3]), {}).setdefault(METHOD_TITLES[place[3]], {})
        row[f"{TARGET_TITLES[target]} {METRICS[metric]}"] = f"{each.mean:+{digits}} ({each.half:{digits}}) {verdict}".strip()
    views = tuple(
        Table(
            ("COCOA minus", *next(iter(rows.values()))),
            tuple((method, *cells.values()) for method, cells in rows.items()),
            title=f"{measure.replace('_', ' ').capitalize()}, {similarity}, {case} class: COCOA minus other targets",
        )
        for (case, measure, similarity), rows in tables.items()
    )
    columns = ("class case", "measure", "similarity", "method", "other target", "metric", "mean", "half width", "cocoa is")
    about = "COCOA minus the other targets, on the same explicands: mean difference (half-width of its 95 % t-interval)"
    return StudyPart("differences", about, views, Table(columns, tuple(numbers)), (".csv",))


# --- figures ------------------------------------------------------------------------------------------------------------

# Colours that people with colour-blindness can tell apart (Okabe & Ito).
_COLOURS = {
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


def mean_curves(records: Records) -> list[StudyPart]:
    """Return the mean curves of each target (cosine) and of the random references, for each class case and measure."""
    means = records.mean_curves("class_case", "similarity", "method", "target")

    def chart(case: str, measure: str, method: str, metric: str, *, legend: bool) -> Curves:
        shown: list[tuple[tuple[str | None, ...], str, str, str]] = [
            *((("cosine", method, target), target, title, "-") for target, title in TARGET_TITLES.items()),
            ((None, "random", None), "random", "pixel noise", ":"),
            ((None, f"chance of {method}", None), "random", "chance level", "--"),
        ]
        lines = []
        for key, colour, label, style in shown:
            y = means[(case, *key, measure, metric)].numpy()
            look = {"color": _COLOURS[colour], "linestyle": style}
            lines.append(Line(np.linspace(0, 1, len(y)), y, label if legend else "", look))
        done = f"part of the pixels {'inserted' if metric == 'insertion' else 'deleted'}"
        return Curves(tuple(lines), done, measure.replace("_", " "), title=f"{METHOD_TITLES[method]}, {metric}")

    parts = []
    for case, measure in dict.fromkeys((key[0], key[4]) for key in means):
        places = [(method, metric) for metric in METRICS for method in METHOD_TITLES]
        charts = tuple(chart(case, measure, *place, legend=place == places[0]) for place in places)
        about = f"Mean curves of the {measure.replace('_', ' ')}, {case} class"
        rows = [
            (*key[1:4], key[5], at / (len(curve) - 1), value)
            for key, curve in means.items()
            if (key[0], key[4]) == (case, measure)
            for at, value in enumerate(curve.tolist())
        ]
        numbers = Table(("similarity", "method", "target", "metric", "part of the pixels", "mean"), tuple(rows))
        view = Gallery(charts, columns=len(METHOD_TITLES), inches=3.2, title=about)
        parts.append(StudyPart(f"curves_{case}_{measure}", about, (view,), numbers, (".png", ".pdf", ".csv")))
    return parts


def areas_by_size(records: Records, varied: str) -> list[StudyPart]:
    """Return the areas under the curves for each size of corpus and foil, with intervals over runs, by class case.

    ``varied`` is the size on the axis, ``"corpus"`` or ``"foil"``.
    """
    groups = records.grouped("class_case", "measure", "method", "corpus", "foil", "metric")
    areas = {key: paper_interval(_run_means(several)) for key, several in groups.items()}

    def chart(case: str, measure: str, metric: str, *, legend: bool) -> Curves:
        lines, sizes = [], np.zeros(0)
        for method in (*METHOD_TITLES, "random"):
            line = {
                (key[3] if varied == "corpus" else key[4]): area
                for key, area in areas.items()
                if (*key[:3], key[5]) == (case, measure, method, metric)
            }
            sizes = np.array(sorted(line), float)
            mean, half = (np.array([getattr(line[int(size)], of) for size in sizes]) for of in ("mean", "half"))
            look = {
                "color": _COLOURS[method],
                "linestyle": ":" if method == "random" else "-",
                "marker": "o",
                "markersize": 3,
            }
            label = METHOD_TITLES.get(method, "pixel noise") if legend else ""
            lines.append(Line(sizes, mean, label, look, low=mean - half, high=mean + half))
        title, ticks = f"{metric} {METRICS[metric]}", tuple(sizes.tolist())
        labels = f"images in the {varied}", measure.replace("_", " ")
        return Curves(tuple(lines), *labels, ticks=ticks, logarithmic=True, title=title)

    parts = []
    for case in dict.fromkeys(key[0] for key in areas):
        places = list(itertools.product(dict.fromkeys(key[1] for key in areas if key[0] == case), METRICS))
        charts = tuple(chart(case, *place, legend=place == places[0]) for place in places)
        about = f"Areas under the curves by the size of the {varied}, {case} class"
        rows = tuple((*key, area.mean, area.half) for key, area in areas.items() if key[0] == case)
        numbers = Table(("class case", "measure", "method", "corpus", "foil", "metric", "mean", "half width"), rows)
        view = Gallery(charts, columns=len(METRICS), inches=4.5, title=about)
        parts.append(StudyPart(f"{varied}_size_{case}", about, (view,), numbers, (".png", ".pdf", ".csv")))
    return parts
