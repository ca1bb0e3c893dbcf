"""Data sets are recognised by the look of their folder; what is not known is told what is."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from cocoax.data import open_data
from tests.data.tiny import CIFAR10_FILES, cifar10_batch, write_mura, write_picture


@pytest.mark.parametrize("inner", ["cifar-10-batches-py", ""])
def test_open_data__cifar10(inner: str, tmp_path: Path) -> None:
    (tmp_path / inner).mkdir(exist_ok=True)
    for seed, name in enumerate(CIFAR10_FILES):
        (tmp_path / inner / name).write_bytes(pickle.dumps(cifar10_batch(seed)))
    assert len(open_data(tmp_path)) == 20
    assert open_data(str(tmp_path), "test").classes[3] == "cat"


@pytest.mark.parametrize("outer", ["MURA-v1.1", "x-rays"])
def test_open_data__mura(outer: str, tmp_path: Path) -> None:
    folder = write_mura(tmp_path / outer)
    given = tmp_path if outer == "MURA-v1.1" else folder
    assert open_data(given).classes == ["negative", "positive"]
    assert len(open_data(given, "test")) == 2


@pytest.mark.parametrize("inner", ["", "imagenette2-160"])
def test_open_data__imagenette(inner: str, tmp_path: Path) -> None:
    for place in ("train/n01440764/a.JPEG", "train/n03888257/b.JPEG", "val/n03888257/c.JPEG", "val/n01440764/d.JPEG"):
        write_picture(tmp_path / inner / place)
    (tmp_path / inner / "noisy_imagenette.csv").write_text("path,noisy_labels_0\n")
    (tmp_path / ".DS_Store").write_bytes(b"")
    assert open_data(tmp_path).classes == ["tench", "parachute"]
    assert [path.name for path in open_data(tmp_path, "test").images] == ["d.JPEG", "c.JPEG"]


def test_open_data__any_pictures(tmp_path: Path) -> None:
    for place in ("cat/a.png", "cat/b.png", "dog/c.png", "dog/d.png"):
        write_picture(tmp_path / place)
    assert open_data(tmp_path).classes == ["cat", "dog"]
    assert len(open_data(tmp_path / "cat", "test")) == 1


@pytest.mark.parametrize("place", ["nowhere", "."])
def test_open_data__missing_says_what_is_known_where_to_get_it_and_where_to_put_it(place: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no data")
    with pytest.raises(FileNotFoundError) as caught:
        open_data(tmp_path / place)
    text = str(caught.value)
    assert ("No folder at" in text) == (place == "nowhere")
    assert ("it holds notes.txt" in text) == (place == ".")
    for known in ("cifar-10-batches-py/", "train/ and val/", "imagenette2.tgz", "MURA-v1.1/", "a folder for each class"):
        assert known in text
    for source in ("cs.toronto.edu", "image-net.org", "github.com/fastai/imagenette", "stanfordmlgroup.github.io"):
        assert source in text


def test_open_data__part_of_a_known_data_set_gets_its_own_error(tmp_path: Path) -> None:
    (tmp_path / "cifar-10-batches-py").mkdir()
    with pytest.raises(FileNotFoundError, match=r"has no cifar-10-batches-py/data_batch_1. Download CIFAR-10"):
        open_data(tmp_path)
