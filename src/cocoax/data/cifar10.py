"""CIFAR-10 (Krizhevsky 2009) in its usual layout."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from cocoax.data.labelled import LabelledImages, Split, check_split
from cocoax.encoders.load.paper import CIFAR10_CLASSES

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
        batch = _DataUnpickler(io.BytesIO(path.read_bytes()), encoding="bytes").load()
        pixels = np.asarray(batch[b"data"], dtype=np.uint8)
        images = np.ascontiguousarray(pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        labels = np.asarray(batch[b"labels"], dtype=np.int64)
    except (
        pickle.UnpicklingError,
        EOFError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        ImportError,
    ) as error:
        raise ValueError(
            f"{path} is not a batch of CIFAR-10 for Python, or it is damaged ({error}); unpack it again."
        ) from error
    return images, labels


class _DataUnpickler(pickle.Unpickler):
    """Reads numbers, bytes, lists, dicts and numpy arrays; a pickle that asks for anything else is refused."""

    _ALLOWED = frozenset(
        {
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("_codecs", "encode"),
        }
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no data needs")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)
