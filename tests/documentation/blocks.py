"""Blocks of code of the written pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def blocks_of(page: Path) -> list[str]:
    """Return the blocks of Python code of a page, in their order."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def pages_with_code() -> list[Path]:
    """Return all pages of the site, and the README, that show Python code."""
    written = [page for page in DOCS.rglob("*.md") if not {"_build", "gallery", "generated"} & set(page.parts)]
    return [page for page in [ROOT / "README.md", *sorted(written)] if blocks_of(page)]


def run_blocks(
    page: Path, change: Callable[[str], str] = lambda block: block, names: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Run a page's blocks, each as `change` makes it, in one namespace, which is returned."""
    namespace: dict[str, Any] = {"__name__": page.stem, **(names or {})}
    for number, block in enumerate(blocks_of(page)):
        exec(compile(change(block), f"{page.name}, block {number}", "exec"), namespace)
    return namespace
