"""cocoax encoders: every encoder, and how to install what is missing."""

from __future__ import annotations

import pytest

from cocoax.encoders import ENCODERS, Known
from tests.commands.support import invoke


def test_encoders__lists_all_and_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENCODERS, "mine:", Known("[mine]", "nowhere:load", ("no_such_package",), "hf", takes="FILE"))
    result = invoke("encoders")
    assert result.exit_code == 0, result.output
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in result.output.splitlines() if line[0] == "│"]
    assert [row[0] for row in rows] == [
        f"{name}{known.takes}" if name.endswith(":") else name for name, known in ENCODERS.items()
    ]
    assert rows[-1] == ["mine:FILE", "[mine]", "no: pip install 'cocoax[hf]'"]
    assert ["starter", ENCODERS["starter"].what, "yes"] in rows
