"""cocoax convert-simclr: passes on its paths and says how to load the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cocoax.paper.networks import simclr_converter
from tests.cli.support import invoke


def test_convert_simclr__says_how_to_load_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simclr_converter, "convert_simclr", lambda checkpoint, out: out / checkpoint.name)
    result = invoke("convert-simclr", "folder/checkpoint", "out [new]")
    assert result.exit_code == 0, result.output
    path = Path("out [new]", "checkpoint")
    assert result.output == f"wrote {path}; load it with cocoax.load('simclr:{path}')\n"
