"""Exchanging parts of an input with those of others, for counterfactuals: cells of pictures, words, columns, features.

An exchange has parts, and for each part some offers: what donors would put in its place. A choice is one number for each
part: 0 leaves it, r takes offer r. Offers that belong together, such as all cells of one donor in their places, have the
same number. :func:`exchange_type` says which exchange a kind of input has.
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
from cocoax.show import Bars, Effects, Paragraph, Photo, View

_PICTURE_DONORS = 2  # that take part: those with the lowest scores
_SHIFTS = 2  # ways to lay a donor over the picture, beside cell upon cell
_TEXT_DONORS = 5  # whose words are looked at: those with the lowest scores
_WORDS = 6  # that are offered for every word
_VALUES = 8  # that are offered for a column of numbers, over its range
_HALVINGS = 12  # of a change, to find the least that is enough


# How much each part of an input raises the score, ``[parts]``.
Importance = Callable[[Explicand], Tensor]
# Which of some prepared inputs do what is asked, ``[n]``.
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
        donors: other inputs, those with the lowest scores first.
        importance: how much each part of an input raises the score, at the cost of encoder calls.
        options: those that a user gave, of :attr:`options`.

    Attributes:
        names: of the parts.
        offered: whether a part has an offer, ``[parts, offers]``.
        noun: what one part is called.
        options: names of the options that the constructor takes.
        one_shape: whether donors must have the shape of the explicand.

    """

    noun: ClassVar[str] = "part"
    options: ClassVar[tuple[str, ...]] = ("fixed",)
    one_shape: ClassVar[bool] = True
    names: tuple[str, ...]
    offered: np.ndarray

    @abstractmethod
    def __init__(
        self, kind: Any, explicand: Explicand, donors: Sequence[Explicand], importance: Importance, **options: Any
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
    """Features of inputs of one shape, each exchanged with the same feature of a donor: segments of a sound, say."""

    noun = "feature"

    def __init__(
        self,
        kind: Inputs,
        explicand: Explicand,
        donors: Sequence[Explicand],
        importance: Importance,
        *,
        fixed: Sequence[str] = (),
    ) -> None:
        self.explicand, self.donors = explicand, list(donors)
        count = int(np.prod(explicand.shape))
        self.names = explicand.names or tuple(f"feature {number + 1}" for number in range(count))
        self.offered = _without(self.names, fixed, np.ones((count, len(donors)), bool))

    def made(self, choices: np.ndarray) -> list[Tensor]:
        """Return tensors with some features from donors."""
        stacked = torch.stack([self.explicand.tensor, *(donor.tensor for donor in self.donors)])
        made = []
        for choice in torch.from_numpy(np.ascontiguousarray(choices)).long():
            result = stacked[0].clone()
            for number in torch.unique(choice[choice > 0]).tolist():
                kept = self.explicand.elements_kept((choice != number).float().view(1, *self.explicand.shape))[0]
                result = torch.where(kept.bool(), result, stacked[number])
            made.append(result)
        return made

    def outcome(self, choice: np.ndarray) -> Tensor:
        """Return the tensor."""
        return self.made(choice[None])[0]

    def changes(self, choice: np.ndarray) -> list[Change]:
        """Return which feature comes from which donor."""
        return [
            Change(self.names[part], "its own", f"that of donor {choice[part]}") for part in np.flatnonzero(choice).tolist()
        ]

    def views(self, choice: np.ndarray, titles: Sequence[str]) -> list[View]:
        """Return which features were exchanged."""
        chosen = torch.from_numpy(choice > 0).view(self.explicand.shape)
        donor = self.donors[int(choice.max()) - 1]
        shown = ((self.explicand, None), (donor, chosen), (self.explicand, ~chosen))
        return [explicand.display.parts_view(mask, title) for title, (explicand, mask) in zip(titles, shown, strict=True)]


class CellExchange(Exchange):
    """Cells of a grid, each exchanged with a cell of a donor.

    A donor is laid over the picture cell upon cell, and shifted so that what lowers the score in it comes to lie over what
    raises it in the picture, which the importance of the cells of both tells.
    """

    noun = "cell"
    options = ("grid",)

    def __init__(
        self,
        kind: Inputs,
        explicand: Explicand,
        donors: Sequence[Explicand],
        importance: Importance,
        *,
        grid: tuple[int, int],
    ) -> None:
        if not donors:
            raise ValueError("A counterfactual of a picture needs donors, pictures whose cells it may take; pass donors=.")
        self.explicand, self.donors, self.grid = explicand, list(donors[:_PICTURE_DONORS]), grid
        self.cells = list(product(range(grid[0]), range(grid[1])))
        self.names = tuple(f"row {row + 1}, column {column + 1}" for row, column in self.cells)
        own = importance(explicand).view(grid)
        self.sources = [
            (number, shift)
            for number, donor in enumerate(self.donors)
            for shift in _best_shifts(own, importance(donor).view(grid))
        ]
        self.offered = np.array([[self._source(cell, offer) is not None for offer in self.sources] for cell in self.cells])

    def _source(self, cell: tuple[int, int], offer: tuple[int, tuple[int, int]]) -> tuple[int, int] | None:
        """Return the cell of a donor that comes to lie over a cell, if there is one."""
        row, column = cell[0] + offer[1][0], cell[1] + offer[1][1]
        return (row, column) if 0 <= row < self.grid[0] and 0 <= column < self.grid[1] else None

    def _block(self, cell: tuple[int, int], size: tuple[int, ...]) -> tuple[slice, slice]:
        """Return where a cell lies in a picture of this size."""
        starts = [-(-place * side // cells) for place, side, cells in zip(cell, size, self.grid, strict=True)]
        ends = [-(-(place + 1) * side // cells) for place, side, cells in zip(cell, size, self.grid, strict=True)]
        return slice(starts[0], ends[0]), slice(starts[1], ends[1])

    def _exchanged(self, own: Tensor, donors: Sequence[Tensor], choice: np.ndarray) -> Tensor:
        """Return a picture ``[C, H, W]`` with cells of donors."""
        result = own.clone()
        size = tuple(own.shape[1:])
        for part in np.flatnonzero(choice).tolist():
            offer = self.sources[choice[part] - 1]
            source = self._source(self.cells[part], offer)
            assert source is not None
            rows, columns = self._block(self.cells[part], size)
            height, width = rows.stop - rows.start, columns.stop - columns.start
            top, left = (block.start for block in self._block(source, size))
            # Cells of a grid that does not divide the side differ by a pixel.
            top, left = min(top, size[0] - height), min(left, size[1] - width)
            result[:, rows, columns] = donors[offer[0]][:, top : top + height, left : left + width]
        return result

    def made(self, choices: np.ndarray) -> list[Tensor]:
        """Return tensors with some cells from donors."""
        donors = [donor.tensor for donor in self.donors]
        return [self._exchanged(self.explicand.tensor, donors, choice) for choice in choices]

    def outcome(self, choice: np.ndarray) -> Image.Image:
        """Return what the encoder sees of the picture, with the cells exchanged."""
        seen, *donors = (_seen(explicand).permute(2, 0, 1) for explicand in (self.explicand, *self.donors))
        return Image.fromarray(self._exchanged(seen, donors, choice).permute(1, 2, 0).numpy())

    def changes(self, choice: np.ndarray) -> list[Change]:
        """Return which cell comes from where."""
        changes = []
        for part in np.flatnonzero(choice).tolist():
            number, shift = self.sources[choice[part] - 1]
            source = self._source(self.cells[part], (number, shift))
            assert source is not None
            changes.append(
                Change(self.names[part], "its own", f"row {source[0] + 1}, column {source[1] + 1} of donor {number + 1}")
            )
        return changes

    def views(self, choice: np.ndarray, titles: Sequence[str]) -> list[View]:
        """Return picture, donor and result, with lines around what was exchanged."""
        size = tuple(self.explicand.tensor.shape[1:])
        there, here = torch.zeros(size, dtype=torch.bool), torch.zeros(size, dtype=torch.bool)
        offers = [self.sources[number - 1] for number in choice.tolist() if number]
        donor = max({number for number, _ in offers}, key=[number for number, _ in offers].count) if offers else 0
        for part in np.flatnonzero(choice).tolist():
            here[self._block(self.cells[part], size)] = True
            offer = self.sources[choice[part] - 1]
            source = self._source(self.cells[part], offer)
            if source is not None and offer[0] == donor:
                there[self._block(source, size)] = True
        result = torch.from_numpy(np.array(self.outcome(choice)))
        shown = ((_seen(self.explicand), here), (_seen(self.donors[donor]), there), (result, here))
        return [
            Photo(picture.numpy(), marked=mask.numpy(), fade=False, title=title)
            for title, (picture, mask) in zip(titles, shown, strict=True)
        ]


def _best_shifts(own: Tensor, theirs: Tensor) -> list[tuple[int, int]]:
    """Return how many rows and columns to go down and right in a donor: none, and the shifts that promise most.

    A shift promises the sum, over the cells that then lie upon each other, of what the picture's raise the score by times
    what the donor's lower it by.
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


class WordExchange(Exchange):
    """Words, each of which may be deleted, or replaced by one of the donors' words that lower the score most.

    Without donors words are deleted only. ``fixed`` words stay. The text that comes out is tokenised and encoded.
    """

    noun = "word"
    one_shape = False

    def __init__(
        self,
        kind: Texts,
        explicand: Explicand,
        donors: Sequence[Explicand],
        importance: Importance,
        *,
        fixed: Sequence[str] = (),
    ) -> None:
        if explicand.text is None or explicand.names is None or explicand.offsets is None:
            raise ValueError("The explicand must be a text, not token ids; pass the string.")
        self.text, self.names, self.offsets = explicand.text, explicand.names, explicand.offsets
        self.prepare = kind.prepare
        lowered: dict[str, float] = {}
        for donor in donors[:_TEXT_DONORS]:
            for word, value in zip(donor.names or (), importance(donor).tolist(), strict=True):
                lowered[word] = min(value, lowered.get(word, 0.0))
        promising = sorted((word for word in lowered if lowered[word] < 0), key=lambda word: lowered[word])
        self.words = ["", *promising[:_WORDS]]  # nothing first: the word is deleted
        offered = np.array([[offer.lower() != name.lower() for offer in self.words] for name in self.names])
        self.offered = _without(self.names, fixed, offered)

    def outcome(self, choice: np.ndarray) -> str:
        """Return the text with words deleted or replaced."""
        parts, at = [], 0
        for (begin, end), number in zip(self.offsets, choice.tolist(), strict=True):
            parts += [self.text[at:begin], self.text[begin:end] if number == 0 else self.words[number - 1]]
            at = end
        return " ".join("".join([*parts, self.text[at:]]).split())

    def possible(self, choices: np.ndarray) -> np.ndarray:
        """Return which leave a text: some word must stay."""
        return np.array([bool(self.outcome(choice)) for choice in choices])

    def made(self, choices: np.ndarray) -> list[Tensor]:
        """Return token ids of the texts."""
        return [self.prepare(self.outcome(choice)) for choice in choices]

    def changes(self, choice: np.ndarray) -> list[Change]:
        """Return which word was deleted, or replaced by which."""
        return [
            Change(f"word {part + 1}", self.names[part], self.words[choice[part] - 1] or "(deleted)")
            for part in np.flatnonzero(choice).tolist()
        ]

    def views(self, choice: np.ndarray, titles: Sequence[str]) -> list[View]:
        """Return the text, what was changed, and what came out."""
        changes = "\n".join(f"{change.before} → {change.after}" for change in self.changes(choice))
        texts = (self.text, changes, self.outcome(choice))
        return [Paragraph(text, title=title) for title, text in zip(titles, texts, strict=True)]


class ColumnExchange(Exchange):
    """Columns, each of which may take a value that the data hold, or one between their least and their largest.

    The data are the donors, or the background of the encoder if there are none. Columns named in ``fixed`` stay, those in
    ``integer`` take whole numbers only, those in ``categorical`` only values that the data hold.
    """

    noun = "column"
    options = ("fixed", "integer", "categorical")

    def __init__(
        self,
        kind: Rows,
        explicand: Explicand,
        donors: Sequence[Explicand],
        importance: Importance,
        **options: str | Sequence[str],
    ) -> None:
        rows = [_given(kind, donor) for donor in donors]
        if not rows and kind.preprocess is None and kind.background is not None:
            rows = list(kind.background.double().numpy())
        if not rows:
            raise ValueError("Which values may columns take? Pass donors=rows, in whose range they may change.")
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
                "give other donors."
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

    def _changed(self, choice: np.ndarray) -> np.ndarray:
        offers = self.values[np.arange(len(choice)), np.maximum(choice - 1, 0)]
        return np.where(choice > 0, offers, self.row)

    def made(self, choices: np.ndarray) -> list[Tensor]:
        """Return prepared rows."""
        return [self.prepare(self._changed(choice)) for choice in choices]

    def outcome(self, choice: np.ndarray) -> np.ndarray:
        """Return the row, as it was given but for the columns that change."""
        return self._changed(choice)

    def changes(self, choice: np.ndarray) -> list[Change]:
        """Return each column that changes, with both values."""
        new = self._changed(choice)
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
            for row, title in ((self.row, titles[0]), (self._changed(choice), titles[2]))
        )
        return [before, Paragraph("\n".join(map(str, self.changes(choice))), title=titles[1]), after]


def _given(kind: Rows, explicand: Explicand) -> np.ndarray:
    """Return a row as it was before it was preprocessed, ``[m]``."""
    given: tuple[float, ...] | None = getattr(explicand.display, "given", None)
    if given is None and kind.preprocess is not None:
        raise ValueError("The row was preprocessed, and what it was before is not known; pass the row as it is.")
    return explicand.tensor.double().numpy().reshape(-1) if given is None else np.array(given)


@singledispatch
def exchange_type(kind: Inputs) -> type[Exchange]:
    """Return which exchange inputs of a kind have; other kinds than those below may register their own."""
    return FeatureExchange


@exchange_type.register
def _(kind: Pictures) -> type[Exchange]:
    return CellExchange


@exchange_type.register
def _(kind: Texts) -> type[Exchange]:
    return WordExchange


@exchange_type.register
def _(kind: Rows) -> type[Exchange]:
    return ColumnExchange
