"""Pictures: attributions drawn over the input.

Maps are signed: red raises the target, blue lowers it, white makes no difference. The colour bar is centred at zero and
says what its numbers are; nothing is rescaled behind the reader's back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cocoax.attribution.result import Attribution
from cocoax.inputs.drawing import COLOURS, colour_scale, draw_bars, draw_over, question

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "bars", "colour_scale", "overlay", "panel", "question"]


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
    return draw_over(
        attribution,
        attribution.picture,
        attribution.box,
        ax,
        opacity=opacity,
        limit=limit,
        title=title,
        colour_bar=colour_bar,
    )


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
    if attribution.names is None:
        raise ValueError("Bars are for words and columns; draw the attribution of an image with cocoax.plots.overlay.")
    return draw_bars(attribution, attribution.names, ax, most=most, title=title, limit=limit)


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
        options: for :meth:`cocoax.Attribution.plot`.

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
        options["limit"] = max(float(attribution.relative.abs().max()) for attribution in attributions) or 1.0
    methods = [str(attribution.metadata.get("method", "")) for attribution in attributions]
    if titles is None and len(set(methods)) > 1:
        titles = [f"{method}: {question(shown)}" for method, shown in zip(methods, attributions, strict=True)]
    figure, grid = plt.subplots(rows, columns, figsize=(3.4 * columns, 3.3 * rows), layout="constrained", squeeze=False)
    axes = list(grid.flat)
    attributions[0].display.draw_input(axes[0])
    for index, attribution in enumerate(attributions):
        attribution.plot(axes[index + 1], title=None if titles is None else titles[index], **options)
    for unused in axes[number:]:
        unused.set_axis_off()
    if title:
        figure.suptitle(title)
    return figure
