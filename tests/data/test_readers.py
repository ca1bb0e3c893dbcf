"""Readers of data sets: pictures get the labels of the layout they lie in; what is missing or damaged is named."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cocoax.data import open_data
from cocoax.data.readers import CIFAR10_CLASSES, _class_name, _image_folder, _mura, cifar10
from cocoax.encoders.families.starter import imagenet_classes
from tests.data.tiny import CIFAR10_FILES, cifar10_batch, write_mura, write_picture


def names(images: Any, folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in images]


def write_cifar10(folder: Path, protocol: int = 2) -> Path:
    inner = folder / "cifar-10-batches-py"
    inner.mkdir(parents=True)
    for seed, name in enumerate(CIFAR10_FILES):
        (inner / name).write_bytes(pickle.dumps(cifar10_batch(seed), protocol))
    return inner


def test_open_data__unknown_split(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'split'"):
        open_data(tmp_path, "val")  # type: ignore[arg-type]


# --- open_data --------------------------------------------------------------------------------------------------------


def test_open_data__knows_data_sets_by_their_folder(tmp_path: Path) -> None:
    inner = write_cifar10(tmp_path / "cifar")
    assert len(open_data(tmp_path / "cifar")) == len(open_data(str(inner))) == 20
    renamed = write_mura(tmp_path / "x-rays")
    write_mura(tmp_path / "mura" / "MURA-v1.1")
    assert open_data(renamed).classes == open_data(tmp_path / "mura").classes == ["negative", "positive"]
    for place in ("train/n01440764/a.JPEG", "train/n03888257/b.JPEG", "val/n03888257/c.JPEG", "val/n01440764/d.JPEG"):
        write_picture(tmp_path / "outer" / "imagenette2" / place)
    (tmp_path / "outer" / ".DS_Store").write_bytes(b"")
    for given in (tmp_path / "outer", tmp_path / "outer" / "imagenette2"):
        assert open_data(given).classes == ["tench", "parachute"]
        assert [path.name for path in open_data(given, "test").images] == ["d.JPEG", "c.JPEG"]
    for place in ("cat/a.png", "cat/b.png", "dog/c.png", "dog/d.png"):
        write_picture(tmp_path / "pets" / place)
    assert open_data(tmp_path / "pets").classes == ["cat", "dog"]
    assert len(open_data(tmp_path / "pets" / "cat", "test")) == 1


@pytest.mark.parametrize("place", ["nowhere", "."])
def test_open_data__missing_says_what_is_known_and_where_to_get_it(place: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no data")
    with pytest.raises(FileNotFoundError) as caught:
        open_data(tmp_path / place)
    text = str(caught.value)
    assert ("No folder at" in text, "it holds notes.txt" in text) == (place == "nowhere", place == ".")
    for known in ("cifar-10-batches-py/", "train/ and val/", "imagenette2.tgz", "MURA-v1.1/", "a folder for each class"):
        assert known in text
    for source in ("cs.toronto.edu", "image-net.org", "github.com/fastai/imagenette", "stanfordmlgroup.github.io"):
        assert source in text


# --- CIFAR-10 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 4])
def test_cifar10__reads_every_batch_in_order(protocol: int, tmp_path: Path) -> None:
    write_cifar10(tmp_path, protocol)
    train, test = cifar10(tmp_path), cifar10(tmp_path, "test")
    assert train.classes == test.classes == list(CIFAR10_CLASSES)
    for data, batches in ((train, [cifar10_batch(seed) for seed in range(5)]), (test, [cifar10_batch(5)])):
        rows = np.concatenate([each[b"data"] for each in batches])
        assert np.array_equal(data.images, rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        assert type(data.images) is np.ndarray
        assert data.labels.tolist() == [label for each in batches for label in each[b"labels"]]


def test_cifar10__missing_says_where_to_get_it(tmp_path: Path) -> None:
    (write_cifar10(tmp_path) / "data_batch_3").unlink()
    with pytest.raises(FileNotFoundError, match="data_batch_3"):
        cifar10(tmp_path)


class Attack:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("attacked",)


BATCH = cifar10_batch(5)
DAMAGED: dict[str, Any] = {
    "attack": {b"data": Attack(), b"labels": []},
    "cut off": pickle.dumps(BATCH)[:1000],
    "empty": b"",
    "a list": [1, 2],
    "no labels": {b"data": BATCH[b"data"]},
    "another shape": {b"data": np.zeros((2, 100), np.uint8), b"labels": [0, 1]},
    "longer rows": BATCH | {b"data": np.zeros((2, 6144), np.uint8)},
    "other numbers": BATCH | {b"data": np.zeros((4, 3072), np.int64)},
    "no array": BATCH | {b"data": [[0] * 3072] * 4},
    "nested labels": BATCH | {b"labels": [[1], [2], [3], [4]]},
    "an eleventh class": BATCH | {b"labels": [1, 2, 3, 10]},
    "too few labels": BATCH | {b"labels": [1, 2, 3]},
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_cifar10__a_damaged_batch_is_named(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    content = DAMAGED[kind]
    path = write_cifar10(tmp_path) / "test_batch"
    path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content, protocol=2))
    with pytest.raises(ValueError, match=r"test_batch is not a batch of CIFAR-10"):
        cifar10(tmp_path, "test")
    assert not (tmp_path / "attacked").exists()


# --- MURA -------------------------------------------------------------------------------------------------------------


def test_mura__pictures_have_the_labels_of_their_studies(tmp_path: Path) -> None:
    folder = write_mura(tmp_path / "MURA-v1.1")
    for given in (tmp_path, str(folder)):
        train, test = _mura(given), _mura(given, "test")
        assert names(train.images, folder) == [
            "train/XR_ELBOW/patient00001/study1_positive/image1.png",
            "train/XR_ELBOW/patient00001/study2_negative/image1.png",
            "train/XR_WRIST/patient00002/study1_negative/image1.png",
            "train/XR_WRIST/patient00002/study1_negative/image2.png",
        ]
        assert (train.labels.tolist(), test.labels.tolist()) == ([1, 0, 0, 0], [1, 1])


def test_mura__missing_or_unlabelled_pictures_are_named(tmp_path: Path) -> None:
    folder = write_mura(tmp_path / "MURA-v1.1")
    write_picture(folder / "train" / "XR_HAND" / "patient00003" / "study1" / "image1.png")
    with pytest.raises(ValueError, match=r"image1\.png lies in no study"):
        _mura(tmp_path)
    (folder / "valid").rename(folder / "validation")
    with pytest.raises(FileNotFoundError, match=r"MURA-v1\.1/valid"):
        _mura(tmp_path, "test")


# --- folders of pictures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("held_out", ["val", "valid", "validation", "test"])
def test_image_folder__its_own_splits(held_out: str, tmp_path: Path) -> None:
    train_files = ["extra/x.png", "n01440764/a.JPEG", "n01440764/b.JPEG", "n02102040/c.jpg"]
    test_files = ["n01440764/e.jpg", "n02102040/d.jpg"]
    for place in (*(f"train/{name}" for name in train_files), *(f"{held_out}/{name}" for name in test_files)):
        write_picture(tmp_path / place)
    if held_out == "val":
        write_picture(tmp_path / "test/ILSVRC2012_test_00000001.JPEG")  # ImageNet's test pictures have no labels
    train, test = _image_folder(tmp_path), _image_folder(tmp_path, "test")
    assert train.classes == test.classes == ["extra", "tench", "English springer"]
    assert names(train.images, tmp_path / "train") == train_files
    assert names(test.images, tmp_path / held_out) == test_files
    assert (train.labels.tolist(), test.labels.tolist()) == ([0, 1, 1, 2], [1, 2])


def test_image_folder__hidden_and_other_files_are_left_out(tmp_path: Path) -> None:
    kept = ["cat/a.png", "cat/deep/d.png", "dog/e.png"]
    for place in (*kept, "cat/._a.png", "cat/.thumbs/b.png", ".cache/c.png", "__MACOSX/cat/a.png"):
        write_picture(tmp_path / place)
    (tmp_path / "cat" / "notes.txt").write_text("not a picture")
    (tmp_path / "labels.csv").write_text("neither")
    found = [*_image_folder(tmp_path).images, *_image_folder(tmp_path, "test").images]
    assert sorted(names(found, tmp_path)) == kept


@pytest.mark.parametrize("outer", ["", "train"])
def test_image_folder__a_fifth_of_each_class_is_held_out(outer: str, tmp_path: Path) -> None:
    for name, size in {"cat": 50, "dog": 10, "cow": 2}.items():
        for index in range(size):
            write_picture(tmp_path / outer / name / f"{index:02}.png")
    train, test = _image_folder(tmp_path), _image_folder(tmp_path, "test")
    assert train.classes == test.classes == ["cat", "cow", "dog"]
    assert np.bincount(test.labels).tolist() == [10, 1, 2]
    assert not set(train.images) & set(test.images)
    assert len({*train.images, *test.images}) == 62
    for data in (train, test):
        assert all(path.parent.name == data.classes[label] for path, label in zip(data.images, data.labels, strict=True))
    assert _image_folder(tmp_path, "test").images == test.images
    assert [int(path.stem) for path in test.images if path.parent.name == "cat"] != list(range(10))  # drawn


def test_image_folder__classes_without_folders(tmp_path: Path) -> None:
    """File names that begin with a synset are of its class; other pictures are all of one class."""
    for synset in ("n01440764", "n01443537", "n15075141"):
        for number in range(5):
            write_picture(tmp_path / "synsets" / f"{synset}_x_{number}.jpg")
    train, test = _image_folder(tmp_path / "synsets"), _image_folder(tmp_path / "synsets", "test")
    assert train.classes == ["tench", "goldfish", "toilet tissue"]
    assert [_class_name(path.name[:9]) for path in train.images] == [train.classes[label] for label in train.labels]
    assert (len(train), len(test)) == (12, 3)
    for name in ("a.png", "n01440764_tench.png", "c.png"):
        write_picture(tmp_path / "holiday" / name)
    assert _image_folder(tmp_path / "holiday").classes == ["holiday"]
    for index in range(200):  # one of each class, held out with a probability of a fifth
        (tmp_path / f"n{index:08}_x.jpg").parent.joinpath("single").mkdir(exist_ok=True)
        (tmp_path / "single" / f"n{index:08}_x.jpg").write_bytes(b"")
    train, test = _image_folder(tmp_path / "single"), _image_folder(tmp_path / "single", "test")
    assert len(train) + len(test) == len(train.classes) == 200
    assert 25 <= len(test) <= 55


def test_class_name__synsets_are_in_the_order_of_the_classes() -> None:
    assert _class_name("n15075141") == imagenet_classes()[999]
    known = {"n01440764": "tench", "n02012849": "crane bird", "n03126707": "construction crane", "elephants": "elephants"}
    assert {name: _class_name(name) for name in known} == known


@pytest.mark.parametrize(
    ("places", "error", "said"),
    [
        ([], ValueError, "No pictures below"),
        (["cat/a.png", "dog/"], ValueError, "No pictures below .*dog"),
        (["val/cat/a.png"], FileNotFoundError, "holds val/ but no train/ to draw corpora and foils from"),
        (["train/cat/a.png", "val/b.png"], ValueError, "val holds pictures .*no folders of classes"),
        (["a.png", "cat/b.png"], ValueError, r"holds pictures \(a\.png, …\) beside folders \(cat, …\)"),
    ],
)
def test_image_folder__what_is_wrong(places: list[str], error: type[Exception], said: str, tmp_path: Path) -> None:
    for place in places:
        (tmp_path / place).mkdir(parents=True) if place.endswith("/") else write_picture(tmp_path / place)
    with pytest.raises(error, match=said):
        _image_folder(tmp_path, "test")


def test_image_folder__too_few_to_hold_some_out(tmp_path: Path) -> None:
    write_picture(tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"too few pictures \(1\) to hold some out"):
        _ = _image_folder(tmp_path), _image_folder(tmp_path, "test")
