"""Pictures: attributions drawn over the input.

Maps are signed: red raises the target, blue lowers it, white makes no difference. The colour bar is centred at zero and
says what its numbers are; nothing is rescaled behind the reader's back.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cocoax.attribution.result import Attribution
from cocoax.inputs.images import WHOLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = "RdBu_r"


def overlay(
    attribution: Attribution,
    ax: Axes | None = None,
    *,
    opacity: float = 0.65,
    limit: float | None = None,
    title: str | None = None,
    colour_bar: bool = True,
) -> Axes:
    """Draw an attribution over its picture.

    What is shown is the value minus ``attribution.neutral``, the value of a pixel that makes no difference (0 for most
    methods, the mean score of masked inputs for RISE); the colour bar says so.

    Args:
        attribution: what to draw.
        ax: matplotlib axes to draw on; new ones if not given.
        opacity: of the map, from 0 (picture only) to 1 (map only).
        limit: the colour scale runs from -limit to +limit. By default that is the largest value in the map; where a few
            pixels dwarf all others, as gradients do, it is the 99th percentile, and the colour bar says so.
        title: by default the question and the score.
        colour_bar: draw the colour bar.

    """
    import matplotlib.pyplot as plt

    if not 0 <= opacity <= 1:
        raise ValueError(f"The 'opacity' parameter must lie between 0 and 1. Got {opacity!r} instead.")
    if ax is None:
        seen = attribution.values if attribution.picture is None else attribution.picture
        sides = seen.shape[1] / seen.shape[0]  # a tall picture gets a narrow figure
        ax = plt.subplots(figsize=(1.4 + 3.6 * min(max(sides, 0.5), 2.0), 4.4), layout="constrained")[1]
    shown = attribution.values.numpy() - attribution.neutral
    if limit is not None and not limit > 0:
        raise ValueError(f"The 'limit' parameter must be above 0. Got {limit!r} instead.")
    cut = False
    if limit is None:
        limit, cut = colour_scale(shown)
    height, width = shown.shape
    if attribution.picture is not None:
        picture = attribution.picture.numpy()
        height, width = picture.shape[:2]
        grey = picture.astype(float).mean(2) / 255  # colours are the map's; the picture is there to find one's way
        ax.imshow(np.stack([grey] * 3, axis=2))
    left, top, right, bottom = (part * side for part, side in zip(attribution.box, (width, height) * 2, strict=True))
    if attribution.box != WHOLE:  # what the encoder did not see is faded
        veil = np.zeros((height, width, 4))
        veil[..., :3], veil[..., 3] = 1, 0.75
        veil[round(top) : round(bottom), round(left) : round(right), 3] = 0
        ax.imshow(veil)
    drawn = ax.imshow(
        shown,
        cmap=COLOURS,
        vmin=-limit,
        vmax=limit,
        alpha=opacity,
        extent=(left - 0.5, right - 0.5, bottom - 0.5, top - 0.5),
        interpolation="bilinear",
    )
    ax.set_xlim(-0.5, width - 0.5)
    ax.set_ylim(height - 0.5, -0.5)
    ax.set_axis_off()
    # Dollars are dollars, not the beginning of a formula.
    ax.set_title(question(attribution) if title is None else title, fontsize=10, parse_math=False)
    if colour_bar and ax.figure is not None:
        bar = ax.figure.colorbar(drawn, ax=ax, fraction=0.046, pad=0.03, extend="both" if cut else "neither")
        bar.ax.tick_params(labelsize=8)
        bar.set_label(_meaning(attribution) + (f"; 1 % lie beyond ±{limit:.2g}" if cut else ""), fontsize=8)
        if bar.solids is not None:
            bar.solids.set_alpha(1)
    return ax


def bars(
    attribution: Attribution, ax: Axes | None = None, *, most: int = 40, title: str | None = None, limit: float | None = None
) -> Axes:
    """Draw the attribution of words or columns as bars, with two standard errors to both sides where they are known.

    Args:
        attribution: what to draw.
        ax: matplotlib axes to draw on; new ones if not given.
        most: how many features are drawn, in their own order; if there are more, those of the largest values.
        title: by default the question and the score.
        limit: the axis runs from -limit to +limit.

    """
    import matplotlib.pyplot as plt

    if attribution.tokens is None:
        raise ValueError("Bars are for words and columns; draw the attribution of an image with cocoax.plots.overlay.")
    values = attribution.values.numpy() - attribution.neutral
    drawn = np.sort(np.argsort(-np.abs(values), kind="stable")[:most])
    if ax is None:
        ax = plt.subplots(figsize=(5, 0.9 + 0.26 * len(drawn)), layout="constrained")[1]
    errors = None if attribution.standard_error is None else 2 * attribution.standard_error.numpy()[drawn]
    colours = ["#b2182b" if value > 0 else "#2166ac" for value in values[drawn]]
    ax.barh(np.arange(len(drawn)), values[drawn], xerr=errors, color=colours, error_kw={"lw": 0.8, "ecolor": "#555555"})
    # Dollars are dollars, not the beginning of a formula.
    ax.set_yticks(np.arange(len(drawn)), [attribution.tokens[index] for index in drawn], fontsize=8, parse_math=False)
    ax.invert_yaxis()
    ax.axvline(0, color="#555555", lw=0.8)
    if limit is not None:
        ax.set_xlim(-limit, limit)
    ax.tick_params(axis="x", labelsize=8)
    left = f"; {len(values) - len(drawn)} smaller ones not shown" if len(values) > len(drawn) else ""
    ax.set_xlabel(_meaning(attribution) + left, fontsize=8)
    ax.set_title(question(attribution) if title is None else title, fontsize=10, parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def panel(
    attributions: Sequence[Attribution],
    *,
    columns: int | None = None,
    titles: Sequence[str] | None = None,
    same_scale: bool = False,
    title: str | None = None,
    **options: Any,
) -> Figure:
    """Several attributions of one input side by side, after the input itself, each titled with its question and score.

    Args:
        attributions: what to draw, for one input.
        columns: pictures per row, the input included.
        titles: instead of questions and scores.
        same_scale: one colour scale for all, so that colours can be compared between pictures.
        title: above all.
        options: for :func:`overlay`.

    """
    import matplotlib.pyplot as plt

    if not attributions:
        raise ValueError("There are 0 attributions to draw; pass at least one.")
    if titles is not None and len(titles) != len(attributions):
        raise ValueError(f"Got {len(titles)} titles for {len(attributions)} attributions; pass one for each.")
    if columns is not None and columns < 1:
        raise ValueError(f"The 'columns' parameter must be at least 1. Got {columns} instead.")
    number = len(attributions) + 1
    columns = min(number, 5) if columns is None else columns
    rows = -(-number // columns)
    if same_scale:
        options["limit"] = max(float((one.values - one.neutral).abs().max()) for one in attributions) or 1.0
    methods = [str(one.metadata.get("method", "")) for one in attributions]
    if titles is None and len(set(methods)) > 1:
        titles = [f"{method}: {question(one)}" for method, one in zip(methods, attributions, strict=True)]
    figure, grid = plt.subplots(rows, columns, figsize=(3.4 * columns, 3.3 * rows), layout="constrained", squeeze=False)
    axes = list(grid.flat)
    first = attributions[0]
    if first.picture is not None:
        axes[0].imshow(first.picture.numpy())
        axes[0].set_title("input", fontsize=10)
    for index, attribution in enumerate(attributions):
        overlay(attribution, axes[index + 1], title=None if titles is None else titles[index], **options)
    for unused in axes:
        unused.set_axis_off()
    if title:
        figure.suptitle(title)
    return figure


def question(attribution: Attribution) -> str:
    """The question and the score, as a title."""
    return "\n".join([*textwrap.wrap(attribution.name, 34), f"score {attribution.score:+.3f}"])


def colour_scale(shown: np.ndarray) -> tuple[float, bool]:
    """Where the colour scale ends, and whether that cuts off a few extreme pixels."""
    size = np.abs(shown)
    largest, most = float(size.max()), float(np.quantile(size, 0.99))
    return (most, True) if 0 < most < largest / 3 else (largest or 1.0, False)


def _meaning(attribution: Attribution) -> str:
    if attribution.neutral:
        return f"change in score if kept (mean {attribution.neutral:.3g})"
    return "attribution"
