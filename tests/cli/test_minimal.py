"""cocoax minimal: of texts and of pictures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import cocoax
from cocoax.encoders import ENCODERS
from cocoax.encoders.families.sentence import load_hf_text
from tests.cli.support import invoke, picture
from tests.tiny import save_bert


@pytest.fixture(autouse=True)
def tiny(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_bert(tmp_path_factory.mktemp("tiny"))
    monkeypatch.setitem(ENCODERS, "minilm", lambda: load_hf_text(str(folder)))  # type: ignore[arg-type]


def test_minimal__of_a_text(tmp_path: Path) -> None:
    arguments = ("minimal", "the big red car", "--samples", "14", "--out", str(tmp_path))
    result = invoke(*arguments, "--like", "the big red car", "--json", catch_exceptions=False)
    numbers = json.loads(result.stdout)
    assert set(numbers["kept"]["names"]) <= {"the", "big", "red", "car"}
    assert numbers["kept"]["score"] >= numbers["level"] > numbers["removed"]["score"]
    assert [Path(file).name for file in numbers["files"]] == ["minimal.html", "minimal.json", "minimal.png"]


def test_minimal__of_a_picture(towers: cocoax.Encoder, image: str) -> None:
    result = invoke("minimal", image, "--like", image, "--grid", "3", "--samples", "60", catch_exceptions=False)
    assert "of 9 parts alone keep" in result.output


def test_minimal__mistakes(complaint: Callable[..., str]) -> None:
    assert complaint("minimal", "nothing.png", "--like", "a") == "No file at nothing.png; check the path."
    sentence = complaint("minimal", "a red car", "--like", "a red car", "--keep", "3", "--samples", "10")
    assert sentence == "The 'keep' parameter must lie above 0 and be at most 1. Got 3.0 instead."


def test_minimal__all_of_a_wide_photo(towers: cocoax.Encoder, tmp_path: Path) -> None:
    picture(3).resize((60, 20)).save(tmp_path / "wide.png")
    arguments = ("minimal", str(tmp_path / "wide.png"), "--like", str(tmp_path / "wide.png"), "--samples", "100", "--json")
    plain = {}
    for options in ((), ("--crop",), ("--baseline", "mean-colour"), ("--grid", "4")):
        plain[options] = json.loads(invoke(*arguments, *options, catch_exceptions=False).stdout)
    assert plain[()]["total"] == 48  # 4 x 12 cells in the photo's proportions
    assert plain["--crop",]["total"] == 49
    assert plain["--crop",]["score"] == pytest.approx(1) != pytest.approx(plain[()]["score"])
    assert plain["--grid", "4"]["total"] == 16
    assert plain["--baseline", "mean-colour"]["score"] == plain[()]["score"]
    assert plain["--baseline", "mean-colour"]["emptied"] != plain[()]["emptied"]
    emptied = cocoax.Blur(121, 20.0)(towers.whole().explicand(tmp_path / "wide.png").tensor)
    target = cocoax.corpus_similarity(towers.reference([tmp_path / "wide.png"]))
    assert plain[()]["emptied"] == pytest.approx(float(target.score(towers.encode([emptied]))[0]), abs=1e-5)
