"""CIFAR-10: its batches as they are published, and what is said when they are not."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from cocoax.data.cifar10 import CIFAR10_CLASSES, cifar10
from tests.data.tiny import CIFAR10_FILES, cifar10_batch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inner = tmp_path / "cifar-10-batches-py"
    inner.mkdir()
    for seed, name in enumerate(CIFAR10_FILES):
        (inner / name).write_bytes(pickle.dumps(cifar10_batch(seed), protocol=2))
    return tmp_path


@pytest.mark.parametrize("inner", ["", "cifar-10-batches-py"])
def test_cifar10__reads_every_batch_in_order(folder: Path, inner: str) -> None:
    train, test = cifar10(folder / inner), cifar10(folder / inner, "test")
    assert len(train) == 20
    assert len(test) == 4
    assert train.classes == test.classes == list(CIFAR10_CLASSES)
    for data, batches in ((train, [cifar10_batch(seed) for seed in range(5)]), (test, [cifar10_batch(5)])):
        rows = np.concatenate([each[b"data"] for each in batches])
        assert data.labels.tolist() == [label for each in batches for label in each[b"labels"]]
        for index in (0, len(data) - 1):
            image = data.images[index]
            assert image.shape == (32, 32, 3)
            assert image.dtype == np.uint8
            for row, column, channel in ((0, 0, 0), (3, 31, 1), (31, 5, 2)):
                assert image[row, column, channel] == rows[index, channel * 1024 + row * 32 + column]


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_cifar10__repacked_with_another_pickle_protocol(folder: Path, protocol: int) -> None:
    (folder / "cifar-10-batches-py" / "test_batch").write_bytes(pickle.dumps(cifar10_batch(5), protocol=protocol))
    assert cifar10(folder, "test").labels.tolist() == cifar10_batch(5)[b"labels"]


def test_cifar10__missing_says_where_to_get_it(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no cifar-10-batches-py/data_batch_1. Download .*University of Toronto"):
        cifar10(tmp_path / "nowhere")
    (folder / "cifar-10-batches-py" / "data_batch_3").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no cifar-10-batches-py/data_batch_3"):
        cifar10(folder)


def test_cifar10__unknown_split(folder: Path) -> None:
    split: Any = "val"
    with pytest.raises(ValueError, match=r"'split' parameter must be 'train' or 'test'. Got 'val' instead"):
        cifar10(folder, split)


class Attack:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("attacked",)


def damaged(kind: str) -> bytes:
    whole = pickle.dumps(cifar10_batch(5), protocol=2)
    return {
        "attack": pickle.dumps({b"data": Attack(), b"labels": []}),
        "eval": b"cbuiltins\neval\n(S'1'\ntR.",
        "cut off": whole[:1000],
        "empty": b"",
        "text": b"no pickle at all",
        "a list": pickle.dumps([1, 2]),
        "no labels": pickle.dumps({b"data": cifar10_batch(5)[b"data"]}),
        "another shape": pickle.dumps({b"data": np.zeros((2, 100), np.uint8), b"labels": [0, 1]}),
    }[kind]


@pytest.mark.parametrize("kind", ["attack", "eval", "cut off", "empty", "text", "a list", "no labels", "another shape"])
def test_cifar10__damaged_or_hostile(folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "cifar-10-batches-py" / "test_batch").write_bytes(damaged(kind))
    split: Literal["test"] = "test"
    with pytest.raises(ValueError, match=r"test_batch is not a batch of CIFAR-10 for Python, or it is damaged"):
        cifar10(folder, split)
    assert not (folder / "attacked").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({b"labels": [[1], [2], [3], [4]]}, "its labels are no list of numbers from 0 to 9"),
        ({b"labels": [1, 2, 3, 10]}, "its labels are no list of numbers from 0 to 9"),
        ({b"labels": [1, 2, 3, -1]}, "its labels are no list of numbers from 0 to 9"),
        ({b"labels": [True, 2, 3, 4]}, "its labels are no list of numbers from 0 to 9"),
        ({b"labels": [1, 2, 3]}, "it has 4 images but 3 labels"),
        ({b"data": np.zeros((4, 3072), np.int64)}, "its data are no bytes of 32 x 32 pixels in three colours"),
        ({b"data": np.zeros((2, 6144), np.uint8)}, "its data are no bytes of 32 x 32 pixels in three colours"),
        ({b"data": [[0] * 3072] * 4}, "its data are no bytes of 32 x 32 pixels in three colours"),
    ],
)
def test_cifar10__says_what_is_wrong_with_a_batch(change: dict[bytes, Any], said: str, folder: Path) -> None:
    (folder / "cifar-10-batches-py" / "test_batch").write_bytes(pickle.dumps({**cifar10_batch(5), **change}, protocol=2))
    with pytest.raises(ValueError, match=said):
        cifar10(folder, "test")
