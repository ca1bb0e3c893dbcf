"""Readers of data sets by the layout of their folder: CIFAR-10, MURA, and folders of pictures as in ImageNet."""

from __future__ import annotations

import csv
import re
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from cocoax.data.labelled import LabelledImages, Split, check_split
from cocoax.data.restricted_pickle import read_restricted_pickle
from cocoax.encoders.families.starter import imagenet_classes
from cocoax.inputs.image import SUFFIXES, image_files

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_CIFAR10_FOLDER = "cifar-10-batches-py"
_CIFAR10_SIGNS = (_CIFAR10_FOLDER, "data_batch_1", "test_batch")  # any of them
_CIFAR10_FILES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
_MURA_FOLDER = "MURA-v1.1"
_MURA_SIGNS = (_MURA_FOLDER, "train_image_paths.csv", "valid_image_paths.csv")
_MURA_PARTS = ["elbow", "finger", "forearm", "hand", "humerus", "shoulder", "wrist"]
_MURA_SPLITS = {"train": "train", "test": "valid"}  # MURA's own test set is not public
# What the folders of the splits are called; ImageNet's own test/ has no labels, so val/ comes first.
_SPLIT_FOLDERS = {"train": ("train",), "test": ("val", "valid", "validation", "test")}
_HELD_OUT_SHARE = 0.2
_HELD_OUT_SEED = 0

_LAYOUTS = f"""Known layouts, each in a folder of its own:
- CIFAR-10: {_CIFAR10_FOLDER}/ with data_batch_1, … and test_batch. Get cifar-10-python.tar.gz from its author's page at the
  University of Toronto (www.cs.toronto.edu/~kriz/cifar.html) and unpack it.
- ImageNet: train/ and val/ with a folder for each synset (n01440764, …). Get it from image-net.org, after registration; the
  validation pictures come unsorted and must be moved into such folders.
- Imagenette: the same with ten synsets. Get imagenette2.tgz from github.com/fastai/imagenette and unpack it.
- MURA: {_MURA_FOLDER}/ with train_image_paths.csv, train_labeled_studies.csv, and the same for valid. Get it from the
  Stanford ML Group (stanfordmlgroup.github.io/competitions/mura), after registration, and unpack it.
- Any pictures: a folder for each class, with or without train/ and val/ above them, or pictures alone."""


def has_layout(folder: Path) -> bool:
    """Whether a folder is laid out as a data set with parts, so that :func:`open_data` knows more of it than its files."""
    known = (*_CIFAR10_SIGNS, *_MURA_SIGNS)
    return any((folder / place).exists() for place in known) or all(_split_folder(folder, part) for part in ("train", "test"))


def open_data(folder: str | Path, split: Split = "train") -> LabelledImages:
    """Read one split of the data set in a folder: CIFAR-10, MURA, ImageNet, Imagenette or any folder of pictures.

    ``"test"`` is the part that is held out: the data set's own where it has one, else a fifth of each class, drawn with a
    fixed seed.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"No folder at {folder}. {_LAYOUTS}")
    visible = [path for path in sorted(folder.iterdir()) if not path.name.startswith((".", "__MACOSX"))]
    if any((folder / place).exists() for place in _CIFAR10_SIGNS):
        return cifar10(folder, split)
    if any((folder / place).exists() for place in _MURA_SIGNS):
        return mura(folder, split)
    if len(visible) == 1 and visible[0].is_dir() and _split_folder(visible[0], "train"):  # imagenette2/ in an outer folder
        return image_folder(visible[0], split)
    if not any(path.suffix.lower() in SUFFIXES for path in folder.rglob("*")):
        contents = ", ".join(path.name for path in visible[:5]) or "nothing"
        raise FileNotFoundError(f"{folder} holds no data set that is known here (it holds {contents}). {_LAYOUTS}")
    return image_folder(folder, split)


# --- CIFAR-10 -------------------------------------------------------------------------------------------------------------


def cifar10(folder: str | Path, split: Split = "train") -> LabelledImages:
    """Read one split of CIFAR-10 from a folder that holds, or is, ``cifar-10-batches-py``."""
    check_split(split)
    inner = Path(folder) / _CIFAR10_FOLDER
    inner = inner if inner.is_dir() else Path(folder)
    missing = [name for name in _CIFAR10_FILES[split] if not (inner / name).is_file()]
    if missing:
        raise FileNotFoundError(
            f"{folder} has no {_CIFAR10_FOLDER}/{missing[0]}. Download CIFAR-10 for Python (cifar-10-python.tar.gz) from its "
            f"author's page at the University of Toronto, unpack it, and pass the folder that holds {_CIFAR10_FOLDER}."
        )
    batches = [_cifar10_batch(inner / name) for name in _CIFAR10_FILES[split]]
    images = np.concatenate([batch[0] for batch in batches])
    return LabelledImages(images, np.concatenate([batch[1] for batch in batches]), list(CIFAR10_CLASSES))


def _cifar10_batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read images ``[n, 32, 32, 3]`` and labels ``[n]`` from a file."""
    try:
        batch = read_restricted_pickle(path.read_bytes())
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


# --- MURA -----------------------------------------------------------------------------------------------------------------


def mura(folder: str | Path, split: Split = "train", part: str | None = None) -> LabelledImages:
    """Read one split of MURA from a folder that holds, or is, ``MURA-v1.1``.

    A picture has the label of its study: 1 is positive, which means abnormal. The held-out split is MURA's validation set.
    ``part`` takes only pictures of that part of the body, such as ``"elbow"``.
    """
    check_split(split)
    if part is not None and part not in _MURA_PARTS:
        raise ValueError(f"The 'part' parameter must be one of {', '.join(_MURA_PARTS)}. Got {part!r} instead.")
    inner = Path(folder) / _MURA_FOLDER
    inner = inner if inner.is_dir() else Path(folder)
    pictures, studies = (inner / f"{_MURA_SPLITS[split]}_{kind}.csv" for kind in ("image_paths", "labeled_studies"))
    for file in (pictures, studies):
        if not file.is_file():
            raise FileNotFoundError(
                f"{folder} has no {file.name}. Get MURA v1.1 from the Stanford ML Group (it asks you to register), unpack "
                f"it, and pass the folder that holds {_MURA_FOLDER}."
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
    return LabelledImages(
        [images[index] for index in order], np.array(labels, dtype=np.int64)[order], ["negative", "positive"]
    )


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
        raise ValueError(f"{text!r} is not a path such as {_MURA_FOLDER}/train/XR_ELBOW/patient00011/study1_negative/.")
    return Path(*parts[1:])


def _label(row: list[str], file: Path) -> int:
    if row[1].strip() not in ("0", "1"):
        raise ValueError(f"{file} gives {row[0]} the label {row[1]!r}; expected 0 or 1.")
    return int(row[1])


# --- folders of pictures --------------------------------------------------------------------------------------------------


def image_folder(folder: str | Path, split: Split = "train") -> LabelledImages:
    """Read one split of a folder of pictures; classes and pictures are in sorted order.

    The folder holds one of

    - ``train/`` and ``val/`` (or ``valid/``, ``validation/``, ``test/``), each with a subfolder for each class,
    - a subfolder for each class,
    - pictures whose names begin with a synset, as ``n01440764_tench.jpg``,
    - pictures, which are then all of one class.

    Subfolders and pictures of ImageNet's synsets get the names of their classes. Hidden files are left out. Where no part
    is held out already, a fifth of each class is, drawn with a fixed seed: the same files give the same split everywhere.
    """
    check_split(split)
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"No folder at {folder}; check the path.")
    train, test = (_split_folder(folder, name) for name in _SPLIT_FOLDERS)
    if test is None:  # nothing is held out yet
        place = folder if train is None else train
        return _held_out(_labelled(_files_by_class(place, must_have_classes=train is not None)), split)
    if train is None:
        raise FileNotFoundError(f"{folder} holds {test.name}/ but no train/ to draw corpora and foils from; add it.")
    classes = sorted({*_class_folders(train), *_class_folders(test)})
    return _labelled(_files_by_class(test if split == "test" else train, must_have_classes=True), classes)


def _split_folder(folder: Path, split: str) -> Path | None:
    """Return the subfolder that holds a split, or ``None``."""
    return next((folder / name for name in _SPLIT_FOLDERS[split] if (folder / name).is_dir()), None)


def class_name(folder: str) -> str:
    """Return the name of a class: ImageNet's where its folder is a synset (``n01440764`` is a tench), else the folder's."""
    return _names_of_synsets().get(folder, folder)


@cache
def _names_of_synsets() -> dict[str, str]:
    synsets = files("cocoax.data").joinpath("imagenet_synsets.txt").read_text(encoding="utf-8").split()
    return dict(zip(synsets, imagenet_classes(), strict=True))


def _class_folders(folder: Path) -> dict[str, Path]:
    """Return the subfolders, one for each class, by name."""
    visible = (path for path in folder.iterdir() if path.is_dir() and not path.name.startswith((".", "__MACOSX")))
    return {path.name: path for path in visible}


def _files_by_class(folder: Path, must_have_classes: bool) -> dict[str, list[Path]]:
    """Return pictures by the folder, or the synset, of their class."""
    subfolders = _class_folders(folder)
    beside = [path.name for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")]
    if subfolders and beside:
        raise ValueError(
            f"{folder} holds pictures ({beside[0]}, …) beside folders ({min(subfolders)}, …), so it is not clear what the "
            "classes are; move each picture into the folder of its class."
        )
    if subfolders:
        return {name: image_files(subfolder) for name, subfolder in subfolders.items()}
    if must_have_classes and beside:
        raise ValueError(
            f"{folder} holds pictures but no folders of classes; sort them into one folder for each class (the pictures of "
            "ImageNet's validation set come unsorted: their synsets are in its development kit)."
        )
    pictures = image_files(folder)
    if not all(re.match(r"n\d{8}_", path.name) for path in pictures):
        return {folder.resolve().name: pictures}
    by_synset: dict[str, list[Path]] = {}
    for path in pictures:
        by_synset.setdefault(path.name.partition("_")[0], []).append(path)
    return by_synset


def _labelled(by_class: dict[str, list[Path]], classes: list[str] | None = None) -> LabelledImages:
    classes = sorted(by_class) if classes is None else classes
    images = [path for name in classes for path in by_class.get(name, [])]
    labels = np.repeat(np.arange(len(classes)), [len(by_class.get(name, [])) for name in classes])
    return LabelledImages(images, labels, [class_name(name) for name in classes])


def _held_out(data: LabelledImages, split: str) -> LabelledImages:
    """Draw one split: a fifth of each class is held out, at least one of two pictures; a single one goes either way."""
    random = np.random.default_rng(_HELD_OUT_SEED)
    chosen = np.zeros(len(data), dtype=bool)
    for label in range(len(data.classes)):
        among = random.permutation(np.flatnonzero(data.labels == label))
        number = int(_HELD_OUT_SHARE * len(among) + random.random())  # right on average, however few they are
        number = min(max(number, 1), len(among) - 1) if len(among) > 1 else number
        chosen[among[:number]] = True
    kept = np.flatnonzero(chosen if split == "test" else ~chosen).tolist()
    if not kept:
        raise ValueError(f"There are too few pictures ({len(data)}) to hold some out; add more.")
    return LabelledImages([data.images[index] for index in kept], data.labels[kept], data.classes)
