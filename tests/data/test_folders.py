"""Folders of pictures: classes from folders and file names, splits that are there or drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cocoax.data.folders import class_name, image_folder
from cocoax.encoders.families.starter import imagenet_classes
from tests.data.tiny import write_picture


def names(images: Any, folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in images]


@pytest.mark.parametrize("held_out", ["val", "valid", "validation", "test"])
def test_image_folder__its_own_splits(held_out: str, tmp_path: Path) -> None:
    for place in ("train/n01440764/b.JPEG", "train/n01440764/a.JPEG", "train/n02102040/c.jpg", "train/extra/x.png"):
        write_picture(tmp_path / place)
    for place in (f"{held_out}/n02102040/d.jpg", f"{held_out}/n01440764/e.jpg"):
        write_picture(tmp_path / place)
    train, test = image_folder(tmp_path), image_folder(tmp_path, "test")
    assert train.classes == test.classes == ["extra", "tench", "English springer"]
    assert names(train.images, tmp_path / "train") == [
        "extra/x.png",
        "n01440764/a.JPEG",
        "n01440764/b.JPEG",
        "n02102040/c.jpg",
    ]
    assert train.labels.tolist() == [0, 1, 1, 2]
    assert names(test.images, tmp_path / held_out) == ["n01440764/e.jpg", "n02102040/d.jpg"]
    assert test.labels.tolist() == [1, 2]


def test_image_folder__imagenets_test_folder_has_no_labels(tmp_path: Path) -> None:
    for place in ("train/n01440764/a.JPEG", "val/n01440764/b.JPEG", "test/ILSVRC2012_test_00000001.JPEG"):
        write_picture(tmp_path / place)
    assert names(image_folder(tmp_path, "test").images, tmp_path) == ["val/n01440764/b.JPEG"]


def test_image_folder__hidden_and_other_files_are_left_out(tmp_path: Path) -> None:
    for place in (
        "cat/a.png",
        "cat/._a.png",
        "cat/.thumbs/b.png",
        ".cache/c.png",
        "__MACOSX/cat/a.png",
        "cat/deep/d.png",
        "dog/e.png",
    ):
        write_picture(tmp_path / place)
    (tmp_path / "cat" / "notes.txt").write_text("not a picture")
    (tmp_path / "labels.csv").write_text("neither")
    found = [path for split in ("train", "test") for path in image_folder(tmp_path, split).images]  # type: ignore[arg-type]
    assert sorted(names(found, tmp_path)) == ["cat/a.png", "cat/deep/d.png", "dog/e.png"]
    assert image_folder(tmp_path).classes == ["cat", "dog"]


@pytest.mark.parametrize("outer", ["", "train"])
def test_image_folder__a_fifth_of_each_class_is_held_out(outer: str, tmp_path: Path) -> None:
    sizes = {"cat": 50, "dog": 10, "cow": 2}
    for name, size in sizes.items():
        for index in range(size):
            write_picture(tmp_path / outer / name / f"{index:02}.png")
    train, test = image_folder(tmp_path), image_folder(tmp_path, "test")
    assert train.classes == test.classes == ["cat", "cow", "dog"]
    assert np.bincount(test.labels).tolist() == [10, 1, 2]
    assert not set(train.images) & set(test.images)
    assert len({*train.images, *test.images}) == 62
    assert list(train.images) == sorted(train.images)
    for data in (train, test):
        assert all(path.parent.name == data.classes[label] for path, label in zip(data.images, data.labels, strict=True))
    again = image_folder(tmp_path, "test")
    assert again.images == test.images
    chosen = [int(path.stem) for path in test.images if path.parent.name == "cat"]
    assert chosen != list(range(10))  # drawn, not the first ones


def test_image_folder__names_that_begin_with_a_synset(tmp_path: Path) -> None:
    synsets = ["n01440764", "n01443537", "n15075141"]
    for index, synset in enumerate(synsets):
        for number in range(5):
            write_picture(tmp_path / f"{synset}_{'abc'[index]}_{number}.jpg")
    train, test = image_folder(tmp_path), image_folder(tmp_path, "test")
    assert train.classes == ["tench", "goldfish", "toilet tissue"]
    assert [path.name[:9] for path in train.images] == [synsets[label] for label in train.labels]
    assert len(train) == 12
    assert len(test) == 3


def test_image_folder__one_picture_of_each_class(tmp_path: Path) -> None:
    """They are held out with a probability of a fifth."""
    for index in range(200):
        (tmp_path / f"n{index:08}_x.jpg").write_bytes(b"")
    train, test = image_folder(tmp_path), image_folder(tmp_path, "test")
    assert len(train.classes) == len(test.classes) == 200
    assert len(train) + len(test) == 200
    assert 25 <= len(test) <= 55


def test_image_folder__pictures_alone_are_one_class(tmp_path: Path) -> None:
    for name in ("a.png", "n01440764_tench.png", "c.png"):
        write_picture(tmp_path / "holiday" / name)
    train, test = image_folder(tmp_path / "holiday"), image_folder(tmp_path / "holiday", "test")
    assert train.classes == ["holiday"]
    assert len(train) == 2
    assert len(test) == 1


def test_class_name__synsets_are_in_the_order_of_the_classes() -> None:
    assert class_name("n01440764") == "tench"
    assert class_name("n02012849") == "crane bird"
    assert class_name("n03126707") == "construction crane"
    assert class_name("n15075141") == imagenet_classes()[999]
    assert class_name("elephants") == "elephants"
    # The classes of Imagenette.
    synsets = ["n01440764", "n02102040", "n02979186", "n03000684", "n03028079", "n03394916", "n03417042", "n03425413"]
    known = [
        "tench",
        "English springer",
        "cassette player",
        "chain saw",
        "church",
        "French horn",
        "garbage truck",
        "gas pump",
    ]
    assert [class_name(synset) for synset in [*synsets, "n03445777", "n03888257"]] == [*known, "golf ball", "parachute"]


# --- what is wrong ------------------------------------------------------------------------------------------------------


def test_image_folder__nothing_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"No folder at .*nowhere; check the path"):
        image_folder(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"No pictures below"):
        image_folder(tmp_path)
    write_picture(tmp_path / "cat" / "a.png")
    (tmp_path / "dog").mkdir()
    with pytest.raises(ValueError, match=r"No pictures below .*dog"):
        image_folder(tmp_path)


def test_image_folder__no_training_data(tmp_path: Path) -> None:
    write_picture(tmp_path / "val" / "cat" / "a.png")
    with pytest.raises(FileNotFoundError, match=r"holds val/ but no train/ to draw corpora and foils from"):
        image_folder(tmp_path)


def test_image_folder__unsorted_validation_pictures(tmp_path: Path) -> None:
    write_picture(tmp_path / "train" / "n01440764" / "a.JPEG")
    write_picture(tmp_path / "val" / "ILSVRC2012_val_00000001.JPEG")
    assert len(image_folder(tmp_path)) == 1
    with pytest.raises(ValueError, match=r"val holds pictures but no folders of classes; sort them into one folder for each"):
        image_folder(tmp_path, "test")


def test_image_folder__pictures_beside_folders(tmp_path: Path) -> None:
    write_picture(tmp_path / "a.png")
    write_picture(tmp_path / "cat" / "b.png")
    with pytest.raises(ValueError, match=r"holds pictures \(a\.png, …\) beside folders \(cat, …\), so it is not clear"):
        image_folder(tmp_path)


def test_image_folder__too_few_to_hold_some_out(tmp_path: Path) -> None:
    write_picture(tmp_path / "a.png")
    split: Any
    failed = 0
    for split in ("train", "test"):
        try:
            image_folder(tmp_path, split)
        except ValueError as error:
            failed += "too few pictures (1) to hold some out" in str(error)
    assert failed == 1


def test_image_folder__unknown_split(tmp_path: Path) -> None:
    split: Any = "val"
    with pytest.raises(ValueError, match=r"'split' parameter must be 'train' or 'test'. Got 'val' instead"):
        image_folder(tmp_path, split)
