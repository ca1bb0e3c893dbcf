"""cocoax cache: what it holds, and clearing it."""

from __future__ import annotations

from pathlib import Path

import pytest

import cocoax
from tests.commands.support import invoke
from tests.conftest import images


def test_cache__help() -> None:
    assert "--clear" in invoke("cache", "--help").output


def test_cache__empty(tmp_path: Path) -> None:
    result = invoke("cache")
    assert result.exit_code == 0
    assert result.output.strip() == f"{tmp_path / 'cache'}: holds 0 chunks of references, 0 runs, 0.0 MB"


def test_cache__filled_and_cleared(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    encoder.reference(images(3))
    encoder.reference(images(2, seed=1))
    assert "holds 2 chunks" in invoke("cache").output
    assert invoke("cache", "--clear").output.startswith(f"{tmp_path / 'cache'}: deleted 2 chunks")
    assert "holds 0 chunks" in invoke("cache").output
    assert cocoax.cache_info().files == 0


def test_cache__folder_with_brackets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich takes what is in brackets for a style, unless it is told not to."""
    monkeypatch.setenv("COCOAX_CACHE", str(tmp_path / "cache [mine]"))
    assert f"{tmp_path / 'cache [mine]'}: holds" in invoke("cache").output
