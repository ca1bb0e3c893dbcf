"""cocoax examples: members of a corpus, texts and pictures."""

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


def test_examples__of_a_text(tmp_path: Path) -> None:
    members = ("--member", "a red car", "--member", "the cat", "--member", "a big dog")
    result = invoke(
        "examples", "a red car", *members, "--method", "neighbours", "--json", "--out", str(tmp_path), catch_exceptions=False
    )
    numbers = json.loads(result.stdout)
    assert max(numbers["members"], key=lambda member: member["value"])["name"] == "a red car"
    assert (tmp_path / "examples.png").is_file()


def test_examples__of_a_picture(towers: cocoax.Encoder, image: str, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    for seed in range(4):
        picture(seed).save(tmp_path / "corpus" / f"photo{seed}.png")
    result = invoke("examples", image, "--member", str(tmp_path / "corpus"), "--method", "simplex", catch_exceptions=False)
    assert "Of 4 members" in result.output
    assert "leaves over" in result.output


def test_examples__mistakes(complaint: Callable[..., str]) -> None:
    assert "nothing to rank in a corpus of 1" in complaint("examples", "a car", "--member", "a dog")
    pair = ("--member", "a dog", "--member", "a cat")
    assert "TracIn needs checkpoints" in complaint("examples", "a car", *pair, "--method", "tracin")
    assert "must be one of contribution" in complaint("examples", "a car", *pair, "--method", "best")


def test_examples__all_of_a_photo_or_what_was_seen_in_training(
    towers: cocoax.Encoder, tmp_path: Path, complaint: Callable[..., str]
) -> None:
    (tmp_path / "corpus").mkdir()
    for seed in range(3):
        picture(seed).resize((60, 20)).save(tmp_path / "corpus" / f"photo{seed}.png")
    arguments = ("examples", str(tmp_path / "corpus" / "photo0.png"), "--member", str(tmp_path / "corpus"))
    values, parts = {}, {}
    for options in ((), ("--crop",), ("--baseline", "mean-colour")):
        numbers = json.loads(invoke(*arguments, *options, "--json", catch_exceptions=False).stdout)
        values[options], parts[options] = [member["value"] for member in numbers["members"]], numbers["parts"]
    assert 3 * values["--crop",][0] == pytest.approx(1)  # members are prepared as in training
    assert values[()] != pytest.approx(values["--crop",])
    assert values["--baseline", "mean-colour"] == values[()]
    assert parts["--baseline", "mean-colour"] != parts[()]
    assert "square" not in invoke(*arguments, catch_exceptions=False).output
    traced = invoke(*arguments, "--method", "influence", "--layer", "conv", catch_exceptions=False)
    assert "Of each photo, the square in the centre is looked at" in traced.stderr
    said = complaint(*arguments, "--method", "simplex", "--baseline", "blur")
    assert said == "--baseline is about the parts that 'contribution' removes, and 'simplex' has none; leave it out."
