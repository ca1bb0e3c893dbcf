"""Opening what users name (files, folders, patterns, tables, lines) and hold (loaders, data sets, batches)."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import cocoax
from cocoax.inputs import Pictures
from cocoax.inputs.open import each_input, is_one, open_input, open_inputs

IMAGES = torch.arange(5 * 3 * 2 * 2, dtype=torch.float32).view(5, 3, 2, 2)
ROWS = [{"image": image, "label": number} for number, image in enumerate(IMAGES)]


def loader(data: Any) -> DataLoader[Any]:
    return DataLoader(data, batch_size=2, generator=torch.Generator())  # or else it draws from the global random state


def taken(inputs: Any, key: str | None = None) -> Tensor:
    items, _ = each_input(inputs, Pictures(), key)
    return torch.stack([torch.as_tensor(item) for item in items])


@pytest.mark.parametrize(
    ("inputs", "key"),
    [
        (IMAGES, None),
        (list(IMAGES), None),
        (IMAGES.numpy(), None),
        (iter([IMAGES[:2], IMAGES[2:]]), None),
        (loader(IMAGES), None),
        (TensorDataset(IMAGES, torch.arange(5)), None),
        (loader(TensorDataset(IMAGES, torch.arange(5))), None),
        (loader(ROWS), "image"),
        (ROWS, "image"),
        ([{"image": IMAGES[:3]}, {"image": IMAGES[3:]}], "image"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_input__the_same_images(inputs: Any, key: str | None) -> None:
    assert torch.equal(taken(inputs, key), IMAGES)


def test_each_input__knows_how_many_where_that_can_be_known() -> None:
    assert each_input(loader(IMAGES), Pictures())[1] == 5
    assert each_input(iter(IMAGES), Pictures())[1] is None


@pytest.mark.parametrize(
    ("key", "what"), [(None, "say which entry is the input"), ("picture", "there is no entry 'picture'")]
)
def test_each_input__dicts_without_the_key(key: str | None, what: str) -> None:
    message = rf"The inputs come as dicts with the keys 'image', 'label'; {what}, as in key='image'\."
    with pytest.raises(ValueError, match=message):
        taken(loader(ROWS), key)


def test_each_input__one_array_is_one_picture() -> None:
    assert [np.shape(item) for item in each_input(np.zeros((4, 6, 3), np.uint8), Pictures())[0]] == [(4, 6, 3)]


def test_each_input__examples_of_a_data_set_are_single_whatever_their_labels_are() -> None:
    class Reviews:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> tuple[str, str]:
            return [("I like it", "positive"), ("I hate it", "negative")][index]

    kind = cocoax.TextEncoder(torch.nn.Identity(), str.split, limit=8, name="words").inputs  # type: ignore[arg-type]
    assert list(each_input(Reviews(), kind)[0]) == ["I like it", "I hate it"]


@pytest.mark.parametrize(
    "pairs",
    [
        list(zip(IMAGES, range(5), strict=True)),
        iter(zip(IMAGES, "abcde", strict=False)),
        ((image.numpy(), torch.tensor(3)) for image in IMAGES),
        [(IMAGES[:2], torch.arange(2)), (IMAGES[2:], torch.arange(3))],
    ],
    ids=["list", "iterator", "generator", "batches"],
)
def test_each_input__pairs_with_labels(pairs: Any) -> None:
    pairs = [(image, 0 if isinstance(label, str) else label) for image, label in pairs]  # a string may be a picture's path
    assert torch.equal(taken(pairs), IMAGES)
    assert torch.equal(taken(iter(pairs)), IMAGES)


def test_each_input__two_inputs_are_no_pair() -> None:
    kind = cocoax.TextEncoder(torch.nn.Identity(), str.split, limit=8, name="words").inputs  # type: ignore[arg-type]
    assert list(each_input([("I like it", "positive")], kind)[0]) == [("I like it", "positive")]


@pytest.mark.parametrize("labelled", [TensorDataset(IMAGES, torch.arange(5)), loader(IMAGES)], ids=["data set", "loader"])
def test_explain__what_training_loops_hold(labelled: Any) -> None:
    encoder = cocoax.Encoder(torch.nn.Flatten(), name="flat")
    target = cocoax.similarity_to(encoder.reference(IMAGES[:2]))
    method = cocoax.Occlusion(window=1, baseline=cocoax.Constant(0.5))
    for one, other in zip(
        method.explain(encoder, labelled, target), method.explain(encoder, list(IMAGES), target), strict=True
    ):
        assert torch.equal(one.values, other.values)


# --- names ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with texts, pictures, sounds and tables, in which names are looked up."""
    for folder in ("texts", "photos/more", "voices", "empty"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("photos/a.jpg", "photos/more/b.png", "voices/c.wav"):
        (tmp_path / name).touch()
    for name, text in (("one.txt", " a cat\nand a dog "), ("two.md", "a car"), (".hidden.txt", "no")):
        (tmp_path / "texts" / name).write_text(text)
    (tmp_path / "lines.txt").write_text("a cat\n\n  a dog \n")
    (tmp_path / "table.csv").write_text("id,photo,caption\n1,photos/a.jpg,a cat\n2,photos/more/b.png,a dog\n")
    (tmp_path / "rows.jsonl").write_text('{"text": "a cat"}\n{"text": "a dog"}\n')
    (tmp_path / "gaps.csv").write_text("text,label\na cat,1\n,2\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a cat", "a cat"),
        ("cats.jpg and dogs.png", "cats.jpg and dogs.png"),
        ("photos/a.jpg", Path("photos/a.jpg")),
        ("voices/c.wav", Path("voices/c.wav")),
        ("texts/one.txt", "a cat\nand a dog"),
        ("x" * 5000, "x" * 5000),
    ],
)
def test_open_input__a_text_or_a_file(name: str, expected: str | Path, here: Path) -> None:
    assert open_input(name) == expected


def test_open_input__standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("a cat\n"))
    assert open_input("-") == "a cat"


@pytest.mark.parametrize(
    ("name", "column", "expected"),
    [
        ("texts", None, ["a cat\nand a dog", "a car"]),
        ("photos", None, [Path("photos/a.jpg"), Path("photos/more/b.png")]),
        ("voices", None, [Path("voices/c.wav")]),
        ("photos/*.jpg", None, [Path("photos/a.jpg")]),
        ("photos/**/*.png", None, [Path("photos/more/b.png")]),
        ("texts/*.md", None, ["a car"]),
        ("table.csv", "caption", ["a cat", "a dog"]),
        ("table.csv", "photo", [Path("photos/a.jpg"), Path("photos/more/b.png")]),
        ("rows.jsonl", None, ["a cat", "a dog"]),
        ("lines.txt", None, ["a cat", "a dog"]),
        ("photos/a.jpg", None, [Path("photos/a.jpg")]),
        ("a cat", None, ["a cat"]),
    ],
)
def test_open_inputs__of_a_name(name: str, column: str | None, expected: list[str | Path], here: Path) -> None:
    assert open_inputs(name, column) == expected


def test_open_inputs__parquet(here: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    parquet.write_table(arrow.table({"text": ["a cat", "a dog"], "label": [1, 2]}), here / "table.parquet")
    assert open_inputs("table.parquet", "text") == ["a cat", "a dog"]
    with pytest.raises(ValueError, match="text, label"):
        open_inputs("table.parquet")
    with pytest.raises(ValueError, match="int"):
        open_inputs("table.parquet", "label")


@pytest.mark.parametrize(
    ("name", "column", "word"),
    [
        ("table.csv", None, "id, photo, caption"),
        ("table.csv", "text", "no column 'text'"),
        ("gaps.csv", "text", "Row 1"),
        ("missing.csv", None, "No file"),
        ("missing.txt", None, "No file"),
        ("missing.jpg", None, "No file"),
        ("photos/*.gif", None, "matches"),
        ("empty", None, "No pictures"),
        ("lines.txt", "text", "table"),
    ],
)
def test_open_inputs__errors(name: str, column: str | None, word: str, here: Path) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=word):
        open_inputs(name, column)


@pytest.mark.parametrize(("name", "word"), [("photos", "folder"), ("missing.png", "No file"), (" ", "empty")])
def test_open_input__errors(name: str, word: str, here: Path) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=word):
        open_input(name)


def test_each_input__of_names(here: Path) -> None:
    pictures, texts = Pictures(), cocoax.TextEncoder(torch.nn.Identity(), lambda text: [1], limit=4).inputs
    assert list(each_input("photos/**/*.png", pictures)[0]) == [Path("photos/more/b.png")]
    assert list(each_input("table.csv", pictures, "photo")[0]) == [Path("photos/a.jpg"), Path("photos/more/b.png")]
    assert list(each_input(Path("table.csv"), texts, "caption")[0]) == ["a cat", "a dog"]
    assert list(each_input(Path("lines.txt"), texts)[0]) == ["a cat", "a dog"]
    assert list(each_input("lines.txt", texts)[0]) == ["lines.txt"]  # a string is a text
    assert is_one("photos/a.jpg", pictures)
    assert not any(is_one(name, pictures) for name in ("photos", "photos/*.jpg", "table.csv"))
