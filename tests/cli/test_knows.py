"""cocoax knows: folders, texts, embeddings and captions, in the terminal, as JSON and in files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import cocoax
from cocoax.encoders import ENCODERS
from cocoax.encoders.families.sentence import load_hf_text
from tests.cli.support import invoke, picture
from tests.tiny import save_bert


def knows(*arguments: str) -> str:
    result = invoke("knows", *arguments, "--permutations", "99", catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return str(result.output)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[str, str]:
    """Reddish pictures and bluish ones."""
    for name, channel in (("red", 0), ("blue", 2)):
        (tmp_path / name).mkdir()
        for seed in range(12):
            pixels = np.array(picture(seed + 50 * channel)) // 2
            pixels[..., channel] += 120
            Image.fromarray(pixels).save(tmp_path / name / f"{seed}.png")
    return str(tmp_path / "red"), str(tmp_path / "blue")


def test_knows__folders(towers: cocoax.Encoder, folders: tuple[str, str], tmp_path: Path) -> None:
    output = knows(*folders, "--out", str(tmp_path / "knows.html"))
    assert "The encoder tells these 12 'red' from the 12 of 'blue': AUC" in output
    assert "p = 0.01" in output
    assert "members  AUC" in output
    assert (tmp_path / "knows.html").is_file()


def test_knows__texts_and_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_bert(tmp_path / "tiny")
    monkeypatch.setitem(ENCODERS, "minilm", lambda: load_hf_text(str(folder)))  # type: ignore[arg-type]
    colours = ("red", "big", "a", "her")
    (tmp_path / "cats.txt").write_text("\n".join(f"the {colour} cat" for colour in colours))
    (tmp_path / "cars.txt").write_text("\n".join(f"the {colour} car" for colour in colours))
    numbers = json.loads(knows(str(tmp_path / "cats.txt"), str(tmp_path / "cars.txt"), "--json"))
    assert numbers["counts"] == [4, 4]
    assert numbers["corpus"] == "cats"
    assert 0 <= numbers["auc"] <= 1


def test_knows__embeddings_need_no_encoder(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    np.save(tmp_path / "a.npy", random.normal(size=(20, 5)) + 1)
    np.save(tmp_path / "b.npy", random.normal(size=(20, 5)) - 1)
    assert "The encoder tells these 20 'a'" in knows(str(tmp_path / "a.npy"), str(tmp_path / "b.npy"))


def test_knows__captions(towers: cocoax.Encoder, folders: tuple[str, str]) -> None:
    with_pictures = json.loads(knows("a cat", "a dog", "--shown", folders[0], "--others", folders[1], "--json"))
    assert with_pictures["test"] == "given inputs"
    assert "random captions" in knows("a cat", "a dog", "--shown", folders[0])


def test_knows__mistakes(towers: cocoax.Encoder, complaint: Callable[..., str], tmp_path: Path) -> None:
    assert "check the path" in complaint("knows", "missing.txt", "nothing.csv")
    (tmp_path / "one").mkdir()
    picture(0).save(tmp_path / "one" / "0.png")
    assert "has 1 sample" in complaint("knows", str(tmp_path / "one"), str(tmp_path / "one"))
    (tmp_path / "lines.txt").write_text("a cat\na dog\n")
    for sides in (("one", "lines.txt"), ("lines.txt", "one")):
        told = complaint("knows", *(str(tmp_path / side) for side in sides))
        assert "which an encoder tells apart whatever they are about" in told


def test_knows__captions_alone(
    folders: tuple[str, str], monkeypatch: pytest.MonkeyPatch, complaint: Callable[..., str]
) -> None:
    monkeypatch.setattr(cocoax, "load", lambda _name, device: pytest.fail("loaded an encoder"))
    for sides in (("a bird", "a dog"), (folders[0], "a dog")):
        said = complaint("knows", *sides)
        assert f"{next(side for side in sides if side not in folders)!r} is no file or folder, so it is a caption" in said
        assert "by --shown, and those that do not by --others" in said


def test_knows__says_that_photos_are_cut(towers: cocoax.Encoder, folders: tuple[str, str]) -> None:
    assert "square" not in knows(*folders)
    picture(5).resize((60, 20)).save(Path(folders[1]) / "0.png")
    assert "Of each photo, the square in the centre is looked at" in knows(*folders)
