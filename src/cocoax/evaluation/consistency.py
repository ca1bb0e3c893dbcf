"""Do the examples that matter most share the class of the input? A check of rankings that were made without labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cocoax.evaluation.statistics import Interval, t_interval

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0)


def consistency(importance: Any, labels: Any, member_labels: Any, shares: Sequence[float] = SHARES) -> dict[float, Interval]:
    """Return how often the most important members have the class of their input (Crabbé & van der Schaar 2022).

    Args:
        importance: of every member for every input, ``[inputs, members]``.
        labels: the classes of the inputs, ``[inputs]``.
        member_labels: those of the members, ``[members]``.
        shares: of the members, the most important first, that are looked at.

    Returns:
        For each share the mean over inputs, with Student's 95 % interval. At a share of 1 all members count, and it is
        chance. A ranking that says something begins above that and falls.

    """
    values, own, theirs = np.asarray(importance, float), np.asarray(labels), np.asarray(member_labels)
    if values.shape != (len(own), len(theirs)) or values.size == 0:
        raise ValueError(
            f"The importance must have one row for each of {len(own)} inputs and one column for each of "
            f"{len(theirs)} members. Got {list(values.shape)} instead."
        )
    if not all(0 < share <= 1 for share in shares):
        raise ValueError(f"The 'shares' parameter must hold numbers above 0, up to 1. Got {list(shares)!r} instead.")
    order = np.argsort(-values, axis=1, kind="stable")
    same = theirs[order] == own[:, None]
    return {share: t_interval(same[:, : max(1, round(share * len(theirs)))].mean(1)) for share in shares}
