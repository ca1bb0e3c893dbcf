"""cocoax discover: folders, texts and indexes, in the terminal, as JSON and in files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import cocoax
from cocoax.encoders import ENCODERS
from cocoax.encoders.families.sentence import load_hf_text
from cocoax.masking import resolve
from cocoax.masking.baseline_presets import ASKED, OFFERED
from tests.cli.support import invoke, picture
from tests.tiny import save_bert


def discover(*arguments: str) -> str:
    result = invoke("discover", *arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return str(result.output)


@pytest.fixture
def photos(tmp_path: Path) -> str:
    """Reddish pictures and bluish ones, each in a folder of its own."""
    for name, channel in (("red", 0), ("blue", 2)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for seed in range(10):
            pixels = np.array(picture(seed + 50 * channel)) // 2
            pixels[..., channel] += 120
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{seed}.png")
    return str(tmp_path / "photos")


def test_discover__folder(towers: cocoax.Encoder, photos: str, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("cat\ndog\n\ncup\n")
    out = tmp_path / "out"
    output = discover(
        *(photos, "--corpora", "2", "--words", str(tmp_path / "words.txt"), "--check", "a cat", "--out", str(out))
    )
    assert "2 corpora among 20 images, by kmeans" in output
    assert "purity beside the labels: 1.00" in output
    assert "told from the rest by 'a cat'" in output
    assert sorted(file.name for file in out.iterdir()) == ["discovery.html", "discovery.json", "discovery.png", "references"]
    assert len(list((out / "references").iterdir())) == 2


def test_discover__texts_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_bert(tmp_path / "tiny")
    monkeypatch.setitem(ENCODERS, "minilm", lambda: load_hf_text(str(folder)))  # type: ignore[arg-type]
    texts = [
        f"{article} {colour} {thing}" for thing in ("cat", "car") for colour in ("red", "big") for article in ("the", "a")
    ]
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    plain = json.loads(
        discover(str(tmp_path / "texts.txt"), "--corpora", "2", "--limit", "7", "--json", "--out", str(tmp_path / "out"))
    )
    assert plain["inputs"] == 7
    assert len(plain["corpora"]) == 2
    assert plain["checked"] == {}


def test_discover__index(towers: cocoax.Encoder, photos: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cocoax.survey import Index, build

    build(towers, Path(photos), tmp_path / "index", cocoax.Rise(samples=40, grid=3))
    monkeypatch.setattr(Index, "encoder", towers)
    output = discover(str(tmp_path / "index"), "--corpora", "2", "--method", "fields", "--out", str(tmp_path / "out"))
    assert "by fields" in output
    assert "most frequent label" in output


def test_discover__mistakes(towers: cocoax.Encoder, complaint: Callable[..., str], photos: str, tmp_path: Path) -> None:
    assert "No file or folder at nowhere" in complaint("discover", "nowhere")
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    assert "no .txt file with a text a line" in complaint("discover", str(tmp_path / "table.csv"))
    assert "100 corpora cannot be found among 20 images" in complaint("discover", photos, "--corpora", "100")
    assert "must be one of kmeans" in complaint("discover", photos, "--method", "magic")
    assert "has no head" in complaint("discover", photos, "--corpora", "2", "--class", "cat", "--out", str(tmp_path / "out"))


def test_discover__says_that_photos_are_cut_and_takes_a_baseline(
    towers: cocoax.Encoder, photos: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    baselines = []
    find = cocoax.discover

    def found(encoder: cocoax.Encoder, *arguments: Any, **options: Any) -> Any:
        baselines.append(resolve(None, encoder.inputs))
        return find(encoder, *arguments, **options)

    monkeypatch.setattr(cocoax, "discover", found)
    arguments = (photos, "--corpora", "2", "--out", str(tmp_path / "out"))
    assert "square" not in discover(*arguments)
    picture(5).resize((60, 20)).save(Path(photos) / "red" / "0.png")
    assert "Of each photo, the square in the centre is looked at" in discover(*arguments, "--baseline", "mean-colour")
    assert baselines == [OFFERED[ASKED], cocoax.Mean()]
    folder = save_bert(tmp_path / "tiny")
    monkeypatch.setitem(ENCODERS, "minilm", lambda: load_hf_text(str(folder)))  # type: ignore[arg-type]
    (tmp_path / "texts.txt").write_text("a cat\na car\nthe dog")
    result = invoke("discover", str(tmp_path / "texts.txt"), "--baseline", "blur")
    assert "--baseline is about pictures" in str(result.exception)
