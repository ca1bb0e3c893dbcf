"""Kinds of input: what every one of them must know."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from inspect import isgeneratorfunction
from pathlib import Path
from textwrap import shorten
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from cocoax.checks import check_kind, check_plain
from cocoax.inputs.explicand import Explicand
from cocoax.store import digest

# Elements of a batch on a CPU: measured, larger ones leave the caches and take up to twice as long per image.
_CPU_BATCH = 640_000
_MAX_BATCH_ELEMENTS = 1_000_000_000  # of any batch
_MAX_INPUT_ELEMENTS = 400_000_000  # elements of one input, four times the pixels of the largest picture

Fitted = TypeVar("Fitted", covariant=True)


def check_batch(batch: Tensor) -> None:
    """Raise unless a batch is plain numbers, and no more than memory holds."""
    check_plain(batch)
    if batch.numel() > _MAX_BATCH_ELEMENTS:
        raise ValueError(f"A batch {list(batch.shape)} has too many elements; the most is {_MAX_BATCH_ELEMENTS}.")


def check_elements(item: Any) -> None:
    """Raise if an array or a tensor has more elements than any input; its values are not read."""
    if isinstance(item, Tensor | np.ndarray) and math.prod(item.shape) > _MAX_INPUT_ELEMENTS:
        raise ValueError(
            f"The input has {math.prod(item.shape)} elements, more than the {_MAX_INPUT_ELEMENTS} of the largest picture."
        )


def plural(noun: str) -> str:
    """Return what several are called; nouns in -s stay: one series, two series; a melody, two melodies."""
    if noun.endswith("s"):
        return noun
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou") else f"{noun}s"


class Fitting(Protocol[Fitted]):
    """An object that can be fitted to a kind of input: a removal."""

    def ready(self, inputs: Any) -> Fitted:
        """Fill in what only the kind of input knows."""

    def embedded(self, inputs: Any) -> Fitted:
        """Fill in the same for the embeddings that stand for an input."""


class Inputs(ABC):
    """A kind of input.

    It reads what users hold, prepares the tensor that a module takes, says what the features are, what may replace a removed
    one, and how explanations are shown. An encoder is a module and a kind of input.

    Attributes:
        encoder: the name of the encoder it belongs to, for sentences.
        noun: what one input is called; ``nouns`` what several are.
        hint: what to check where the module itself fails on an input.
        continuous: whether the tensor holds numbers to be blended, and that gradients can be taken of; token ids do not.
        removals: class names of the removals that make sense, see :mod:`cocoax.masking`.
        removal_names: those that can be asked for by a string, as in ``baseline="mask"``.
        advice: what to write as ``baseline=``.
        feature_kind: which of :data:`cocoax.inputs.features.FEATURES` its inputs can be divided into.
        any_shape: whether prepared inputs differ in shape; those of one shape then form a batch.
        padded: whether :meth:`collate` pads prepared inputs to the longest, so that those of similar length belong together.

    """

    encoder: str = "the encoder"
    noun: ClassVar[str] = "input"
    hint: ClassVar[str] = "Check the shape of the inputs that it expects."
    continuous: ClassVar[bool] = True
    removals: ClassVar[tuple[str, ...]] = ("Constant", "Mean", "Noise", "Fixed", "Background")
    removal_names: ClassVar[tuple[str, ...]] = ()
    feature_kind: ClassVar[str] = ""
    any_shape: bool = False
    padded: ClassVar[bool] = False
    advice: ClassVar[str] = "Write baseline=cocoax.Constant(0.0), or give an input to put in place."

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if isgeneratorfunction(cls.each):
            raise TypeError(f"{cls.__name__}.each must return an iterator and a count; write a generator as 'many' instead.")

    def __repr__(self) -> str:
        options = [f"{name}={value!r}" for name, value in vars(self).items() if isinstance(value, str | int | float | tuple)]
        return f"{type(self).__name__}({', '.join(shorten(option, 60, placeholder='…') for option in options)})"

    # --- what users hold ------------------------------------------------------------------------------------------------

    @abstractmethod
    def is_one(self, inputs: object) -> bool:
        """Whether this is one input rather than many."""

    def many(self, inputs: Any) -> Iterable[Any]:
        """Return many inputs as something to go through, such as a list or a generator; by default what an iterable gives.

        For kinds of which a folder or a data frame holds many.
        """
        if isinstance(inputs, str) or not isinstance(inputs, Iterable) or getattr(inputs, "ndim", None) == 0:
            raise TypeError(f"Inputs must be one {self.noun} or an iterable of them. Got {type(inputs).__name__} instead.")
        return inputs

    def each(self, inputs: Any) -> tuple[Iterator[Any], int | None]:
        """Return inputs one by one, of one or of many, and how many there are if that is known."""
        items = [inputs] if self.is_one(inputs) else self.many(inputs)
        return iter(items), len(items) if isinstance(items, Sized) else None

    @abstractmethod
    def prepare(self, item: Any) -> Tensor:
        """Return one input as the tensor that the module takes; an :class:`Explicand` has it."""

    @abstractmethod
    def explicand(self, item: Any) -> Explicand:
        """Return one input made ready to be explained; an :class:`Explicand` as it is."""

    def checked_explicand(self, item: Any) -> Explicand:
        """Return the explicand of one input, looked at, and as methods hold it: on the CPU, in single precision."""
        explicand = self.explicand(item)
        check_kind(f"{type(self).__name__}.explicand", explicand, Explicand, "must return a cocoax.Explicand")
        explicand.check()
        if self.continuous and not explicand.tensor.is_floating_point():
            raise TypeError(
                f"A {self.noun} must be prepared as a tensor of floats, or removed features could not be blended; let "
                f"{type(self).__name__}.prepare return tensor.float(). Got {explicand.tensor.dtype} instead."
            )
        return explicand.normalised()

    def whole(self, takes: Callable[[Sequence[tuple[int, ...]]], bool], patch: int) -> Inputs:
        """Return the same kind, of whose inputs all is explained; by default that is so.

        ``takes`` says whether the module gives comparable representations of tensors of these shapes, and ``patch`` what the
        sides of those should be multiples of.
        """
        return self

    def cropped(self) -> Inputs:
        """Return the same kind, of whose inputs only what the preprocessing leaves is explained; by default that is so."""
        return self

    # --- what the module takes ------------------------------------------------------------------------------------------

    def collate(self, prepared: Sequence[Tensor] | Tensor, like: Tensor) -> Any:
        """Return prepared inputs as one batch, on the device and in the precision of ``like``: a tensor or a dict of them."""
        batch = prepared if isinstance(prepared, Tensor) else torch.stack([tensor.detach() for tensor in prepared])
        check_batch(batch)
        return batch.to(like.device, like.dtype)

    def to_module(self, batch: Any) -> Any:
        """Return a collated batch in the form in which the module itself takes it."""
        return batch

    def default_batch_size(self, tensor: Tensor, on_cpu: bool) -> int:
        """Return how many inputs like this one are encoded at a time; it depends on their size alone."""
        most, elements = (64, _CPU_BATCH) if on_cpu else (512, 100 * _CPU_BATCH)
        return max(1, min(most, elements // tensor.numel()))

    # --- what it is -----------------------------------------------------------------------------------------------------

    @property
    def settings(self) -> tuple[object, ...]:
        """The options that a representation depends on, beside the module: those of the preprocessing."""
        return ()

    @property
    def space_settings(self) -> tuple[object, ...]:
        """Those of the settings that make another representation space."""
        return self.settings

    @property
    def view_settings(self) -> tuple[object, ...]:
        """The options that explicands depend on beyond the settings: the part of an input that is explained."""
        return ()

    def probe(self) -> Tensor | None:
        """Return a small fixed prepared input, by whose representation encoders are identified; None by default.

        It depends on nothing but :attr:`space_settings`. Without one, noise of the shape of the first input is taken.
        """
        return None

    def digest(self, item: Any) -> str:
        """Return a digest of one input's content."""
        return digest(item)

    def label(self, item: Any) -> str:
        """Return what to call one input: the name of its file without the ending, or the noun."""
        return Path(item).stem if isinstance(item, str | Path) else self.noun

    @property
    def nouns(self) -> str:
        """What several inputs are called; a kind whose noun has another plural says so."""
        return plural(self.noun)

    def set_label(self, labels: Sequence[str], count: int) -> str:
        """Return what to call a set of ``count`` inputs: up to three names, or how many; ``labels`` are of the first."""
        together = ", ".join(labels)
        if count <= 3 and len(labels) == count and self.noun not in labels and (count == 1 or len(together) <= 40):
            return together
        return f"{count} {self.noun if count == 1 else self.nouns}"

    def unknown_words(self, text: str) -> str:
        """Return a sentence about the words of a text that share the encoder's unknown token; empty if there are none."""
        return ""

    # --- features, and what removing one means ----------------------------------------------------------------------------

    chosen_features: Any = None  # what all inputs are divided into, if the kind was told that
    default_features: Any = None  # of removal methods, for pixels

    def by(self, features: Any) -> Inputs:
        """Return the same kind whose inputs are divided into these features."""
        other = copy.copy(self)
        other.chosen_features = features
        return other

    @property
    def default_removal(self) -> str | Fitting[Any]:
        """The removal that is used unless another is asked for, or its class name if it is one of ours."""
        return self.removals[0]

    def with_baseline(self, removal: Fitting[Any]) -> Inputs:
        """Return the same kind with this as its default removal; pictures alone offer a choice, others stay as they are."""
        return self

    @property
    def removes_by_default(self) -> bool:
        """Whether there is such a removal without anything that a user must give."""
        return True

    def fit(self, removal: Fitting[Fitted]) -> Fitted:
        """Return the removal with what only this kind of input knows filled in."""
        return removal.ready(self)


@contextmanager
def naming_input(index: int, what: str = "Input") -> Iterator[None]:
    """Let an error about an input say which one it is: "Input 3: …"."""
    try:
        yield
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        kind = next((kind for kind in (FileNotFoundError, TypeError) if isinstance(error, kind)), ValueError)
        missing = getattr(error, "filename", None) if kind is FileNotFoundError else None
        words = str(error) if missing is None else f"No file at {missing}; check the path."  # Python's own is no sentence
        raise kind(f"{what} {index}: {words}") from error
