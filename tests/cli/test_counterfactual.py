"""cocoax counterfactual: of texts and pictures, and by gradients."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import cocoax
from cocoax.cli.counterfactual import cut_alike
from cocoax.encoders import ENCODERS
from cocoax.encoders.families.sentence import load_hf_text
from tests.cli.support import invoke, picture
from tests.tiny import save_bert


@pytest.fixture(autouse=True)
def tiny(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_bert(tmp_path_factory.mktemp("tiny"))
    monkeypatch.setitem(ENCODERS, "minilm", lambda: load_hf_text(str(folder)))  # type: ignore[arg-type]


def test_counterfactual__of_a_text(tmp_path: Path) -> None:
    arguments = ("counterfactual", "the big red car", "--like", "the big red car", "--unlike", "the cat parked")
    result = invoke(*arguments, "--out", str(tmp_path), "--json", catch_exceptions=False)
    numbers = json.loads(result.stdout)
    first = numbers["counterfactuals"][0]
    assert first["score"] < 0 < numbers["score"]
    assert set(first["result"].split()) <= {*["the", "big", "red", "car"], *["the", "cat", "parked"]}
    assert (tmp_path / "counterfactual.html").is_file()


def test_counterfactual__of_a_picture(towers: cocoax.Encoder, image: str, tmp_path: Path) -> None:
    (tmp_path / "donors").mkdir()
    picture(1).save(tmp_path / "donors" / "other.png")
    arguments = ("--like", image, "--unlike", str(tmp_path / "donors"), "--grid", "3")
    result = invoke("counterfactual", image, *arguments, catch_exceptions=False)
    assert "of 9 cells makes it -" in result.output
    result = invoke("counterfactual", image, *arguments, "--gradient", "--smoothness", "0", catch_exceptions=False)
    assert "The representation of a blurred copy follows" in result.output


def test_counterfactual__mistakes(complaint: Callable[..., str], towers: cocoax.Encoder, image: str) -> None:
    sentence = complaint("counterfactual", image, "--like", "a cat", "--unlike", "a dog")
    assert sentence == "Which pictures give parts? Pass --donor with a file or a folder, or --unlike with one."
    sentence = complaint("counterfactual", "a dog", "--like", "the big red car", "--unlike", "a dog")
    assert "so there is nothing to flip: it is not above 0." in sentence


def test_counterfactual__donors_of_other_proportions(towers: cocoax.Encoder, tmp_path: Path) -> None:
    (tmp_path / "donors").mkdir()
    picture(3).resize((60, 20)).save(tmp_path / "wide.png")
    for seed, size in ((1, (20, 60)), (2, (30, 30))):
        picture(seed).resize(size).save(tmp_path / "donors" / f"{seed}.png")
    wide, donors = str(tmp_path / "wide.png"), str(tmp_path / "donors")
    arguments = ("counterfactual", wide, "--like", wide, "--unlike", donors)
    result = invoke(*arguments, catch_exceptions=False)
    assert "Of donors with other proportions than the photo's, the centre gives parts." in result.stderr
    assert "of 48 cells makes it -" in result.stdout  # 4 x 12
    cropped = invoke(*arguments, "--crop", catch_exceptions=False)
    assert cropped.stderr == ""
    assert "of 49 cells makes it -" in cropped.stdout
    whole = towers.whole()
    first, second = cut_alike(whole, list((tmp_path / "donors").iterdir()), Path(wide), whole.explicand(wide))
    assert first.tensor.shape == second.tensor.shape == whole.explicand(wide).tensor.shape
