"""Remarks: sentences that a reader should know before believing an answer; each function returns one, or "" for nothing.

How often they appear on ordinary questions is measured by ``benchmarks/remarks.py``.
"""

from __future__ import annotations

import math

from torch import Tensor

from cocoax.show import Box

NOTHING = "No part of the input makes a difference: all there is to see is rounding."
_NOTHING_REMOVED = "Nothing is removed: with everything removed it scores the same."
LITTLE_REMOVED = 0.1  # of the score: what removing everything should take away more than
_NOISY = 0.3  # relative error of a map from which on it is worth a sentence
_SEEN = 0.98  # of a picture: what is seen of it, if it is all of it but rounding
_CHANCE = 0.2  # of random letters that may be more similar to the input than a caption


def removed_of(score: float, left: float) -> float:
    """Return how much of a score is gone where ``left`` is left of it: their difference, relative to the larger one."""
    larger = max(abs(score), abs(left))
    return abs(score - left) / larger if larger else math.nan


def about_removal(score: float, left: float, floor: float, is_nothing: bool) -> str:
    """Say if the emptied input scores as high as the input or higher, or if little of the score is removed."""
    if score and abs(score - left) <= floor and is_nothing:
        return _NOTHING_REMOVED
    if score > 0 and left >= score - floor:
        return (
            f"With everything removed it scores {left:+.3f}, no less than the input's {score:+.3f}: all parts "
            "together do not raise the score, though the red ones do. Another baseline may score less."
        )
    if not removed_of(score, left) < LITTLE_REMOVED:
        return ""
    share = f"{100 * removed_of(score, left):.2g} %"
    if 0 < left <= score or score <= left < 0:
        return f"With everything removed it still scores {left:+.3f} of {score:+.3f}: the map explains the last {share}."
    return f"With everything removed it scores {left:+.3f}, as it is {score:+.3f}: the map explains those {share}."


def about_noise(effects: Tensor, errors: Tensor | None) -> str:
    """Say how large the error of a map is if it is large, and which share of the map is within noise."""
    if errors is None:
        return ""
    size, error = (float(values.double().square().mean()) ** 0.5 for values in (effects, errors))
    if not (size > 0 and error > _NOISY * size):
        return ""
    within = float((effects.abs() <= 2 * errors).double().mean())
    share = f"{error / size:.0%} of its values, and {within:.0%} of it is within noise"
    return f"The error of the map is {share}: take more samples."


def about_crop(box: Box) -> str:
    """Say if the encoder sees only a part of a picture."""
    seen = (box[2] - box[0]) * (box[3] - box[1])
    if seen >= _SEEN:
        return ""
    return (
        f"The encoder's preprocessing cuts out {seen:.0%} of the picture, and the answer is about that part alone; "
        "encoder.whole() takes in all of it."
    )


def about_caption(caption: str, score: float, letters: Tensor) -> str:
    """Say if a caption is no more similar to an input than random letters, whose scores are ``letters [n]``."""
    above = float((letters >= score).double().mean()) if len(letters) else 0.0
    if above <= _CHANCE:
        return ""
    return (
        f"{caption!r} is no more similar to the input than random letters are ({above:.0%} of {len(letters)} are more "
        "similar): the encoder may not know these words, or the input has nothing to do with them."
    )
