"""Explicands, inputs made ready to be explained, and their displays: what a person sees of an input.

A display is plain data that views are made of and that files keep.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from cocoax.checks import check_kind, multiplies
from cocoax.inputs.segmentation import MergeTree
from cocoax.show import WHOLE, Bars, Box, Effects, HeatMap, Paragraph, Photo, View

# --- displays -------------------------------------------------------------------------------------------------------------


_DISPLAYS: dict[str, type[Display]] = {}
SMALL = 96  # pixels of the longer side of a small picture


class Display(ABC):
    """The display of an input: its own data, and the views that are made of it.

    A subclass is known to files by its ``kind``; one that has none of its own is to them what its base is.
    """

    kind: ClassVar[str]
    doubt: ClassVar[str] = "Grey"  # how uncertain values are drawn
    at_places: ClassVar[bool] = False  # whether a value is shown at each place that its feature has, as in a picture

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        kind = vars(cls).get("kind")
        if kind is None:
            return
        before, now = (f"{other.__module__}.{other.__qualname__}" for other in (_DISPLAYS.get(kind, cls), cls))
        if before != now:  # defined again, as in a notebook, a class may replace itself
            raise TypeError(f"Two displays are of the kind {kind!r}: {before} and {now}; give yours another one.")
        _DISPLAYS[kind] = cls

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the features, if they have any; pixels do not."""
        return None

    def check_names(self, shape: Sequence[int]) -> None:
        """Raise if it has names of another number of features than values of this shape."""
        if self.names is not None and list(shape) != [len(self.names)]:
            raise ValueError(f"it has names of {len(self.names)} features and values of shape {list(shape)}.")

    @property
    def notes(self) -> Mapping[str, object]:
        """Notes about the input, for the metadata of an attribution."""
        return {}

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings about the input, in sentences."""
        return ()

    @abstractmethod
    def view(self, effects: Effects) -> View:
        """Return effects of features on the input: a heat map, a coloured text, bars, whatever suits."""

    def input_view(self) -> View | None:
        """Return the input alone; None if there is nothing to see."""
        return None

    def parts_view(self, chosen: Tensor | None, title: str) -> View:
        """Return the input with some features marked, ``chosen [*shape]``; None marks none. By default their names."""
        listed = [name for index, name in enumerate(self.names or ()) if chosen is None or bool(chosen[index])]
        return Paragraph("\n".join(listed), title=title)

    def small(self) -> Display:
        """Return a version that takes little room, for collections of thousands; by default it is small enough."""
        return self

    @abstractmethod
    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors and the plain values that :meth:`restored` needs."""

    @classmethod
    @abstractmethod
    def restored(cls, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> Self:
        """Return the display that :meth:`saved` described."""


@dataclass(frozen=True, eq=False)
class Picture(Display):
    """A picture, or nothing but the values where there is none.

    Attributes:
        picture: the original as uint8 ``[h, w, 3]``.
        box: the part of the picture that the values cover: left, top, right, bottom in [0, 1].

    """

    kind = "picture"
    at_places = True
    picture: Tensor | None = field(default=None, repr=False)
    box: Box = WHOLE

    def view(self, effects: Effects) -> HeatMap:
        """Return the heat map over the picture."""
        return HeatMap(effects, None if self.picture is None else self.picture.numpy(), self.box)

    def input_view(self) -> Photo | None:
        """Return the picture in its own colours."""
        return None if self.picture is None else Photo(self.picture.numpy(), title="the photo")

    def parts_view(self, chosen: Tensor | None, title: str) -> Photo:
        """Return the picture, with the chosen pixels outlined and the others faded."""
        picture = np.full((1, 1, 3), 255, np.uint8) if self.picture is None else self.picture.numpy()
        return Photo(picture, self.box, None if chosen is None else chosen.numpy(), title=title)

    def small(self) -> Picture:
        """Return the picture with at most 96 pixels on its longer side."""
        if self.picture is None or max(self.picture.shape[:2]) <= SMALL:
            return self
        image = Image.fromarray(self.picture.numpy())
        image.thumbnail((SMALL, SMALL), Image.Resampling.LANCZOS)
        return Picture(torch.from_numpy(np.array(image)), self.box)

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return picture and box."""
        return {} if self.picture is None else {"picture": self.picture}, {"box": self.box}

    @classmethod
    def restored(cls, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> Self:
        """Return the picture that was saved."""
        left, top, right, bottom = header["box"]
        return cls(tensors.get("picture"), (left, top, right, bottom))


@dataclass(frozen=True, eq=False)
class Names(Display):
    """Features that have names, such as the columns of a table, and perhaps a number each: the row's own ``given``."""

    kind = "names"
    features: tuple[str, ...]
    given: tuple[float, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names."""
        return self.features

    def view(self, effects: Effects) -> Bars:
        """Return bars, the largest first."""
        return Bars(effects, self.features)

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the names and the numbers."""
        return {}, {"names": self.features, "given": self.given}

    @classmethod
    def restored(cls, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> Self:
        """Return the names that were saved."""
        given = header.get("given")
        return cls(tuple(header["names"]), None if given is None else tuple(map(float, given)))


class Displayed:
    """A result with a ``display``, whose attributes can be read here too."""

    display: Display

    @property
    def picture(self) -> Tensor | None:
        """Of an image, the original as uint8 ``[h, w, 3]``."""
        return getattr(self.display, "picture", None)

    @property
    def box(self) -> Box:
        """Of an image, the part of the picture that was seen: left, top, right, bottom in [0, 1]."""
        return getattr(self.display, "box", WHOLE)

    @property
    def names(self) -> tuple[str, ...] | None:
        """Of a list of features, their names: words as they stand in the text, names of columns; None for pixels."""
        return self.display.names

    tokens = names

    @property
    def text(self) -> str | None:
        """Of a text, the original."""
        return getattr(self.display, "text", None)

    @property
    def offsets(self) -> tuple[tuple[int, int], ...] | None:
        """Of a text, where each feature begins and ends in it, so that ``text[begin:end]`` is the feature."""
        return getattr(self.display, "offsets", None)


def save_display(display: Display) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return a display as tensors, whose names begin with ``display_``, and plain values for a file's header."""
    tensors, header = display.saved()
    return {f"display_{name}": tensor for name, tensor in tensors.items()}, {"kind": display.kind, **header}


def load_display(tensors: Mapping[str, Tensor], header: Mapping[str, Any] | None) -> Display:
    """Return the display that :func:`save_display` wrote; raise if a file has none."""
    if header is None:
        raise ValueError(
            "The file was written by another version of Cocoax, which kept inputs in another way; make it again."
        )
    kind = header.get("kind")
    if kind not in _DISPLAYS:
        raise ValueError(
            f"The file shows a kind of input called {kind!r}, which is not known here; import the module that defines it."
        )
    own = {name.removeprefix("display_"): tensor for name, tensor in tensors.items() if name.startswith("display_")}
    return _DISPLAYS[kind].restored(own, header)


# --- explicands -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Explicand(Displayed):
    """An input, ready to be explained: a tensor, the feature that each of its elements belongs to, and how it is shown.

    Attributes:
        tensor: the preprocessed input: an image ``[C, H, W]``, columns ``[1, m]``, the token ids ``[L]`` of a text, a sound
            ``[1, T]``. Explicands are masked after preprocessing.
        display: what is needed to show its attribution.
        feature_ids: the feature that each element belongs to, in the shape of the tensor or of its last dimensions (the
            dimensions before, such as channels, then belong together); -1 for elements that are never removed, such as
            special tokens. None: every place of the tensor (all channels of a pixel) is a feature.
        grid: of a picture whose features are pixels, the cells that methods should take, (rows, columns).
        tree: of a picture whose features are segments, the tree that they are from, which holds finer ones.
        scale: for tensors whose elements have no unit of their own, such as embeddings: what one unit of noise is, for each
            place; 0 for what stays as it is.

    """

    tensor: Tensor
    display: Display = Picture()
    feature_ids: Tensor | None = None
    scale: Tensor | None = None
    grid: tuple[int, int] | None = None
    tree: MergeTree | None = None

    def __post_init__(self) -> None:
        check_kind("The tensor of an explicand", self.tensor, Tensor, "must be a torch.Tensor")
        if self.feature_ids is not None:
            check_kind("'feature_ids'", self.feature_ids, Tensor, "must be a torch.Tensor of integers")
        feature_ids, whole = self.feature_ids, self.tensor.shape
        if feature_ids is None and len(whole) in (2, 3):
            return
        if feature_ids is None:
            raise ValueError(
                f"An input of shape {list(whole)} needs 'feature_ids', the feature of each of its elements; only images "
                "[C, H, W] and lists [C, m] have a feature at every place."
            )
        if (
            feature_ids.is_floating_point()
            or feature_ids.ndim > len(whole)
            or feature_ids.shape != whole[len(whole) - feature_ids.ndim :]
        ):
            raise ValueError(
                f"'feature_ids' must be integers in the shape {list(whole)} of the tensor, or of its last dimensions. "
                f"Got {feature_ids.dtype} {list(feature_ids.shape)} instead."
            )

    def check(self) -> None:
        """Raise unless its parts fit together: what would otherwise fail, or be silently wrong, in a method later."""
        check_kind("The display of an explicand", self.display, Display, "must be a cocoax.inputs.Display")
        if not hasattr(self.display, "kind"):
            raise TypeError(f"{type(self.display).__name__} needs a 'kind', the name that files know the display by.")
        if self.feature_ids is not None:
            if int(self.feature_ids.min()) < -1:
                raise ValueError(
                    f"'feature_ids' are features from 0 on, and -1 for none. Got {int(self.feature_ids.min())} too."
                )
            counts = torch.bincount(self.feature_ids.flatten() + 1)[1:]
            if len(counts) == 0:
                raise ValueError("All 'feature_ids' of the input are -1, so that there is nothing to remove.")
            absent = (counts == 0).nonzero()[:, 0].tolist()
            if absent:
                raise ValueError(
                    f"'feature_ids' must number the features from 0 without gaps. They go up to {len(counts) - 1}, but "
                    f"{absent[0]} does not occur."
                )
        names = self.names
        if names is not None and len(self.shape) == 1 and len(names) != self.shape[0]:
            raise ValueError(
                f"The display {type(self.display).__name__} has {len(names)} names for {self.shape[0]} features; "
                "'names' must hold one for each."
            )
        if self.scale is not None and not multiplies(self.scale.shape, self.tensor.shape):
            raise ValueError(
                f"'scale' must be of a shape that multiplies with the tensor, {list(self.tensor.shape)}. Got "
                f"{list(self.scale.shape)} instead."
            )

    def __repr__(self) -> str:
        features = " x ".join(map(str, self.shape))
        return f"Explicand({self.display.kind} {list(self.tensor.shape)}, features: {features})"

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of its features: (H, W) for pixels, (m,) for a list of m features."""
        return tuple(self.tensor.shape[1:]) if self.feature_ids is None else (int(self.feature_ids.max()) + 1,)

    def per_feature(self, raw: Tensor) -> Tensor:
        """Turn values of all elements ``[..., *tensor.shape]`` into values of features ``[..., *shape]``.

        A pixel's value is the mean over its channels; that of a word or a segment is the sum over its elements.
        """
        if self.feature_ids is None:
            return raw.mean(-self.tensor.ndim)
        before = raw.ndim - self.tensor.ndim
        others = (
            self.tensor.ndim - self.feature_ids.ndim
        )  # dimensions, such as those of an embedding, that all belong together
        summed = raw.sum(tuple(range(before, before + others))) if others else raw
        summed = summed.flatten(before)
        feature_ids = self.feature_ids.flatten()
        own = feature_ids >= 0
        return summed.new_zeros(*summed.shape[:-1], *self.shape).index_add_(-1, feature_ids[own], summed[..., own])

    @property
    def label_map(self) -> Tensor | None:
        """Of a picture whose features are parts of it, the part that each pixel belongs to, ``[H, W]``; -1 for none.

        None where values are shown for features as they are.
        """
        labels = self.feature_ids
        return labels if labels is not None and labels.ndim == 2 and self.display.at_places else None

    def shown(self, values: Tensor, elsewhere: Tensor | float = 0.0) -> Tensor:
        """Return values of features ``[k, *shape]`` as they are shown: those of parts of a picture at each of their pixels.

        Pixels that belong to no part have the value ``elsewhere``, one or ``[k, 1]``.
        """
        labels = self.label_map
        if labels is None:
            return values
        return torch.cat([values, torch.zeros_like(values[:, :1]) + elsewhere], dim=1)[:, labels]

    def per_part(self, shown: Tensor) -> Tensor:
        """Turn values as they are shown back into values of features: the mean over the pixels of a part."""
        labels = self.label_map
        if labels is None or shown.shape != labels.shape:
            return shown
        own = labels >= 0
        sums = torch.zeros(self.shape, dtype=torch.float64).index_add_(0, labels[own], shown[own].double())
        return sums / torch.bincount(labels[own])

    def elements_kept(self, kept: Tensor) -> Tensor:
        """Turn what is kept of the features ``[n, *shape]`` into what is kept of the elements.

        It has as many dimensions as a batch of tensors ``[n, *tensor.shape]``, and can be multiplied with one: those of
        channels that belong together are 1.
        """
        if self.feature_ids is not None:
            # What is never removed are members of -1, the column of ones that is put at the end.
            always = torch.cat([kept, torch.ones(len(kept), 1, dtype=kept.dtype, device=kept.device)], dim=1)
            kept = always[:, self.feature_ids]
        return kept.reshape(len(kept), *[1] * (self.tensor.ndim + 1 - kept.ndim), *kept.shape[1:])

    def to(self, device: torch.device) -> Explicand:
        """Return the same on a device."""
        parts = (self.tensor, self.feature_ids, self.scale)
        if all(part is None or part.device == device for part in parts):
            return self
        feature_ids, scale = (None if part is None else part.to(device) for part in parts[1:])
        return replace(self, tensor=self.tensor.to(device), feature_ids=feature_ids, scale=scale)

    def normalised(self) -> Explicand:
        """Return the same as methods hold it: single precision on the CPU, no gradients, and not bound to inference mode."""
        explicand = self.to(torch.device("cpu"))
        if explicand.tensor.is_floating_point() and explicand.tensor.dtype != torch.float32:
            explicand = replace(explicand, tensor=explicand.tensor.float())
        if not explicand.tensor.requires_grad and not explicand.tensor.is_inference():
            return explicand
        return explicand.detached_copy()

    def detached_copy(self) -> Explicand:
        """Return the same in memory of its own, which nobody else writes to."""
        return replace(self, tensor=self.tensor.detach().clone())
