"""The main study: the paper's eight tables of insertion and deletion, from one pass over the explicands."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cocoax.evaluation import Interval, paired_difference
from cocoax.paper.studies.curves import CurveStudy, Repetition
from cocoax.paper.studies.figures import LINE_COLOURS, save_figure
from cocoax.paper.studies.judging import Case, Task
from cocoax.paper.studies.records import Records
from cocoax.paper.studies.sampling import DrawnExplicand
from cocoax.paper.studies.study import four_targets
from cocoax.paper.studies.tables import Variants, line_of, write_tables
from cocoax.paper.studies.titles import CLASS_CASES, MEASURES, METHOD_TITLES, METRICS, TARGET_TITLES

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
