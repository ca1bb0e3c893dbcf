"""The code of every page and of the gallery runs as it stands; only numbers of masked copies are made smaller.

Pages whose examples need models that are not here have a test file of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine

import cocoax
from cocoax.data import photo
from tests.documentation.blocks import DOCS, ROOT, blocks_of, pages_with_code, run_blocks

# Pages that another file of this folder, or the tests of other libraries, run.
ELSEWHERE = {
    "adding-a-kind-of-input": "test_adding.py",
    "adding-a-method": "test_adding.py",
    "adding-a-removal": "test_adding.py",
    "adding-a-similarity": "test_adding.py",
    "adding-a-study": "test_adding.py",
    "adding-an-encoder-family": "test_adding.py",
    "adding-features": "test_adding.py",
    "choosing-a-method": "test_insight.py",
    "cookbook": "../test_vectors.py",
    "counterfactuals": "test_insight.py",
    "discovery": "test_insight.py",
    "encoders": "test_encoders.py",
    "examples": "test_insight.py",
    "gpus": "test_live_models.py",
    "interop": "../test_interop.py",
    "knows": "test_insight.py",
    "live-models": "test_live_models.py",
    "minimal": "test_insight.py",
    "sound": "test_sound.py",
}
PAGES = [page for page in pages_with_code() if page.stem not in ELSEWHERE]
QUICK = ("2_text_and_search", "3_tables_and_sound")  # building the site runs the others as well
GALLERY = [
    pytest.param(script, id=script.stem, marks=[] if script.parent.name in QUICK else [pytest.mark.slow])
    for script in sorted((ROOT / "examples" / "gallery").rglob("plot_*.py"))
]


def given_to(page: str, folder: Path) -> dict[str, Any]:
    """Return the names that a page leaves to its reader, and write the files that it reads."""
    rng = np.random.default_rng(0)
    if page == "app":
        return {"encoder": cocoax.load("starter"), "page": None}
    if page == "matches":
        vectors = rng.normal(size=(20, 1280)).astype("float32")
        np.save(folder / "vectors.npy", vectors)
        languages = ["de", "en"] * 10
        write_table(folder / "table.parquet", embedding=list(vectors), language=languages, views=list(range(1, 21)))
        found = ["Patch the tube of your bike", "Feed the cat twice a day", "A cat on a sofa"]
        return {"photo": photo("cat"), "query": "a cat", "found": found, "batches_of_my_store": lambda: iter([vectors])}
    if page == "datasets":
        for name, label in (("cat", "dog"), ("coffee", "bird"), ("astronaut", "bird")):
            (folder / "photos" / label).mkdir(parents=True, exist_ok=True)
            photo(name).save(folder / "photos" / label / f"{name}.jpg")
    if page == "tabular":
        wine = load_wine()
        rows = ((wine.data - wine.data.mean(0)) / wine.data.std(0)).astype("float32")
        network = torch.nn.Linear(13, 8)
        return {"network": network, "names": wine.feature_names, "rows": rows, "own": wine.target == 0, "row": rows[0]}
    return {}


def write_table(path: Path, **columns: Any) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    with torch.random.fork_rng():
        yield tmp_path
    plt.close("all")


def smaller(block: str) -> str:
    """Return a block with fewer masked copies, and a page that does not wait for its visitors."""
    block = re.sub(r"samples=\d{3,}", "samples=110", re.sub(r"max_evals=\d+", "max_evals=30", block))
    block = re.sub(r"^launch\(encoder\).*$", "", block, flags=re.MULTILINE)
    return re.sub(r"^(page, address = .*)$", r"\1\npage.close()", block, flags=re.MULTILINE)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of plots of shap
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page__code_runs(page: Path, folder: Path) -> None:
    assert run_blocks(page, smaller, given_to(page.stem, folder))


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of plots of shap
@pytest.mark.parametrize("script", GALLERY)
def test_gallery__script_runs(script: Path, folder: Path) -> None:
    exec(compile(smaller(script.read_text(encoding="utf-8")), script.name, "exec"), {"__name__": script.stem})
    assert plt.get_fignums()


def test_readme__says_what_comes_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = blocks_of(ROOT / "README.md")[0]
    exec(first, {})
    assert f"```text\n{capsys.readouterr().out}```" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(first.splitlines()) <= 12


def test_pages__each_is_run_here_or_elsewhere() -> None:
    assert set(ELSEWHERE) <= {page.stem for page in pages_with_code()}
    for page, file in ELSEWHERE.items():
        assert page in (Path(__file__).parent / file).read_text(encoding="utf-8") or page.startswith("adding-")
    assert {DOCS / "explanation" / "features.md", DOCS / "how-to" / "matches.md"} <= set(PAGES)
