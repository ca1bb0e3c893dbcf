"""The paper's studies of insertion and deletion: its eight main tables, randomised parameters, sizes of corpus and foil."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from cocoax.encoders import Encoder
from cocoax.evaluation import Interval, paired_difference, paper_interval, randomised
from cocoax.paper.studies.curves import Case, CurveStudy, Repetition, Task
from cocoax.paper.studies.published import CLASS_CASES, MEASURES, METHOD_TITLES, METRICS, TARGET_TITLES
from cocoax.paper.studies.study import DrawnExplicand, four_targets
from cocoax.paper.studies.tables import LINE_COLOURS, Records, Variants, by_run, line_of, save_figure, write_tables
from cocoax.targets import contrastive_corpus_similarity

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class MainStudy(CurveStudy):
    """Four targets, cosine and dot, for explicands of the corpus' class and of others."""

    name = "main"
    variants = Variants("Target", tuple((title, target, "trained") for target, title in TARGET_TITLES.items()))

    def tasks(self, repetition: Repetition, explicand: DrawnExplicand) -> list[Task]:
        """Return eight targets in each of the two cases."""
        tasks = []
        for class_case, label in zip(CLASS_CASES, (explicand.own, explicand.other), strict=True):
            corpus, foil = repetition.corpus(label), repetition.foil(label)
            case = Case({"class_case": class_case}, repetition.measures(corpus, foil))
            for similarity in ("cosine", "dot"):
                for name, target in four_targets(corpus, foil, similarity).items():
                    key = {"similarity": similarity, "target": name, "model": "trained"}
                    tasks.append(Task(case, key, self.encoder, target))
        return tasks

    def report(self, records: Records) -> tuple[list[str], list[Path]]:
        """Write the eight tables and the curves; paired differences are a section of the summary."""
        sections, files = write_tables(self.tables(), self.variants, records, self.encoder.name, self.folder)
        return [*sections, differences(records)], [*files, *curve_figure(records, self.folder)]


def differences(records: Records) -> str:
    """Return COCOA minus each of the other targets on the same explicands, with Student's interval, as Markdown."""
    groups = {
        key: {(record["run"], record["explicand"]): record["value"] for record in several}
        for key, several in records.grouped("class_case", "measure", "similarity", "method", "metric", "target").items()
    }
    others = [target for target in TARGET_TITLES if target != "cocoa"]
    head = ["Method", *(f"{TARGET_TITLES[other]} {arrow}" for other in others for arrow in METRICS.values())]
    lines = [
        "### COCOA minus the other targets, on the same explicands",
        "",
        "Mean difference (half-width of its 95 % t-interval); bold: COCOA is better beyond it; italic: it is worse.",
        "",
    ]
    for class_case, measure, similarity in itertools.product(CLASS_CASES, MEASURES, ("cosine", "dot")):
        body = []
        for method, title in METHOD_TITLES.items():
            cells = []
            for other, metric in itertools.product(others, METRICS):
                key = (class_case, measure, similarity, method, metric)
                if (*key, "cocoa") not in groups or (*key, other) not in groups:
                    break
                cocoa, rival = groups[(*key, "cocoa")], groups[(*key, other)]
                cells.append(_marked(paired_difference(list(cocoa.values()), [rival[place] for place in cocoa]), metric))
            if cells:
                body.append(line_of([title, *cells]))
        if body:
            title = f"**{measure.replace('_', ' ').capitalize()}, {similarity}, {class_case} class**"
            lines += [title, "", line_of(head), line_of(["---"] * len(head)), *body, ""]
    return "\n".join(lines)


def _marked(difference: Interval, metric: str) -> str:
    digits = ".3f" if max(abs(difference.mean), difference.half) >= 0.01 else ".2e"
    text = f"{difference.mean:+{digits}} ({difference.half:{digits}})"
    if not difference.excludes_zero:
        return text
    return f"**{text}**" if (difference.mean > 0) == (metric == "insertion") else f"*{text}*"


def curve_figure(records: Records, folder: Path) -> list[Path]:
    """Draw mean insertion and deletion curves of each target (cosine), a file for each class case and measure."""
    import matplotlib.pyplot as plt

    means = records.mean_curves("class_case", "similarity", "method", "target")
    written: list[Path] = []
    for class_case, measure in itertools.product(CLASS_CASES, MEASURES):
        size = (3.2 * len(METHOD_TITLES), 6)
        figure, axes = plt.subplots(2, len(METHOD_TITLES), figsize=size, sharex=True, sharey=True, layout="constrained")
        for column, method in enumerate(METHOD_TITLES):
            for row, metric in enumerate(METRICS):
                _draw_curves(axes[row, column], means, class_case, measure, method, metric)
        for axis in axes[:, 0]:
            axis.set_ylabel(measure.replace("_", " "))
        axes[0, 0].legend(fontsize=8, frameon=False)
        written += save_figure(figure, folder / f"curves_{class_case}_{measure}")
    return written


def _draw_curves(
    axis: Axes, means: dict[tuple[Any, ...], torch.Tensor], class_case: str, measure: str, method: str, metric: str
) -> None:
    """Draw the mean curves of a method for each target, and its two references."""

    def draw(key: Sequence[str | None], colour: str, label: str, style: str = "-") -> None:
        curve = means[(class_case, *key, measure, metric)]
        axis.plot(np.linspace(0, 1, len(curve)), curve, style, color=LINE_COLOURS[colour], label=label)

    for target, title in TARGET_TITLES.items():
        draw(("cosine", method, target), target, title)
    draw((None, "random", None), "random", "pixel noise", ":")
    draw((None, f"chance of {method}", None), "random", "chance level", "--")
    axis.set_title(f"{METHOD_TITLES[method]}, {metric}", fontsize=10)
    axis.set_xlabel(f"part of the pixels {'inserted' if metric == 'insertion' else 'deleted'}")


class RandomisationStudy(CurveStudy):
    """COCOA by both encoders; corpus and foil are encoded by each, and the trained one evaluates both."""

    name = "randomised"
    variants = Variants("Encoder", (("Trained", "cocoa", "trained"), ("Randomised", "cocoa", "randomized")))

    def explained(self, seed: int) -> dict[str, Encoder]:
        """Return the trained encoder and one with new random parameters, others in each run."""
        return {"trained": self.encoder, "randomized": randomised(self.encoder, seed)}

    def tasks(self, repetition: Repetition, explicand: DrawnExplicand) -> list[Task]:
        """Return COCOA in each of the two cases, for each encoder."""
        tasks = []
        for class_case, label in zip(CLASS_CASES, (explicand.own, explicand.other), strict=True):
            measures = repetition.measures(repetition.corpus(label), repetition.foil(label))
            case = Case({"class_case": class_case}, measures)
            for model, encoder in repetition.encoders.items():
                corpus, foil = repetition.corpus(label, model=model), repetition.foil(label, model=model)
                key = {"similarity": "cosine", "target": "cocoa", "model": model}
                tasks.append(Task(case, key, encoder, contrastive_corpus_similarity(corpus, foil)))
        return tasks

    def report(self, records: Records) -> tuple[list[str], list[Path]]:
        """Write the four tables."""
        return write_tables(self.tables(), self.variants, records, self.encoder.name, self.folder)


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
        return [size_table(records)], _size_figure(records, self.varied, self.folder)


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


def _size_figure(records: Records, varied: str, folder: Path) -> list[Path]:
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
