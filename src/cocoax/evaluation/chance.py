"""The chance level of an attribution method: its map when there is nothing to find.

Independent noise for each pixel is the wrong reference for a method with smooth maps: curves along large blobs differ from
curves along single pixels, whatever the blobs show. So each method gets uninformative input of its own kind.
"""

from __future__ import annotations

from torch import Tensor

from cocoax.inputs import Explicand
from cocoax.methods.method import Method


def chance_map(method: Method, explicand: Tensor | Explicand, baseline: Tensor, seed: int = 0) -> Tensor:
    """Return what the method makes of an encoder that tells nothing, ``[H, W]``, for a baseline ``[C, H, W]``.

    - RISE, the paper's estimator: a constant score, whose map is the mean of the masks.
    - RISE, the efficient one: scores that are noise (a constant has a constant map, which has no order).
    - Integrated Gradients and GradientSHAP: gradients that are noise, times explicand minus baseline.
    - others: noise for each pixel.
    """
    return method.chance(explicand if isinstance(explicand, Explicand) else Explicand(explicand), baseline, seed)
