"""CIFAR-10 (Krizhevsky 2009) in its usual layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cocoax.data.labelled import LabelledImages, Split, check_split
from cocoax.data.plain_pickle import read_plain_pickle

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR10_FOLDER = "cifar-10-batches-py"
_FILES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}


def cifar10(folder: str | Path, split: Split = "train") -> LabelledImages:
    """Read one split of CIFAR-10 from a folder that holds, or is, ``cifar-10-batches-py``."""
    check_split(split)
    inner = Path(folder) / CIFAR10_FOLDER
    inner = inner if inner.is_dir() else Path(folder)
    missing = [name for name in _FILES[split] if not (inner / name).is_file()]
    if missing:
        raise FileNotFoundError(
            f"{folder} has no {CIFAR10_FOLDER}/{missing[0]}. Download CIFAR-10 for Python (cifar-10-python.tar.gz) from its "
            f"author's page at the University of Toronto, unpack it, and pass the folder that holds {CIFAR10_FOLDER}."
        )
    batches = [_read(inner / name) for name in _FILES[split]]
    images = np.concatenate([batch[0] for batch in batches])
    return LabelledImages(images, np.concatenate([batch[1] for batch in batches]), list(CIFAR10_CLASSES))


def _read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read images ``[n, 32, 32, 3]`` and labels ``[n]`` from a file."""
    try:
        batch = read_plain_pickle(path.read_bytes())
        if not (isinstance(batch, dict) and {b"data", b"labels"} <= set(batch)):
            raise ValueError("it is no dict of data and labels")
        pixels, labels = batch[b"data"], batch[b"labels"]
        if not (isinstance(pixels, np.ndarray) and pixels.dtype == np.uint8 and pixels.shape[1:] == (3 * 32 * 32,)):
            raise ValueError("its data are no bytes of 32 x 32 pixels in three colours")
        if isinstance(labels, np.ndarray):
            labels = labels.tolist()
        if not (isinstance(labels, list) and all(type(label) is int and 0 <= label < 10 for label in labels)):
            raise ValueError("its labels are no list of numbers from 0 to 9")
        if len(labels) != len(pixels):
            raise ValueError(f"it has {len(pixels)} images but {len(labels)} labels")
    except ValueError as error:
        raise ValueError(
            f"{path} is not a batch of CIFAR-10 for Python, or it is damaged ({error}); unpack it again."
        ) from error
    images = np.ascontiguousarray(pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    return images, np.array(labels, dtype=np.int64)
