"""cocoax minimal, counterfactual, examples, knows, discover, compare-methods: of texts and pictures, as JSON and files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import cocoax
from cocoax.cli.insight import _cut_alike
from cocoax.encoders import ENCODERS
from cocoax.encoders.families.sentence import load_hf_text
from cocoax.masking import resolve
from cocoax.masking.removals import DEFAULT_PRESET, PRESETS
from tests.cli.support import invoke, picture
from tests.tiny import save_bert

# --- minimal ---


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
    result = invoke("minimal", image, "--like", image, "--features", "3", "--samples", "60", catch_exceptions=False)
    assert "of 9 parts alone keep" in result.output


def test_minimal_and_counterfactual__of_segments(towers: cocoax.Encoder, image: str, tmp_path: Path) -> None:
    picture(7).save(tmp_path / "other.png")
    halves = tmp_path / "halves.png"
    Image.fromarray(np.repeat([[0] * 8 + [1] * 8], 16, 0).astype(np.uint8)).save(halves)
    options = ("--like", image, "--features", str(halves), "--json")
    plain = json.loads(invoke("minimal", image, *options, "--samples", "10", catch_exceptions=False).stdout)
    assert plain["total"] == 2
    flipped = invoke("counterfactual", image, *options, "--unlike", str(tmp_path / "other.png"), catch_exceptions=False)
    changes = json.loads(flipped.stdout)["counterfactuals"][0]["changes"]
    assert {change["part"] for change in changes} <= {"left part", "right part"}


def test_minimal__mistakes(complaint: Callable[..., str]) -> None:
    assert "No file at nothing.png" in complaint("minimal", "nothing.png", "--like", "a")
    sentence = complaint("minimal", "a red car", "--like", "a red car", "--keep", "3", "--samples", "10")
    assert "'keep'" in sentence


def test_minimal__all_of_a_wide_photo(towers: cocoax.Encoder, tmp_path: Path) -> None:
    picture(3).resize((60, 20)).save(tmp_path / "wide.png")
    arguments = ("minimal", str(tmp_path / "wide.png"), "--like", str(tmp_path / "wide.png"), "--samples", "100", "--json")
    plain = {}
    for options in ((), ("--crop",), ("--baseline", "mean-colour"), ("--features", "4")):
        plain[options] = json.loads(invoke(*arguments, *options, catch_exceptions=False).stdout)
    assert plain["--crop",]["score"] == pytest.approx(1) != pytest.approx(plain[()]["score"])
    assert plain["--features", "4"]["total"] == 16
    assert plain["--baseline", "mean-colour"]["score"] == plain[()]["score"]
    assert plain["--baseline", "mean-colour"]["emptied"] != plain[()]["emptied"]
    emptied = cocoax.Blur(121, 20.0)(towers.whole().explicand(tmp_path / "wide.png").tensor)
    target = cocoax.corpus_similarity(towers.reference([tmp_path / "wide.png"]))
    assert plain[()]["emptied"] == pytest.approx(float(target.score(towers.encode([emptied]))[0]), abs=1e-5)


# --- counterfactual ---


def test_counterfactual__of_a_text(tmp_path: Path) -> None:
    arguments = ("counterfactual", "the big red car", "--like", "the big red car", "--unlike", "the cat parked")
    result = invoke(*arguments, "--out", str(tmp_path), "--json", catch_exceptions=False)
    numbers = json.loads(result.stdout)
    first = numbers["counterfactuals"][0]
    assert first["score"] < 0 < numbers["score"]
    assert set(first["result"].split()) <= {*["the", "big", "red", "car"], *["the", "cat", "parked"]}
    assert (tmp_path / "counterfactual.html").is_file()


def test_counterfactual__of_a_picture(towers: cocoax.Encoder, image: str, tmp_path: Path) -> None:
    (tmp_path / "distractors").mkdir()
    picture(1).save(tmp_path / "distractors" / "other.png")
    arguments = ("--like", image, "--unlike", str(tmp_path / "distractors"), "--grid", "3")
    result = invoke("counterfactual", image, *arguments, catch_exceptions=False)
    assert "of 9 cells makes it -" in result.output
    result = invoke("counterfactual", image, *arguments, "--gradient", "--smoothness", "0", catch_exceptions=False)
    assert "The representation of a blurred copy follows" in result.output


def test_counterfactual__mistakes(complaint: Callable[..., str], towers: cocoax.Encoder, image: str) -> None:
    sentence = complaint("counterfactual", image, "--like", "a cat", "--unlike", "a dog")
    assert "--distractor" in sentence
    sentence = complaint("counterfactual", "a dog", "--like", "the big red car", "--unlike", "a dog")
    assert "so there is nothing to flip: it is not above 0." in sentence


def test_counterfactual__distractors_of_other_proportions(towers: cocoax.Encoder, tmp_path: Path) -> None:
    (tmp_path / "distractors").mkdir()
    picture(3).resize((60, 20)).save(tmp_path / "wide.png")
    for seed, size in ((1, (20, 60)), (2, (30, 30))):
        picture(seed).resize(size).save(tmp_path / "distractors" / f"{seed}.png")
    wide, distractors = str(tmp_path / "wide.png"), str(tmp_path / "distractors")
    arguments = ("counterfactual", wide, "--like", wide, "--unlike", distractors)
    result = invoke(*arguments, catch_exceptions=False)
    assert "Of distractors with other proportions than the photo's, the centre gives parts." in result.stderr
    assert "of 48 cells makes it -" in result.stdout  # 4 x 12
    cropped = invoke(*arguments, "--crop", catch_exceptions=False)
    assert cropped.stderr == ""
    assert "of 49 cells makes it -" in cropped.stdout
    whole = towers.whole()
    first, second = _cut_alike(whole, list((tmp_path / "distractors").iterdir()), Path(wide), whole.explicand(wide))
    assert first.tensor.shape == second.tensor.shape == whole.explicand(wide).tensor.shape


# --- examples ---


def test_examples__of_a_text(tmp_path: Path) -> None:
    members = ("--member", "a red car", "--member", "the cat", "--member", "a big dog")
    result = invoke(
        "examples", "a red car", *members, "--method", "neighbours", "--json", "--out", str(tmp_path), catch_exceptions=False
    )
    numbers = json.loads(result.stdout)
    assert max(numbers["members"], key=lambda member: member["value"])["name"] == "a red car"
    assert (tmp_path / "examples.png").is_file()


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
    assert "'simplex' has none" in said


# --- knows ---


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
    assert "The encoder separates these 12 'red' from the 12 of 'blue': AUC" in output
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
    assert "The encoder separates these 20 'a'" in knows(str(tmp_path / "a.npy"), str(tmp_path / "b.npy"))


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


# --- discover ---


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
    assert "The columns are a, b" in complaint("discover", str(tmp_path / "table.csv"))
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
    assert baselines == [PRESETS[DEFAULT_PRESET], cocoax.Mean()]
    folder = save_bert(tmp_path / "tiny")
    monkeypatch.setitem(ENCODERS, "minilm", lambda: load_hf_text(str(folder)))  # type: ignore[arg-type]
    (tmp_path / "texts.txt").write_text("a cat\na car\nthe dog")
    result = invoke("discover", str(tmp_path / "texts.txt"), "--baseline", "blur")
    assert "--baseline is about pictures" in str(result.exception)


# --- compare-methods ---


def test_compare_methods__of_pictures(towers: cocoax.Encoder, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for seed in range(3):  # too few to hold some out, which nothing is here
        picture(seed).save(folder / f"{seed}.png")
    (folder / "notes.txt").write_text("not a picture")
    arguments = ("compare-methods", str(folder), "--like", str(folder / "0.png"), "--samples", "120", "--steps", "4")
    chosen = ("--method", "occlusion", "--method", "kernel-shap", "--limit", "2")
    numbers = json.loads(invoke(*arguments, *chosen, "--json", "--out", str(tmp_path), catch_exceptions=False).stdout)
    assert set(numbers["ranking"]) == {"occlusion", "kernel-shap"}
    assert numbers["inputs"] == "2 images"
    assert [Path(file).name for file in numbers["files"]] == [f"method-comparison.{end}" for end in ("html", "json", "png")]
    printed = invoke(*arguments, *chosen, catch_exceptions=False).output
    assert "images" in printed
    assert "infidelity" in printed
    assert "Deletion: area under the deletion curve with the method's own baseline; lower is better." in printed


def test_compare_methods__mistakes(complaint: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("the big red car\nthe cat parked\n")
    sentence = complaint("compare-methods", str(tmp_path / "texts.txt"), "--like", "a car", "--method", "rise")
    assert "at least two" in sentence
    assert "No method is called 'lime'" in complaint("compare-methods", "a", "--like", "b", "--method", "lime")
    assert "check the path" in complaint("compare-methods", "nowhere", "--like", "b")
