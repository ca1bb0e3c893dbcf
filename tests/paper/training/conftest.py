"""The network of the tests' recipe."""

from __future__ import annotations

import pytest

from cocoax.paper.networks.resnet import ARCHITECTURES, ResNet


@pytest.fixture(autouse=True)
def tiny_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ARCHITECTURES, "tiny", lambda: ResNet((1, 1), (8, 16), (3, 1)))
