"""cocoax encoders: every encoder, and how to install what is missing."""

from __future__ import annotations

import json

import pytest

from cocoax.encoders import ENCODERS, Known
from tests.cli.support import invoke, rows_of


def test_encoders__lists_all_and_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENCODERS, "mine:", Known("[mine]", "nowhere:load", ("no_such_package",), "hf", takes="FILE"))
    result = invoke("encoders")
    assert result.exit_code == 0, result.output
    header, *rows = rows_of(result.output)
    assert header == ["name", "what it is", "installed"]
    assert [row[0] for row in rows] == [
        f"{name}{known.takes}" if name.endswith(":") else name for name, known in ENCODERS.items()
    ]
    assert rows[-1] == ["mine:FILE", "[mine]", "no: pip install 'cocoax[hf]'"]
    assert ["starter", ENCODERS["starter"].what, "yes"] in rows


def test_encoders__json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENCODERS, "mine:", Known("[mine]", "nowhere:load", ("no_such_package",), "hf", takes="FILE"))
    listed = json.loads(invoke("encoders", "--json").stdout)
    assert len(listed) == len(ENCODERS)
    assert listed[0] == {"name": "starter", "what": ENCODERS["starter"].what, "installed": True, "install": None}
    install = "pip install 'cocoax[hf]'"
    assert listed[-1] == {"name": "mine:FILE", "what": "[mine]", "installed": False, "install": install}
