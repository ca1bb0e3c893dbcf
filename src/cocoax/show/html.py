"""Views as HTML: fragments for notebooks, and pages that are one file and load nothing.

Everything that is written comes through one Jinja2 template with autoescape, so captions with markup are shown as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache, singledispatch
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cocoax.show import figure
from cocoax.show.drawing import DEFAULT
from cocoax.show.options import PlotOptions
from cocoax.show.palette import BLUE, DISTINCT, LONGEST, RED, TILE, css_gradient
from cocoax.show.raster import data_uri, heat_image, inner_place, jpeg_uri, outlined_places, photo_uri, wav_uri
from cocoax.show.views import (
    Bars,
    Box,
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
    cell_text,
    place_words,
    value_label,
)
from cocoax.version import __version__

if TYPE_CHECKING:
    from jinja2.environment import TemplateModule

LINKS = 5  # that are listed
WORD = 0.6  # how opaque the strongest colour behind a word is, which stays readable
MANY_NAMES = 16  # names beyond which features are cells of a strip, as the moments of a sound are
MAX_FIGURE = 500_000  # characters of a figure that a page holds beside what it shows
_CLOSE = 5  # of 1000: points of outlines are not closer
_CELLS = 8  # cells along each side of a map without regions, whose values are told when pointed at
_HERE = Path(__file__).parent


def page(
    title: str,
    sentences: Sequence[str],
    views: Sequence[View],
    options: PlotOptions = DEFAULT,
    table: Table | None = None,
    name: str = "report",
) -> str:
    """Return a whole page: a title, sentences and views.

    A ``table`` can be downloaded from it as CSV, and a figure of the views, unless it is large, as SVG or PNG; the files are
    called ``name``.
    """
    drawn = figure.svg(figure.plot(views, options, interactive=False), options)
    kept = {f"{name}.svg": data_uri("image/svg+xml", drawn.encode())} if len(drawn) <= MAX_FIGURE else {}
    if table is not None:
        kept[f"{name}.csv"] = data_uri("text/csv;charset=utf-8", table.csv().encode())
    return str(_template().page(title, sentences, [context(view, options) for view in views], kept))  # type: ignore[attr-defined]


def fragment(
    views: Sequence[View], *, heading: str = "", sentences: Sequence[str] = (), options: PlotOptions = DEFAULT
) -> str:
    """Return views as a fragment, with its style sheet, for notebooks and for pages of others."""
    return str(_template().fragment(heading, sentences, [context(view, options) for view in views], 3))  # type: ignore[attr-defined]


def drawn(view: View, options: PlotOptions = DEFAULT, *, small: bool = False) -> str:
    """Return one view without its title, for a page that has our style sheet and script."""
    return str(_template().body(context(view, options, small=small)))  # type: ignore[attr-defined]


def asset(name: str) -> str:
    """Return our style sheet (``"style"``), or the script that says values (``"values"``)."""
    return (_HERE / _FILES[name]).read_text(encoding="utf-8")


@cache
def _template() -> TemplateModule:
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    environment = Environment(loader=FileSystemLoader(_HERE), autoescape=True)
    texts = {name: (_HERE / file).read_text(encoding="utf-8") for name, file in _FILES.items()}
    colours = {"RED": ", ".join(map(str, RED)), "BLUE": ", ".join(map(str, BLUE))}
    for name, numbers in colours.items():
        texts["script"] = texts["script"].replace(f'"{name}"', f'"{numbers}"')
    known = {**{name: Markup(text) for name, text in texts.items()}, "version": __version__}
    return environment.get_template("template.html", globals=known).module


_FILES = {"style": "style.css", "script": "links.js", "values": "values.js"}


# --- what the template needs of each view -----------------------------------------------------------------------------------


def context(view: View, options: PlotOptions = DEFAULT, *, small: bool = False) -> dict[str, Any]:
    """Return the plain values that the template writes; ``small`` is for views in a gallery."""
    effects = getattr(view, "effects", None)
    title = view.title
    if title is None:
        title = "" if effects is None else effects.title
    return {"title": title, "note": view.note, "alt": view.alt or title, "part": view.part, **_body(view, options, small)}


@singledispatch
def _body(view: View, options: PlotOptions, small: bool) -> dict[str, Any]:
    """Return what is special about a kind of view; by default it is a picture that matplotlib draws."""
    drawn = figure.plot([replace(view, title="")], replace(options, title=None), interactive=False)
    return {"kind": "image", "source": data_uri("image/png", figure.png(drawn, dpi=110))}


@_body.register(HeatMap)
def _(view: HeatMap, options: PlotOptions, small: bool) -> dict[str, Any]:
    limit = options.limit or view.effects.limit
    own = replace(options, limit=limit, uncertainty="none" if small else options.uncertainty)
    image = heat_image(view, own, longest=TILE if small else LONGEST, strength=0.75 if small else None)
    words = [view.effects.meaning, *([view.beyond] if view.beyond and options.limit is None else [])]
    scale = {"limit": limit, "unit": ", ".join(words), "gradient": css_gradient(options.cmap)}
    parts = [] if small else list(_pointed_at(view))
    regions = sha256("".join(part["path"] for part in parts).encode()).hexdigest()[:8] if parts else ""
    source = jpeg_uri(image, 88)
    return {"kind": "heat", "source": source, "parts": parts, "regions": regions, "bar": options.colorbar, **scale}


def _pointed_at(view: HeatMap) -> Iterator[dict[str, str]]:
    """Go through the regions of a map, or cells of one that has none, as outlines in a square of 1000 with their values."""
    values, error = view.effects.values, view.effects.error
    if view.regions is None:
        rows, columns = (min(_CELLS, side) for side in values.shape)
        down = (np.arange(values.shape[0]) * rows) // values.shape[0]
        across = (np.arange(values.shape[1]) * columns) // values.shape[1]
        regions = down[:, None] * columns + across
    else:
        regions = view.regions
    for number, outline in _outlines(regions, view.box):
        inside = regions == number
        name = view.names[number] if number < len(view.names) else place_words(inside, view.box)
        own = None if error is None else float(error[inside].mean())
        value = float(values[inside].mean())
        doubt = ", within noise" if own is not None and abs(value) < 2 * own else ""
        yield {"path": outline, "label": f"{name}: {value_label(value, own)}{doubt}"}


def _outlines(regions: np.ndarray, box: Box) -> Sequence[tuple[int, str]]:
    """Return regions ``[H, W]`` with their outlines, as SVG paths in a square of 1000 over the whole picture."""
    return _traced(np.ascontiguousarray(regions, np.int32).tobytes(), regions.shape, box)


@lru_cache(maxsize=16)  # the maps of one photo have the same
def _traced(content: bytes, shape: tuple[int, int], box: Box) -> Sequence[tuple[int, str]]:
    from contourpy import contour_generator

    regions = np.frombuffer(content, np.int32).reshape(shape)
    found = []
    for number in np.unique(regions[regions >= 0]).tolist():
        lines = contour_generator(*outlined_places(regions == number, box, (1000, 1000))).lines(0.5)
        rings = ("L".join(f"{x + 0.5:.0f} {y + 0.5:.0f}" for x, y in _thinned(np.asarray(line))) for line in lines)
        found.append((number, "".join(f"M{ring}Z" for ring in rings)))
    return found


def _thinned(line: np.ndarray) -> np.ndarray:
    """Return the points of a line without points close to the previous one."""
    kept = [0]
    for at in range(1, len(line) - 1):
        if np.abs(line[at] - line[kept[-1]]).max() >= _CLOSE:
            kept.append(at)
    return line[kept]


@_body.register(Photo)
def _(view: Photo, options: PlotOptions, small: bool) -> dict[str, Any]:
    if view.marked is None:
        return {"kind": "image", "source": photo_uri(view.picture, TILE if small else LONGEST)}
    return _body.dispatch(View)(view, options, small)


@_body.register(ColouredText)
def _(view: ColouredText, options: PlotOptions, small: bool) -> dict[str, Any]:
    pieces: list[dict[str, Any]] = [
        {**piece._asdict(), "colour": _colour(piece.strength, WORD), "tab": -1} if piece.label else {"text": piece.text}
        for piece in view.pieces(options.limit)
    ]
    if valued := next((piece for piece in pieces if "tab" in piece), None):
        valued["tab"] = 0  # one stop of the Tab key
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
        colour = _certain(float(values[index]), 0.85, bool(unsure[index]))
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
            "background": _certain(
                float(np.clip(value / limit, -1, 1)), 0.85 * min(1.0, abs(value) / limit), bool(unsure[index])
            ),
            "label": f"{view.names[index]}: {view.effects.label(index)}",
            "tab": -1 if index else 0,
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
    large = view.inches > 2
    ends = [end for row in view.limits(options.limit) for end in row]
    tiles = [
        context(tile, replace(options, limit=end if view.colour_bars or view.limit else options.limit), small=not large)
        for tile, end in zip((tile for row in view.rows for tile in row), ends, strict=True)
        if tile is not None
    ]
    heat = [tile for tile in tiles if tile["kind"] == "heat"]
    # A scale that several share is drawn once: below the last of a row, or below all.
    shared = heat[-1] if view.scale != "each" and len({tile["limit"] for tile in heat}) == 1 and len(heat) > 1 else None
    for tile in heat:
        tile["bar"] = tile["bar"] and shared is None
    # The map of a sound has its player.
    lead = None if view.lead is None or isinstance(view.lead, SoundMap) else context(view.lead, options)
    texts = any(isinstance(tile, ColouredText | Bars) for tile in view.tiles)
    sized = "texts" if texts else "large" if large else ""
    return {"kind": "gallery", "tiles": tiles, "lead": lead, "size": sized, "scale": shared}


@_body.register(Links)
def _(view: Links, options: PlotOptions, small: bool) -> dict[str, Any]:
    errors = None if view.errors is None else [[_rounded(each[side]) for side in "ab"] for each in view.errors]
    wide = [side.places.shape[1] if _is_grid(side) and side.places is not None else 0 for side in (view.a, view.b)]
    links = [
        {
            "a": link.a,
            "b": link.b,
            "label": link.label,
            "value": float(f"{link.value:.4g}"),
            "colour": DISTINCT[number % len(DISTINCT)],
        }
        for number, link in enumerate(view.links[: options.most or LINKS])
    ]
    names = [side.names if side.places is None else _place_names(side) for side in (view.a, view.b)]
    data = {"names": names, "wide": wide, "values": _rounded(view.values), "errors": errors, "links": links}
    content = f"{view.a.names}{view.b.names}".encode()
    own = "cocoax-" + sha256(np.ascontiguousarray(view.values).tobytes() + content).hexdigest()[:12]
    sides = {"a": _side(view.a, names[0]), "b": _side(view.b, names[1])}
    return {
        "kind": "links",
        "id": own,
        **sides,
        "data": data,
        "links": links,
        "stacked": any(side.places is None for side in (view.a, view.b)),
    }


def _middle(side: LinkSide, feature: int) -> str:
    """Return a place inside of a feature of a picture, in thousandths of it."""
    left, top, right, bottom = side.box
    x, y = inner_place(side.mask([feature]))
    return f"{1000 * (left + x * (right - left)):.0f} {1000 * (top + y * (bottom - top)):.0f}"


def _is_grid(side: LinkSide) -> bool:
    return side.places is not None and side.places.size == len(side.names)


def _place_names(side: LinkSide) -> tuple[str, ...]:
    """Return where the features of a picture are, in words."""
    return tuple(place_words(side.mask([feature]), side.box) for feature in range(len(side.names)))


def _side(side: LinkSide, names: Sequence[str]) -> dict[str, Any]:
    """Return one input: a picture with its regions, a text with its words, or names in a row."""
    tabs = [{"at": at, "name": name, "tab": -1 if at else 0} for at, name in enumerate(names)]
    if side.places is not None:
        picture = np.full((224, 224, 3), 230, np.uint8) if side.picture is None else side.picture
        paths = dict(_outlines(side.places, side.box))
        for at, feature in enumerate(tabs):
            feature["path"] = paths.get(at, "")
            feature["middle"] = _middle(side, at)
        return {"source": photo_uri(picture, LONGEST), "features": tabs}
    if side.text is None and len(names) > MANY_NAMES:
        return {"source": "", "features": tabs, "strip": True}
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


def _certain(value: float, opacity: float, unsure: bool) -> str:
    """Return the colour of a value, grey where it is within noise."""
    return f"rgba(140, 140, 140, {0.55 * opacity:.2f})" if unsure else _colour(1.0 if value > 0 else -1.0, opacity)


def _rounded(values: np.ndarray) -> list[list[float]]:
    """Return values with four digits each."""
    return [[float(f"{value:.4g}") for value in row] for row in values.tolist()]
