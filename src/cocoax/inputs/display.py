"""Displays: what a person sees of an input, as plain data that views are made of and that files keep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from cocoax.show import WHOLE, Bars, Box, Effects, HeatMap, Paragraph, Photo, View

DISPLAYS: dict[str, type[Display]] = {}
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
        before, now = (f"{other.__module__}.{other.__qualname__}" for other in (DISPLAYS.get(kind, cls), cls))
        if before != now:  # defined again, as in a notebook, a class may replace itself
            raise TypeError(f"Two displays are of the kind {kind!r}: {before} and {now}; give yours another one.")
        DISPLAYS[kind] = cls

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
    if kind not in DISPLAYS:
        raise ValueError(
            f"The file shows a kind of input called {kind!r}, which is not known here; import the module that defines it."
        )
    own = {name.removeprefix("display_"): tensor for name, tensor in tensors.items() if name.startswith("display_")}
    return DISPLAYS[kind].restored(own, header)
