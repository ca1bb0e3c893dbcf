"""The how-to pages: their code runs as it stands, block after block, and the tests that they end with pass.

The files that a page shows are copied and imported, and the names in them are then known to the blocks that follow. Blocks
run in one namespace.
"""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch

from cocoax.encoders import ENCODERS
from cocoax.inputs.explicand import _DISPLAYS
from cocoax.masking import REMOVALS, Removal
from cocoax.methods.run import RemovalMethod
from cocoax.paper.studies import NAMES, STUDIES
from cocoax.similarity import SIMILARITIES

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("how-to/adding-*.md"))
WRITTEN = [*sorted(DOCS.rglob("*.md")), *(DOCS.parent / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
REGISTRIES: list[dict[str, Any]] = [_DISPLAYS, ENCODERS, RemovalMethod.defined, NAMES, REMOVALS, SIMILARITIES, STUDIES]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work and import from; what pages add to registries and modules is taken out again."""
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    matplotlib.use("Agg")
    before, removals = [dict(registry) for registry in REGISTRIES], list(Removal.defined)
    with torch.random.fork_rng():  # modules of a page initialise themselves from the global random state
        yield folder
    plt.close("all")
    for registry, entries in zip(REGISTRIES, before, strict=True):
        registry.clear()
        registry.update(entries)
    Removal.defined[:] = removals
    for name in [name for name, module in sys.modules.items() if _is_inside(module, folder)]:
        del sys.modules[name]


def _is_inside(module: object, folder: Path) -> bool:
    return str(getattr(module, "__file__", None) or "").startswith(str(folder))


def parts_of(page: Path) -> list[str | Path]:
    """Return a page's blocks of code and the files that it shows, in their order."""
    found = re.findall(
        r"^```python\n(.*?)^```|^```{literalinclude} (\S+)", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    return [page.parent / file if file else block for block, file in found]


def run_part(part: str | Path, names: dict[str, Any], folder: Path) -> int:
    """Run a block or import a file, and run the tests in it; return how many those are."""
    if isinstance(part, str):
        exec(compile(part, "block", "exec"), names)
        return 0
    shutil.copy(part, folder)
    importlib.invalidate_caches()
    own = vars(importlib.import_module(part.stem))
    names.update({name: value for name, value in own.items() if not name.startswith("__")})
    tests = [value for name, value in own.items() if name.startswith("test_") and inspect.isfunction(value)]
    for number, test in enumerate(tests):
        given = {"tmp_path": folder / f"{part.stem}-{number}"} if "tmp_path" in inspect.signature(test).parameters else {}
        for path in given.values():
            path.mkdir()
        test(**given)
    return len(tests)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page__code_runs_and_its_tests_pass(page: Path, here: Path) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    assert sum(run_part(part, names, here) for part in parts_of(page)) >= 2


def test_pages__one_for_each_thing_that_can_be_added() -> None:
    added = {page.stem.removeprefix("adding-") for page in PAGES}
    assert added >= {"features", "a-kind-of-input", "a-method", "a-removal", "a-similarity", "a-study", "an-encoder-family"}


def links_of(page: Path) -> list[str]:
    return re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.stem)
def test_pages__links_lead_somewhere(page: Path) -> None:
    missing = [link for link in links_of(page) if "://" not in link and not (page.parent / link).exists()]
    assert not missing
