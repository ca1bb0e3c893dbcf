"""Pictures of attributions: over the input, as bars, several beside each other.

Maps are signed: red raises the target, blue lowers it, white makes no difference, and where hatched the interval of two
standard errors includes zero. The colour bar is centred at zero and says what its numbers are; nothing is rescaled behind
the reader's back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from cocoax.results import Attribution
from cocoax.show import Bars, Gallery, HeatMap, PlotOptions, View, figure
from cocoax.show.options import COLOURS
from cocoax.show.views import colour_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "bars", "colour_scale", "overlay", "panel", "panel_view"]
_COLUMNS = 5


def overlay(attribution: Attribution, ax: Axes | None = None, **options: Any) -> Axes:
    """Draw an attribution over its picture; return the axes.

    What is shown is the value minus ``attribution.neutral``, the value of a pixel that makes no difference (0 for most
    methods, the mean score of masked inputs for RISE); the colour bar says so.

    Args:
        attribution: what to draw.
        ax: matplotlib axes to draw on; new ones if not given.
        options: those of :class:`cocoax.show.PlotOptions`: ``opacity``, ``limit``, ``title``, ``colour_bar``, ``cmap``, ….

    """
    view = attribution.view()
    if not isinstance(view, HeatMap):
        raise ValueError("An overlay is a map over a picture; draw words, columns and segments with attribution.plot().")
    return _drawn(view, ax, options)


def bars(attribution: Attribution, ax: Axes | None = None, **options: Any) -> Axes:
    """Draw the attribution of words or columns as bars, with two standard errors to both sides; return the axes.

    Args:
        attribution: what to draw.
        ax: matplotlib axes to draw on; new ones if not given.
        options: those of :class:`cocoax.show.PlotOptions`: ``order`` (by ``"size"``, or as ``"given"``; by default columns by
            size, words as they stand in the text), ``most``, ``title``, ``limit``, ….

    """
    if attribution.names is None:
        raise ValueError("Bars are for words and columns; draw the attribution of an image with cocoax.plots.overlay.")
    order: Literal["size", "given"] = "size" if attribution.text is None else "given"
    return _drawn(Bars(attribution.effects, attribution.names, order), ax, options)


def _drawn(view: View, ax: Axes | None, options: Mapping[str, Any]) -> Axes:
    chosen = PlotOptions.of(options)
    if ax is None:
        ax = figure.new_figure(*figure.size(view, chosen)).subplots()
    figure.draw(view, ax, chosen)
    return ax


def panel(
    attributions: Mapping[str, Attribution] | Sequence[Attribution] | Sequence[Sequence[Attribution]],
    *,
    columns: int | None = None,
    titles: Sequence[str] | None = None,
    same_scale: bool = False,
    title: str | None = None,
    **options: Any,
) -> Figure:
    """Draw several attributions of one input side by side, each with its question and score.

    The input itself comes first, if there is anything to see. A nested list, as ``explain`` gives it for many inputs and
    targets, is drawn as a grid: a row for each input. A dict gives titles. The figure is not kept by pyplot, so that a
    notebook shows it once; ``figure.savefig`` writes it.

    Args:
        attributions: what to draw, for one input; or a list of those lists, for many; or ``{title: attribution}``.
        columns: pictures per row, the input included.
        titles: instead of questions and scores.
        same_scale: one colour scale for all, so that colours can be compared between pictures.
        title: above all.
        options: those of :class:`cocoax.show.PlotOptions`.

    """
    view = panel_view(attributions, columns=columns, titles=titles, same_scale=same_scale, title=title)
    return figure.plot([view], PlotOptions.of(options), interactive=False)


def panel_view(
    attributions: Mapping[str, Attribution] | Sequence[Attribution] | Sequence[Sequence[Attribution]],
    *,
    columns: int | None = None,
    titles: Sequence[str] | None = None,
    same_scale: bool = False,
    title: str | None = None,
) -> Gallery:
    """Return what :func:`panel` draws as a view, for pages."""
    if isinstance(attributions, Mapping):
        titles, attributions = list(attributions), list(attributions.values())
    rows = _rows(attributions, columns)
    together = [each for row in rows for each in row if isinstance(each, Attribution)]
    if titles is not None and len(titles) != len(together):
        raise ValueError(f"Got {len(titles)} titles for {len(together)} attributions; pass one for each.")
    methods = [str(each.metadata.get("method", "")) for each in together]
    if titles is None and len(set(methods)) > 1:
        titles = [f"{method}: {figure.question(each.effects)}" for method, each in zip(methods, together, strict=True)]
    limit = max(float(each.relative.abs().max()) for each in together) or 1.0 if same_scale else None
    left = iter(titles) if titles is not None else None
    width = max(map(len, rows))
    tiles: list[View | None] = []
    for row in rows:
        for cell in [*row, *[None] * (width - len(row))]:
            view = cell.view() if isinstance(cell, Attribution) else cell
            named = left is not None and isinstance(cell, Attribution)
            tiles.append(replace(view, title=next(left)) if named and view is not None and left is not None else view)
    return Gallery(tuple(tiles), width, limit, colour_bars=True, inches=3.4, title=title or "")


def _rows(
    attributions: Sequence[Attribution] | Sequence[Sequence[Attribution]], columns: int | None
) -> list[list[Attribution | View]]:
    """Return what stands where: rows of attributions, the first of an input after the input itself."""
    if columns is not None and columns < 1:
        raise ValueError(f"The 'columns' parameter must be at least 1. Got {columns} instead.")
    if not attributions or not all(isinstance(each, Attribution) or each for each in attributions):
        raise ValueError("There are 0 attributions to draw; pass at least one.")
    if not isinstance(attributions[0], Attribution):
        return [_with_input(row) for row in attributions]  # type: ignore[arg-type]
    cells = _with_input(attributions)  # type: ignore[arg-type]
    width = min(len(cells), _COLUMNS) if columns is None else columns
    return [cells[start : start + width] for start in range(0, len(cells), width)]


def _with_input(attributions: Sequence[Attribution]) -> list[Attribution | View]:
    shown = attributions[0].display.input_view()
    return [*([] if shown is None else [shown]), *attributions]
