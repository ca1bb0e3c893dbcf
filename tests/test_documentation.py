"""The README, the tutorials and the guide for those who come from elsewhere: their code runs as it stands, block after block.

Only numbers of masked copies are made smaller.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "docs/index.md", *sorted((ROOT / "docs/tutorials").glob("*.md"))]
PAGES += [ROOT / "docs/how-to/coming-from.md", ROOT / "docs/how-to/retrieval.md"]
PAGES = [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    with torch.random.fork_rng():
        yield tmp_path
    plt.close("all")


def blocks_of(page: Path) -> list[str]:
    found = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [re.sub(r"samples=\d{3,}", "samples=110", re.sub(r"max_evals=\d+", "max_evals=30", block)) for block in found]


def run_page(page: Path) -> dict[str, Any]:
    """Run a page's blocks in one namespace, which is returned."""
    names: dict[str, Any] = {"__name__": page.stem}
    for number, block in enumerate(blocks_of(page)):
        exec(compile(block, f"{page.name}, block {number}", "exec"), names)
    return names


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of plots of shap
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page__code_runs(page: Path, folder: Path) -> None:
    assert run_page(page)


def test_readme__says_what_comes_out(folder: Path) -> None:
    names: dict[str, Any] = {}
    exec(blocks_of(ROOT / "README.md")[0], names)
    assert [word for word, _ in names["match"].query.top(2)] == ["bicycle", "tyre"]
    assert names["match"].document.top(1)[0][0] == "bike"
