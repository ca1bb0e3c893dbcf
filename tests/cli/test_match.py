"""cocoax match: texts and pictures, in the terminal, as JSON and in files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image
from scipy.io import wavfile

import cocoax
from cocoax.encoders import ENCODERS
from cocoax.encoders.families.sentence import TextModel, load_hf_text
from cocoax.results.interactions import NOTHING
from tests.cli.support import interrupt_after, invoke, picture
from tests.sounds import RATE, hum, listener
from tests.tiny import save_bert
from tests.towers import Spaces


@pytest.fixture(autouse=True)
def tiny(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_bert(tmp_path_factory.mktemp("tiny"))
    monkeypatch.setitem(ENCODERS, "minilm", lambda: load_hf_text(str(folder)))  # type: ignore[arg-type]


def match(*arguments: str) -> str:
    result = invoke("match", *arguments, "--samples", "30", catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_match__texts() -> None:
    output = match("a red car", "the big car", "--rather-than", "a dog", "--rather-than", "the cat")
    assert "the document rather than" not in output
    for words in ("similarity", "a red car", "the big car", "The strongest pairs:", "(to the other documents)", "car – car"):
        assert words in output


def test_match__json_and_files(tmp_path: Path) -> None:
    out = tmp_path / "out"
    numbers = json.loads(match("a red car", "the big car", "--json", "--out", str(out)))
    assert [part["text"] for part in numbers["query"]["parts"]] == ["a", "red", "car"]
    assert json.loads((out / "match.json").read_text()) == numbers
    assert sorted(file.name for file in out.iterdir()) == ["match.html", "match.json", "match.png"]


def test_match__one_file(tmp_path: Path) -> None:
    for ending in ("html", "json", "png"):
        match("a red car", "the big car", "--out", str(tmp_path / "new" / f"x.{ending}"))
    assert all(file.is_file() for file in (tmp_path / "new").iterdir())
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == ["x.html", "x.json", "x.png"]
    assert "cocoax-links" in (tmp_path / "new" / "x.html").read_text()
    assert json.loads((tmp_path / "new" / "x.json").read_text())["query"]["text"] == "a red car"


def test_match__of_one_colour_there_is_nothing(towers: cocoax.Encoder, image: str, tmp_path: Path) -> None:
    Image.new("RGB", (24, 24), "white").save(tmp_path / "white.png")
    assert f"\n{NOTHING}\n" in match(image, str(tmp_path / "white.png")).replace(" \n", "\n")
    assert json.loads(match(image, str(tmp_path / "white.png"), "--json"))["pairs"] == []


def test_match__two_pictures(towers: cocoax.Encoder, image: str, tmp_path: Path) -> None:
    picture(1).save(tmp_path / "other.png")
    output = match(image, str(tmp_path / "other.png"))
    assert "of the picture: +" in output
    assert ", column" in output


def test_match__a_picture_and_a_caption(towers: cocoax.Encoder, image: str) -> None:
    towers.text.inputs.tokenize = Spaces()  # type: ignore[attr-defined]
    numbers = json.loads(match("a red car", image, "--rather-than", "a dog", "--json"))
    assert [part["text"] for part in numbers["query"]["parts"]] == ["a", "red", "car"]
    assert numbers["document"]["parts"][0]["place"]
    assert {pair["query"] for pair in numbers["pairs"]} <= {"a", "red", "car"}
    assert numbers["pairs"][0]["document"].startswith("row ")


def test_match__mistakes(complaint: Callable[..., str], tmp_path: Path) -> None:
    assert complaint("match", "a car", "nothing.png") == "No file at nothing.png; check the path."
    assert complaint("match", "a car", str(tmp_path)).startswith(f"{tmp_path} is a folder; name one file of it.")
    (tmp_path / "car.txt").write_text("a red car")
    (tmp_path / "car.png").write_bytes(b"a photo of mine")
    assert "Files end in .html, .json, .png" in complaint("match", "a", "b", "--out", str(tmp_path / "car.txt"))
    picture = str(tmp_path / "car.png")
    assert f"--out {picture} is an input" in complaint("match", picture, "a car", "--out", picture)
    assert (tmp_path / "car.png").read_bytes() == b"a photo of mine"
    assert complaint("match", " ", "a car") == "The text is empty; write at least one word."
    assert "at least one word" in complaint("match", "a", "b", "--rather-than", "")


def test_match__a_sentence_that_ends_like_a_file_is_a_text() -> None:
    assert "what is car.png" in match("what is car.png", "a car")
    long = "a red car " * 30 + "see notes.txt"
    assert "notes.txt" in match(long, "a car")


def test_match__files_of_texts(tmp_path: Path) -> None:
    (tmp_path / "query.txt").write_text("a red car\n")
    numbers = json.loads(match(str(tmp_path / "query.txt"), "the big car", "--json"))
    assert numbers["query"]["text"] == "a red car"


def test_match__two_sounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: Callable[..., str]) -> None:
    sounds = [str(tmp_path / f"{seed}.wav") for seed in range(2)]
    for seed, sound in enumerate(sounds):
        wavfile.write(sound, RATE, hum(seed=seed))
    monkeypatch.setitem(ENCODERS, "resemblyzer", listener)
    assert " s – " in match(*sounds)
    assert complaint("match", sounds[0], "a voice") == (
        "A sound and a text are compared by an encoder that takes both; name one by --encoder."
    )
    said = complaint("match", sounds[0], "a voice", "--encoder", "resemblyzer")
    assert "has no text tower" in said


def test_match__interrupted(monkeypatch: pytest.MonkeyPatch, interruption: Callable[..., str]) -> None:
    interrupt_after(monkeypatch, TextModel, "forward", 3)
    assert (
        interruption("match", "a red car", "the big car") == "interrupted: nothing was kept; fewer --samples take less time"
    )


def test_match__all_of_a_photo_on_both_sides(towers: cocoax.Encoder, tmp_path: Path) -> None:
    sides = [str(tmp_path / "wide.png"), str(tmp_path / "high.png")]
    for seed, (side, size) in enumerate(zip(sides, [(60, 20), (20, 60)], strict=True)):
        picture(seed).resize(size).save(side)
    similarities = {}
    for options, seeing in (((), towers.whole()), (("--crop",), towers)):
        numbers = json.loads(match(*sides, *options, "--json"))
        own = torch.cat([towers.represent([seeing.explicand(side)]) for side in sides])
        similarities[options] = numbers["similarity"]
        assert numbers["similarity"] == pytest.approx(float(torch.cosine_similarity(own[0], own[1], 0)), abs=1e-5)
        scores = [numbers[side]["score"] for side in ("query", "document")]
        assert scores == pytest.approx([numbers["similarity"]] * 2, abs=1e-5)
    assert similarities[()] != pytest.approx(similarities["--crop",], abs=1e-4)
    plain, other = (json.loads(match(*sides, *options, "--json")) for options in ((), ("--baseline", "mean-colour")))
    assert plain["similarity"] == other["similarity"]
    assert plain["query"]["parts"] != other["query"]["parts"]
