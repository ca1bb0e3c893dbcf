"""cocoax match, why and ask-text: texts, pictures and sounds, in the terminal, as JSON and in files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.io import wavfile
from torch.nn.functional import cosine_similarity

import cocoax
from cocoax.encoders import ENCODERS
from cocoax.encoders.families.sentence import _TextModel, load_hf_text
from cocoax.questions.windows import windows_of
from tests.cli.support import interrupt_after, invoke, picture
from tests.conftest import SmallNet
from tests.sounds import RATE, hum, listener
from tests.tiny import save_bert
from tests.towers import Spaces

# --- match ---


@pytest.fixture(autouse=True)
def tiny(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> cocoax.Encoder:
    encoder = load_hf_text(str(save_bert(tmp_path_factory.mktemp("tiny"))))
    monkeypatch.setitem(ENCODERS, "minilm", lambda: encoder)  # type: ignore[arg-type]
    return encoder


def match(*arguments: str) -> str:
    result = invoke("match", *arguments, "--samples", "30", catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_match__texts() -> None:
    output = match("a red car", "the big car", "--rather-than", "a dog", "--rather-than", "the cat")
    assert "the document rather than" not in output
    for words in ("similarity", "a red car", "the big car", "to the 2 others (", "car – car"):
        assert words in output


def test_match__json_and_files(tmp_path: Path) -> None:
    out = tmp_path / "out"
    numbers = json.loads(match("a red car", "the big car", "--json", "--out", str(out)))
    assert [part["text"] for part in numbers["query"]["parts"]] == ["a", "red", "car"]
    assert [Path(file).suffix for file in numbers.pop("files")] == [".html", ".json", ".png"]
    assert json.loads((out / "match.json").read_text()) == numbers
    assert sorted(file.name for file in out.iterdir()) == ["match.html", "match.json", "match.png"]


def test_match__a_picture_and_a_caption(towers: cocoax.Encoder, image: str) -> None:
    towers.text.inputs.tokenize = Spaces()  # type: ignore[attr-defined]
    numbers = json.loads(match("a red car", image, "--rather-than", "a dog", "--json"))
    assert [part["text"] for part in numbers["query"]["parts"]] == ["a", "red", "car"]
    assert numbers["document"]["parts"][0]["place"]
    assert {pair["query"] for pair in numbers["pairs"]} <= {"a", "red", "car"}
    assert numbers["pairs"][0]["document"]


def test_match__mistakes(complaint: Callable[..., str], tmp_path: Path) -> None:
    assert "No file at nothing.png" in complaint("match", "a car", "nothing.png")
    assert complaint("match", "a car", str(tmp_path)).startswith(f"{tmp_path} is a folder; name one file of it.")
    (tmp_path / "car.txt").write_text("a red car")
    (tmp_path / "car.png").write_bytes(b"a photo of mine")
    assert "Files end in .html, .json, .png, .pdf" in complaint("match", "a", "b", "--out", str(tmp_path / "car.txt"))
    picture = str(tmp_path / "car.png")
    assert f"--out {picture} is an input" in complaint("match", picture, "a car", "--out", picture)
    assert (tmp_path / "car.png").read_bytes() == b"a photo of mine"
    assert "text is empty" in complaint("match", " ", "a car")
    assert "at least one word" in complaint("match", "a", "b", "--rather-than", "")


def test_match__a_sentence_that_ends_like_a_file_is_a_text() -> None:
    assert "what is car.png" in match("what is car.png", "a car")
    long = "a red car " * 30 + "see notes.txt"
    assert "notes.txt" in match(long, "a car")


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
    interrupt_after(monkeypatch, _TextModel, "forward", 3)
    assert (
        interruption("match", "a red car", "the big car")
        == "interrupted: what was encoded is kept; the same command goes on from there"
    )


def test_match__all_of_a_photo_on_both_sides(towers: cocoax.Encoder, tmp_path: Path) -> None:
    sides = [str(tmp_path / "wide.png"), str(tmp_path / "high.png")]
    for seed, (side, size) in enumerate(zip(sides, [(60, 20), (20, 60)], strict=True)):
        picture(seed).resize(size).save(side)
    similarities = {}
    for options, seeing in (((), towers), (("--crop",), towers.cropped())):
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


# --- why ---


TEXTS = ["the violinist parked her car", "a big red dog", "the cat behind the house", "a car"]


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
    assert "to hits 2 and 3 (" in output
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
    indexes += [
        [str(tmp_path / "vectors.parquet"), "--column", "text", *more]
        for more in (["--column", "text"], ["--column", "text", "--vector-column", "embedding"])
    ]
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
    assert numbers["hits"][0]["pairs"][0]["document"]


def test_why__rather_than(lines: Path) -> None:
    output = why("a red car", "--index", str(lines), "--rather-than", "a big dog", "--top", "1")
    assert "to a big dog (" in output


def test_why__mistakes(lines: Path, tmp_path: Path, complaint: Callable[..., str]) -> None:
    assert "No file or folder at" in complaint("why", "a car", "--index", str(tmp_path / "nothing"))
    np.save(tmp_path / "vectors.npy", np.ones((4, 5)))
    assert "by --texts" in complaint("why", "a car", "--index", str(tmp_path / "vectors.npy"))
    told = complaint("why", "a car", "--index", str(tmp_path / "vectors.npy"), "--texts", str(lines))
    assert "The index has vectors of 5 dimensions, but" in told
    np.save(tmp_path / "vectors.npy", np.ones((3, 16)))
    told = complaint("why", "a car", "--index", str(tmp_path / "vectors.npy"), "--texts", str(lines))
    assert "3 vectors but 4 texts" in told
    (tmp_path / "empty.txt").write_text("\n")
    assert "holds no texts" in complaint("why", "a car", "--index", str(tmp_path / "empty.txt"))
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    told = complaint("why", "a car", "--index", str(tmp_path / "binary"))
    assert "binary cannot be read as texts, one per line" in told
    told = complaint("why", "a car", "--index", str(lines), "--out", str(tmp_path / "why.png"))
    assert ".html, .json" in told


def test_why__features_of_a_picture(towers: cocoax.Encoder, tmp_path: Path, complaint: Callable[..., str]) -> None:
    towers.text.inputs.tokenize = Spaces()  # type: ignore[attr-defined]
    for name in range(2):
        picture(name).save(tmp_path / f"{name}.png")
    options = ("a cat", "--index", str(tmp_path))
    first = json.loads(why(*options, "--features", "segments:3", "--json"))["hits"][0]
    assert len(first["document"]["parts"]) <= 3
    assert "'letters'" in complaint("why", *options, "--features", "letters")


def test_why__interrupted(lines: Path, monkeypatch: pytest.MonkeyPatch, interruption: Callable[..., str]) -> None:
    interrupt_after(monkeypatch, _TextModel, "forward", 6)
    said = interruption("why", "a red car", "--index", str(lines))
    assert said == "interrupted: what was encoded is kept; the same command goes on from there"


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
        seeing = towers.cropped() if crop else towers
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
    assert "--baseline is about pictures" in said


# --- ask-text ---


TEXT = "The violinist parked her car."


def ask_text(*arguments: str, **options: Any) -> str:
    result = invoke("ask-text", *arguments, catch_exceptions=False, **options)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("method", ["rise", "kernel-shap", "integrated-gradients"])
def test_ask_text__prints_the_text_the_score_and_the_words(method: str) -> None:
    output = ask_text(TEXT, "--like", "a cat", "--unlike", "a dog", "--samples", "60", "--method", method)
    assert "a cat rather than a dog" in output
    assert TEXT in output
    assert "similarity to a cat (" in output
    assert "violinist" in output.split("similarity to a cat (")[1]


def test_ask_text__writes_a_report_and_json(tmp_path: Path) -> None:
    out = tmp_path / "answers"
    ask_text(TEXT, "--like", "a cat", "--unlike", "a dog", "--unlike", "the car", "--samples", "60", "--out", str(out))
    page = (out / "answer.html").read_text(encoding="utf-8")
    assert "violinist" in page
    assert "http" not in page.replace("http-equiv", "")
    numbers = json.loads((out / "answer.json").read_text(encoding="utf-8"))
    assert [row["feature"] for row in numbers["rows"]] == ["The", "violinist", "parked", "her", "car", "."]
    assert [TEXT[row["begin"] : row["end"]] for row in numbers["rows"]] == [row["feature"] for row in numbers["rows"]]
    assert numbers["score"] == pytest.approx(numbers["corpus"] - numbers["foil"], abs=1e-5)
    for row in numbers["rows"]:
        assert row["value"] == pytest.approx(row["corpus"] - row["foil"], abs=1e-4)


def test_ask_text__again_keeps_the_earlier_report(tmp_path: Path) -> None:
    for like in ("a cat", "a dog"):
        ask_text(TEXT, "--like", like, "--samples", "60", "--out", str(tmp_path))
    assert sorted(file.name for file in tmp_path.glob("answer*")) == [
        "answer-2.html",
        "answer-2.json",
        "answer.html",
        "answer.json",
    ]
    assert json.loads((tmp_path / "answer.json").read_text())["question"] == "a cat"


def test_ask_text__json_and_nothing_else_on_standard_output(tmp_path: Path) -> None:
    arguments = ("cat " * 40, "--like", "a cat", "--samples", "60", "--out", str(tmp_path), "--json")
    with pytest.warns(UserWarning, match="left out"):
        result = invoke("ask-text", *arguments)
    content = json.loads(result.stdout)
    files = [str(tmp_path / name) for name in ("answer.json", "answer.html")]
    assert content == {**json.loads((tmp_path / "answer.json").read_text()), "files": files}


def test_ask_text__interrupted(monkeypatch: pytest.MonkeyPatch, interruption: Callable[..., str]) -> None:
    interrupt_after(monkeypatch, _TextModel, "forward", 3)
    said = interruption("ask-text", TEXT, "--like", "a cat", "--unlike", "a dog")
    assert said == "interrupted: what was encoded is kept; the same command goes on from there"


def test_ask_text__match_explains_both_sides() -> None:
    output = ask_text("red car", "--like", TEXT, "--unlike", "a dog", "--match", "--samples", "60")
    for words in ("query: what makes it like this document", "document: what makes it like the query", "to the other"):
        assert words in output


def test_ask_text__options_and_standard_input() -> None:
    output = ask_text("-", "--like", "a cat", "--features", "sentences", "--removal", "deletion", input="A car. The dog.")
    assert "The dog." in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["", "--like", "a cat"], "The text is empty; write at least one word"),
        (["  ", "--like", "a cat"], "The text is empty; write at least one word"),
        ([TEXT, "--like", " "], "One of the texts of --like is empty"),
        ([TEXT, "--like", "a cat", "--unlike", ""], "One of the texts of --unlike is empty"),
        ([TEXT, "--like", "a cat", "--method", "magic"], "No method is called 'magic'; known are rise"),
        ([TEXT, "--like", "a", "--like", "cat", "--match"], "A match is with one document"),
    ],
)
def test_ask_text__mistakes_are_told_before_anything_is_loaded(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, complaint: Callable[..., str]
) -> None:
    monkeypatch.setattr(cocoax, "load", lambda _name, device: pytest.fail("loaded an encoder"))
    assert message in complaint("ask-text", *arguments)


def test_ask_text__an_encoder_of_pictures_alone(monkeypatch: pytest.MonkeyPatch, complaint: Callable[..., str]) -> None:
    monkeypatch.setattr(cocoax, "load", lambda _name, device: cocoax.Encoder(SmallNet().eval()))
    said = complaint("ask-text", TEXT, "--like", "a cat", "--encoder", "mine")
    assert "'mine' does not encode texts" in said


def test_ask_text__names_of_files_are_no_texts(tmp_path: Path, complaint: Callable[..., str]) -> None:
    assert "'cat.jpg' is the name of a picture" in complaint("ask-text", "cat.jpg", "--like", "music")
    assert "use 'cocoax ask'" in complaint("ask-text", TEXT, "--like", "cat.jpg")
    (tmp_path / "article.txt").write_text(TEXT)
    assert "'cocoax ask-text - < FILE'" in complaint("ask-text", str(tmp_path / "article.txt"), "--like", "music")
