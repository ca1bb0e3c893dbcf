"""What tests of several loaders share."""

from __future__ import annotations

import socket

import pytest

from cocoax.encoders.families import hub


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """No name on the network can be found, and there is no proxy to ask."""

    def unknown(*_arguments: object, **_options: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.setattr(hub, "getproxies", dict)
