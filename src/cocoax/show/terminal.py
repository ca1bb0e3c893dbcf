"""Views in a terminal, by Rich."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

import numpy as np
from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table as RichTable
from rich.text import Text

from cocoax.show.palette import BLUE, RED
from cocoax.show.views import VISIBLE, Bars, ColouredText, Gallery, Histogram, Links, Paragraph, Table, View, cell_text

_ROWS = 20  # of a table


def render(views: Sequence[View], *, heading: str = "", sentences: Sequence[str] = ()) -> Group:
    """Return a heading, sentences and what a terminal can show of views."""
    parts: list[RenderableType] = [Text(heading, style="bold")] if heading else []
    parts += [Text(sentence) for sentence in sentences]
    for view in views:
        shown = _body(view)
        if shown is not None:
            parts += [Text(view.title, style="bold")] if view.title else []
            parts.append(shown)
            parts += [Text(view.note, style="dim")] if view.note else []
    return Group(*parts)


@singledispatch
def _body(view: View) -> RenderableType | None:
    """Return what a terminal can show of a view: its words, where it is a picture; None for nothing."""
    return Text(view.alt) if view.alt else None


@_body.register(ColouredText)
def _(view: ColouredText) -> RenderableType | None:
    return coloured(view)


def coloured(view: ColouredText) -> Text:
    """Return a text in colour, red raises and blue lowers the score; uncertain words are underlined."""
    shown = Text()
    for piece in view.pieces():
        style = Style(underline=piece.uncertain)
        if abs(piece.strength) >= VISIBLE:
            colour = RED if piece.strength > 0 else BLUE
            mixed = [round(255 + (part - 255) * 0.75 * abs(piece.strength)) for part in colour]
            style += Style(color="black", bgcolor="#{:02x}{:02x}{:02x}".format(*mixed))
        shown.append(piece.text, style)
    return shown


@_body.register(Bars)
def _(view: Bars) -> RenderableType | None:
    values = view.effects.values
    largest = float(np.abs(values).max(initial=0)) or 1.0
    table = RichTable(box=None, show_header=False, padding=(0, 1))
    for index in view.chosen(most=min(view.most, _ROWS)):
        colour = "red" if values[index] > 0 else "blue"
        length = round(20 * abs(float(values[index])) / largest)
        table.add_row(Text(view.names[index]), Text("█" * length, style=colour), Text(view.effects.label(index)))
    return table


@_body.register(Links)
def _(view: Links) -> RenderableType | None:
    lines = [f"{number}  {link.label}" for number, link in enumerate(view.links[:5], 1)]
    return Text("\n".join(lines)) if lines else None


@_body.register(Paragraph)
def _(view: Paragraph) -> RenderableType | None:
    return Text(view.text)


@_body.register(Table)
def _(view: Table) -> RenderableType | None:
    if not view.rows:
        return None
    table = RichTable(box=None, padding=(0, 1), header_style="bold")
    for name in view.columns:
        table.add_column(Text(name))
    for row in view.rows[:_ROWS]:
        table.add_row(*(Text(cell_text(cell)) for cell in row))
    if len(view.rows) > _ROWS:
        table.add_row(f"… {len(view.rows) - _ROWS} more")
    return table


@_body.register(Histogram)
def _(view: Histogram) -> RenderableType | None:
    lines = [
        f"{name or view.label}: {np.min(values):+.3f} to {np.max(values):+.3f}, median {np.median(values):+.3f}"
        for name, values in view.groups.items()
    ]
    return Text("\n".join(lines))


@_body.register(Gallery)
def _(view: Gallery) -> RenderableType | None:
    parts: list[RenderableType] = []
    for tile in view.tiles:
        if tile is not None:
            shown = _body(tile)
            words = tile.title or tile.alt
            parts += [Text(words)] if words and not (shown is not None and words == tile.alt) else []
            parts += [shown] if shown is not None else []
    return Group(*parts) if parts else None
