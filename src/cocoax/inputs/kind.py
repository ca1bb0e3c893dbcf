"""Kinds of input: what every one of them must know."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor

from cocoax.checks import check_plain
from cocoax.inputs.explicand import Explicand
from cocoax.storage import digest

# Elements of a batch on a CPU: measured, larger ones leave the caches and take up to twice as long per image.
CPU_BATCH = 640_000
_MOST_ELEMENTS = 1_000_000_000  # of any batch

Fitted = TypeVar("Fitted", covariant=True)


def check_batch(batch: Tensor) -> None:
    """Raise unless a batch is plain numbers, and no more than memory holds."""
    check_plain(batch)
    if batch.numel() > _MOST_ELEMENTS:
        raise ValueError(f"A batch {list(batch.shape)} has too many elements; the most is {_MOST_ELEMENTS}.")


class Fitting(Protocol[Fitted]):
    """What can be fitted to a kind of input: a removal."""

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
        noun: what one input is called.
        hint: what to check where the module itself fails on an input.
        continuous: whether the tensor holds numbers to be blended, and that gradients can be taken of; token ids do not.
        removals: class names of the removals that make sense, see :mod:`cocoax.features`.
        removal_names: those that can be asked for by a string, as in ``baseline="mask"``.
        advice: what to write as ``baseline=``.
        any_shape: whether prepared inputs differ in shape; those of one shape then form a batch.

    """

    encoder: str = "the encoder"
    noun: ClassVar[str] = "input"
    hint: ClassVar[str] = "Check the shape of the inputs that it expects."
    continuous: ClassVar[bool] = True
    removals: ClassVar[tuple[str, ...]] = ("Constant", "Mean", "Noise", "Fixed")
    removal_names: ClassVar[tuple[str, ...]] = ()
    any_shape: bool = False
    advice: ClassVar[str] = "Write baseline=cocoax.Constant(0.0), or give an input to put in place."

    # --- what users hold ------------------------------------------------------------------------------------------------

    @abstractmethod
    def is_one(self, inputs: object) -> bool:
        """Whether this is one input rather than many."""

    def each(self, inputs: Any) -> tuple[Iterator[Any], int | None]:
        """Return inputs one by one, of one or of many, and how many there are if that is known."""
        if self.is_one(inputs):
            inputs = [inputs]
        elif not isinstance(inputs, Iterable):
            raise TypeError(f"Inputs must be one {self.noun} or an iterable of them. Got {type(inputs).__name__} instead.")
        if getattr(inputs, "ndim", None) == 0:
            raise TypeError(f"Inputs must be one {self.noun} or an iterable of them. Got a single number instead.")
        return iter(inputs), len(inputs) if hasattr(inputs, "__len__") else None

    @abstractmethod
    def prepare(self, item: Any) -> Tensor:
        """Return one input as the tensor that the module takes; an :class:`Explicand` has it."""

    @abstractmethod
    def explicand(self, item: Any) -> Explicand:
        """Return one input made ready to be explained; an :class:`Explicand` as it is."""

    # --- what the module takes ------------------------------------------------------------------------------------------

    def collate(self, prepared: Sequence[Tensor] | Tensor, like: Tensor) -> Any:
        """Return prepared inputs as one batch, on the device and in the precision of ``like``: a tensor or a dict of them."""
        batch = prepared if isinstance(prepared, Tensor) else torch.stack([tensor.detach() for tensor in prepared])
        check_batch(batch)
        return batch.to(like.device, like.dtype)

    def to_module(self, batch: Any) -> Any:
        """Return a collated batch in the form in which the module itself takes it."""
        return batch

    def at_once(self, tensor: Tensor, on_cpu: bool) -> int:
        """Return how many inputs like this one are encoded at a time; it depends on their size alone."""
        most, elements = (64, CPU_BATCH) if on_cpu else (512, 100 * CPU_BATCH)
        return max(1, min(most, elements // tensor.numel()))

    # --- what it is -----------------------------------------------------------------------------------------------------

    @property
    def settings(self) -> tuple[object, ...]:
        """What a representation depends on, beside the module: the preprocessing."""
        return ()

    @property
    def space_settings(self) -> tuple[object, ...]:
        """Those of the settings that make another representation space."""
        return self.settings

    def digest(self, item: Any) -> str:
        """Return a digest of one input's content."""
        return digest(item)

    def label(self, item: Any) -> str:
        """Return what to call one input."""
        return self.noun

    def name_together(self, labels: Sequence[str], count: int) -> str:
        """Return what to call a set of ``count`` inputs; ``labels`` are those of the first few."""
        return f"{count} {self.noun}{'s' if count != 1 else ''}"

    # --- what removing a feature means ----------------------------------------------------------------------------------

    @property
    def default_removal(self) -> str | Fitting[Any]:
        """The removal that is used unless another is asked for, or its class name if it is one of ours."""
        return self.removals[0]

    @property
    def removes_by_default(self) -> bool:
        """Whether there is such a removal without anything that a user must give."""
        return True

    def fit(self, removal: Fitting[Fitted]) -> Fitted:
        """Return the removal with what only this kind of input knows filled in."""
        return removal.ready(self)
