"""Corpora found, to look at: a strip of typical members for each, with maps, in a figure or on a page."""

from __future__ import annotations

import html
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cocoax.inputs import Display
from cocoax.insight.discovery import TYPICAL, Discovery, FoundCorpus
from cocoax.report import Section
from cocoax.show import PlotOptions
from cocoax.show.figure import draw as draw_view
from cocoax.show.html import tile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAPS = 3  # typical members of each corpus that a page shows with their maps
TILE = "flex: 0 0 8.6rem; font-size: .75rem; overflow-wrap: anywhere; max-height: 24rem; overflow: auto"


def draw(discovery: Discovery, figure: Figure, count: int = TYPICAL, maps: bool = False) -> Figure:
    """Draw a row of typical members for each corpus on an empty figure; return it."""
    grid = figure.subplots(len(discovery), count + 1, squeeze=False)
    for axes, found in zip(grid, discovery, strict=True):
        for ax in axes:
            ax.set_axis_off()
        _write(axes[0], _caption(found), 9)
        members = found.members[:count].tolist()
        drawn = discovery.maps(found, count) if maps else [None] * len(members)
        displays = discovery.collection.displays(members)
        for ax, number, display, attribution in zip(axes[1:], members, displays, drawn, strict=False):
            if attribution is not None:
                attribution.plot(ax, title="", **({"colour_bar": False} if attribution.names is None else {}))
            elif display is not None and (view := display.input_view()) is not None:
                draw_view(replace(view, title=""), ax)
            else:
                _write(ax, discovery.collection.label(number), 6)
    return figure


def _write(ax: Axes, text: str, size: float) -> None:
    lines = "\n".join(line for part in text.split("\n") for line in textwrap.wrap(part, 20)[:6])
    ax.text(0.0, 0.5, lines, fontsize=size, va="center", transform=ax.transAxes)


def _caption(found: FoundCorpus) -> str:
    return f"{_title(found)}\n{len(found.members)} inputs, stability {found.how_stable}"


def _title(found: FoundCorpus) -> str:
    return f"{found.number}. {found.name}" if found.words else found.name


def draw_curve(discovery: Discovery) -> Figure:
    """Return a figure of how much so many corpora explain."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8, 3.0), layout="constrained")
    axes = figure.subplots()
    numbers = [point.corpora for point in discovery.curve]
    axes.plot(numbers, [point.explained for point in discovery.curve], marker="o", label="where they were found")
    axes.plot(numbers, [point.held_out for point in discovery.curve], marker="o", label="on the other half of the inputs")
    if discovery.enough is not None:
        axes.axvline(discovery.enough, color="#888", linestyle="--", linewidth=1, label=f"bends most at {discovery.enough}")
    axes.set_xticks(numbers)
    axes.set_xlabel("corpora", fontsize=8)
    axes.set_ylabel("variance explained", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.legend(fontsize=8)
    return figure


def summary(discovery: Discovery) -> str:
    """Return what was found, in sentences."""
    collection = discovery.collection
    what = "parts" if discovery.method in ("fields", "crops") else "representations"
    enough = "" if discovery.enough is None else f" The curve bends most at {discovery.enough}."
    return (
        f"{len(discovery)} corpora among {len(collection)} {collection.noun}s, by {discovery.method}; together they explain "
        f"{discovery.explained:.0%} of the variance of the {what}.{enough} Stability is how much of a corpus comes back when "
        "inputs are drawn again: above 0.75 it is there, below 0.5 it may be chance."
    )


def strip(discovery: Discovery, found: FoundCorpus, count: int, maps: int = 0) -> str:
    """Return typical members of a corpus as HTML, the first few with their maps."""
    members = found.members[:count].tolist()
    attributions = discovery.maps(found, maps) if maps else []
    limit = max((float(np.abs(each.relative.numpy()).max()) for each in attributions), default=0.0) or None
    tiles = []
    for place, (number, display) in enumerate(zip(members, discovery.collection.displays(members), strict=True)):
        label = discovery.collection.label(number)
        shown = _shown(display, label)
        if place < len(attributions):
            shown += tile(attributions[place].view(), PlotOptions(limit=limit))
        tiles.append(f'<div style="{TILE}">{shown}<div>{html.escape(label)}</div></div>')
    return f'<div style="display: flex; flex-wrap: wrap; gap: .6rem">{"".join(tiles)}</div>'


def _shown(display: Display | None, label: str) -> str:
    view = None if display is None else display.input_view()
    return "" if view is None else tile(replace(view, title="", alt=label))


def fragment(discovery: Discovery, count: int = TYPICAL) -> str:
    """Return it as HTML: what was found, and a strip for each corpus, without maps, which take a while."""
    strips = [
        f"<h4>{html.escape(_caption(found)).replace(chr(10), ' · ')}</h4>{strip(discovery, found, count)}"
        for found in discovery
    ]
    return f"<div><p>{html.escape(summary(discovery))}</p>{''.join(strips)}</div>"


def sections(discovery: Discovery) -> list[Section]:
    """Return the parts of a page: what was found, each corpus with typical members, and what was asked about them."""
    curve = draw_curve(discovery) if discovery.curve else None
    made = [Section("What was found", summary(discovery), curve)]
    for found in discovery:
        words = ", ".join(f"{word.word} {word.weight:.2f}" for word in found.words)
        text = f"{len(found.members)} inputs, stability {found.how_stable}. " + (f"Words: {words}." if words else "")
        made.append(Section(_title(found), text, html=strip(discovery, found, TYPICAL, MAPS)))
    return made + [Section(header[0], "", None, header, rows) for header, rows in tables(discovery)]


def tables(discovery: Discovery) -> list[tuple[tuple[str, ...], list[list[str]]]]:
    """Return header and rows of what was asked about the corpora: words of one's own, and a class of the head."""
    made: list[tuple[tuple[str, ...], list[list[str]]]] = [
        ((f"told from the rest by {word!r}", "AUC"), [[found.name, str(separability)] for found, separability in checked])
        for word, checked in discovery.checked.items()
    ]
    if discovery.importances:
        header = (f"matters to {discovery.importances[0].label}", "TCAV", "sensitivity", "p")
        rows = [
            [each.concept, f"{each.score:.2f}", f"{each.sensitivity:+.3f}", f"{each.p_value:.2g}"]
            for each in discovery.importances
        ]
        made.append((header, rows))
    return made
