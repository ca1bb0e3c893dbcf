"""Random numbers from a seed and a place in a sequence: the same whatever else was drawn before, and never global."""

from __future__ import annotations

from numbers import Integral

import numpy as np


def stream(seed: int, *place: int) -> np.random.Generator:
    """The random stream of a seed at a place, such as the number of a block or of a sample."""
    check_seed(seed)
    # The number of places is part of the key: without it, a place of 0 would be the same stream as none.
    return np.random.default_rng([int(seed), len(place), *place])


def check_seed(seed: int) -> None:
    """Raise unless it is an integer of at least 0."""
    if not (isinstance(seed, Integral) and seed >= 0):
        raise ValueError(f"The 'seed' parameter must be an integer of at least 0. Got {seed!r} instead.")
