"""The examples of docs/knows.md and docs/discovery.md run as they stand, and print what the pages say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch

DOCS = Path(__file__).parent.parent.parent / "docs"


def run(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run all examples of a page, one after another; return what they define."""
    monkeypatch.chdir(folder)
    matplotlib.use("Agg")
    given: dict[str, Any] = {}
    with torch.random.fork_rng():
        for code in re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
            exec(compile(code, page, "exec"), given)
    plt.close("all")
    return given


def test_knows__page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given = run("knows.md", tmp_path, monkeypatch)
    printed = capsys.readouterr().out.splitlines()
    page = (DOCS / "knows.md").read_text(encoding="utf-8")
    assert len(printed) == 3
    for line in printed:
        assert f"    {line}\n" in page
    assert given["knowledge"].verdict == "cannot tell"
    assert (tmp_path / "eights.html").is_file()


def test_discovery__page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given = run("discovery.md", tmp_path, monkeypatch)
    assert len(given["found"]) == 10
    assert given["found"].purity(given["digits"].target[:300]) > 0.4  # ten classes, so chance is 0.1
    assert given["wines"].purity(given["wine"].target) > 0.9
    assert given["result"].values.shape == (32, 32)
    assert len(given["maps"]) == 2
    assert (tmp_path / "found.png").stat().st_size > 10_000
    assert "Discovery(10 corpora by kmeans" in capsys.readouterr().out
