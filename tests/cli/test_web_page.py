"""cocoax app: serves the page and says where."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import cocoax
from tests.cli.support import invoke


def test_app__serves_and_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    web = pytest.importorskip("cocoax.app")
    asked: list[Any] = []
    waited: list[str] = []
    blocks = SimpleNamespace(block_thread=lambda: waited.append("until interrupted"))
    page = SimpleNamespace(blocks=blocks, close=lambda: waited.append("closed"))

    def launch(encoder: Any, **options: Any) -> tuple[Any, str]:
        asked.append((encoder, options))
        return page, "http://127.0.0.1:7861/"

    monkeypatch.setattr(web, "launch", launch)
    monkeypatch.setattr(
        cocoax, "load", lambda name, device: SimpleNamespace(whole=lambda: (name, device, "whole"), cropped=(name, device))
    )
    result = invoke("app", "--device", "cuda:1", "--samples", "200", "--kept", "3", "--no-browser")
    assert result.exit_code == 0, result.output
    assert asked == [
        (("starter", "cuda:1", "whole"), {"samples": 200, "port": None, "kept": 3, "browser": False, "wait": False})
    ]
    assert "http://127.0.0.1:7861/" in result.output
    assert waited == ["until interrupted", "closed"]
    assert invoke("app", "--device", "cpu", "--crop").exit_code == 0
    assert asked[1][0].cropped == ("starter", "cpu")


@pytest.mark.parametrize("port", ["0", "65536", "-1"])
def test_app__port_out_of_range(port: str) -> None:
    result = invoke("app", "--port", port)
    assert result.exit_code == 2
    assert "Invalid value for '--port'" in result.output
