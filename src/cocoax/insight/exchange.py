"""What parts of an input may be exchanged with those of distractors, for counterfactuals: segments, words, columns, features.

An exchange has parts, and for each part offers: what may be put in its place. A choice is one number for each part: 0 leaves
it, r takes offer r. Offers of one distractor, such as all its cells in their places, have the same number in every part.
:func:`exchange_type` gives the exchange of a kind of input.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import singledispatch
from itertools import product
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from cocoax.inputs import Explicand, Inputs, Pictures, Rows, Texts
from cocoax.inputs.image import picture_of_tensor
from cocoax.insight.subset_search import names_of, regions_of
from cocoax.masking import grid_segments
from cocoax.show import Bars, Effects, Paragraph, Photo, View

# Offers are taken from the distractors with the lowest scores.
_PICTURE_DISTRACTORS = 2
_SHIFTS = 2  # of each distractor, beside the distractor in its place
_TEXT_DISTRACTORS = 5
_WORDS = 6  # offered in place of every word
_VALUES = 8  # of a column of numbers, over its range
_HALVINGS = 12  # of the change of a column, to find the smallest that still flips the score

# How much each part of an input raises the score, ``[parts]``.
Importance = Callable[[Explicand], Tensor]
# Which of some prepared inputs flip the score, ``[n]``.
Flips = Callable[[Sequence[Tensor]], np.ndarray]


class Change(NamedTuple):
    """A part that was changed, what it was and what it is now."""

    part: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.part}: {self.before} → {self.after}"


class Exchange(ABC):
    """Parts of an explicand, and what may be put in the place of each.

    Args:
        kind: the kind of input.
        explicand: the input.
        distractors: other inputs, those with the lowest scores first.
        importance: how much each part of an input raises the score, at the cost of encoder calls.
        options: those that a user gave, of :attr:`options`.

    Attributes:
        names: of the parts.
        offered: whether a part has an offer, ``[parts, offers]``.
        noun: what one part is called.
        options: names of the options that the constructor takes.
        one_shape: whether distractors must have the shape of the explicand.

    """

    noun: str = "part"
    options: ClassVar[tuple[str, ...]] = ("fixed",)
    one_shape: ClassVar[bool] = True
    names: tuple[str, ...]
    offered: np.ndarray

    @abstractmethod
    def __init__(
        self, kind: Any, explicand: Explicand, distractors: Sequence[Explicand], importance: Importance, **options: Any
    ) -> None: ...

    @abstractmethod
    def made(self, choices: np.ndarray) -> Sequence[Tensor]:
        """Return the input after each of ``choices [n, parts]``, prepared for the encoder."""

    @abstractmethod
    def outcome(self, choice: np.ndarray) -> Any:
        """Return the input after a choice, as users hold it."""

    @abstractmethod
    def changes(self, choice: np.ndarray) -> list[Change]:
        """Return what a choice changes, in words."""

    def findings(self, choice: np.ndarray) -> list[str]:
        """Return the changes in words; by default one by one."""
        return [str(change) for change in self.changes(choice)]

    @abstractmethod
    def views(self, choice: np.ndarray, titles: Sequence[str]) -> list[View]:
        """Return the input, where the offers come from, and what comes out, each under a title."""

    def same_offer_choices(self) -> list[np.ndarray]:
        """Return choices that take the same offer wherever there is one, one for each offer."""
        return [np.where(own, number, 0) for number, own in enumerate(self.offered.T, start=1) if own.any()]

    def possible(self, choices: np.ndarray) -> np.ndarray:
        """Return which of ``choices [n, parts]`` give an input at all; by default all."""
        return np.ones(len(choices), bool)

    def closer(self, choice: np.ndarray, flips: Flips) -> Self:
        """Return the exchange with offers for a choice that change less and still do it; by default there are none."""
        return self


def _without(names: Sequence[str], fixed: Sequence[str], offered: np.ndarray) -> np.ndarray:
    """Return which offers there are once some parts are fixed; raise if a fixed one does not exist."""
    asked = [fixed] if isinstance(fixed, str) else list(fixed)
    unknown = [name for name in asked if name not in names]
    if unknown:
        raise ValueError(f"There is no part {unknown[0]!r} to be fixed; there are {', '.join(names[:8])}.")
    return offered & ~np.isin(np.array(names, dtype=object), asked)[:, None]


class FeatureExchange(Exchange):
    """Features of inputs of one shape, each exchanged with the same feature of a distractor: segments of a sound, say."""

    noun = "feature"

    def __init__(
        self,
        kind: Inputs,
        explicand: Explicand,
        distractors: Sequence[Explicand],
        importance: Importance,
        *,
        fixed: Sequence[str] = (),
    ) -> None:
        self.explicand, self.distractors = explicand, list(distractors)
        count = int(np.prod(explicand.shape))
        own = explicand.feature_ids
        self.labels = torch.arange(count).view(explicand.shape) if own is None else own
        self.names = explicand.names or tuple(f"feature {number + 1}" for number in range(count))
        self.offered = _without(self.names, fixed, np.ones((count, len(distractors)), bool))

    def made(self, choices: np.ndarray) -> list[Tensor]:
        """Return tensors with some features from distractors."""
        distractors = [distractor.tensor for distractor in self.distractors]
        return [_exchanged(self.explicand.tensor, distractors, self.labels, choice) for choice in choices]

    def outcome(self, choice: np.ndarray) -> Any:
        """Return the tensor."""
        return self.made(choice[None])[0]

    def changes(self, choice: np.ndarray) -> list[Change]:
        """Return which feature comes from which distractor."""
        parts = np.flatnonzero(choice).tolist()
        return [Change(self.names[part], "its own", f"that of distractor {choice[part]}") for part in parts]

    def views(self, choice: np.ndarray, titles: Sequence[str]) -> list[View]:
        """Return which features were exchanged."""
        chosen = torch.from_numpy(choice > 0).view(self.explicand.shape)
        distractor = self.distractors[int(choice.max()) - 1]
        shown = ((self.explicand, None), (distractor, chosen), (self.explicand, ~chosen))
        return [explicand.display.parts_view(mask, title) for title, (explicand, mask) in zip(titles, shown, strict=True)]


class _PictureExchange(FeatureExchange):
    """Segments of a picture, or cells of a grid, each exchanged with pixels of a distractor.

    A distractor is laid over the picture as it is, and shifted so that what lowers the score in the distractor lies over what
    raises it in the picture; the importance of the parts of both says where that is. Shifts are whole cells of ``grid``.
    """

    options = ("grid",)

    def __init__(
        self,
        kind: Inputs,
        explicand: Explicand,
        distractors: Sequence[Explicand],
        importance: Importance,
        *,
        grid: tuple[int, int],
    ) -> None:
        if not distractors:
            raise ValueError("A counterfactual of a picture takes parts of other pictures; pass distractors=.")
        self.explicand, self.distractors, self.grid = explicand, list(distractors[:_PICTURE_DISTRACTORS]), grid
        size = tuple(explicand.tensor.shape[1:])
        self.noun = "cell" if explicand.feature_ids is None else "segment"
        self.labels = grid_segments(size[0], size[1], grid) if explicand.feature_ids is None else explicand.feature_ids
        self.names = names_of(self.labels, explicand.display)
        own = _per_cell(explicand, importance(explicand), grid)
        self.sources = [
            _Source(number, shift, *_shifted_pixels(size, grid, shift))
            for number, distractor in enumerate(self.distractors)
            for shift in _best_shifts(own, _per_cell(distractor, importance(distractor), grid))
        ]
        bare = [self.labels[~source.inside & (self.labels >= 0)] for source in self.sources]
        self.offered = np.stack([torch.bincount(each, minlength=len(self.names)).numpy() == 0 for each in bare], axis=1)

    def _with(self, choice: np.ndarray, own: Tensor, distractors: Sequence[Tensor]) -> Tensor:
        """Return a picture ``[C, H, W]`` with parts of distractors."""
        shifted = [distractors[source.distractor].flatten(1)[:, source.pixels] for source in self.sources]
        return _exchanged(own, shifted, self.labels, choice)

    def made(self, choices: np.ndarray) -> list[Tensor]:
        distractors = [distractor.tensor for distractor in self.distractors]
        return [self._with(choice, self.explicand.tensor, distractors) for choice in choices]

    def outcome(self, choice: np.ndarray) -> Image.Image:
        """Return what the encoder sees of the picture, with the parts exchanged."""
        seen, *distractors = (_seen(explicand).permute(2, 0, 1) for explicand in (self.explicand, *self.distractors))
        return Image.fromarray(self._with(choice, seen, distractors).permute(1, 2, 0).contiguous().numpy())

    def changes(self, choice: np.ndarray) -> list[Change]:
        changes = []
        for part in np.flatnonzero(choice).tolist():
            distractor, (down, right), *_ = self.sources[choice[part] - 1]
            row, column = divmod(part, self.grid[1])
            place = f"row {row + down + 1}, column {column + right + 1}"
            if self.noun == "segment":
                place = f"{down} rows down, {right} columns right" if down or right else "the same place"
            changes.append(Change(self.names[part], "its own", f"{place} of distractor {distractor + 1}"))
        return changes

    def findings(self, choice: np.ndarray) -> list[str]:
        """Return the changes; segments that touch and come from one source are one finding."""
        changes = dict(zip(np.flatnonzero(choice).tolist(), self.changes(choice), strict=True))
        found = []
        for number in dict.fromkeys(choice[choice > 0].tolist()):
            for region in regions_of(np.flatnonzero(choice == number).tolist(), self.labels):
                own = [changes[part] for part in region]
                together = Change(" + ".join(change.part for change in own), own[0].before, own[0].after)
                found += [together] if len({change.after for change in own}) == 1 else own
        return [str(change) for change in found]

    def views(self, choice: np.ndarray, titles: Sequence[str]) -> list[View]:
        """Return picture, the distractor of most parts and result, with lines around what was exchanged."""
        taken = [self.sources[number - 1].distractor for number in choice.tolist() if number]
        distractor = max(sorted(set(taken)), key=taken.count, default=0)
        chosen = torch.from_numpy(np.append(choice, 0))[self.labels]
        there = torch.zeros_like(chosen, dtype=torch.bool)
        for number, source in enumerate(self.sources, start=1):
            if source.distractor == distractor:
                there.view(-1)[source.pixels[chosen == number]] = True
        result = torch.from_numpy(np.array(self.outcome(choice)))
        shown = ((_seen(self.explicand), chosen > 0), (_seen(self.distractors[distractor]), there), (result, chosen > 0))
        return [
            Photo(picture.numpy(), marked=mask.numpy(), fade=False, title=title)
            for title, (picture, mask) in zip(titles, shown, strict=True)
        ]


class _Source(NamedTuple):
    """A distractor, shifted by rows and columns of a grid: its pixel at each pixel of the picture, if there is one."""

    distractor: int
    shift: tuple[int, int]
    pixels: Tensor  # [H, W], numbers of pixels row by row
    inside: Tensor  # [H, W]


def _shifted_pixels(size: tuple[int, ...], grid: tuple[int, int], shift: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Return the pixel of a picture, shifted by cells of a grid, at each place, and whether there is one.

    Cells of a grid that does not divide the side differ by a pixel in size; each begins where its source begins.
    """
    places, inside = [], []
    for side, cells, by in zip(size, grid, shift, strict=True):
        starts = (torch.arange(cells) * side + cells - 1) // cells
        own = torch.arange(side) * cells // side
        source = own + by
        begin = torch.minimum(starts[source.clamp(0, cells - 1)], side - torch.bincount(own)[own])
        places.append(begin + torch.arange(side) - starts[own])
        inside.append((source >= 0) & (source < cells))
    return places[0][:, None] * size[1] + places[1], inside[0][:, None] & inside[1]


def _exchanged(own: Tensor, sources: Sequence[Tensor], labels: Tensor, choice: np.ndarray) -> Tensor:
    """Return a tensor with some parts from sources; ``labels`` say which part its elements are in, -1 for none."""
    chosen = torch.from_numpy(np.append(choice, 0))[labels]
    for number in torch.unique(chosen[chosen > 0]).tolist():
        own = torch.where(chosen == number, sources[number - 1], own)
    return own


def _per_cell(explicand: Explicand, importance: Tensor, grid: tuple[int, int]) -> Tensor:
    """Return the importance of parts of a picture as that of the cells of a grid, ``[rows, columns]``.

    A segment's importance is spread evenly over its pixels.
    """
    labels = explicand.feature_ids
    if labels is None:
        return importance.view(grid)
    own, cells = labels >= 0, grid_segments(labels.shape[0], labels.shape[1], grid)
    density = importance.double() / torch.bincount(labels[own])
    sums = torch.zeros(grid[0] * grid[1], dtype=torch.float64).index_add(0, cells[own], density[labels[own]])
    return sums.view(grid)


def _best_shifts(own: Tensor, theirs: Tensor) -> list[tuple[int, int]]:
    """Return how many rows and columns to go down and right in a distractor: none, and the shifts with the highest promise.

    The promise of a shift is Σ max(0, own)·max(0, -theirs) over the cells that then lie upon each other.
    """
    rows, columns = own.shape
    raised, lowered = own.clamp(min=0), (-theirs).clamp(min=0)
    promise = {}
    for down, right in product(range(1 - rows, rows), range(1 - columns, columns)):
        above = raised[max(0, -down) : rows - max(0, down), max(0, -right) : columns - max(0, right)]
        below = lowered[max(0, down) : rows + min(0, down), max(0, right) : columns + min(0, right)]
        promise[down, right] = float((above * below).sum())
    others = sorted((shift for shift in promise if shift != (0, 0)), key=lambda shift: -promise[shift])
    return [(0, 0), *others[:_SHIFTS]]


def _seen(explicand: Explicand) -> Tensor:
    """Return what the encoder sees of a picture, in its own colours and the size of the tensor, ``[H, W, 3]``."""
    height, width = explicand.tensor.shape[1:]
    if explicand.picture is None:
        return picture_of_tensor(explicand.tensor)
    image = Image.fromarray(explicand.picture.numpy())
    left, top, right, bottom = explicand.box
    box = (left * image.width, top * image.height, right * image.width, bottom * image.height)
    return torch.from_numpy(np.array(image.resize((width, height), Image.Resampling.BICUBIC, box=box)))


class _WordExchange(Exchange):
    """Words (or sentences), each of which may be deleted, or replaced by one of the distractors' that lower the score most.

    Without distractors they are deleted only. ``fixed`` words stay. The text that comes out is tokenised and encoded.
    """

    noun = "word"
    one_shape = False

    def __init__(
        self,
        kind: Texts,
        explicand: Explicand,
        distractors: Sequence[Explicand],
        importance: Importance,
        *,
        fixed: Sequence[str] = (),
    ) -> None:
        if explicand.text is None or explicand.names is None or explicand.offsets is None:
            raise ValueError("The input must be a text, not token ids; pass the string.")
        self.text, self.names, self.offsets = explicand.text, explicand.names, explicand.offsets
        self.prepare = kind.prepare
        lowered: dict[str, float] = {}
        for distractor in distractors[:_TEXT_DISTRACTORS]:
            for word, value in zip(distractor.names or (), importance(distractor).tolist(), strict=True):
                lowered[word] = min(value, lowered.get(word, 0.0))
        promising = sorted((word for word in lowered if lowered[word] < 0), key=lambda word: lowered[word])
        self.words = ["", *promising[:_WORDS]]  # nothing first: the word is deleted
        offered = np.array([[offer.lower() != name.lower() for offer in self.words] for name in self.names])
        self.offered = _without(self.names, fixed, offered)

    def outcome(self, choice: np.ndarray) -> str:
        parts, at = [], 0
        for (begin, end), number in zip(self.offsets, choice.tolist(), strict=True):
            parts += [self.text[at:begin], self.text[begin:end] if number == 0 else self.words[number - 1]]
            at = end
        return " ".join("".join([*parts, self.text[at:]]).split())

    def possible(self, choices: np.ndarray) -> np.ndarray:
        return np.array([bool(self.outcome(choice)) for choice in choices])

    def made(self, choices: np.ndarray) -> list[Tensor]:
        return [self.prepare(self.outcome(choice)) for choice in choices]

    def changes(self, choice: np.ndarray) -> list[Change]:
        return [
            Change(f"word {part + 1}", self.names[part], self.words[choice[part] - 1] or "(deleted)")
            for part in np.flatnonzero(choice).tolist()
        ]

    def views(self, choice: np.ndarray, titles: Sequence[str]) -> list[View]:
        changes = "\n".join(f"{change.before} → {change.after}" for change in self.changes(choice))
        texts = (self.text, changes, self.outcome(choice))
        return [Paragraph(text, title=title) for title, text in zip(titles, texts, strict=True)]


class _ColumnExchange(Exchange):
    """Columns, each of which may take a value that the data hold, or one between their least and their largest.

    The data are the distractors, or the background of the encoder if there are none. Columns named in ``fixed`` stay, those
    in ``integer`` take whole numbers only, those in ``categorical`` only values that the data hold.
    """

    noun = "column"
    options = ("fixed", "integer", "categorical")

    def __init__(
        self,
        kind: Rows,
        explicand: Explicand,
        distractors: Sequence[Explicand],
        importance: Importance,
        **options: str | Sequence[str],
    ) -> None:
        rows = [_given(kind, distractor) for distractor in distractors]
        if not rows and kind.preprocess is None and kind.background is not None:
            rows = list(kind.background.double().numpy())
        if not rows:
            raise ValueError("Which values may columns take? Pass distractors=rows, in whose range they may change.")
        data = np.stack(rows).astype(float)
        self.row, self.names, self.prepare = _given(kind, explicand).astype(float), kind.columns, kind.prepare
        named = {option: [value] if isinstance(value, str) else list(value) for option, value in options.items()}
        for name in [name for names in named.values() for name in names]:
            if name not in self.names:
                raise ValueError(f"There is no column {name!r}; there are {', '.join(self.names[:8])}.")
        columns = np.array(self.names, dtype=object)
        self.integer, self.categorical = (np.isin(columns, named.get(option, [])) for option in ("integer", "categorical"))
        values = [self._values(column, data[:, column]) for column in range(len(self.names))]
        most = max(map(len, values), default=0)
        self.values = np.array([[*own, *[np.nan] * (most - len(own))] for own in values]).reshape(len(self.names), most)
        self.offered = _without(self.names, named.get("fixed", []), ~np.isnan(self.values))
        if not self.offered.any():
            raise ValueError(
                "No column may change: all are fixed, or the data hold no other value. Fix fewer columns, or "
                "give other distractors."
            )

    def _values(self, column: int, seen: np.ndarray) -> list[float]:
        """Return the values that are offered for a column: other than its own, all categories, or some over the range."""
        if self.categorical[column]:
            offers = np.unique(seen)
        elif self.integer[column]:
            low, high = np.ceil(seen.min()), np.floor(seen.max())
            offers = np.unique(np.round(np.linspace(low, high, _VALUES))) if low <= high else np.zeros(0)
        else:
            offers = np.linspace(seen.min(), seen.max(), _VALUES)
        return [float(value) for value in offers if value != self.row[column]]

    def outcome(self, choice: np.ndarray) -> np.ndarray:
        offers = self.values[np.arange(len(choice)), np.maximum(choice - 1, 0)]
        return np.where(choice > 0, offers, self.row)

    def made(self, choices: np.ndarray) -> list[Tensor]:
        return [self.prepare(self.outcome(choice)) for choice in choices]

    def changes(self, choice: np.ndarray) -> list[Change]:
        new = self.outcome(choice)
        return [Change(self.names[part], f"{self.row[part]:.5g}", f"{new[part]:.5g}") for part in np.flatnonzero(choice)]

    def closer(self, choice: np.ndarray, flips: Flips) -> Self:
        """Return the exchange with values as close to the row's own as is enough, one column after the other."""
        result = copy.copy(self)
        result.values = self.values.copy()
        for part in np.flatnonzero(choice).tolist():
            place = (part, choice[part] - 1)
            near, far = self.row[part], result.values[place]
            for _ in range(_HALVINGS):
                between = self._between(part, near, far)
                if between is None:
                    break
                result.values[place] = between
                if flips(result.made(choice[None]))[0]:
                    far = between
                else:
                    near = between
            result.values[place] = far
        return result

    def _between(self, part: int, near: float, far: float) -> float | None:
        """Return a value in the middle that the column may hold; None if there is none."""
        if self.categorical[part]:
            return None
        middle = (near + far) / 2
        if self.integer[part]:
            middle = float(np.floor(middle) if far > near else np.ceil(middle))
        return middle if min(near, far) < middle < max(near, far) else None

    def views(self, choice: np.ndarray, titles: Sequence[str]) -> list[View]:
        """Return each column's place within its range, before and after; a list of the changes stands in the middle."""
        low = np.nanmin(np.c_[self.values, self.row], axis=1)
        width = np.nanmax(np.c_[self.values, self.row], axis=1) - low
        width[width == 0] = 1
        before, after = (
            Bars(Effects((row - low) / width, unit="place within the data's range"), self.names, "given", title=title)
            for row, title in ((self.row, titles[0]), (self.outcome(choice), titles[2]))
        )
        return [before, Paragraph("\n".join(map(str, self.changes(choice))), title=titles[1]), after]


def _given(kind: Rows, explicand: Explicand) -> np.ndarray:
    """Return a row as it was before it was preprocessed, ``[m]``."""
    given: tuple[float, ...] | None = getattr(explicand.display, "given", None)
    if given is None and kind.preprocess is not None:
        raise ValueError("The row was preprocessed, and what it was before is not known; pass the row as it is.")
    return explicand.tensor.double().numpy().reshape(-1) if given is None else np.array(given)


@singledispatch
def exchange_type(kind: Inputs, explicand: Explicand | None = None) -> type[Exchange]:
    """Return which exchange inputs of a kind have; other kinds than those below may register their own."""
    return FeatureExchange


exchange_type.register(Pictures, lambda kind, explicand=None: _PictureExchange)
exchange_type.register(Texts, lambda kind, explicand=None: _WordExchange)


@exchange_type.register
def _(kind: Rows, explicand: Explicand | None = None) -> type[Exchange]:
    """Return the exchange of features for groups of columns, and that of columns for columns."""
    return _ColumnExchange if explicand is None or explicand.feature_ids is None else FeatureExchange
