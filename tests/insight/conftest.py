"""Figures that a test of this folder draws are closed when it is over."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def figures_closed() -> Iterator[None]:
    yield
    plt.close("all")
