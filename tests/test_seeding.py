from __future__ import annotations

import numpy as np
import pytest

from cocoax.seeding import check_seed, stream


def test_stream__same_place_same_numbers() -> None:
    assert np.array_equal(stream(3, 1, 2).random(5), stream(3, 1, 2).random(5))


def test_stream__no_two_places_alike() -> None:
    places = [(), (0,), (1,), (0, 0), (0, 1), (1, 0)]
    drawn = {tuple(stream(seed, *place).random(3)) for seed in (0, 1) for place in places}
    assert len(drawn) == 12


@pytest.mark.parametrize("seed", [-1, 1.5, "a", None])
def test_seed__bad(seed: object) -> None:
    with pytest.raises(ValueError, match="'seed'"):
        check_seed(seed)  # type: ignore[arg-type]
