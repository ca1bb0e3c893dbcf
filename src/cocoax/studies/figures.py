"""Plots of the studies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cocoax.evaluation import paper_interval
from cocoax.studies.study import MEASURES, METHODS, TARGETS, Records, by_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours that people with colour-blindness can tell apart (Okabe & Ito).
COLOURS = {
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


def curve_figure(records: Records, folder: Path) -> list[Path]:
    """Mean insertion and deletion curves of each target (cosine), one file for each class case and measure."""
    import matplotlib.pyplot as plt

    means = records.mean_curves("class_case", "similarity", "method", "target")
    written: list[Path] = []
    for class_case in ("same", "different"):
        for measure in MEASURES:
            figure, axes = plt.subplots(
                2, len(METHODS), figsize=(3.2 * len(METHODS), 6), sharex=True, sharey=True, layout="constrained"
            )
            for column, (method, title) in enumerate(METHODS.items()):
                for row, metric in enumerate(("insertion", "deletion")):
                    axis = axes[row, column]
                    for target, name in TARGETS.items():
                        curve = means[class_case, "cosine", method, target, measure, metric]
                        axis.plot(np.linspace(0, 1, len(curve)), curve, color=COLOURS[target], label=name)
                    for reference, style in (("random", ":"), (f"chance of {method}", "--")):
                        curve = means[class_case, None, reference, None, measure, metric]
                        label = "pixel noise" if reference == "random" else "chance level"
                        axis.plot(np.linspace(0, 1, len(curve)), curve, style, color=COLOURS["random"], label=label)
                    axis.set_title(f"{title}, {metric}", fontsize=10)
                    axis.set_xlabel(f"part of the pixels {'inserted' if metric == 'insertion' else 'deleted'}")
            for axis in axes[:, 0]:
                axis.set_ylabel(measure.replace("_", " "))
            axes[0, 0].legend(fontsize=8, frameon=False)
            written += save(figure, folder / f"curves_{class_case}_{measure}")
    return written


def size_figure(records: Records, folder: Path) -> list[Path]:
    """The areas against the size of corpus or foil, with intervals over runs and random attributions as a reference."""
    import matplotlib.pyplot as plt

    groups = records.grouped("class_case", "measure", "method", "corpus", "foil", "metric")
    which = 3 if len({key[3] for key in groups}) > 1 else 4
    name = "corpus" if which == 3 else "foil"
    written: list[Path] = []
    for class_case in ("same", "different"):
        figure, axes = plt.subplots(2, 2, figsize=(9, 6.5), sharex=True, layout="constrained")
        for row, measure in enumerate(MEASURES):
            for column, metric in enumerate(("insertion", "deletion")):
                axis = axes[row, column]
                for method in (*METHODS, "random"):
                    points = {
                        key[which]: paper_interval(by_run(found))
                        for key, found in groups.items()
                        if (key[0], key[1], key[2], key[5]) == (class_case, measure, method, metric)
                    }
                    sizes = sorted(points)
                    style: dict[str, Any] = {"color": COLOURS[method], "label": METHODS.get(method, "pixel noise")}
                    axis.errorbar(
                        sizes,
                        [points[size].mean for size in sizes],
                        [points[size].half for size in sizes],
                        marker="o",
                        markersize=3,
                        capsize=2,
                        linestyle=":" if method == "random" else "-",
                        **style,
                    )
                axis.set_xscale("log")
                axis.set_xticks(sizes, [str(size) for size in sizes])
                axis.minorticks_off()
                axis.set_title(f"{metric} {'↑' if metric == 'insertion' else '↓'}", fontsize=10)
                axis.set_ylabel(measure.replace("_", " "))
                if row == 1:
                    axis.set_xlabel(f"images in the {name}")
        axes[0, 0].legend(fontsize=8, frameon=False)
        written += save(figure, folder / f"{name}_size_{class_case}")
    return written


def save(figure: Figure, path: Path, dpi: int = 150) -> list[Path]:
    """Write a figure as PNG and PDF, and close it; returns the files."""
    import matplotlib.pyplot as plt

    written = [path.with_suffix(".png"), path.with_suffix(".pdf")]
    for file in written:
        figure.savefig(file, dpi=dpi)
    plt.close(figure)
    return written
