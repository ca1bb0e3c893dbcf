"""The examples of docs/minimal.md, docs/counterfactuals.md and docs/examples.md run as they stand, block after block."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pytest

DOCS = Path(__file__).parent.parent / "docs"


def run_page(name: str) -> dict[str, Any]:
    blocks = re.findall(r"^```python\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    given: dict[str, Any] = {}
    for code in blocks:
        exec(compile(code, name, "exec"), given)
    return given


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)


def test_minimal(tmp_path: Path) -> None:
    given = run_page("minimal.md")
    plt.close("all")
    least = given["least"]
    assert "violinist" in least.kept.names
    assert least.removed.names == ("violinist",)
    page = (DOCS / "minimal.md").read_text(encoding="utf-8")
    # How many smaller sets were tried may differ with versions of scikit-learn; what was found may not.
    for sentence in least.sentences[:3]:
        assert sentence.split(". ")[0] in page
    assert (tmp_path / "least" / "minimal.html").is_file()


def test_counterfactuals(tmp_path: Path) -> None:
    given = run_page("counterfactuals.md")
    assert given["flipped"].result == "The driver played a sonata before she parked her car."
    assert [change.after for change in given["flipped"].changes] == ["driver"]
    changed = [{change.part for change in flip.changes} for flip in given["other"].flips]
    assert len(changed) == 2
    assert not any("proline" in parts for parts in changed)
    assert all(flip.score < 0 for flip in given["other"].flips)
    assert (tmp_path / "flipped" / "counterfactual.png").is_file()


def test_examples(tmp_path: Path) -> None:
    given = run_page("examples.md")
    assert float(given["ranked"].values.sum()) == pytest.approx(float(given["ranked"].values.mean()) * 5)
    assert float(given["mixed"].values.sum()) == pytest.approx(1)
    assert len(given["traced"].top(2)) == 2
    assert (tmp_path / "ranked" / "examples.json").is_file()
