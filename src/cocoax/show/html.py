"""Views as HTML: fragments for notebooks, and pages that are one file and load nothing.

Everything that is written comes through one Jinja2 template with autoescape, so captions with markup are shown as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, singledispatch
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cocoax.show import figure
from cocoax.show.figure import BLUE, RED, cell_text
from cocoax.show.options import PlotOptions
from cocoax.show.raster import data_uri, heat_image, jpeg_uri, photo_uri, wav_uri
from cocoax.show.views import (
    Bars,
    ColouredText,
    Gallery,
    HeatMap,
    Links,
    LinkSide,
    Paragraph,
    Photo,
    SoundMap,
    Table,
    View,
    colour_scale,
)
from cocoax.version import __version__

if TYPE_CHECKING:
    from jinja2.environment import TemplateModule

DEFAULT = PlotOptions()
LONGEST, TILE = 640, 200  # pixels of the longer side of a picture, and of a small one
PAIRS = 5
_HERE = Path(__file__).parent


def page(title: str, sentences: Sequence[str], views: Sequence[View], options: PlotOptions = DEFAULT) -> str:
    """Return a whole page: a title, sentences and views."""
    return str(_template().page(title, sentences, [context(view, options) for view in views]))  # type: ignore[attr-defined]


def fragment(
    views: Sequence[View], *, heading: str = "", sentences: Sequence[str] = (), options: PlotOptions = DEFAULT
) -> str:
    """Return views as a fragment, with its style sheet, for notebooks and for pages of others."""
    return str(_template().fragment(heading, sentences, [context(view, options) for view in views], 3))  # type: ignore[attr-defined]


def tile(view: View, options: PlotOptions = DEFAULT) -> str:
    """Return one view, small, without its title and without the style sheet."""
    return str(_template().body(context(view, options, small=True)))  # type: ignore[attr-defined]


@cache
def _template() -> TemplateModule:
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    environment = Environment(loader=FileSystemLoader(_HERE), autoescape=True)
    texts = {name: Markup((_HERE / file).read_text(encoding="utf-8")) for name, file in _FILES.items()}
    return environment.get_template("template.html", globals={**texts, "version": __version__}).module


_FILES = {"style": "style.css", "script": "links.js"}


# --- what the template needs of each view -----------------------------------------------------------------------------------


def context(view: View, options: PlotOptions = DEFAULT, *, small: bool = False) -> dict[str, Any]:
    """Return the plain values that the template writes; ``small`` is for views in a gallery."""
    effects = getattr(view, "effects", None)
    title = view.title
    if title is None:
        title = "" if effects is None else effects.question
        if effects is not None and effects.score is not None:
            title += f": score {effects.score:+.3f}" if title else f"score {effects.score:+.3f}"
    return {"title": title, "note": view.note, "alt": view.alt or title, **_body(view, options, small)}


@singledispatch
def _body(view: View, options: PlotOptions, small: bool) -> dict[str, Any]:
    """Return what is special about a kind of view; by default it is a picture that matplotlib draws."""
    drawn = figure.plot([replace(view, title="")], replace(options, title=None), interactive=False)
    return {"kind": "image", "source": data_uri("image/png", figure.png(drawn, dpi=110))}


@_body.register(HeatMap)
def _(view: HeatMap, options: PlotOptions, small: bool) -> dict[str, Any]:
    limit = options.limit or colour_scale(view.effects.values)[0]
    own = replace(options, limit=limit, uncertainty="none" if small else options.uncertainty)
    image = heat_image(view, own, longest=TILE if small else LONGEST, strength=0.75 if small else None)
    gradient = "rgb(33,102,172), #f7f7f7, rgb(178,24,43)"
    return {"kind": "heat", "source": jpeg_uri(image), "limit": limit, "unit": view.effects.meaning, "gradient": gradient}


@_body.register(Photo)
def _(view: Photo, options: PlotOptions, small: bool) -> dict[str, Any]:
    if view.marked is None:
        return {"kind": "image", "source": photo_uri(view.picture, TILE if small else LONGEST)}
    return _body.dispatch(View)(view, options, small)


@_body.register(ColouredText)
def _(view: ColouredText, options: PlotOptions, small: bool) -> dict[str, Any]:
    pieces = [
        {**piece._asdict(), "colour": _colour(piece.strength, 0.7)} if piece.label else {"text": piece.text}
        for piece in view.pieces(options.limit)
    ]
    return {"kind": "text", "pieces": pieces}


@_body.register(Bars)
def _(view: Bars, options: PlotOptions, small: bool) -> dict[str, Any]:
    values = view.effects.values
    limit = options.limit or float(np.abs(values).max(initial=0)) or 1.0
    unsure = view.effects.uncertain(options.limit)
    bars = []
    for index in view.chosen(options.order, options.most):
        share = 50 * min(1.0, abs(float(values[index])) / limit)
        place = f"left: {50 if values[index] > 0 else 50 - share:.2f}%; width: {share:.2f}%"
        colour = _striped(float(values[index]), 0.85, bool(unsure[index]))
        bars.append(
            {"name": view.names[index], "label": view.effects.label(index), "style": f"{place}; background: {colour}"}
        )
    return {"kind": "bars", "bars": bars}


@_body.register(SoundMap)
def _(view: SoundMap, options: PlotOptions, small: bool) -> dict[str, Any]:
    made = {"kind": "sound", "source": wav_uri(view.waveform, view.rate), "seconds": f"{view.seconds[-1]:.2f}", "strips": []}
    if view.effects is None:
        return made
    values = view.effects.values.flatten()
    limit = options.limit or float(np.abs(values).max(initial=0)) or 1.0
    unsure = view.effects.uncertain(limit).flatten()
    parts = [
        {
            "background": _striped(
                float(np.clip(value / limit, -1, 1)), 0.85 * min(1.0, abs(value) / limit), bool(unsure[index])
            ),
            "label": f"{view.names[index]}: {view.effects.label(index)}",
        }
        for index, value in enumerate(values)
    ]
    strips = [parts[band :: view.bands] for band in reversed(range(view.bands))]
    hertz = f"{view.hertz[-1]:.0f}" if view.bands > 1 else ""
    return {**made, "strips": strips, "height": max(8, 40 // view.bands), "hertz": hertz}


@_body.register(Paragraph)
def _(view: Paragraph, options: PlotOptions, small: bool) -> dict[str, Any]:
    return {"kind": "paragraph", "text": view.text}


@_body.register(Table)
def _(view: Table, options: PlotOptions, small: bool) -> dict[str, Any]:
    return {"kind": "table", "columns": view.columns, "rows": [[cell_text(cell) for cell in row] for row in view.rows]}


@_body.register(Gallery)
def _(view: Gallery, options: PlotOptions, small: bool) -> dict[str, Any]:
    own = replace(options, limit=options.limit or view.limit)
    large = view.inches > 2
    tiles = [context(tile, own, small=not large) for tile in view.tiles if tile is not None]
    texts = any(isinstance(tile, ColouredText | Bars) for tile in view.tiles)
    return {"kind": "gallery", "tiles": tiles, "size": "texts" if texts else "large" if large else ""}


@_body.register(Links)
def _(view: Links, options: PlotOptions, small: bool) -> dict[str, Any]:
    errors = None if view.errors is None else [[_rounded(each[side]) for side in "ab"] for each in view.errors]
    wide = [side.places.shape[1] if side.places is not None else 0 for side in (view.a, view.b)]
    data = {"names": [view.a.names, view.b.names], "wide": wide, "values": _rounded(view.values), "errors": errors}
    pairs = [
        {"i": i, "j": j, "label": f"{view.a.names[i]} – {view.b.names[j]} {view.values[i, j]:+.3g}"}
        for i, j in view.pairs[:PAIRS]
    ]
    names = f"{view.a.names}{view.b.names}".encode()
    own = "cocoax-" + sha256(np.ascontiguousarray(view.values).tobytes() + names).hexdigest()[:12]
    return {"kind": "links", "id": own, "a": _side(view.a), "b": _side(view.b), "data": data, "pairs": pairs}


def _side(side: LinkSide) -> dict[str, Any]:
    """Return one input: a picture with its cells, a text with its words, or names in a row."""
    tabs = [{"at": at, "name": name, "tab": -1 if at else 0} for at, name in enumerate(side.names)]
    if side.places is not None:
        picture = np.full((224, 224, 3), 230, np.uint8) if side.picture is None else side.picture
        for at, feature in enumerate(tabs):
            parts = zip(("left", "top", "width", "height"), side.cell_box(at), strict=True)
            feature["place"] = "; ".join(f"{name}: {100 * part:.3f}%" for name, part in parts)
        return {"source": photo_uri(picture, LONGEST, grey=True), "features": tabs}
    if side.text is None or side.spans is None:
        apart = {"at": None, "name": " · "}
        return {"source": "", "features": [part for tab in tabs for part in (tab, apart)][:-1]}
    features, place = [], 0
    for tab, (begin, end) in zip(tabs, side.spans, strict=True):
        if end > place:  # not a token of the same character as the one before
            begin = max(begin, place)
            features += [{"at": None, "name": side.text[place:begin]}, {**tab, "name": side.text[begin:end]}]
            place = end
    return {"source": "", "features": [*features, {"at": None, "name": side.text[place:]}]}


def _colour(strength: float, opacity: float) -> str:
    """Return red or blue, as opaque as the strength from -1 to 1 says, up to ``opacity``."""
    colour = ", ".join(map(str, RED if strength > 0 else BLUE))
    return f"rgba({colour}, {opacity * abs(strength):.2f})"


def _striped(value: float, opacity: float, unsure: bool) -> str:
    colour = _colour(1.0 if value > 0 else -1.0, opacity)
    return (
        f"repeating-linear-gradient(135deg, #fffa 0 3px, #fff0 3px 6px), linear-gradient({colour}, {colour})"
        if unsure
        else colour
    )


def _rounded(values: np.ndarray) -> list[list[float]]:
    """Return values with four digits each."""
    return [[float(f"{value:.4g}") for value in row] for row in values.tolist()]
