"""cocoax why: every kind of index, what it prints and writes, and errors in sentences."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import wavfile
from torch.nn.functional import cosine_similarity

import cocoax
from cocoax.encoders import ENCODERS
from cocoax.encoders.families.sentence import TextModel, load_hf_text
from cocoax.questions.windows import windows_of
from tests.cli.support import interrupt_after, invoke, picture
from tests.sounds import RATE, hum, listener
from tests.tiny import save_bert
from tests.towers import Spaces

TEXTS = ["the violinist parked her car", "a big red dog", "the cat behind the house", "a car"]


@pytest.fixture(autouse=True)
def tiny(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> cocoax.Encoder:
    encoder = load_hf_text(str(save_bert(tmp_path_factory.mktemp("tiny"))))
    monkeypatch.setitem(ENCODERS, "minilm", lambda: encoder)  # type: ignore[arg-type]
    return encoder


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    return tmp_path / "texts.txt"


def why(*arguments: str) -> str:
    result = invoke("why", *arguments, "--samples", "30", catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def best(encoder: cocoax.Encoder, query: str) -> list[str]:
    own = encoder.represent([query, *TEXTS]).double().numpy()
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    return [TEXTS[index] for index in np.argsort(-(own[1:] @ own[0]))]


def contents(output: str) -> list[str]:
    return [hit["content"] for hit in json.loads(output)["hits"]]


def test_why__prints_hits_best_first_and_writes_them(lines: Path, tiny: cocoax.Encoder, tmp_path: Path) -> None:
    output = why("a red car", "--index", str(lines), "--top", "3", "--out", str(tmp_path / "out"))
    first, second, third = (output.index(text) for text in best(tiny, "a red car")[:3])
    assert first < second < third
    assert "(to hits 2 and 3)" in output
    assert (tmp_path / "out" / "hits.html").is_file()


def test_why__one_file(tmp_path: Path, lines: Path) -> None:
    for ending in ("html", "json"):
        why("a red car", "--index", str(lines), "--top", "2", "--out", str(tmp_path / "new" / f"x.{ending}"))
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == ["x.html", "x.json"]
    assert "cocoax-text" in (tmp_path / "new" / "x.html").read_text()
    assert len(json.loads((tmp_path / "new" / "x.json").read_text())["hits"]) == 2


def test_why__every_kind_of_index_finds_the_same(lines: Path, tiny: cocoax.Encoder, tmp_path: Path) -> None:
    expected = best(tiny, "a red car")[:2]
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, text in enumerate(TEXTS):
        (folder / f"{number}.txt").write_text(text)
    vectors = tiny.represent(TEXTS).numpy()
    np.save(tmp_path / "vectors.npy", vectors)
    indexes = [[str(lines)], [str(folder)], [str(tmp_path / "vectors.npy"), "--texts", str(lines)]]
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"text": TEXTS, "embedding": list(vectors)}), tmp_path / "vectors.parquet")
    indexes += [[str(tmp_path / "vectors.parquet"), *more] for more in ([], ["--vector-column", "embedding"])]
    for index in indexes:
        assert contents(why("a red car", "--top", "2", "--json", "--index", *index)) == expected


def test_why__pictures_for_a_caption(towers: cocoax.Encoder, tmp_path: Path) -> None:
    towers.text.inputs.tokenize = Spaces()  # type: ignore[attr-defined]
    for seed in range(3):
        picture(seed).save(tmp_path / f"{seed}.png")
    own, *others = (
        towers.text.represent(["a red car"]),
        *towers.represent([towers.whole().explicand(picture(seed)) for seed in range(3)]),
    )
    cosines = [float(torch.nn.functional.cosine_similarity(own[0], other, dim=0)) for other in others]
    numbers = json.loads(why("a red car", "--index", str(tmp_path), "--json", "--top", "2"))
    order = np.argsort(cosines)[::-1]
    assert [hit["content"] for hit in numbers["hits"]] == [f"{at}.png" for at in order[:2]]
    assert [hit["similarity"] for hit in numbers["hits"]] == pytest.approx([cosines[at] for at in order[:2]], abs=1e-4)
    assert [part["text"] for part in numbers["hits"][0]["query"]["parts"]] == ["a", "red", "car"]
    assert numbers["hits"][0]["document"]["parts"][0]["place"]
    assert numbers["hits"][0]["pairs"][0]["document"].startswith("row ")


def test_why__pictures_like_a_picture(towers: cocoax.Encoder, tmp_path: Path) -> None:
    for seed in range(3):
        picture(seed).save(tmp_path / f"{seed}.png")
    numbers = json.loads(why(str(tmp_path / "1.png"), "--index", str(tmp_path), "--json", "--top", "2"))
    assert numbers["hits"][0]["content"] == "1.png"
    assert numbers["hits"][0]["is_query"]
    assert numbers["hits"][0]["document"]["parts"][0]["place"]
    output = why(str(tmp_path / "1.png"), "--index", str(tmp_path), "--top", "2")
    for hit in numbers["hits"]:
        assert f"\n{hit['rank']}. {hit['content']}: " in output


def test_why__sounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "voices").mkdir()
    for seed in range(3):
        wavfile.write(tmp_path / "voices" / f"{seed}.wav", RATE, hum(seed=seed))
    wavfile.write(tmp_path / "query.wav", RATE, hum(seed=1))
    monkeypatch.setitem(ENCODERS, "resemblyzer", listener)
    output = why(str(tmp_path / "query.wav"), "--index", str(tmp_path / "voices"), "--json")
    assert contents(output)[0] == "1.wav"


def test_why__rather_than(lines: Path) -> None:
    output = why("a red car", "--index", str(lines), "--rather-than", "a big dog", "--top", "1")
    assert "(to a big dog)" in output


def test_why__mistakes(lines: Path, tmp_path: Path, complaint: Callable[..., str]) -> None:
    assert "No file or folder at" in complaint("why", "a car", "--index", str(tmp_path / "nothing"))
    np.save(tmp_path / "vectors.npy", np.ones((4, 5)))
    assert "by --texts" in complaint("why", "a car", "--index", str(tmp_path / "vectors.npy"))
    told = complaint("why", "a car", "--index", str(tmp_path / "vectors.npy"), "--texts", str(lines))
    assert "The index has vectors of 5 dimensions, but" in told
    np.save(tmp_path / "vectors.npy", np.ones((3, 16)))
    told = complaint("why", "a car", "--index", str(tmp_path / "vectors.npy"), "--texts", str(lines))
    assert told == "The index has 3 vectors but 4 texts; give one for each."
    (tmp_path / "empty.txt").write_text("\n")
    assert "holds no texts" in complaint("why", "a car", "--index", str(tmp_path / "empty.txt"))
    (tmp_path / "photo.png").write_bytes(b"\x89PNG")
    told = complaint("why", "a car", "--index", str(tmp_path / "photo.png"))
    assert "photo.png cannot be read as texts, one per line" in told
    told = complaint("why", "a car", "--index", str(lines), "--out", str(tmp_path / "why.png"))
    assert told == "Files end in .html, .json; a path of another ending is a folder for all. Got why.png."


def test_why__a_row_without_a_text(tmp_path: Path, complaint: Callable[..., str]) -> None:
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pa.table({"text": ["a car", None]}), tmp_path / "table.parquet")
    said = complaint("why", "a car", "--index", str(tmp_path / "table.parquet"))
    assert said.startswith("Row 1 of ")
    assert "has no text in the column 'text'" in said


def test_why__a_table_without_the_column(tmp_path: Path, complaint: Callable[..., str]) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"title": TEXTS}), tmp_path / "vectors.parquet")
    told = complaint("why", "a car", "--index", str(tmp_path / "vectors.parquet"))
    expected = f"{tmp_path / 'vectors.parquet'} has no column 'text'; the columns are title. "
    assert told == expected + "Say which holds texts by --text-column."


def test_why__interrupted(lines: Path, monkeypatch: pytest.MonkeyPatch, interruption: Callable[..., str]) -> None:
    interrupt_after(monkeypatch, TextModel, "forward", 6)
    said = interruption("why", "a red car", "--index", str(lines))
    assert said == "interrupted: nothing was kept; fewer --samples or hits take less time"


def test_why__piped_lines_are_not_broken(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(["the cat the dog " * 7, "a car"]))
    output = why("a red car", "--index", str(tmp_path / "texts.txt"))
    assert any(("the cat the dog " * 7).strip() in line for line in output.splitlines())
    assert all(line == line.rstrip() for line in output.splitlines())


def test_why__long_texts_are_searched_window_by_window(tmp_path: Path, tiny: cocoax.Encoder) -> None:
    long = "the cat behind the house " * 10 + "a red car"  # more than the encoder takes
    with pytest.raises(ValueError, match="takes at most 32"):
        tiny.represent([long])
    (tmp_path / "texts.txt").write_text("\n".join(["a big dog", long]))
    numbers = json.loads(why("a red car", "--index", str(tmp_path / "texts.txt"), "--top", "2", "--json"))
    windows = windows_of(tiny, long)
    own = tiny.represent(["a red car", "a big dog", *(long[window.begin : window.end] for window in windows)]).double()
    own /= own.norm(dim=1, keepdim=True)
    dog, *pieces = (own[1:] @ own[0]).tolist()
    first = 0 if max(pieces) > dog else 1  # a text is as similar as the most similar of its windows
    assert [hit["content"] for hit in numbers["hits"]] == ([long, "a big dog"] if first == 0 else ["a big dog", long])
    assert numbers["hits"][first]["similarity"] == pytest.approx(max(pieces), abs=1e-5)
    assert numbers["hits"][first]["document"]["window"]["number"] == 1 + pieces.index(max(pieces))


def test_why__all_of_photos_of_any_shape(towers: cocoax.Encoder, tmp_path: Path, complaint: Callable[..., str]) -> None:
    towers.text.inputs.tokenize = Spaces()  # type: ignore[attr-defined]
    for seed, size in enumerate([(60, 20), (20, 60), (30, 30)]):
        picture(seed).resize(size).save(tmp_path / f"{seed}.png")
    own = towers.text.represent(["a red car"])[0]
    shown: dict[bool, dict[str, float]] = {}
    for crop in (False, True):
        seeing = towers if crop else towers.whole()
        cosines = {
            f"{seed}.png": float(cosine_similarity(own, towers.represent([seeing.explicand(tmp_path / f"{seed}.png")])[0], 0))
            for seed in range(3)
        }
        numbers = json.loads(why("a red car", "--index", str(tmp_path), "--json", *(["--crop"] if crop else [])))
        shown[crop] = {hit["content"]: hit["similarity"] for hit in numbers["hits"]}
        assert list(shown[crop]) == sorted(cosines, key=lambda name: -cosines[name])  # what is shown is what was searched by
        assert shown[crop] == pytest.approx(cosines, abs=1e-4)
    assert shown[False] != pytest.approx(shown[True], abs=1e-3)
    (tmp_path / "texts.txt").write_text("a dog\nthe cat")
    said = complaint("why", "a car", "--index", str(tmp_path / "texts.txt"), "--baseline", "blur")
    assert said == "--baseline is about pictures, and none is explained here; leave it out."
