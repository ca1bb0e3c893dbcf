"""FastEncoder: an encoder on many similar inputs, run by its fastest copy that gives the same representations.

There are two copies: one with batch normalisation folded into convolutions (:mod:`cocoax.encoders.folding`), and that one as
ONNX Runtime runs it (:mod:`cocoax.encoders.onnx_backend`). Each is held against the network itself, on examples and on the
first batch of every situation (an explicand with its removal); one that gives anything else but rounding is given up.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cocoax.encoders.folding import agree, can_be_folded, fold
from cocoax.encoders.forward import locked
from cocoax.encoders.onnx_backend import VARIABLE, run_by_onnx
from cocoax.store import digest

if TYPE_CHECKING:
    from cocoax.encoders.encoder import Encoder


@dataclass(eq=False)
class _Copy:
    """A faster copy, and the situations in which it was seen to agree with the network; ``onnx`` is an even faster one."""

    encoder: Encoder
    agreed: set[str] = field(default_factory=set)
    onnx: _Copy | None = None
    onnx_tried: bool = False


@dataclass(eq=False)
class Copies:
    """The folded copy of an encoder, if there is one, the version of its weights, and the shape it was made with."""

    version: object
    folded: _Copy | None
    shape: torch.Size


class FastEncoder:
    """An encoder for many inputs that are like some examples.

    Args:
        plain: the encoder itself.
        examples: prepared inputs of one shape.
        expected: their representations ``[n, d]``.
        situation: what later inputs have in common, as parts of a digest: in a situation once tried, copies are trusted.

    """

    def __init__(
        self, plain: Encoder, examples: Sequence[Tensor], expected: Tensor, situation: Sequence[object] = ()
    ) -> None:
        self.plain = plain
        self._examples, self._expected, self._situation_parts = examples, expected, situation
        self._uses_onnx = self._adopted = False

    @property
    def encoder(self) -> Encoder:
        """The copy that is used, or the encoder itself; the copy is made when this is first asked for."""
        copy = self._fastest
        return self.plain if copy is None else copy.encoder

    @property
    def trusted(self) -> bool:
        """Whether the copy needs no more trial, or there is none."""
        copy = self._fastest
        return copy is None or self._adopted or self._situation in copy.agreed

    def encode(self, inputs: Sequence[Tensor] | Tensor) -> Tensor:
        """Return representations ``[n, d]`` of prepared inputs; the first are encoded by the network itself, too."""
        copy = self._fastest
        if copy is None or self.trusted:
            return self.encoder.encode(inputs)
        found = copy.encoder.encode(inputs)
        if agree(found, self.plain.encode(inputs)):
            copy.agreed.add(self._situation)
            return found
        self._give_up(copy)
        return self.encode(inputs)

    def use_onnx(self) -> None:
        """Go over to ONNX Runtime, if it can run the folded copy: worth it for many inputs without gradients."""
        copy = self._copy
        if copy is None or self._adopted or os.environ.get(VARIABLE) == "0":
            return
        with locked(copy.encoder.owner):
            if not copy.onnx_tried:
                batch = copy.encoder.inputs.to_module(copy.encoder.collate(torch.stack(list(self._examples))))
                exported = run_by_onnx(copy.encoder, batch)
                copy.onnx = None if exported is None else _Copy(exported)
                copy.onnx_tried = True
        self._uses_onnx = True

    def adopt(self, other: FastEncoder) -> None:
        """Use the copy that another one has tried, and trust it: the caller compares."""
        self._copy, self._uses_onnx, self._adopted = other._copy, other._uses_onnx, True

    def use_plain(self) -> None:
        """Use the encoder itself."""
        self._copy = None

    @property
    def _fastest(self) -> _Copy | None:
        return self._copy.onnx if self._uses_onnx and self._copy is not None and self._copy.onnx is not None else self._copy

    def _give_up(self, copy: _Copy) -> None:
        """Use the next best."""
        if self._copy is not None and copy is self._copy.onnx:
            self._copy.onnx = None
            return
        self._copy = None
        if self.plain._copies is not None:
            self.plain._copies.folded = None

    @cached_property
    def _situation(self) -> str:
        return digest(*self._situation_parts)

    @cached_property
    def _copy(self) -> _Copy | None:
        """The folded copy, kept while weights stay what they are; None where nothing can be folded or the fold is wrong."""
        encoder, owner, shape = self.plain, self.plain.owner, self._examples[0].shape
        alike = all(example.shape == shape and example.is_floating_point() for example in self._examples)
        if owner is None or not alike or not can_be_faster(encoder):
            return None
        version = encoder._weights.version(), encoder.device
        # Parameters must not be inference tensors, which later gradients could not use.
        with locked(owner), torch.inference_mode(False), torch.no_grad():
            batch = encoder.collate(torch.stack(list(self._examples)))
            kept = encoder._copies if encoder._copies is not None and encoder._copies.version == version else None
            if kept is not None and (kept.folded is None or self._gives_expected(kept.folded, batch)):
                return kept.folded
            if kept is not None and kept.shape == shape:
                return None
            module = fold(owner, lambda draft: encoder.with_module(draft, encoder.name)(batch))
            made = None if module is None else _Copy(encoder.with_equal_module(module))
            encoder._copies = Copies(version, made, shape)
            return made if made is not None and self._gives_expected(made, batch) else None

    def _gives_expected(self, copy: _Copy, batch: Any) -> bool:
        try:
            output = copy.encoder(batch)
        except Exception:  # whatever a module says that misses its norms
            return False
        return agree(output.to(self._expected), self._expected)


def can_be_faster(encoder: Encoder) -> bool:
    """Whether copies of an encoder are worth a trial."""
    return encoder.can_be_copied and encoder.owner is not None and can_be_folded(encoder.owner)


def shared_encoder(fast: Sequence[FastEncoder]) -> Encoder:
    """Return the copy that is right for all of several, or else the encoder itself."""
    first = fast[0].encoder
    return first if all(each.encoder is first for each in fast) else fast[0].plain
