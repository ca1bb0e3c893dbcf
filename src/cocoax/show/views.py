"""Views: what there is to see of a result, as plain data.

A view knows no encoder, no method and no medium. :mod:`cocoax.show.figure`, :mod:`cocoax.show.html` and
:mod:`cocoax.show.terminal` draw each of them.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from cocoax.show.palette import EXTREME

Box = tuple[float, float, float, float]  # left, top, right, bottom, as fractions of a picture
WHOLE: Box = (0.0, 0.0, 1.0, 1.0)
Order = Literal["size", "given"]
Scale = Literal["each", "row", "all"]  # what shares a colour scale: nothing, the maps of a row, or all maps
VISIBLE = 0.1  # of the colour scale: the smallest value that can be told from white
NOTHING = "nothing: no part makes a difference"
EFFECT = "effect on the score"


def colour_scale(values: np.ndarray) -> tuple[float, bool]:
    """Return where the colour scale ends, and whether that cuts off a few extreme values.

    It ends at the largest value, or at the 99th percentile where that is less than a third of the largest, as in the maps
    of gradients.
    """
    size = np.abs(values)
    largest, percentile = float(size.max()), float(np.quantile(size, 0.99))
    return (percentile, True) if 0 < percentile < largest / 3 else (largest or 1.0, False)


def uncertain(values: np.ndarray, error: np.ndarray | None, limit: float) -> np.ndarray:
    """Return where the interval of two standard errors includes zero and also a value that can be seen.

    Where all of the interval is too small to be seen on a scale that ends at ``limit``, the effect is known to be small.
    Without errors, everything is taken as known.
    """
    if error is None:
        return np.zeros(values.shape, bool)
    size, width = np.abs(values), 2 * error
    unknown: np.ndarray = (size < width) & (size + width > VISIBLE * limit)
    return unknown


def _signed(value: float) -> str:
    """Return a score with its sign: two digits after the point, three below a tenth, and more where those would be zeros."""
    if not np.isfinite(value):
        return str(value)
    size = abs(value)
    digits = 2 if size >= 0.1 or size == 0 else 3 if size >= 0.0095 else 4
    return (f"{value:+.{digits}f}" if size >= 5e-5 or size == 0 else f"{value:+.1e}").replace("-", "−")


def value_label(value: float, error: float | None) -> str:
    """Return a value with its standard error, where it has one: ``+0.120 ± 0.010``, with more digits where it is small."""
    digits = 3 if abs(value) >= 0.01 or not value else 4
    shown = f"{value:+.{digits}f}".replace("-", "−")
    return shown if error is None or not np.isfinite(error) else f"{shown} ± {error:.{digits}f}"


def drawn_ratio(pixels: np.ndarray) -> float:
    """Return the height of pixels ``[h, w, ...]`` over their width, as they are drawn: at most :data:`EXTREME` to 1."""
    return float(np.clip(pixels.shape[0] / pixels.shape[1], 1 / EXTREME, EXTREME))


@dataclass(frozen=True, eq=False)
class Effects:
    """The effects of features on a score, as coloured views show them.

    Attributes:
        values: one for each feature, relative to a feature that makes no difference: above 0 raises the score.
        error: the standard error of each, NaN where one has none; None where none is estimated.
        question: what the score answers.
        score: of the input as it is; None if there is none to be told.
        parts: what the score is the difference of, where that is known: names and similarities.
        unit: what the values are, for the label of a scale.

    """

    values: np.ndarray
    error: np.ndarray | None = None
    question: str = ""
    score: float | None = None
    parts: tuple[tuple[str, float], ...] = ()
    unit: str = EFFECT

    @property
    def words(self) -> str:
        """The question that the score answers, in short: of a difference its first term."""
        return self.parts[0][0] if self.parts else self.question

    @property
    def scored(self) -> str:
        """The score: ``+0.05``, with three digits where two would hide it."""
        return "" if self.score is None else _signed(self.score)

    @property
    def difference(self) -> str:
        """The score as the difference that it is: ``0.26 − the other captions 0.21``; empty where that is not known."""
        if len(self.parts) < 2:
            return ""
        (_, own), (other, its) = self.parts
        return f"{_signed(own).lstrip('+')} − {other} {_signed(its).lstrip('+')}"

    @property
    def title(self) -> str:
        """The words, the score and its parts in a line."""
        how = f" = {self.difference}" if self.difference else ""
        return f"{self.words}  {self.scored}{how}".strip()

    @property
    def meaning(self) -> str:
        """The meaning of the values, for the label of a scale."""
        return self.unit if self.values.any() else NOTHING

    @property
    def limit(self) -> float:
        """Where a colour scale of its own ends."""
        return colour_scale(self.values)[0] if self.values.size else 1.0

    def uncertain(self, limit: float | None = None) -> np.ndarray:
        """Return which effects are :func:`uncertain` on a scale that ends at ``limit``, by default at its own end."""
        return uncertain(self.values, self.error, self.limit if limit is None else limit)

    def label(self, index: int) -> str:
        """Return one of the values with its error: ``+0.120 ± 0.010``."""
        return value_label(float(self.values.flat[index]), None if self.error is None else float(self.error.flat[index]))


@dataclass(frozen=True, eq=False, kw_only=True)
class View:
    """One thing to draw, as plain data.

    Attributes:
        title: stands above it; None for the question and the score of what is shown.
        note: stands below it, in sentences.
        alt: what is to be seen, in words, for screen readers and terminals.
        part: of a result with several answers, the one it belongs to; a page shows one at a time.

    """

    title: str | None = None
    note: str = ""
    alt: str = ""
    part: str = ""


@dataclass(frozen=True, eq=False)
class HeatMap(View):
    """Effects ``[H, W]`` over a box of a picture, uint8 ``[h, w, 3]``; without a picture, effects alone.

    Attributes:
        effects: one for each pixel or cell.
        picture: the whole picture.
        box: the part of it that effects cover.
        smooth: whether effects are interpolated between pixels; False draws cells with edges.
        regions: of effects that are the same all over a region, such as a segment: its number at each pixel ``[H, W]``, -1
            for none. They are drawn with outlines.
        names: of the regions.

    """

    effects: Effects
    picture: np.ndarray | None = None
    box: Box = WHOLE
    smooth: bool = True
    regions: np.ndarray | None = None
    names: tuple[str, ...] = ()

    @property
    def ratio(self) -> float:
        """The height over the width, as it is drawn."""
        return drawn_ratio(self.effects.values if self.picture is None else self.picture)

    @property
    def beyond(self) -> str:
        """Say that a few values lie beyond the end of its own colour scale; empty where none do."""
        return "1 % of the map lies beyond the colours" if colour_scale(self.effects.values)[1] else ""


class _Piece(NamedTuple):
    """A piece of a text: its strength from -1 to 1, its value in words if it has one, and whether that is uncertain."""

    text: str
    strength: float = 0.0
    label: str = ""
    uncertain: bool = False


@dataclass(frozen=True, eq=False)
class ColouredText(View):
    """A text with words in colour; ``spans`` say where each begins and ends."""

    effects: Effects
    text: str
    spans: tuple[tuple[int, int], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The words."""
        return tuple(self.text[begin:end] for begin, end in self.spans)

    def pieces(self, limit: float | None = None) -> Iterator[_Piece]:
        """Go through the text piece by piece; what stands between words has no value. Colours end at ``limit``."""
        values = self.effects.values
        limit = float(np.abs(values).max(initial=0)) if limit is None else limit
        unknown = self.effects.uncertain(limit)
        at = 0
        for index, (begin, end) in enumerate(self.spans):
            if end <= at:  # a token of the same character as the one before
                continue
            begin = max(begin, at)
            if begin > at:
                yield _Piece(self.text[at:begin])
            strength = float(np.clip(values[index] / limit, -1, 1)) if limit else 0.0
            yield _Piece(self.text[begin:end], strength, self.effects.label(index), bool(unknown[index]))
            at = end
        if at < len(self.text):
            yield _Piece(self.text[at:])


@dataclass(frozen=True, eq=False)
class Bars(View):
    """Effects of named features as bars, by size or in the given order; at most ``most`` of them."""

    effects: Effects
    names: tuple[str, ...]
    order: Order = "size"
    most: int = 40

    def chosen(self, order: Order | None = None, most: int | None = None) -> np.ndarray:
        """Return the numbers of the features that are shown, in their order."""
        size = np.argsort(-np.abs(self.effects.values), kind="stable")[: self.most if most is None else most]
        return size if (order or self.order) == "size" else np.sort(size)


@dataclass(frozen=True, eq=False)
class SoundMap(View):
    """A sound; with effects ``[segments * bands]``, each over its segment of time and band of frequencies.

    Attributes:
        waveform: samples ``[T]``.
        rate: samples per second.
        segments, bands: of equal size; one band is drawn behind the waveform.
        decibels: the spectrogram ``[frequencies, frames]``, for more than one band.

    """

    waveform: np.ndarray
    rate: int
    segments: int = 1
    bands: int = 1
    decibels: np.ndarray | None = None
    effects: Effects | None = None
    names: tuple[str, ...] = ()

    @property
    def seconds(self) -> np.ndarray:
        """Where segments begin and end, ``[segments + 1]``."""
        return np.linspace(0, len(self.waveform) / self.rate, self.segments + 1)

    @property
    def hertz(self) -> np.ndarray:
        """Where bands begin and end, ``[bands + 1]``."""
        return np.linspace(0, self.rate / 2, self.bands + 1)


@dataclass(frozen=True, eq=False)
class Photo(View):
    """A picture, uint8 ``[h, w, 3]``; pixels ``marked [H, W]`` of a box of it are outlined, and the others faded."""

    picture: np.ndarray
    box: Box = WHOLE
    marked: np.ndarray | None = None
    fade: bool = True

    @property
    def ratio(self) -> float:
        """The height over the width, as it is drawn."""
        return drawn_ratio(self.picture)


@dataclass(frozen=True, eq=False)
class Paragraph(View):
    """Plain words; line breaks count."""

    text: str


@dataclass(frozen=True, eq=False)
class LinkSide:
    """One of two inputs whose features are linked.

    Attributes:
        names: of the features.
        text, spans: of a text, and where its words stand.
        picture, box: of a picture, and the part of it that features cover.
        places: of a picture, the feature at each place ``[rows, columns]``, -1 for none; None for lists.

    """

    names: tuple[str, ...]
    text: str | None = None
    spans: tuple[tuple[int, int], ...] | None = None
    picture: np.ndarray | None = None
    box: Box = WHOLE
    places: np.ndarray | None = None

    def mask(self, features: Sequence[int]) -> np.ndarray:
        """Return where features are, among the places of the picture ``[rows, columns]``."""
        assert self.places is not None
        return np.isin(self.places, features)

    def cell_box(self, cell: int) -> Box:
        """Return left, top, width and height of a feature, as fractions of the picture."""
        assert self.places is not None
        left, top, right, bottom = self.box
        rows, columns = self.places.shape
        down, across = (bottom - top) / rows, (right - left) / columns
        own = np.argwhere(self.places == cell)
        (row, column), (height, width) = own.min(0), own.max(0) - own.min(0) + 1
        return left + float(column) * across, top + float(row) * down, float(width) * across, float(height) * down


class Link(NamedTuple):
    """A finding: features of a that belong to features of b, which several are one where they are neighbours.

    Attributes:
        a, b: the numbers of the features.
        value: of all pairs of them together.
        error: its standard error.
        names: what the two are called.

    """

    a: tuple[int, ...]
    b: tuple[int, ...]
    value: float
    error: float | None
    names: tuple[str, str]

    @property
    def label(self) -> str:
        """Both names, the value and its error: ``red – rot: +0.120 ± 0.010``."""
        return f"{self.names[0]} – {self.names[1]}: {value_label(self.value, self.error)}"


@dataclass(frozen=True, eq=False)
class Links(View):
    """Features of two inputs, and the value of each pair ``[features of a, features of b]``.

    Attributes:
        a, b: the two inputs.
        values: of pairs.
        links: the strongest, in the order in which they are listed, numbered and drawn.
        errors: standard errors for hovering: of each feature with those of the other side, ``{"a": [m, n], "b": [n, m]}``,
            and the same for a feature minus the mean of those beside it.
        maps: where one side is a picture, its heat map for each of some words of the other.

    """

    a: LinkSide
    b: LinkSide
    values: np.ndarray
    links: Sequence[Link]
    unit: str = ""
    errors: tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]] | None = None
    maps: tuple[HeatMap, ...] = ()


@dataclass(frozen=True, eq=False)
class Matrix(View):
    """Values of pairs in colour, with names of rows and columns."""

    values: np.ndarray
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    unit: str = ""


@dataclass(frozen=True, eq=False)
class Line:
    """A line of a chart: points, what it is, and options of matplotlib's ``plot``."""

    x: np.ndarray
    y: np.ndarray
    label: str = ""
    style: Mapping[str, Any] = field(default_factory=dict)
    low: np.ndarray | None = None  # of an interval around y
    high: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Curves(View):
    """Lines in one chart; ``marks`` are upright and level lines: ``("x" or "y", place, label)``.

    ``logarithmic`` is the scale of x, whose ``ticks`` are the only ones.
    """

    lines: tuple[Line, ...]
    x_label: str = ""
    y_label: str = ""
    marks: tuple[tuple[Literal["x", "y"], float, str], ...] = ()
    ticks: tuple[float, ...] | None = None
    logarithmic: bool = False


@dataclass(frozen=True, eq=False)
class Histogram(View):
    """How often values occur, for one or more groups: ``{name: values}``."""

    groups: Mapping[str, np.ndarray]
    label: str = ""
    bins: int = 40


@dataclass(frozen=True, eq=False)
class Table(View):
    """Columns and rows of plain values: strings, numbers, booleans, None."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def records(self) -> list[dict[str, Any]]:
        """Return each row as a dict."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def csv(self) -> str:
        """Return it as CSV."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return file.getvalue()


@dataclass(frozen=True, eq=False)
class Gallery(View):
    """Views beside each other, ``columns`` in a row; None leaves a place empty.

    Attributes:
        lead: stands once, to the left of all rows: the input that the tiles are about.
        limit: one end of the colour scale for all.
        scale: without a limit, what shares a colour scale: ``"each"`` tile has its own, a ``"row"`` has one, or ``"all"``.
        colour_bars: whether heat maps have them.
        inches: the width of a column of a figure.

    """

    tiles: tuple[View | None, ...]
    columns: int = 6
    lead: View | None = None
    limit: float | None = None
    scale: Scale = "each"
    colour_bars: bool = False
    inches: float = 1.9

    @property
    def rows(self) -> list[tuple[View | None, ...]]:
        """The views by rows, the last one filled up with None."""
        tiles = (*self.tiles, *[None] * (-len(self.tiles) % self.columns))
        return [tiles[start : start + self.columns] for start in range(0, len(tiles), self.columns)]

    def limits(self, chosen: float | None = None) -> list[list[float | None]]:
        """Return where the colour scale of each tile ends, by rows; None for what has no colours."""
        own = [[None if (e := getattr(tile, "effects", None)) is None else e.limit for tile in row] for row in self.rows]
        fixed = chosen or self.limit
        whole = max((end for row in own for end in row if end is not None), default=None)
        limits: list[list[float | None]] = []
        for row in own:
            together = max((end for end in row if end is not None), default=None) if self.scale == "row" else whole
            limits.append([end and (fixed or (end if self.scale == "each" else together)) for end in row])
        return limits


def cell_text(value: object) -> str:
    """Return a value of a table as it is shown."""
    if value is None:
        return ""
    return f"{value:.4g}".replace("-", "−") if isinstance(value, float) else str(value)


# --- places in pictures -----------------------------------------------------------------------------------------------------

_MOST_OF_PICTURE = 0.5  # share of its area: what covers less is not most of it, however far it reaches
_FULL_WIDTH = 0.7  # share of its side: what reaches further is not on one side of it


def place_of(inside: np.ndarray, box: Box = WHOLE) -> tuple[str, float, Box]:
    """Return where pixels are in a picture, in words, their share of it, and left, top, right and bottom of them."""
    left, top, right, bottom = box
    rows, columns = np.nonzero(inside)
    height, width = inside.shape

    def across(place: float) -> float:
        return float(left + (right - left) * place / width)

    def down(place: float) -> float:
        return float(top + (bottom - top) * place / height)

    own = (across(columns.min()), down(rows.min()), across(columns.max() + 1), down(rows.max() + 1))
    share = float(inside.mean()) * (right - left) * (bottom - top)
    return _words(across(columns.mean() + 0.5), down(rows.mean() + 0.5), own, share), share, own


def places_of(regions: np.ndarray, box: Box = WHOLE) -> list[tuple[str, float, Box]]:
    """Return :func:`place_of` for each region of a label map; names that several have are numbered: ``centre 2``."""
    found = [place_of(regions == number, box) for number in range(int(regions.max()) + 1)]
    seen: Counter[str] = Counter()
    places = []
    for name, share, own in found:
        seen[name] += 1
        places.append((name if seen[name] == 1 else f"{name} {seen[name]}", share, own))
    return places


def _words(x: float, y: float, box: Box, share: float) -> str:
    """Return which ninth of the picture a place lies in; the side does not count in a direction that the box fills."""
    left, top, right, bottom = box
    row = "" if bottom - top > _FULL_WIDTH else ("top", "middle", "bottom")[min(int(y * 3), 2)]
    column = "" if right - left > _FULL_WIDTH else ("left", "middle", "right")[min(int(x * 3), 2)]
    if row == column == "":
        return "most of the picture" if share >= _MOST_OF_PICTURE else "across the picture"
    if row == column:
        return "centre"
    if not row or not column:
        return f"{row or column} part"
    if column == "middle":
        return f"{row} centre"
    return column if row == "middle" else f"{row} {column}"


def place_words(inside: np.ndarray, box: Box = WHOLE) -> str:
    """Return where pixels are in a picture, and how much of it they are: ``top left, 6 %``."""
    if not inside.any():
        return "nothing"
    place, share, _ = place_of(inside, box)
    return f"{place}, {100 * share:.2g} %"
