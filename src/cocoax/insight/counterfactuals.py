"""Counterfactuals: the smallest change of an input that flips the sign of a target.

Parts are exchanged with distractors, inputs that score lower (Goyal et al. 2019). The kind of input says what a part is and
what exchanging it means; distractors' parts are offered by how much they lower the score in short runs; every counterfactual
that is returned was encoded.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from itertools import product
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from cocoax.checks import check_count
from cocoax.encoders import Encoder
from cocoax.inputs import Explicand, Inputs, Pictures, Rows, Texts
from cocoax.inputs.base import naming_input, plural
from cocoax.inputs.image import picture_of_tensor
from cocoax.insight.subset_search import SmallestSetSearch, names_of, touching_regions
from cocoax.masking import grid_segments
from cocoax.methods import KernelShap
from cocoax.methods.method import Askable, check_encoder, check_targets
from cocoax.results import ResultList
from cocoax.show import Bars, Effects, Gallery, Paragraph, Photo, Table, View
from cocoax.targets import Target

# --- exchanges ------------------------------------------------------------------------------------------------------------

# Offers are taken from the distractors with the lowest scores.
_PICTURE_DISTRACTORS = 2
_SHIFTS = 2  # of each distractor, beside the distractor in its place
_TEXT_DISTRACTORS = 5
_WORDS = 6  # offered in place of every word
_VALUES = 8  # of a column of numbers, over its range
_HALVINGS = 12  # of the change of a column, to find the smallest that still flips the score

# How much each part of an input raises the score, ``[parts]``.
PartImportance = Callable[[Explicand], Tensor]
# Which of some prepared inputs flip the score, ``[n]``.
FlipTest = Callable[[Sequence[Tensor]], np.ndarray]


class Change(NamedTuple):
    """A changed part: its name, its value before and its value after."""

    part: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.part}: {self.before} → {self.after}"


class Exchange(ABC):
    """Parts of an explicand, and what may be put in the place of each.

    An exchange has parts, and for each part offers: what may be put in its place. A choice is one number for each part: 0
    leaves it, r takes offer r. Offers of one distractor, such as all its cells in their places, have the same number in every
    part.

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
        self, kind: Any, explicand: Explicand, distractors: Sequence[Explicand], importance: PartImportance, **options: Any
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
        """Return which of ``choices [n, parts]`` give a valid input; by default all."""
        return np.ones(len(choices), bool)

    def closer(self, choice: np.ndarray, flips: FlipTest) -> Self:
        """Return an exchange whose offers for a choice change less and still flip the score; by default the same."""
        return self


def _without(names: Sequence[str], fixed: Sequence[str], offered: np.ndarray) -> np.ndarray:
    """Return which offers there are once some parts are fixed; raise if a fixed one does not exist."""
    asked = [fixed] if isinstance(fixed, str) else list(fixed)
    unknown = [name for name in asked if name not in names]
    if unknown:
        raise ValueError(f"There is no part {unknown[0]!r} to be fixed; there are {', '.join(names[:8])}.")
    return offered & ~np.isin(np.array(names, dtype=object), asked)[:, None]


def _check_any(distractors: Sequence[Explicand], kind: Inputs) -> None:
    if not distractors:
        raise ValueError(f"A counterfactual takes parts of other {kind.nouns}; pass distractors=.")


class FeatureExchange(Exchange):
    """Features of inputs of one shape, each exchanged with the same feature of a distractor: segments of a sound, say."""

    noun = "feature"

    def __init__(
        self,
        kind: Inputs,
        explicand: Explicand,
        distractors: Sequence[Explicand],
        importance: PartImportance,
        *,
        fixed: Sequence[str] = (),
    ) -> None:
        _check_any(distractors, kind)
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
        """Return the changed input as a tensor."""
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
        importance: PartImportance,
        *,
        grid: tuple[int, int],
    ) -> None:
        _check_any(distractors, kind)
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
            if self.noun == "segment":
                place = f"{down} rows down, {right} columns right" if down or right else "the same place"
            else:
                place = self.names[part + down * self.grid[1] + right]
            changes.append(Change(self.names[part], "its own", f"{place} of distractor {distractor + 1}"))
        return changes

    def findings(self, choice: np.ndarray) -> list[str]:
        """Return the changes; segments that touch and come from one source are one finding."""
        changes = dict(zip(np.flatnonzero(choice).tolist(), self.changes(choice), strict=True))
        found = []
        for number in dict.fromkeys(choice[choice > 0].tolist()):
            for region in touching_regions(np.flatnonzero(choice == number).tolist(), self.labels):
                own = [changes[part] for part in region]
                together = Change(" + ".join(change.part for change in own), own[0].before, own[0].after)
                found += [together] if len({change.after for change in own}) == 1 else own
        return [str(change) for change in found]

    def views(self, choice: np.ndarray, titles: Sequence[str]) -> list[View]:
        """Return the picture, the distractor that gave most parts, and the result, with outlines of the exchanged parts."""
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
    """Return shifts of a distractor, in rows down and columns right: none, and the shifts of the highest promise.

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
        importance: PartImportance,
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
        importance: PartImportance,
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

    def closer(self, choice: np.ndarray, flips: FlipTest) -> Self:
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


# --- the search -----------------------------------------------------------------------------------------------------------

_GRID = (7, 7)


@dataclass(frozen=True, eq=False)
class Flip:
    """One change of an input that flips the sign of the target.

    Attributes:
        changes: the parts that change, and what they become.
        score: after the change, by a forward pass.
        result: the changed input, as users hold it: a picture of what the encoder sees, a text, a row.
        choice: which offer each part takes, 0 for none.
        exchange: what was offered.
        irreducible: whether the change was encoded without each of its parts in turn, and never flipped the target.

    """

    changes: tuple[Change, ...]
    score: float
    result: Any = field(repr=False)
    choice: np.ndarray = field(repr=False)
    exchange: Exchange = field(repr=False)
    irreducible: bool = False

    def __len__(self) -> int:
        return len(self.changes)

    def __repr__(self) -> str:
        return f"Flip({len(self)} changes, score {self.score:+.3f})"


@dataclass(frozen=True, eq=False)
class Counterfactual(ResultList[Flip]):
    """The smallest changes of an input that were found to flip the sign of a target, the smallest first.

    Attributes:
        question: the target's name.
        score: of the input as it is.
        flips: the changes.
        asked: how many different ones were asked for.
        calls: forward passes that it took.

    """

    file: ClassVar[str] = "counterfactual"
    question: str
    score: float
    flips: tuple[Flip, ...]
    asked: int
    calls: int

    @property
    def parts(self) -> tuple[Flip, ...]:
        """The counterfactuals, the smallest first."""
        return self.flips

    def __repr__(self) -> str:
        best = self.flips[0]
        return f"Counterfactual({self.question!r}: {len(best)} changes, {self.score:+.3f} → {_signed(best.score)})"

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changed parts of the smallest counterfactual."""
        return self.flips[0].changes

    @property
    def result(self) -> Any:
        """The input after the smallest change."""
        return self.flips[0].result

    @property
    def summary(self) -> str:
        """The smallest change, in a sentence."""
        return f"The score of {self.question!r} is {self.score:+.3f}. {self._words(self.flips[0])}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """The other counterfactuals, and the number of forward passes."""
        remarks = [self._words(flip) for flip in self.flips[1:]]
        if len(self) < self.asked:
            remarks.append(f"{self.asked} different ones were asked for; no more than {len(self)} were found.")
        return (*remarks, f"{self.calls} forward passes.")

    def _words(self, flip: Flip) -> str:
        changed = f"{len(flip)} of {len(flip.choice)} {plural(flip.exchange.noun)}"
        known = "" if flip.irreducible else " (found, not minimal: some of them may be enough)"
        return f"Changing {changed}{known} makes it {_signed(flip.score)}: {'; '.join(flip.exchange.findings(flip.choice))}."

    def facts(self) -> dict[str, Any]:
        """Return the scores and all changes."""
        flips = [
            {
                "score": flip.score,
                "irreducible": flip.irreducible,
                "changes": [change._asdict() for change in flip.changes],
                "result": _plain(flip.result),
            }
            for flip in self.flips
        ]
        return {"question": self.question, "score": self.score, "calls": self.calls, "counterfactuals": flips}

    def table(self) -> Table:
        """Return one row for each part that changes."""
        rows = [(number, flip.score, *change) for number, flip in enumerate(self.flips, start=1) for change in flip.changes]
        return Table(("counterfactual", "score", "part", "before", "after"), tuple(rows))

    @property
    def title(self) -> str:
        """The heading of a page."""
        return f"What would flip it: {self.question}"

    def views(self) -> list[View]:
        """Return for each change the input, where its parts come from, and what comes out."""
        tiles: list[View] = []
        for flip in self.flips:
            changed = f"{len(flip)} of {len(flip.choice)} {plural(flip.exchange.noun)} change"
            titles = (f"score {self.score:+.3f}", changed, f"score {_signed(flip.score)}")
            tiles += flip.exchange.views(flip.choice, titles)
        return [Gallery(tuple(tiles), 3, inches=3.4, title=self.title)]


def check_above(name: str, score: float) -> None:
    """Raise if a score is not above 0."""
    if score <= 0:
        raise ValueError(
            f"The score of {name!r} is {score:+.3f}, so there is nothing to flip: it is not above 0. "
            "Ask the opposite (-target), or explain another input."
        )


def _signed(score: float) -> str:
    """Return a score with its sign, which rounding to three decimals may hide."""
    return f"{score:+.3f}" if abs(score) >= 0.0005 else f"{score:+.1e}"


def _plain(result: Any) -> Any:
    """Return a text or a row as JSON has it; a picture is in the drawing."""
    if isinstance(result, np.ndarray):
        return result.tolist()
    return result if isinstance(result, str) else None


def counterfactual(
    encoder: Encoder,
    explicand: Any,
    target: Askable,
    distractors: Any = (),
    *,
    count: int = 1,
    calls: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Counterfactual:
    """Find the smallest change of an input that flips the sign of a target, by exchanging parts with distractors.

    Args:
        encoder: what encodes.
        explicand: the input; its score must be above 0.
        target: what is asked; a contrastive one, whose sign says which side an input is on.
        distractors: inputs of the same kind that score lower, such as those of the foil. Pictures give cells, texts words
            (without distractors words are deleted), rows the range that columns may change in (by default that of the
            background).
        count: how many different ones; each does without the most effective part of those before it.
        calls: forward passes for each search; by default four for each part, and at least 60, and those that check the change
            without each of its parts.
        seed: of everything random.
        options: what the kind of input takes: ``grid=(rows, columns)`` for pictures; names in ``fixed=``, ``integer=`` and
            ``categorical=`` for rows; words in ``fixed=`` for texts.

    """
    check_encoder(encoder)
    check_count("count", count, 1, 100)
    if calls is not None:
        check_count("calls", calls, 1)
    search = _ExchangeSearch(encoder, encoder.explicand(explicand), check_targets(target, encoder)[0], seed)
    check_above(search.target.name, search.score)
    exchange = search.exchange(distractors, options)
    offers = search.single_changes(exchange)
    flips: list[Flip] = []
    allowed: np.ndarray = np.array(exchange.offered.any(1))
    for _ in range(count):
        flip = search.smallest(exchange, offers, allowed, calls)
        if flip is None:
            break
        flips.append(flip)
        changed = np.flatnonzero(flip.choice)
        strongest = changed[np.argmin(offers[changed, flip.choice[changed] - 1])]
        allowed = allowed & (np.arange(len(allowed)) != strongest)
    if not flips:
        raise ValueError(
            f"No exchange flips the score of {search.target.name!r}, which is {search.score:+.3f}: with everything exchanged "
            f"that may be, the lowest is {search.lowest:+.3f}. Give distractors that score lower, or fix fewer parts."
        )
    return Counterfactual(search.target.name, search.score, tuple(sorted(flips, key=len)), count, search.calls)


class _ExchangeSearch:
    """A search for the smallest exchange: an encoder, an explicand and a target, with a count of forward passes."""

    def __init__(self, encoder: Encoder, explicand: Explicand, target: Target, seed: int) -> None:
        target.check_space(encoder.space)
        self.encoder, self.explicand, self.target, self.seed = encoder, explicand, target, seed
        self.own = encoder.encode([explicand.tensor])[0]
        self.score = float(target.score(self.own[None], self.own)[0])
        self.calls, self.lowest = 1, self.score
        self.grid = _GRID

    def scores(self, prepared: Sequence[Tensor]) -> np.ndarray:
        """Return the scores of prepared inputs, by forward passes."""
        self.calls += len(prepared)
        size = self.encoder.batch_size(self.explicand.tensor)
        parts = [self.encoder.encode(prepared[start : start + size]) for start in range(0, len(prepared), size)]
        scores = self.target.score(torch.cat(parts), self.own)
        values: np.ndarray = scores.detach().double().numpy()
        return values

    def exchange(self, distractors: Any, options: dict[str, Any]) -> Exchange:
        """Return the exchange with distractors, the lowest scores first."""
        kind = exchange_type(self.encoder.inputs, self.explicand)
        for name in options:
            if name not in kind.options:
                known = ", ".join(kind.options)
                raise TypeError(f"Counterfactuals of this kind of input take {known}. Got {name!r} instead.")
        grid = options.get("grid", _GRID)
        self.grid = (grid, grid) if isinstance(grid, int) else tuple(grid)
        options = {**options, "grid": self.grid} if "grid" in kind.options else options
        none = distractors is None or (isinstance(distractors, list | tuple) and not distractors)
        items = [] if none else self.encoder.as_list(distractors)
        offered = []
        for index, item in enumerate(items):
            with naming_input(index, "Distractor"):
                distractor = self.encoder.explicand(item)
                if kind.one_shape and distractor.tensor.shape != self.explicand.tensor.shape:
                    shapes = f"{list(distractor.tensor.shape)} but the input {list(self.explicand.tensor.shape)}"
                    raise ValueError(
                        f"It has shape {shapes}; parts are exchanged between inputs of one shape. Cut or resize them alike, "
                        "as the encoder's preprocess= can."
                    )
                offered.append(distractor)
        if offered:
            scores = self.scores([distractor.tensor for distractor in offered])
            offered = [offered[index] for index in np.argsort(scores, kind="stable")]
        return kind(self.encoder.inputs, self.explicand, offered, self.importance, **options)

    def importance(self, explicand: Explicand) -> Tensor:
        """Return how much each part of an input raises the score, from a short run of KernelShap."""
        parts = explicand.shape[0] if len(explicand.shape) == 1 else self.grid[0] * self.grid[1]
        method = KernelShap(samples=max(4 * parts, 16), grid=self.grid, seed=self.seed)
        run = method.run(self.encoder, explicand, progress=False)
        self.calls += len(run) + len(run.anchors)
        attribution = run.explain(self.target)
        assert attribution.features is not None
        return attribution.features

    def single_changes(self, exchange: Exchange) -> np.ndarray:
        """Return the score after every offer alone, ``[parts, offers]``; infinite where there is none."""
        places = np.argwhere(exchange.offered)
        choices = np.zeros((len(places), len(exchange.names)), int)
        choices[np.arange(len(places)), places[:, 0]] = places[:, 1] + 1
        scores = np.full(exchange.offered.shape, np.inf)
        if len(places):
            scores[tuple(places.T)] = self.chosen(exchange, choices)
        return scores

    def chosen(self, exchange: Exchange, choices: np.ndarray) -> np.ndarray:
        """Return the scores of choices; impossible choices have the score of the explicand."""
        possible = exchange.possible(choices)
        scores = np.full(len(choices), self.score)
        if possible.any():
            scores[possible] = self.scores(exchange.made(choices[possible]))
            self.lowest = min(self.lowest, float(scores.min()))  # of exchanges, not of distractors
        return scores

    def smallest(self, exchange: Exchange, offers: np.ndarray, allowed: np.ndarray, calls: int | None) -> Flip | None:
        """Return the smallest change of allowed parts that flips the score; None if there is none."""
        best = np.where(allowed, offers.argmin(1) + 1, 0)
        arranged = [np.where(allowed, choice, 0) for choice in exchange.same_offer_choices()]
        begun = [self._prefixes(exchange, offers, choice) for choice in [best, *arranged] if choice.any()]
        if not begun:
            return None
        # The arrangement that flips the score with the fewest of its most effective parts.
        choice, sets, scores = min(begun, key=lambda each: (_soonest(each[1], each[2]), each[2].min()))
        search = SmallestSetSearch(
            lambda changed: _gains(self.chosen(exchange, changed * choice)),
            sets,
            _gains(scores),
            max(60, 4 * len(choice)) if calls is None else calls,
            choice > 0,
        )
        found = search.smallest()
        if found is None:
            return None
        found, irreducible = search.reduced(found, always=calls is None)
        flipped = found.astype(int) * choice
        exchange = exchange.closer(flipped, lambda made: self.scores(made) < 0)
        score = float(self.chosen(exchange, flipped[None])[0])
        return Flip(tuple(exchange.changes(flipped)), score, exchange.outcome(flipped), flipped, exchange, irreducible)

    def _prefixes(
        self, exchange: Exchange, offers: np.ndarray, choice: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return an arrangement with sets of its parts and their scores: each part alone, and growing sets of the best."""
        parts = np.flatnonzero(choice)
        alone = offers[parts, choice[parts] - 1]
        order = parts[np.argsort(alone, kind="stable")]
        sizes = np.unique(np.geomspace(2, len(parts), 8).round().astype(int)) if len(parts) > 1 else np.zeros(0, int)
        sets = np.zeros((1 + len(parts) + len(sizes), len(choice)), np.uint8)
        sets[1 + np.arange(len(parts)), parts] = 1
        for row, size in enumerate(sizes, start=1 + len(parts)):
            sets[row, order[:size]] = 1
        longer = self.chosen(exchange, sets[1 + len(parts) :] * choice) if len(sizes) else np.zeros(0)
        return choice, sets, np.concatenate([[self.score], alone, longer])


def _gains(scores: np.ndarray) -> np.ndarray:
    """Return how far scores lie below 0; a score of 0 has not flipped."""
    return np.where(scores == 0, -np.finfo(float).tiny, -scores)


def _soonest(sets: np.ndarray, scores: np.ndarray) -> int:
    """Return the size of the smallest set that flips the score; one more than there are parts if none does."""
    return int(sets[scores < 0].sum(1).min()) if (scores < 0).any() else sets.shape[1] + 1
