"""The small image-and-text encoder that questions are put to."""

from __future__ import annotations

import pytest

import cocoax
from tests.towers import two_towers


@pytest.fixture
def towers() -> cocoax.Encoder:
    return two_towers().cropped()  # what it explains is what references see
