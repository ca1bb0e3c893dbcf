"""MURA v1.1 (Rajpurkar et al. 2018): X-rays of upper limbs, normal or not, in the layout of its csv files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from cocoax.data.labelled import LabelledImages, Split, check_split

_CLASSES = ["negative", "positive"]
_PARTS = ["elbow", "finger", "forearm", "hand", "humerus", "shoulder", "wrist"]
MURA_FOLDER = "MURA-v1.1"
_SPLITS = {"train": "train", "test": "valid"}  # MURA's own test set is not public


def mura(folder: str | Path, split: Split = "train", part: str | None = None) -> LabelledImages:
    """Read one split of MURA from a folder that holds, or is, ``MURA-v1.1``.

    A picture has the label of its study: 1 is positive, which means abnormal. The held-out split is MURA's validation set.
    ``part`` takes only pictures of that part of the body, such as ``"elbow"``.
    """
    check_split(split)
    if part is not None and part not in _PARTS:
        raise ValueError(f"The 'part' parameter must be one of {', '.join(_PARTS)}. Got {part!r} instead.")
    inner = Path(folder) / MURA_FOLDER
    inner = inner if inner.is_dir() else Path(folder)
    pictures, studies = (inner / f"{_SPLITS[split]}_{kind}.csv" for kind in ("image_paths", "labeled_studies"))
    for file in (pictures, studies):
        if not file.is_file():
            raise FileNotFoundError(
                f"{folder} has no {file.name}. Get MURA v1.1 from the Stanford ML Group (it asks you to register), unpack "
                f"it, and pass the folder that holds {MURA_FOLDER}."
            )
    label_of = {_below(row[0]): _label(row, studies) for row in _rows(studies, 2)}
    images, labels = [], []
    for row in _rows(pictures, 1):
        path = _below(row[0])
        if path.parent not in label_of:
            raise ValueError(f"{studies.name} has no label for the study of {row[0]}; the two files must belong together.")
        if not path.name.startswith(".") and (part is None or f"XR_{part.upper()}" in path.parts):
            images.append(inner / path)
            labels.append(label_of[path.parent])
    missing = [path for path in images if not path.is_file()]
    if missing:
        raise FileNotFoundError(
            f"{len(missing)} of the {len(images)} pictures in {pictures.name} are missing, such as {missing[0]}; "
            "unpack MURA again."
        )
    order = sorted(range(len(images)), key=lambda index: images[index])
    return LabelledImages([images[index] for index in order], np.array(labels, dtype=np.int64)[order], list(_CLASSES))


def _rows(file: Path, columns: int) -> list[list[str]]:
    with file.open(newline="", encoding="utf-8-sig") as lines:
        rows = [row for row in csv.reader(lines) if row]
    for number, row in enumerate(rows, start=1):
        if len(row) != columns:
            raise ValueError(f"Line {number} of {file} has {len(row)} columns; expected {columns}. It may be cut off.")
    if not rows:
        raise ValueError(f"{file} is empty; unpack MURA again.")
    return rows


def _below(text: str) -> Path:
    """Return a path of the csv files without the name of the data set's folder in front."""
    parts = Path(text.strip()).parts
    if len(parts) < 3 or ".." in parts or Path(text).is_absolute():
        raise ValueError(f"{text!r} is not a path such as {MURA_FOLDER}/train/XR_ELBOW/patient00011/study1_negative/.")
    return Path(*parts[1:])


def _label(row: list[str], file: Path) -> int:
    if row[1].strip() not in ("0", "1"):
        raise ValueError(f"{file} gives {row[0]} the label {row[1]!r}; expected 0 or 1.")
    return int(row[1])
