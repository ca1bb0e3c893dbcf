"""Folders of pictures: a subfolder for each class, as in ImageNet and Imagenette, names that begin with a synset, or any."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from cocoax.data.labelled import LabelledImages, Split, check_split
from cocoax.encoders.families.starter import imagenet_classes
from cocoax.inputs.image import SUFFIXES, image_files

# What the folders of the splits are called; ImageNet's own test/ has no labels, so val/ comes first.
_SPLIT_FOLDERS = {"train": ("train",), "test": ("val", "valid", "validation", "test")}
_HELD_OUT = 0.2
_SEED = 0


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
    train, test = (split_folder(folder, name) for name in _SPLIT_FOLDERS)
    if test is None:  # nothing is held out yet
        place = folder if train is None else train
        return _held_out(_labelled(_files_by_class(place, must_have_classes=train is not None)), split)
    if train is None:
        raise FileNotFoundError(f"{folder} holds {test.name}/ but no train/ to draw corpora and foils from; add it.")
    classes = sorted({*_class_folders(train), *_class_folders(test)})
    return _labelled(_files_by_class(test if split == "test" else train, must_have_classes=True), classes)


def split_folder(folder: Path, split: str) -> Path | None:
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
    random = np.random.default_rng(_SEED)
    chosen = np.zeros(len(data), dtype=bool)
    for label in range(len(data.classes)):
        among = random.permutation(np.flatnonzero(data.labels == label))
        number = int(_HELD_OUT * len(among) + random.random())  # right on average, however few they are
        number = min(max(number, 1), len(among) - 1) if len(among) > 1 else number
        chosen[among[:number]] = True
    kept = np.flatnonzero(chosen if split == "test" else ~chosen).tolist()
    if not kept:
        raise ValueError(f"There are too few pictures ({len(data)}) to hold some out; add more.")
    return LabelledImages([data.images[index] for index in kept], data.labels[kept], data.classes)
