"""Heat maps and photos drawn with matplotlib, and panels of them: aligned rows, the input once, thin colour bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cocoax.show.drawing import (
    DEFAULT,
    LITERAL,
    draw,
    draw_figure_title,
    draw_heading,
    draw_scale,
    draw_scale_beside,
    draw_title,
    heading,
    heading_height,
    letters,
    line_height,
    noise_note,
    paint,
    scale_room,
    size,
    without_title,
)
from cocoax.show.fonts import families, wrapped
from cocoax.show.options import PlotOptions
from cocoax.show.palette import BAR, GAP, MARK, MARK_EDGE
from cocoax.show.raster import fitted_photo, heat_image, outlined_places
from cocoax.show.views import Gallery, HeatMap, Paragraph, Photo, View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

_EDGE = 0.06  # inches around a panel
_LARGEST = 2600  # pixels of the longer side of a map in a figure
_NARROW = 0.8  # inches: maps are not smaller, where fewer in a row make them larger
_TEXT = 5  # lines of a text in a gallery
_TALL = 1.5  # the height of a tile over its width, at most


# --- one picture ------------------------------------------------------------------------------------------------------------


@draw.register(HeatMap)
def _(view: HeatMap, ax: Axes, options: PlotOptions = DEFAULT) -> None:
    limit = options.limit or view.effects.limit
    _show_map(view, ax, replace(options, limit=limit), 960)
    ax.set_aspect(_aspect(view))
    draw_title(ax, view, options)
    if options.colorbar:
        draw_scale_beside(ax, limit, view.effects.meaning, options, beyond=_is_beyond(view, limit))


def _is_beyond(view: HeatMap, limit: float) -> bool:
    """Whether values lie beyond the end of a colour scale."""
    return bool(np.abs(view.effects.values).max(initial=0) > limit * (1 + 1e-6))


@draw.register(Photo)
def _(view: Photo, ax: Axes, options: PlotOptions = DEFAULT) -> None:
    _show_photo(view, ax)
    ax.set_aspect(_aspect(view))
    draw_title(ax, view, options)


def _aspect(view: HeatMap | Photo) -> float:
    """Return how tall a pixel is drawn, relative to its width: 1 but for extreme pictures."""
    height, width = _pixels(view).shape[:2]
    return float(view.ratio * width / height)


def _pixels(view: HeatMap | Photo) -> np.ndarray:
    return view.effects.values if isinstance(view, HeatMap) and view.picture is None else np.asarray(view.picture)


def _show_map(view: HeatMap, ax: Axes, options: PlotOptions, longest: int) -> None:
    height, width = _pixels(view).shape[:2]
    image = np.asarray(heat_image(view, options, longest=longest))
    ax.imshow(image, extent=(-0.5, width - 0.5, height - 0.5, -0.5), aspect="auto", interpolation="antialiased")
    ax.set_axis_off()


def _show_photo(view: Photo, ax: Axes) -> None:
    height, width = view.picture.shape[:2]
    ax.imshow(view.picture, aspect="auto")
    if view.marked is not None:
        xs, ys, field = outlined_places(view.marked, view.box, (width, height))
        if view.fade:
            veil = np.ones((*(side - 2 for side in field.shape), 4))
            veil[..., 3] = 0.75 * (1 - field[1:-1, 1:-1])
            ax.imshow(veil, extent=(xs[0], xs[-1], ys[-1], ys[0]), interpolation="bilinear", aspect="auto")
        for colour, points in ((MARK_EDGE, 2.4), (MARK, 1.3)):
            ax.contour(xs, ys, field, levels=[0.5], colors=colour, linewidths=points)
        ax.set_xlim(-0.5, width - 0.5)
        ax.set_ylim(height - 0.5, -0.5)
    ax.set_axis_off()


def _alone(view: HeatMap | Photo) -> Gallery:
    """Return a view as a panel of one."""
    inches = 3.6 if view.ratio <= 1 else max(3.6 / view.ratio, 2.0)
    return Gallery((replace(view, note=""),), 1, colour_bars=True, inches=inches)


@paint.register(HeatMap)
@paint.register(Photo)
def _(view: HeatMap | Photo, figure: FigureBase, options: PlotOptions = DEFAULT) -> None:
    paint(_alone(_titled(view, options)), figure, without_title(options))


@size.register(HeatMap)
@size.register(Photo)
def _(view: HeatMap | Photo, options: PlotOptions = DEFAULT) -> tuple[float, float]:
    return size(_alone(_titled(view, options)), without_title(options))


def _titled(view: HeatMap | Photo, options: PlotOptions) -> HeatMap | Photo:
    return view if options.title is None else replace(view, title=options.title)


# --- panels -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Panel:
    """Where everything of a panel stands, in inches.

    Attributes:
        rows: the views, by rows.
        tile: the width of a tile.
        heights: of the pictures of each row.
        headings: of each row, how tall they are.
        beside: the room to the right of each tile for a colour bar of its own.
        label: stands beside the one colour bar, where there is one and it is tall enough.
        note: stands below, in lines.
        lead: the size of the picture to the left, (0, 0) for none.
        top: the room above the first row, for the title of all.
        width: of the panel.
        foot: the room below it.

    """

    rows: list[tuple[View | None, ...]]
    tile: float
    heights: list[float]
    headings: list[float]
    beside: float
    label: str
    note: str
    lead: tuple[float, float]
    top: float
    width: float
    foot: float

    @property
    def height(self) -> float:
        """Of the panel, in inches."""
        return self.top + sum(self.heights) + sum(self.headings) + GAP * (len(self.heights) - 1) + self.foot + 2 * _EDGE


def _is_panel(view: Gallery) -> bool:
    """Whether all tiles are pictures."""
    return all(tile is None or isinstance(tile, HeatMap | Photo) for tile in (*view.tiles, view.lead))


def _panel_layout(view: Gallery, options: PlotOptions) -> _Panel:
    """Return where the pictures of a panel stand; with a width it is as wide, in fewer columns if it must be."""
    wanted = options.inches
    if wanted is None:
        return _arranged(view, options, view.inches)
    while True:
        tile = _tile_width(view, options, wanted)
        if tile >= _NARROW or view.columns <= 1:
            return replace(_arranged(view, options, tile), width=wanted)
        view = replace(view, columns=view.columns - 1)


def _tile_width(view: Gallery, options: PlotOptions, wanted: float) -> float:
    """Return the width of tiles with which a panel is as wide as wanted, by halving."""
    low, high = 0.05, wanted
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if _arranged(view, options, middle).width <= wanted else (low, middle)
    return low


def _arranged(view: Gallery, options: PlotOptions, tile: float) -> _Panel:
    rows = view.rows
    if view.lead is not None and len(rows) > 2:  # too tall to stand beside all of them
        rows = replace(view, tiles=(view.lead, *(each for each in view.tiles if each is not None)), lead=None).rows
        view = replace(view, lead=None)
    look = options.look
    heat = any(isinstance(each, HeatMap) for row in rows for each in row)
    bars = options.colorbar and view.colour_bars and heat
    heights = [max((_picture_size(each, tile)[1] for each in row if each is not None), default=0.0) for row in rows]
    ends = _by_rows(view, rows).limits(options.limit)
    maps = [
        (each, end)
        for row, own in zip(rows, ends, strict=True)
        for each, end in zip(row, own, strict=True)
        if isinstance(each, HeatMap) and end
    ]
    meanings = list(dict.fromkeys(each.effects.meaning for each, _ in maps))
    # One label says what all bars mean: beside the only bar, or else below.
    one = len(maps) == 1 or (view.scale != "each" and len(heights) == 1) or view.scale == "all"
    label = meanings[0] if bars and one and len(meanings) == 1 else ""
    label = label if len(label) <= letters(0.92 * heights[0], look.small) else ""
    needed = scale_room([end for _, end in maps], bool(label), look) if bars else 0.0
    beside, last = (needed, 0.0) if view.scale == "each" else (0.0, needed)
    room, part = tile + GAP + 0.5 * beside, without_title(options)
    tall = [[heading_height(heading(each, part, room), look) for each in row if each is not None] for row in rows]
    headings = [max(row, default=0.0) for row in tall]
    lead = (0.0, 0.0)
    if isinstance(view.lead, HeatMap | Photo):
        height = sum(heights) + sum(headings[1:]) + GAP * (len(rows) - 1)
        wide = min(height / view.lead.ratio, 2.6 * tile)
        lead = (wide, wide * view.lead.ratio)
        headings[0] = max(headings[0], heading_height(heading(view.lead, part, wide), look))
    title = options.title if options.title is not None else view.title
    columns = max(map(len, rows), default=1)
    width = 2 * _EDGE + columns * (tile + beside) + (columns - 1) * GAP + last + (lead[0] + 2 * GAP if lead[0] else 0.0)
    top = 0.0
    if title:
        top = (wrapped(title, letters(width, look.title), 3).count("\n") + 1) * line_height(look.title) + 0.1
    few = (
        options.limit is None and view.limit is None and any(each.beyond and end == each.effects.limit for each, end in maps)
    )
    own = ", each map on a scale of its own" if view.scale == "each" and len({end for _, end in maps}) > 1 else ""
    notes = [
        f"Colours: {'; '.join(meanings)}{own}" if bars and not label else "",
        noise_note([(each.effects, end) for each, end in maps], options),
        next((each.beyond for each, _ in maps if each.beyond), "") if few else "",
    ]
    words = ". ".join(part for part in notes if part)
    note = wrapped(words, letters(0.88 * (options.inches or width), look.small)) if words else ""
    foot = 0.25 * line_height(look.small) if bars else 0.0  # a number at the end of a bar reaches below it
    foot = 0.09 + (note.count("\n") + 1) * line_height(look.small) if note else foot
    return _Panel(rows, tile, heights, headings, beside, label, note, lead, top, width, foot)


def _picture_size(view: View, tile: float) -> tuple[float, float]:
    """Return the width and height of a picture in a tile."""
    ratio = view.ratio if isinstance(view, HeatMap | Photo) else 1.0
    height = min(tile * ratio, _TALL * tile)
    return height / ratio, height


def _by_rows(view: Gallery, rows: Sequence[Sequence[View | None]]) -> Gallery:
    """Return a gallery of these rows."""
    return replace(view, tiles=tuple(each for row in rows for each in row), columns=max(map(len, rows), default=1))


@size.register(Gallery)
def _(view: Gallery, options: PlotOptions = DEFAULT) -> tuple[float, float]:
    if _is_panel(view):
        panel = _panel_layout(view, options)
        return panel.width, panel.height
    return view.inches * _with_lead(view).columns, sum(_heights(view, options)) + (
        0.4 if view.title or options.title else 0.0
    )


@paint.register(Gallery)
def _(view: Gallery, figure: FigureBase, options: PlotOptions = DEFAULT) -> None:
    if _is_panel(view):
        _paint_panel(view, _panel_layout(view, options), figure, options)
    else:
        _paint_tiles(view, figure, options)


def _paint_panel(view: Gallery, panel: _Panel, figure: FigureBase, options: PlotOptions) -> None:
    """Draw the pictures of a panel where they stand."""
    own: Any = figure
    room = own.bbox.width / own.figure.dpi, own.bbox.height / own.figure.dpi
    look, part = options.look, without_title(options)

    def axes(left: float, top: float, width: float, height: float) -> Axes:
        place = (left / room[0], 1 - (top + height) / room[1], width / room[0], height / room[1])
        made: Axes = own.add_axes(place)
        return made

    rows = panel.rows
    limits = _by_rows(view, rows).limits(options.limit)
    first = _EDGE + panel.top + panel.headings[0]
    left = _EDGE
    if panel.lead[0] and isinstance(view.lead, HeatMap | Photo):
        ax = axes(left, first, *panel.lead)
        _show(view.lead, ax, part, panel.lead)
        draw_heading(ax, heading(view.lead, part, panel.lead[0]), look, room=panel.headings[0])
        left += panel.lead[0] + 2 * GAP
    top = first
    for number, (row, ends) in enumerate(zip(rows, limits, strict=True)):
        place, drawn = left, None
        for tile, end in zip(row, ends, strict=True):
            if isinstance(tile, HeatMap | Photo):
                width, height = _picture_size(tile, panel.tile)
                ax = axes(place, top, width, height)
                _show(tile, ax, replace(part, limit=end), (width, height))
                above = heading(tile, part, panel.tile + GAP + 0.5 * panel.beside)
                draw_heading(ax, above, look, room=panel.headings[number])
                if isinstance(tile, HeatMap) and end:
                    drawn = tile, end, ax
                    if panel.beside:
                        _draw_bar([tile], end, ax, (1 + 0.08 / width, BAR / width), panel.label, options)
            place += panel.tile + panel.beside + GAP
        shared = options.colorbar and view.colour_bars and (view.scale == "row" or (view.scale == "all" and number == 0))
        if drawn is not None and shared:
            _, end, ax = drawn
            width = ax.get_position().width * room[0]
            right = left + (len(row) - 1) * (panel.tile + GAP) + panel.tile  # of the row, whose last place may be empty
            at = (right + 0.08 - ax.get_position().x0 * room[0]) / width
            maps = [each for each in (row if view.scale == "row" else view.tiles) if isinstance(each, HeatMap)]
            _draw_bar(maps, end, ax, (at, BAR / width), panel.label, options)
        top += panel.heights[number] + GAP + (panel.headings[number + 1] if number + 1 < len(rows) else 0.0)
    quiet: dict[str, Any] = {"fontfamily": families(), **LITERAL}
    if panel.note:
        at = panel.height - _EDGE - 0.04
        how = {"fontsize": look.small, "color": look.quiet, "va": "bottom", "linespacing": 1.2, **quiet}
        figure.text(_EDGE / room[0], 1 - at / room[1], panel.note, **how)
    title = options.title if options.title is not None else view.title
    if title:
        words = wrapped(title, letters(panel.width, look.title), 3)
        figure.text(_EDGE / room[0], 1 - _EDGE / room[1], words, fontsize=look.title, va="top", **quiet)


def _show(view: HeatMap | Photo, ax: Axes, options: PlotOptions, inches: tuple[float, float]) -> None:
    longest = int(np.clip(max(inches) * max(options.resolution, 150), 200, _LARGEST))
    if isinstance(view, HeatMap):
        _show_map(view, ax, options, longest)
        return
    if view.marked is None and max(view.picture.shape[:2]) > longest:
        view = replace(view, picture=fitted_photo(view.picture, longest))
    _show_photo(view, ax)


def _draw_bar(
    views: Sequence[HeatMap], limit: float, ax: Axes, across: tuple[float, float], label: str, options: PlotOptions
) -> None:
    """Draw the colour bar of some maps; its place and width are parts of the width of axes."""
    beyond = any(_is_beyond(view, limit) for view in views)
    draw_scale(ax, limit, label, options, (across[0], 0.0, across[1], 1.0), beyond=beyond)


# --- views of any kind beside each other ------------------------------------------------------------------------------------


def _paint_tiles(view: Gallery, figure: FigureBase, options: PlotOptions) -> None:
    view = _with_lead(view)
    rows, limits = view.rows, view.limits(options.limit)
    part = replace(without_title(options), colorbar=options.colorbar and view.colour_bars)
    grid = figure.subplots(len(rows), view.columns, squeeze=False, height_ratios=_heights(view, options))
    for axes, row, ends in zip(grid, rows, limits, strict=True):
        for ax, tile, end in zip(axes, row, ends, strict=True):
            if tile is None:
                ax.set_axis_off()
                continue
            draw(tile, ax, replace(part, limit=end if view.scale != "each" or options.limit or view.limit else None))
            if ax.images and isinstance(tile, HeatMap | Photo):
                ax.set_anchor("NW")
    title = options.title if options.title is not None else view.title
    if title:
        draw_figure_title(figure, title, options.look)


def _with_lead(view: Gallery) -> Gallery:
    """Return a gallery whose lead is its first tile; texts in it are so long as there is room for."""
    wide = int(0.7 * view.inches / 0.068)  # the rest is what a layout keeps free between tiles
    tiles = (
        replace(tile, text=wrapped(" ".join(tile.text.split()), wide, _TEXT)) if isinstance(tile, Paragraph) else tile
        for tile in view.tiles
    )
    view = replace(view, tiles=tuple(tiles))
    if view.lead is None:
        return view
    return replace(view, tiles=(view.lead, *view.tiles), lead=None, columns=min(view.columns + 1, len(view.tiles) + 1))


def _heights(view: Gallery, options: PlotOptions) -> list[float]:
    rows = _with_lead(view).rows
    return [max((_tile_height(tile, view, options) for tile in row if tile is not None), default=1.0) for row in rows]


def _tile_height(tile: View, view: Gallery, options: PlotOptions) -> float:
    """Return how many inches a tile takes in its column."""
    if isinstance(tile, HeatMap | Photo):
        words = heading_height(heading(tile, without_title(options), view.inches), options.look)
        room = view.inches - (scale_room([], True, options.look) if view.colour_bars else 0.1)
        return 0.15 + words + _picture_size(tile, room)[1]
    return size(tile, options)[1]
