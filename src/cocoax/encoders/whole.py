"""The whole photo: an encoder that is shown all of what it explains, not the square that its preprocessing cuts out."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import nn

from cocoax.inputs.images import UNIT

if TYPE_CHECKING:
    from cocoax.encoders.encoder import Encoder

EncoderT = TypeVar("EncoderT", bound="Encoder")


def whole(encoder: EncoderT) -> EncoderT:
    """Return the same encoder, explaining all of a photo.

    Photos keep their proportions if the module takes pictures of other shapes, which is tried out, and are squeezed if not.
    The pictures of references are prepared as they were, and the representation space is the same.
    """
    other = copy.copy(encoder)
    other.inputs = encoder.inputs.whole(lambda shapes: _takes(encoder, shapes), _unit(encoder.owner))
    return other


def _unit(owner: nn.Module | None) -> int:
    """Return what sides should be multiples of: 32, as far as most networks go down, or the patch of a transformer."""
    for part in () if owner is None else owner.modules():
        if isinstance(part, nn.Conv2d) and part.stride == part.kernel_size and UNIT % part.kernel_size[0]:
            return part.kernel_size[0]
    return UNIT


def _takes(encoder: Encoder, shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether an encoder gives representations of one length for tensors of these shapes; tried out on grey pictures."""
    try:
        lengths = {encoder.encode([torch.zeros(shape)]).shape[1] for shape in shapes}
    except Exception:  # whatever a module says about a shape that it does not take
        return False
    return len(lengths) == 1
