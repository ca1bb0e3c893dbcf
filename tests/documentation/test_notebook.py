"""The notebook runs from top to bottom; every result in it shows itself, once, with nothing else around."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples" / "quickstart.ipynb"
FASTER = {  # what stands in the notebook, and what is run instead
    "samples=1000": "samples=80",
    "samples=300": "samples=60",
    "samples=200": "samples=60",
    "samples=150": "samples=60",
    "steps=10": "steps=2",
}


def run(folder: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the cells of code after all of them ran, by their names."""
    for name, value in {
        "COCOAX_CACHE": folder / "cache",
        "COCOAX_PROGRESS": 1,
        "OMP_NUM_THREADS": 1,
        "IPYTHONDIR": folder,
    }.items():
        patch.setenv(name, str(value))
    patch.delenv("MPLBACKEND", raising=False)
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    for cell in notebook.cells:
        for there, here in FASTER.items():
            cell.source = cell.source.replace(there, here)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    return {cell.id: cell for cell in notebook.cells if cell.cell_type == "code"}


def shown(cell: Any, kind: str) -> list[str]:
    """Return what a cell shows of one kind: values and displays."""
    return [output.data[kind] for output in cell.outputs if "data" in output and kind in output.data]


def said(cell: Any, stream: str) -> str:
    return "".join(output.text for output in cell.outputs if output.output_type == "stream" and output.name == stream)


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        yield run(tmp_path_factory.mktemp("notebook"), patch)


@pytest.mark.parametrize(
    ("name", "heading", "picture"),
    [
        ("result", "a cat rather than a motorbike: score [+-]", "data:image/"),
        ("question", "a cup of coffee rather than a cat</h3><p>Score [+-]", "data:image/"),
        ("text-result", "a cat rather than a motorbike: score [+-]", "kitten</span>"),
        ("match-result", "Why they match: similarity [+]", "bicycle</span>"),
        ("interactions", "Similarity [+]", "bicycle"),
        ("rows", "the first cultivar: score [+-]", "hue"),
    ],
)
def test_result__shows_picture_question_score_and_legend(
    name: str, heading: str, picture: str, cells: dict[str, Any]
) -> None:
    (html,) = shown(cells[name], "text/html")
    assert re.search(heading + r"\d\.\d{3}", html)
    assert picture in html
    assert re.search(r"Red raises the (score|similarity), blue lowers it", html)
    (text,) = shown(cells[name], "text/plain")
    assert "tensor(" not in text
    assert len(text) < 300


@pytest.mark.parametrize("name", ["plot", "panel", "arcs"])
def test_figure__is_shown_once(name: str, cells: dict[str, Any]) -> None:
    assert len(shown(cells[name], "image/png")) == 1
    assert len(cells[name].outputs) == 1


def test_curve__is_drawn(cells: dict[str, Any]) -> None:
    (html,) = shown(cells["curve"], "text/html")
    assert "data:image/png" in html


def test_figures__of_a_loop_are_all_shown(cells: dict[str, Any]) -> None:
    assert len(shown(cells["loop"], "image/png")) == len(cells["loop"].outputs) == 2


def test_progress__is_cleared_at_the_end_and_nothing_else_is_said(cells: dict[str, Any]) -> None:
    bars = said(cells["run"], "stderr")
    assert "Rise on starter" in bars
    assert bars.split("\r")[-2].strip() == ""
    for name, cell in cells.items():
        heard = re.sub(r"[^\n]*Caution:[^\n]*\n[^\n]*\n?", "", said(cell, "stderr"))  # 30 samples are few, and it says so
        noise = re.sub(r"[^\r\n]*\d+%[^\r\n]*|\s", "", heard)
        assert noise == "", name  # no warning, not of ipywidgets either


def test_notebook__is_kept_without_outputs() -> None:
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        assert not cell.get("outputs"), cell.id
