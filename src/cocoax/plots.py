"""Pictures: attributions drawn over the input.

Maps are signed: red raises the target, blue lowers it, white makes no difference, and what is hatched is not known: within
two standard errors there may be nothing. The colour bar is centred at zero and says what its numbers are; nothing is
rescaled behind the reader's back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cocoax.inputs.drawing import COLOURS, Order, colour_scale, draw_bars, draw_over, question
from cocoax.methods.attribution import Attribution

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
    cmap: str = COLOURS,
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
        cmap: a diverging colour map of matplotlib.

    """
    if attribution.values.ndim != 2:
        raise ValueError("An overlay is a map over a picture; draw words, columns and segments with attribution.plot().")
    return draw_over(
        attribution,
        (attribution.picture, attribution.box),
        ax,
        opacity=opacity,
        limit=limit,
        title=title,
        colour_bar=colour_bar,
        cmap=cmap,
    )


def bars(
    attribution: Attribution,
    ax: Axes | None = None,
    *,
    order: Order | None = None,
    most: int = 40,
    title: str | None = None,
    limit: float | None = None,
) -> Axes:
    """Draw the attribution of words or columns as bars, with two standard errors to both sides where they are known.

    Args:
        attribution: what to draw.
        ax: matplotlib axes to draw on; new ones if not given.
        order: of the bars: by ``"size"``, the largest first whatever its sign, or as ``"given"``; by default what suits the
            input: columns by size, words as they stand in the text.
        most: how many features are drawn; if there are more, those of the largest values.
        title: by default the question and the score.
        limit: the axis runs from -limit to +limit.

    """
    if attribution.names is None:
        raise ValueError("Bars are for words and columns; draw the attribution of an image with cocoax.plots.overlay.")
    order = attribution.display.order if order is None else order
    return draw_bars(attribution, attribution.names, ax, order=order, most=most, title=title, limit=limit)


def panel(
    attributions: Sequence[Attribution] | Sequence[Sequence[Attribution]],
    *,
    columns: int | None = None,
    titles: Sequence[str] | None = None,
    same_scale: bool = False,
    title: str | None = None,
    **options: Any,
) -> Figure:
    """Draw several attributions of one input side by side, each with its question and score.

    The input itself comes first, if there is anything to see.

    A nested list, as ``explain`` gives it for many inputs and targets, is drawn as a grid: a row for each input. The figure
    is not kept by pyplot, so that a notebook shows it once; ``figure.savefig`` writes it.

    Args:
        attributions: what to draw, for one input; or a list of those lists, for many.
        columns: pictures per row, the input included.
        titles: instead of questions and scores.
        same_scale: one colour scale for all, so that colours can be compared between pictures.
        title: above all.
        options: for :meth:`cocoax.Attribution.plot`.

    """
    from matplotlib.figure import Figure

    rows = _rows(attributions, columns)
    together = [attribution for row in rows for attribution in row if attribution is not None]
    if titles is not None and len(titles) != len(together):
        raise ValueError(f"Got {len(titles)} titles for {len(together)} attributions; pass one for each.")
    if same_scale:
        options["limit"] = max(float(each.relative.abs().max()) for each in together) or 1.0
    methods = [str(each.metadata.get("method", "")) for each in together]
    if titles is None and len(set(methods)) > 1:
        titles = [f"{method}: {question(each)}" for method, each in zip(methods, together, strict=True)]
    width = max(*map(len, rows), columns or 1)
    heights = [max(each.display.height for each in row if each is not None) for row in rows]
    figure = Figure(figsize=(3.4 * width, sum(heights)), layout="constrained")
    left = iter(titles) if titles is not None else None
    grid = figure.subplots(len(rows), width, squeeze=False, height_ratios=heights)
    for axes, row in zip(grid, rows, strict=True):
        for ax, attribution in zip(axes, [*row, *[None] * (width - len(row))], strict=True):
            if attribution is not None:
                attribution.plot(ax, title=None if left is None else next(left), **options)
            elif ax is axes[0] and row[1:] and row[1] is not None:
                row[1].display.draw_input(ax)
            else:
                ax.set_axis_off()
    if title:
        figure.suptitle(title)
    return figure


def _rows(
    attributions: Sequence[Attribution] | Sequence[Sequence[Attribution]], columns: int | None
) -> list[list[Attribution | None]]:
    """Return what stands where: rows of attributions, None for the input at the beginning of a row."""
    if columns is not None and columns < 1:
        raise ValueError(f"The 'columns' parameter must be at least 1. Got {columns} instead.")
    if not attributions or not all(isinstance(each, Attribution) or each for each in attributions):
        raise ValueError("There are 0 attributions to draw; pass at least one.")
    first = attributions[0]
    if not isinstance(first, Attribution):
        inputs = [None] if first[0].display.draws_input else []
        return [[*inputs, *row] for row in attributions]  # type: ignore[misc]
    cells: list[Attribution | None] = [*([None] if first.display.draws_input else []), *attributions]
    width = min(len(cells), 5) if columns is None else columns
    return [cells[start : start + width] for start in range(0, len(cells), width)]
