"""The examples of the pages about what an encoder knows run as they stand, and print what the pages say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch

import cocoax
from cocoax.questions import answers
from tests.documentation.blocks import DOCS, run_blocks

HOW_TO = DOCS / "how-to"


def run(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run all examples of a page, one after another; return what they define."""
    monkeypatch.chdir(folder)
    matplotlib.use("Agg")
    with torch.random.fork_rng():
        given = run_blocks(HOW_TO / page)
    plt.close("all")
    return given


def test_knows__page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given = run("knows.md", tmp_path, monkeypatch)
    printed = capsys.readouterr().out.splitlines()
    page = (HOW_TO / "knows.md").read_text(encoding="utf-8")
    assert len(printed) == 3
    for line in printed:
        assert f"    {line}\n" in page
    assert given["knowledge"].verdict == "not separated"
    assert (tmp_path / "eights.html").is_file()


def test_discovery__page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given = run("discovery.md", tmp_path, monkeypatch)
    assert len(given["found"]) == 10
    assert given["found"].purity(given["digits"].target[:300]) > 0.4  # ten classes, so chance is 0.1
    assert given["wines"].purity(given["wine"].target) > 0.9
    assert given["result"].values.shape == (32, 32)
    assert len(given["maps"]) == 2
    assert (tmp_path / "found.png").stat().st_size > 10_000
    assert "10 corpora among 300 images, by kmeans" in capsys.readouterr().out


def test_minimal__page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    least = run("minimal.md", tmp_path, monkeypatch)["least"]
    assert "violinist" in least.kept.names
    assert least.removed.names == ("violinist",)
    page = (HOW_TO / "minimal.md").read_text(encoding="utf-8")
    # How many smaller sets were tried may differ with versions of scikit-learn; what was found may not.
    for sentence in (least.summary, least.remarks[0]):
        assert sentence in " ".join(page.replace("> ", "").split())
    assert (tmp_path / "least" / "minimal.html").is_file()


def test_choosing_a_method__page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run("choosing-a-method.md", tmp_path, monkeypatch)["found"]
    assert found.ranking[-1] == "RandomAttribution"
    assert "RandomAttribution" not in found.best
    assert (tmp_path / "methods" / "method-comparison.html").is_file()
    text = " ".join((HOW_TO / "choosing-a-method.md").read_text(encoding="utf-8").split())
    first, most = f"begins with {answers.MIN_COPIES} copies", f"after {answers.MAX_COPIES} at the latest"
    assert f"{first} and stops at an error of {100 * answers.TOLERANCE:.0f} %, {most}" in text


def test_counterfactuals__page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = run("counterfactuals.md", tmp_path, monkeypatch)
    assert given["flipped"].result == "The driver played a sonata before she parked her car."
    assert [change.after for change in given["flipped"].changes] == ["driver"]
    changed = [{change.part for change in flip.changes} for flip in given["other"].flips]
    assert len(changed) == 2
    assert not any("proline" in parts for parts in changed)
    assert all(flip.score < 0 for flip in given["other"].flips)
    assert (tmp_path / "flipped" / "counterfactual.png").is_file()


def test_examples__page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = run("examples.md", tmp_path, monkeypatch)
    encoder, corpus = given["encoder"], given["encoder"].reference(given["corpus"])
    own = cocoax.similarity_to(corpus).score(encoder.represent(["The violinist played a sonata."]))
    assert float(given["ranked"].values.sum()) == pytest.approx(float(own[0]), abs=1e-5)
    assert float(given["mixed"].values.sum()) == pytest.approx(1)
    assert len(given["traced"].top(2)) == 2
    assert (tmp_path / "ranked" / "examples.json").is_file()
