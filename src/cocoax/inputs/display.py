"""Displays: what an input looks like to a person, and how its attribution is drawn, listed and kept in a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from cocoax.inputs.drawing import WHOLE, Box, Order, Shown, bars_height, draw_bars, draw_over, image_element
from cocoax.inputs.outlines import draw_outlined, write_on
from cocoax.inputs.tiles import picture_tile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DISPLAYS: dict[str, type[Display]] = {}
SMALL = 96  # pixels of the longer side of a small picture


class Piece(NamedTuple):
    """A piece of a text: its strength from -1 to 1, its value in words if it has one, and whether that is known at all."""

    text: str
    strength: float = 0.0
    label: str = ""
    known: bool = True


class Display(ABC):
    """How inputs of one kind are shown.

    A subclass is known to files by its ``kind``; one that has none of its own is to them what its base is.
    """

    kind: ClassVar[str]
    order: ClassVar[Order] = "given"  # of bars
    doubt: ClassVar[str] = "Hatched"  # how it is shown that a value is not known
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

    @property
    def notes(self) -> Mapping[str, object]:
        """What a reader of an attribution should know about the input; goes to its metadata."""
        return {}

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader should know about the input, in sentences."""
        return ()

    @abstractmethod
    def plot(self, shown: Shown, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw values on the input; return the axes."""

    def draw_input(self, ax: Axes) -> None:
        """Draw the input alone, if there is anything to see."""
        ax.set_axis_off()

    @property
    def draws_input(self) -> bool:
        """Whether :meth:`draw_input` has anything to show."""
        return type(self).draw_input is not Display.draw_input

    def draw_parts(self, ax: Axes, chosen: Tensor | None, title: str) -> None:
        """Draw the input with some of its features marked, ``chosen [*shape]``; None marks none. By default their names."""
        listed = "" if self.names is None else _listed(self.names, chosen)
        write_on(ax, listed, title)

    @property
    def height(self) -> float:
        """How many inches a drawing beside others should have."""
        return 3.3

    @property
    def parts_height(self) -> float:
        """How many inches :meth:`draw_parts` should have: a line for each name, if there are any."""
        return self.height if self.names is None else 1.0 + 0.14 * min(len(self.names), 18)

    def html(self, shown: Shown, limit: float | None = None) -> str:
        """Return the values on the input as an HTML fragment, by default what :meth:`plot` draws.

        Colours end at ``limit``, by default the largest value.
        """
        return image_element(lambda ax: self.plot(shown, ax, limit=limit), shown.name, max(4.0, self.height))

    def tile(self, shown: Shown, limit: float | None = None) -> str:
        """Return the same, small, for pages that show hundreds; by default it is small enough."""
        return self.html(shown, limit)

    def pieces(self, shown: Shown, limit: float | None = None) -> Iterator[Piece]:
        """Go through a text piece by piece."""
        raise ValueError("Only the attribution of a text can be shown as one; draw others with .plot().")

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

    def plot(self, shown: Shown, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the map over the picture; the options are those of :func:`cocoax.plots.overlay`."""
        return draw_over(shown, (self.picture, self.box), ax, **options)

    def tile(self, shown: Shown, limit: float | None = None) -> str:
        """Return a small picture in grey with the map over it."""
        return picture_tile(shown, self.picture, self.box, limit)

    @property
    def height(self) -> float:
        """As many inches as the picture needs in a column of a panel, and those of its title."""
        height, width = (1, 1) if self.picture is None else self.picture.shape[:2]
        return min(max(0.9 + 2.4 * height / width, 2.7), 4.8)

    def draw_input(self, ax: Axes) -> None:
        """Draw the picture in its own colours."""
        if self.picture is not None:
            ax.imshow(self.picture.numpy())
            ax.set_title("input", fontsize=10)
        ax.set_axis_off()

    def draw_parts(self, ax: Axes, chosen: Tensor | None, title: str) -> None:
        """Draw the picture, with the chosen pixels outlined and the others faded."""
        draw_outlined(ax, self.picture, self.box, chosen)
        ax.set_title(title, fontsize=10, parse_math=False)

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
    order = "size"
    features: tuple[str, ...]
    given: tuple[float, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names."""
        return self.features

    def plot(self, shown: Shown, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw bars, the largest first; the options are those of :func:`cocoax.plots.bars`."""
        return draw_bars(shown, self.features, ax, **{"order": self.order, **options})

    @property
    def height(self) -> float:
        """As many inches as the bars take, and at least those of a picture."""
        return max(super().height, 0.9 + bars_height(self.features))

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the names and the numbers."""
        return {}, {"names": self.features, "given": self.given}

    @classmethod
    def restored(cls, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> Self:
        """Return the names that were saved."""
        given = header.get("given")
        return cls(tuple(header["names"]), None if given is None else tuple(map(float, given)))


class Displayed:
    """What has a ``display``; what that knows can be read here too, as far as its kind has it."""

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


def _listed(names: tuple[str, ...], chosen: Tensor | None) -> str:
    """Return the names of chosen features, or of all, one in each line."""
    return "\n".join(name for index, name in enumerate(names) if chosen is None or bool(chosen[index]))


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
