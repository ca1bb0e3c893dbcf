"""The whole photo: an encoder that is shown all of what it explains, not the square that its preprocessing cuts out."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import nn

if TYPE_CHECKING:
    from cocoax.encoders.encoder import Encoder

EncoderT = TypeVar("EncoderT", bound="Encoder")


def whole(encoder: EncoderT) -> EncoderT:
    """Return the same encoder, explaining all of a photo.

    Photos keep their proportions if the module takes pictures of other shapes, which is tried out, and are squeezed if not.
    The pictures of references are prepared as they were, and the representation space is the same.
    """
    other = copy.copy(encoder)
    other._identity = None
    other.inputs = encoder.inputs.whole(lambda shapes: _takes(encoder, shapes), _patch(encoder.owner))
    return other


def _patch(owner: nn.Module | None) -> int:
    """Return the side of the patches that a module cuts pictures into by its first convolution; 1 if it does not."""
    first = next((part for part in owner.modules() if isinstance(part, nn.Conv2d)), None) if owner is not None else None
    return first.kernel_size[0] if first is not None and first.stride == first.kernel_size else 1


def _takes(encoder: Encoder, shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether an encoder gives representations of one length for tensors of these shapes; tried out on grey pictures."""
    try:
        lengths = {encoder.encode([torch.zeros(shape)]).shape[1] for shape in shapes}
    except Exception:  # whatever a module says about a shape that it does not take
        return False
    return len(lengths) == 1
