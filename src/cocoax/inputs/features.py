"""Features: which elements of an input are removed together, and share a value.

``features=`` takes the name of one of :data:`FEATURES`, an object of such a class, or what one is made of: a number or
(rows, columns) for a grid, a label map, masks, groups of columns.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from cocoax.checks import as_numbers, check_count, shown
from cocoax.inputs.base import Inputs, plural
from cocoax.inputs.explicand import Explicand, Names
from cocoax.inputs.image import SUFFIXES, picture_of_tensor, read_file
from cocoax.inputs.segmentation import MergeTree, check_grid, check_sides, in_proportion, segment
from cocoax.inputs.sound import Sound
from cocoax.inputs.text import Text
from cocoax.store import digest, files_below

_MAX_FEATURES = 1000  # features of a picture: each needs several masked copies
SEGMENTS = 16  # of a picture, if not told how many
_KEPT = 8  # pictures whose segments are kept in memory
_TREES: OrderedDict[str, MergeTree] = OrderedDict()
_PROPORTIONS_TOLERANCE = 0.02  # relative difference of the proportions of a label map and of the picture


class _HasInputs(Protocol):
    """An encoder, as far as features need one."""

    name: str
    inputs: Inputs

    def inner_maps(self, picture: Tensor) -> list[Tensor]:
        """Return feature maps ``[d, h, w]`` of a prepared picture."""


class Features(ABC):
    """A way to divide inputs of one kind into features.

    Attributes:
        made_for: the kind of input (``Inputs.feature_kind``).

    """

    made_for: ClassVar[str]

    @abstractmethod
    def apply(self, explicand: Explicand, encoder: _HasInputs) -> Explicand:
        """Return the explicand with these features: ``feature_ids``, and a display with their names if they have any."""


# --- pictures ---------------------------------------------------------------------------------------------------------------


class PictureFeatures(Features):
    """Features of a picture."""

    made_for = "image"


@dataclass(frozen=True)
class Segments(PictureFeatures):
    """Connected parts that follow things: superpixels, merged by colour and by the encoder's own feature maps.

    Args:
        count: how many; fewer where the picture does not have so many superpixels, which are about 200.

    """

    count: int = SEGMENTS

    def __post_init__(self) -> None:
        check_count("count", self.count, 2, _MAX_FEATURES)

    def apply(self, explicand: Explicand, encoder: _HasInputs) -> Explicand:
        """Return the picture with its segments as features."""
        tree = _merge_tree(picture_seen(explicand), encoder.inner_maps(explicand.tensor))
        return replace(explicand, feature_ids=tree.labels(tree.parts(self.count)), grid=None, tree=tree)


@dataclass(frozen=True)
class Grid(PictureFeatures):
    """Cells of a grid; smooth and shifted at random for :class:`cocoax.Rise`, rectangles for other methods.

    Args:
        cells: (rows, columns), or a number: about its square in the proportions of the picture.

    """

    cells: int | tuple[int, int] = 7

    def __post_init__(self) -> None:
        check_sides(self.cells)

    def apply(self, explicand: Explicand, encoder: _HasInputs) -> Explicand:
        """Return the picture with the grid that methods should take."""
        height, width = explicand.tensor.shape[-2:]
        cells = in_proportion(int(self.cells), height, width) if isinstance(self.cells, Integral) else self.cells
        return replace(explicand, feature_ids=None, grid=check_grid(height, width, cells), tree=None)


@dataclass(frozen=True, eq=False)
class LabelMap(PictureFeatures):
    """Parts of a picture by the number of each pixel; below 0: never removed. Gaps between the numbers are closed.

    Args:
        labels: integers ``[H, W]`` in the size that the encoder sees, or in the proportions of the whole picture.

    """

    labels: Tensor | np.ndarray

    def __post_init__(self) -> None:
        labels = as_numbers("A label map", self.labels)
        if labels.ndim != 2 or labels.is_floating_point() or labels.numel() == 0:
            raise ValueError(
                f"A label map must be integers [H, W]. Got {labels.dtype} {list(labels.shape)} instead; masks [n, H, W] are "
                "booleans."
            )
        object.__setattr__(self, "labels", labels.long())

    def apply(self, explicand: Explicand, encoder: _HasInputs) -> Explicand:
        """Return the picture with its parts as features."""
        assert isinstance(self.labels, Tensor)
        labels = _as_seen(self.labels, explicand)
        numbers = torch.unique(labels[labels >= 0])
        if not len(numbers) + bool((labels < 0).any()) >= 2 or len(numbers) == 0:
            raise ValueError(
                "The label map or masks make a single part of what the encoder sees of the picture, so that there is nothing "
                "to compare. Give at least two parts."
            )
        if len(numbers) > _MAX_FEATURES:
            raise ValueError(
                f"The label map or masks make {len(numbers)} parts, more than {_MAX_FEATURES}, of which each needs several "
                "masked copies; merge some, or use features=Segments(40)."
            )
        places = torch.searchsorted(numbers, labels.clamp(min=int(numbers[0])))
        return replace(explicand, feature_ids=torch.where(labels >= 0, places, -1), grid=None, tree=None)


@dataclass(frozen=True, eq=False)
class MaskStack(PictureFeatures):
    """Parts of a picture by masks, as SAM gives them.

    A pixel under several masks belongs to the smallest, so that what lies in front of something larger is a part of its own.
    Pixels under none are one more part together. Masks of which no pixel is left are left out.

    Args:
        masks: booleans ``[n, H, W]`` (or a list of them, or of dicts that have one as ``"segmentation"``), in the size that
            the encoder sees, or in the proportions of the whole picture.

    """

    masks: Tensor | np.ndarray | Sequence[Any] = field(repr=False)

    def __post_init__(self) -> None:
        given: Any = self.masks
        if not isinstance(given, Tensor | np.ndarray):
            listed = [one["segmentation"] if isinstance(one, Mapping) else one for one in given]
            if not listed:
                raise ValueError("There are 0 masks; give at least one.")
            if any(isinstance(one, Mapping) for one in listed):
                raise ValueError("Masks as run lengths are not read; decode them by pycocotools.mask.decode(…) first.")
            shapes = {tuple(np.shape(one)) for one in listed}
            if len(shapes) > 1:
                raise ValueError(
                    f"Masks must be of one size. Got {' and '.join(str(list(one)) for one in sorted(shapes)[:2])}."
                )
            given = np.stack([np.asarray(one) for one in listed])
        masks = as_numbers("Masks", given)
        if masks.ndim != 3 or len(masks) == 0 or masks.shape[1] * masks.shape[2] == 0:
            raise ValueError(f"Masks must be at least one, booleans [n, H, W]. Got shape {list(masks.shape)} instead.")
        object.__setattr__(self, "masks", masks > 0)

    @classmethod
    def read(cls, folder: Path) -> MaskStack:
        """Return the masks that are the pictures of a folder, each white (or not black) where its part is."""
        files = files_below(folder, SUFFIXES)
        if not files:
            raise ValueError(f"No masks in {folder}; expected a picture for each, such as 0.png.")
        return cls([read_file(file, lambda image: np.asarray(image.convert("L"))) > 127 for file in files])

    def apply(self, explicand: Explicand, encoder: _HasInputs) -> Explicand:
        """Return the picture with its parts as features."""
        masks = self.masks
        assert isinstance(masks, Tensor)
        order = torch.argsort(masks.flatten(1).sum(1), descending=True, stable=True)
        labels = torch.full(masks.shape[1:], len(masks))
        for number in order.tolist():
            labels[masks[number]] = number
        return LabelMap(labels).apply(explicand, encoder)


def _merge_tree(picture: Tensor, maps: Sequence[Tensor]) -> MergeTree:
    """Return the tree of merges of a picture; those of the last pictures are kept."""
    key = digest(picture, *maps)
    tree = _TREES.get(key)
    if tree is None:
        tree = _TREES[key] = segment(picture, maps)
        while len(_TREES) > _KEPT:
            _TREES.popitem(last=False)
    return tree


def picture_seen(explicand: Explicand) -> Tensor:
    """Return what the encoder sees as a picture, uint8 ``[H, W, 3]`` in the size of the tensor."""
    height, width = explicand.tensor.shape[-2:]
    if explicand.picture is None:
        return picture_of_tensor(explicand.tensor)
    across, down = explicand.picture.shape[1], explicand.picture.shape[0]
    left, top, right, bottom = explicand.box
    image = Image.fromarray(explicand.picture.numpy())
    box = (left * across, top * down, right * across, bottom * down)
    return torch.from_numpy(
        np.array(image.transform((width, height), Image.Transform.EXTENT, box, Image.Resampling.BILINEAR))
    )


def _as_seen(labels: Tensor, explicand: Explicand) -> Tensor:
    """Return a label map in the size of the tensor, of the part of the picture that it shows; raise if it does not fit."""
    height, width = explicand.tensor.shape[-2:]
    if labels.shape == (height, width):
        return labels
    picture = (height, width) if explicand.picture is None else tuple(explicand.picture.shape[:2])
    proportions = labels.shape[1] / labels.shape[0] / (picture[1] / picture[0])
    if not 1 - _PROPORTIONS_TOLERANCE <= proportions <= 1 + _PROPORTIONS_TOLERANCE:
        raise ValueError(
            f"A label map or masks of {labels.shape[0]} x {labels.shape[1]} (height x width) fit neither the {height} x "
            f"{width} that the encoder sees nor the proportions of the picture, {picture[0]} x {picture[1]}. Make them in "
            "one of these sizes."
        )
    left, top, right, bottom = explicand.box
    rows = ((top + (bottom - top) * (torch.arange(height) + 0.5) / height) * labels.shape[0]).long()
    columns = ((left + (right - left) * (torch.arange(width) + 0.5) / width) * labels.shape[1]).long()
    return labels[rows.clamp(0, labels.shape[0] - 1)][:, columns.clamp(0, labels.shape[1] - 1)]


# --- texts, tables, sounds --------------------------------------------------------------------------------------------------


class TextFeatures(Features):
    """Parts of a text: what the class is called."""

    made_for = "text"
    name: ClassVar[str]

    def apply(self, explicand: Explicand, encoder: _HasInputs) -> Explicand:
        """Return the text with these parts as features."""
        if not isinstance(explicand.display, Text) or not hasattr(encoder.inputs, "features"):
            raise ValueError(f"Only a text is made of {self.name}. Got {explicand!r} instead.")
        inputs: Any = copy.copy(encoder.inputs)
        inputs.features = self.name
        divided: Explicand = inputs.explicand(explicand.display.text)
        return divided


class Words(TextFeatures):
    """Words and punctuation marks."""

    name = "words"


class Tokens(TextFeatures):
    """The tokenizer's tokens."""

    name = "tokens"


class Sentences(TextFeatures):
    """Sentences, by their punctuation."""

    name = "sentences"


class Paragraphs(TextFeatures):
    """Paragraphs, by empty lines; of a text without any, its lines."""

    name = "paragraphs"


@dataclass(frozen=True)
class Columns(Features):
    """Columns of a table, one by one or in groups.

    Args:
        groups: of column names; of a dict, the keys are the groups' names. Columns in none are features of their own.

    """

    made_for = "row"
    groups: Mapping[str, Sequence[str]] | Sequence[Sequence[str]] = ()

    def apply(self, explicand: Explicand, encoder: _HasInputs) -> Explicand:
        """Return the row with groups of columns as features."""
        columns = tuple(getattr(encoder.inputs, "columns", ()))
        if not columns or explicand.tensor.shape[-1] != len(columns):
            raise ValueError(f"Groups of columns are for rows of a table. Got {explicand!r} instead.")
        if not self.groups:
            return explicand
        named = dict(self.groups) if isinstance(self.groups, Mapping) else {" + ".join(group): group for group in self.groups}
        group_of: dict[str, str] = {}
        for name, members in named.items():
            for column in [members] if isinstance(members, str) else members:
                if column not in columns:
                    raise ValueError(f"No column is called {column!r}; the columns are {', '.join(columns[:6])}…")
                if column in group_of:
                    raise ValueError(f"The column {column!r} is in two groups, {group_of[column]!r} and {name!r}; leave one.")
                group_of[column] = name
        names = list(dict.fromkeys(group_of.get(column, column) for column in columns))
        if len(names) == 1:
            raise ValueError("All columns are in one group, so that there is nothing to compare; make at least two.")
        numbers = torch.tensor([names.index(group_of.get(column, column)) for column in columns])
        return replace(explicand, display=Names(tuple(names)), feature_ids=numbers)


@dataclass(frozen=True)
class SoundSegments(Features):
    """Segments of time, of equal length (times the bands of an encoder of cells).

    Args:
        count: how many; by default those of the encoder.

    """

    made_for = "sound"
    count: int | None = None

    def __post_init__(self) -> None:
        if self.count is not None:
            check_count("count", self.count, 2)

    def apply(self, explicand: Explicand, encoder: _HasInputs) -> Explicand:
        """Return the sound with its segments as features."""
        shown, steps = explicand.display, explicand.tensor.shape[-1]
        if not isinstance(shown, Sound):
            raise ValueError(f"Only a sound has segments of time. Got {explicand!r} instead.")
        count = shown.segments if self.count is None else self.count
        if count > steps:
            raise ValueError(f"The sound is too short for {count} segments; ask for at most {steps}.")
        members = torch.arange(steps) * count // steps
        if shown.bands > 1:
            rows = explicand.tensor.shape[-2]
            members = members * shown.bands + (torch.arange(rows) * shown.bands // rows)[:, None]
        return replace(explicand, display=replace(shown, segments=count), feature_ids=members)


# --- by name ----------------------------------------------------------------------------------------------------------------

FEATURES: dict[str, dict[str, type[Features]]] = {
    "image": {"segments": Segments, "grid": Grid},
    "text": {"words": Words, "tokens": Tokens, "sentences": Sentences, "paragraphs": Paragraphs},
    "row": {"columns": Columns},
    "sound": {"segments": SoundSegments},
}


class OtherKindError(ValueError):
    """Features that a kind of input does not have."""


def features_of(asked: Any, inputs: Inputs) -> Features:
    """Return the features that an option ``features=`` means for a kind of input; raise if there are no such."""
    known = FEATURES.get(inputs.feature_kind, {})
    if isinstance(asked, Features):
        found = asked
    elif isinstance(asked, type) and issubclass(asked, Features):
        raise TypeError(f"The 'features' parameter takes an object: write {asked.__name__}().")
    elif isinstance(asked, str) and asked in known:
        found = known[asked]()
    else:
        found = _made(asked, inputs)
    if found.made_for != inputs.feature_kind:
        raise OtherKindError(
            f"{type(found).__name__} are features of {plural(found.made_for)}, and {inputs.encoder!r} takes "
            f"{inputs.nouns}. {_offered(inputs)}"
        )
    return found


def features_by_kind(asked: Any, kinds: Iterable[Inputs]) -> dict[str, Features]:
    """Return what ``features=`` means for those of several kinds of input that have such; raise if none has."""
    found: dict[str, Features] = {}
    refused: list[OtherKindError] = []
    for inputs in {inputs.feature_kind: inputs for inputs in kinds}.values():
        try:
            found[inputs.feature_kind] = features_of(asked, inputs)
        except OtherKindError as error:
            refused.append(error)
    if not found:
        raise refused[0]
    return found


def _made(asked: Any, inputs: Inputs) -> Features:
    """Return features of what they are made of."""
    is_name = isinstance(asked, str) and any(asked in names for names in FEATURES.values())  # and no file
    if inputs.feature_kind == "image" and not is_name:
        if (isinstance(asked, Integral) and not isinstance(asked, bool)) or _is_pair(asked):
            return Grid(int(asked) if isinstance(asked, Integral) else tuple(asked))
        if isinstance(asked, str | Path) and Path(asked).is_dir():
            return MaskStack.read(Path(asked))
        if isinstance(asked, str | Path) and Path(asked).suffix.lower() in SUFFIXES:
            if not Path(asked).is_file():
                raise FileNotFoundError(f"No label map at {asked}; check the path.")
            return LabelMap(read_file(Path(asked), np.array))
        if isinstance(asked, Path):
            raise FileNotFoundError(f"No folder of masks at {asked}; check the path.")
        if isinstance(asked, Tensor | np.ndarray):
            return LabelMap(asked) if asked.ndim == 2 else MaskStack(asked)
        if isinstance(asked, list | tuple):
            return MaskStack(asked)
    if inputs.feature_kind == "row" and isinstance(asked, Mapping | list | tuple):
        return Columns(asked)
    if inputs.feature_kind == "sound" and isinstance(asked, Integral):
        return SoundSegments(int(asked))
    raise OtherKindError(f"The 'features' parameter does not take {shown(asked)} here. {_offered(inputs)}")


def _is_pair(asked: Any) -> bool:
    return isinstance(asked, list | tuple) and len(asked) == 2 and all(isinstance(side, Integral) for side in asked)


def _offered(inputs: Inputs) -> str:
    """Return a sentence about what may be asked for."""
    names = [repr(name) for name in FEATURES.get(inputs.feature_kind, {})]
    made = {
        "image": "Segments(20), a grid as 7 or (5, 8), a label map [H, W], masks [n, H, W] or a folder of them",
        "row": "a dict or list of groups of columns",
        "sound": "the number of segments",
    }.get(inputs.feature_kind)
    offered = [*names, *([made] if made else [])]
    if not offered:
        return f"A {inputs.noun} has the features of its kind; leave 'features' out, or give a cocoax.inputs.Features."
    return f"For {inputs.nouns} it takes {', '.join(offered)}."
