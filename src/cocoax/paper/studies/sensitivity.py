"""How much COCOA depends on the sizes of corpus and foil."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from cocoax.evaluation import Interval, paper_interval
from cocoax.paper.studies.curves import CurveStudy, Repetition
from cocoax.paper.studies.figures import LINE_COLOURS, save_figure
from cocoax.paper.studies.judging import Case, Task
from cocoax.paper.studies.records import Records, by_run
from cocoax.paper.studies.sampling import DrawnExplicand
from cocoax.paper.studies.tables import line_of
from cocoax.paper.studies.titles import CLASS_CASES, MEASURES, METHOD_TITLES, METRICS
from cocoax.targets import contrastive_corpus_similarity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CORPUS_SIZES = (1, 5, 20, 50, 100, 200)
FOIL_SIZES = (100, 500, 1500, 2500, 5000)


class SizeStudy(CurveStudy):
    """COCOA with several sizes of corpus and foil, each judged by its own corpus and foil.

    ``varied`` says which of the two sizes is the one to plot.
    """

    varied: ClassVar[str]

    def tasks(self, repetition: Repetition, explicand: DrawnExplicand) -> list[Task]:
        """Return COCOA for each size, in each of the two cases."""
        tasks = []
        for class_case, label in zip(CLASS_CASES, (explicand.own, explicand.other), strict=True):
            for corpus_size, foil_size in self.pairs:
                corpus, foil = repetition.corpus(label, corpus_size), repetition.foil(label, foil_size)
                sizes = {"class_case": class_case, "corpus": corpus_size, "foil": foil_size}
                case = Case(sizes, repetition.measures(corpus, foil))
                key = {"similarity": "cosine", "target": "cocoa", "model": "trained"}
                tasks.append(Task(case, key, self.encoder, contrastive_corpus_similarity(corpus, foil)))
        return tasks

    def report(self, records: Records) -> tuple[list[str], list[Path]]:
        """Write the plots; a table of all sizes is a section of the summary."""
        return [size_table(records)], size_figure(records, self.varied, self.folder)


class CorpusSizeStudy(SizeStudy):
    """Corpora of 1 to 200 images against the foil of the options."""

    name = "corpus-size"
    varied = "corpus"

    @property
    def pairs(self) -> Sequence[tuple[int, int]]:
        """Each size of the corpus, with the foil of the options."""
        return [(size, self.options.foil) for size in CORPUS_SIZES]


class FoilSizeStudy(SizeStudy):
    """Foils of 100 to 5000 images against the corpus of the options."""

    name = "foil-size"
    varied = "foil"

    @property
    def pairs(self) -> Sequence[tuple[int, int]]:
        """Each size of the foil, with the corpus of the options."""
        return [(self.options.corpus, size) for size in FOIL_SIZES]


def size_table(records: Records) -> str:
    """Return the means for every size of corpus and foil, as Markdown."""
    groups = records.grouped("class_case", "measure", "method", "corpus", "foil", "metric")
    head = ["Explicands", "Measure", "Method", "Corpus", "Foil", *(f"{metric} {arrow}" for metric, arrow in METRICS.items())]
    lines = [line_of(head), line_of(["---"] * len(head))]
    for key in dict.fromkeys(key[:5] for key in groups):
        class_case, measure, method, corpus, foil = key
        cells = [str(paper_interval(by_run(groups[(*key, metric)]))) for metric in METRICS]
        named = [class_case, measure.replace("_", " "), METHOD_TITLES.get(method, method)]
        lines.append(line_of([*named, str(corpus), str(foil), *cells]))
    return "\n".join([*lines, ""])


def size_figure(records: Records, varied: str, folder: Path) -> list[Path]:
    """Draw the areas against the size of corpus or foil, with intervals over runs and pixel noise as a reference."""
    import matplotlib.pyplot as plt

    areas: dict[tuple[str, ...], dict[int, Interval]] = {}
    for (*place, size), several in records.grouped("class_case", "measure", "metric", "method", varied).items():
        areas.setdefault(tuple(place), {})[size] = paper_interval(by_run(several))
    written: list[Path] = []
    for class_case in CLASS_CASES:
        figure, axes = plt.subplots(2, 2, figsize=(9, 6.5), sharex=True, layout="constrained")
        for row, measure in enumerate(MEASURES):
            for column, (metric, arrow) in enumerate(METRICS.items()):
                axis = axes[row, column]
                _draw_areas(
                    axis, {method: areas[class_case, measure, metric, method] for method in (*METHOD_TITLES, "random")}
                )
                axis.set_title(f"{metric} {arrow}", fontsize=10)
                axis.set_ylabel(measure.replace("_", " "))
                if row == 1:
                    axis.set_xlabel(f"images in the {varied}")
        axes[0, 0].legend(fontsize=8, frameon=False)
        written += save_figure(figure, folder / f"{varied}_size_{class_case}")
    return written


def _draw_areas(axis: Axes, areas: Mapping[str, Mapping[int, Interval]]) -> None:
    """Draw a line for each method over the sizes."""
    for method, points in areas.items():
        sizes = sorted(points)
        axis.errorbar(
            sizes,
            [points[size].mean for size in sizes],
            [points[size].half for size in sizes],
            marker="o",
            markersize=3,
            capsize=2,
            linestyle=":" if method == "random" else "-",
            color=LINE_COLOURS[method],
            label=METHOD_TITLES.get(method, "pixel noise"),
        )
    axis.set_xscale("log")
    axis.set_xticks(sizes, [str(size) for size in sizes])
    axis.minorticks_off()
