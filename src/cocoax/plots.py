"""Pictures of attributions: over the input, as bars, several beside each other.

Maps are signed: red raises the score, blue lowers it, white has no visible effect, and where grey the interval of two
standard errors includes zero. Scales are centred at zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from PIL import Image

from cocoax.checks import check_choice, check_count
from cocoax.results import Attribution
from cocoax.show import Bars, Effects, Gallery, HeatMap, Photo, PlotOptions, View, figure
from cocoax.show.palette import COLOURS, MAP
from cocoax.show.views import Scale, colour_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "bars", "colour_scale", "overlay", "panel", "panel_view"]
_SAME_PHOTO = 2.0  # of 255: the mean difference of two versions of one photo, at 8 x 8 pixels
_COLUMNS = 6  # of maps of one input, before there are two rows
_ALIKE = 5  # the largest effect of a map over that of another: beyond it the one is nearly white on the scale of the other


class _Mapped(Protocol):
    """An attribution, or an answer that has one; a panel draws it."""

    @property
    def attribution(self) -> Attribution:
        """The attribution."""
        ...

    def view(self) -> View:
        """Return what there is to see."""
        ...


Panels = Mapping[str, Any] | Sequence[Any]
_Row = tuple[str | None, list[tuple[str | None, _Mapped]]]


def overlay(attribution: Attribution, ax: Axes | None = None, **options: Any) -> Axes:
    """Draw an attribution over its picture; return the axes.

    What is shown is the value minus ``attribution.neutral``, the value of a pixel that makes no difference (0 for most
    methods, the mean score of masked inputs for RISE); the colour bar says so.

    Args:
        attribution: what to draw.
        ax: matplotlib axes to draw on; new ones if not given.
        options: those of :class:`cocoax.show.PlotOptions`: ``opacity``, ``limit``, ``title``, ``colorbar``, ``cmap``, ….

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
    attributions: Panels,
    *,
    columns: int | None = None,
    titles: Sequence[str] | None = None,
    scale: Scale | None = None,
    title: str | None = None,
    **options: Any,
) -> Figure:
    """Draw several attributions, or answers, side by side, each with its question and score; return the figure.

    The input stands once, to the left of its maps. Of one input they stand in one row or in two; a nested list, as
    ``explain`` gives it for many inputs and targets, is a grid with a row for each input. A dict gives titles, and a dict of
    dicts or of lists titles of rows and of maps; where
    rows are methods, and their maps of several photos, it is turned. ``figure.savefig`` writes it.

    Args:
        attributions: what to draw, for one input; or a list of those lists, for many; or ``{title: attribution}``.
        columns: maps in a row.
        titles: instead of questions and scores.
        scale: what shares a colour scale: the maps of a ``"row"``, ``"all"`` of them, or ``"each"`` has its own. By default
            those of a row, if their features are of one size and their largest effects differ by 5 times at most; otherwise
            each has its own, and a line below says so.
        title: above all.
        options: those of :class:`cocoax.show.PlotOptions`.

    """
    view = panel_view(attributions, columns=columns, titles=titles, scale=scale)
    return figure.plot([view], PlotOptions.of({**options, "title": title}))


def panel_view(
    attributions: Panels,
    *,
    columns: int | None = None,
    titles: Sequence[str] | None = None,
    scale: Scale | None = None,
) -> Gallery:
    """Return what :func:`panel` draws as a view, for pages."""
    check_count("columns", 1 if columns is None else columns, 1)
    named = list(_rows(attributions))
    if not named or not all(row for _, row in named):
        raise ValueError("There are 0 attributions to draw; pass at least one.")
    if titles is not None:
        count = sum(len(row) for _, row in named)
        if len(titles) != count:
            raise ValueError(f"Got {len(titles)} titles for {count} attributions; pass one for each.")
        left = iter(titles)
        named = [(None, [(next(left), each) for _, each in row]) for _, row in named]
    named = _by_photo(named, titled=titles is not None)
    rows = [row for _, row in named]
    together = [each for row in rows for each in row]
    if scale is None:
        scale = "row" if all(map(_are_alike, rows)) else "each"
    check_choice("scale", scale, ("each", "row", "all"))
    methods = {str(_attribution(each).metadata.get("method", "")) for _, each in together}
    first = [each for _, each in rows[0]]
    drawn = [
        [
            _tile(name, each, len(methods) > 1, first[column] if number and column < len(first) else None)
            for column, (name, each) in enumerate(row)
        ]
        for number, row in enumerate(rows)
    ]
    inputs = [_attribution(row[0][1]).display.input_view() for row in rows]
    above = None
    if titles is None and isinstance(attributions, Mapping) and any(name is not None for name, _ in named):
        above = _headed(named, drawn, inputs)
    if len(rows) > 1:
        width = max(map(len, drawn))
        filled: list[View | None] = []
        for lead, row in zip(inputs, drawn, strict=True):
            filled += [*([] if lead is None else [lead]), *row, *[None] * (width - len(row))]
        across = len(filled) // len(rows)
        return Gallery(tuple(filled), across, None, None, scale, True, MAP, title=above)
    tiles, lead = drawn[0], inputs[0]
    if columns is None:
        columns = len(tiles) if len(tiles) <= _COLUMNS - 1 else -(-len(tiles) // 2)
        if lead is not None and len(tiles) > 1 and len(tiles) % columns == columns - 1:
            tiles, lead = [lead, *tiles], None  # fills the place that would be empty
    return Gallery(tuple(tiles), min(columns, len(tiles)), lead, None, scale, True, MAP, title=above)


def _are_alike(row: Sequence[tuple[str | None, _Mapped]]) -> bool:
    """Return whether maps can be read on one scale: their features are of one size, and so are their effects, roughly."""
    own = [_attribution(each) for _, each in row]
    limits = [each.effects.limit for each in own if not each.is_nothing]
    return len(set(map(_features, own))) == 1 and max(limits, default=1.0) <= _ALIKE * min(limits, default=1.0)


def _features(attribution: Attribution) -> object:
    """Return what the features of an attribution are, to tell whether effects of two can be compared."""
    regions = attribution.segments
    return tuple(attribution.values.shape) if regions is None else ("segments", int(regions.max()))


def _headed(
    named: Sequence[tuple[str | None, Sequence[tuple[str | None, _Mapped]]]],
    drawn: list[list[View]],
    inputs: list[View | None],
) -> str | None:
    """Write the names of a dict of rows to its pictures; return the question, if all have one.

    The name of a row, and its score, stand above its input; names of columns that all rows have stand above the first row.
    """
    effects = [[_attribution(each).effects for _, each in row] for _, row in named]
    questions = {each.question for row in effects for each in row}
    heads = [[name for name, _ in row] for _, row in named]
    for number, (name, row) in enumerate(named):
        scores = {each.scored for each in effects[number]}
        lead = inputs[number]
        once = lead is not None and len(scores) == 1
        own = f"{name}  {effects[number][0].scored}".strip() if once else str(name)
        if lead is not None:
            inputs[number] = replace(lead, title=own)
        for column, (head, _) in enumerate(row):
            words = [] if number and lead is not None and heads[0] == heads[number] else [head or ""]
            words += [] if len(questions) == 1 else [effects[number][column].words]
            words += [] if once else [effects[number][column].scored]
            words = words if lead is not None else [f"{name}:", *words]
            drawn[number][column] = replace(drawn[number][column], title="  ".join(filter(None, words)))
    return questions.pop() if len(questions) == 1 else None


def _rows(given: Panels) -> Iterator[_Row]:
    """Go through rows of attributions, each with its name and theirs, where they have one."""
    if not isinstance(given, Iterable):
        raise TypeError(f"The 'attributions' must be a list or a dict of them. Got {type(given).__name__} instead.")
    parts: list[tuple[str | None, Any]] = (
        list(given.items()) if isinstance(given, Mapping) else [(None, each) for each in given]
    )
    if any(isinstance(each, Mapping | list | tuple) for _, each in parts):
        for name, row in parts:
            own: list[tuple[str | None, Any]] = (
                list(row.items()) if isinstance(row, Mapping) else [(None, each) for each in row]
            )
            yield name, own
    elif parts:
        yield None, parts


def _by_photo(named: list[_Row], titled: bool) -> list[_Row]:
    """Return rows of one photo each, since a row shows its photo once; rows of methods become columns.

    If they are ``titled``, the names of maps are titles that stay with them.
    """
    if all(len(_photos(row)) <= 1 for _, row in named):
        return named
    if len(named) == 1:
        ((name, row),) = named
        return [(own or name, [(own if titled else None, each)]) for own, each in row]
    columns = list(zip(*(row for _, row in named), strict=False))
    if len({len(row) for _, row in named}) > 1 or any(len(_photos(column)) > 1 for column in columns):
        raise ValueError(
            "A row of a panel is of one photo, and a row here has maps of several. Pass a list for each photo, or "
            "{photo: {method: map}}."
        )
    heads = [name for name, _ in named]
    return [
        (column[0][0] or "", [(own if titled else head, each) for head, (own, each) in zip(heads, column, strict=True)])
        for column in columns
    ]


def _photos(row: Sequence[tuple[str | None, _Mapped]]) -> list[np.ndarray]:
    """Return the different photos of a row of maps, very small."""
    found: list[np.ndarray] = []
    for _, each in row:
        view = _attribution(each).display.input_view()
        if isinstance(view, Photo):
            small = np.asarray(Image.fromarray(view.picture).convert("RGB").resize((8, 8), Image.Resampling.BOX), float)
            if all(np.abs(small - other).mean() > _SAME_PHOTO for other in found):
                found.append(small)
    return found


def _attribution(each: _Mapped) -> Attribution:
    if isinstance(each, Attribution):
        return each
    own = getattr(each, "attribution", None)
    if not isinstance(own, Attribution):
        raise TypeError(f"A panel is of attributions, or of answers. Got a {type(each).__name__} instead.")
    return own


def _tile(name: str | None, each: _Mapped, by_method: bool, above: _Mapped | None = None) -> View:
    """Return a map with its title and without sentences; with its score alone if its question stands ``above`` it already."""
    view = each.view() if hasattr(each, "view") else _attribution(each).view()
    asked, own = (None if one is None else _asked(one) for one in (above, each))
    if name is None and asked == own:
        return replace(view, effects=_unnamed(view.effects), note="")  # type: ignore[attr-defined, call-arg]  # all have them
    if name is None and by_method:
        name = f"{_asked(each)[1]}: {_attribution(each).effects.title}"
    return replace(view, title=name if name is not None else view.title, note="")


def _asked(each: _Mapped) -> tuple[str, str]:
    """Return the question and the method."""
    own = _attribution(each)
    return own.name, str(own.metadata.get("method", ""))


def _unnamed(effects: Effects) -> Effects:
    """Return effects whose question is said elsewhere."""
    parts = (("", effects.parts[0][1]), *effects.parts[1:]) if effects.parts else ()
    return replace(effects, question="", parts=parts)
