"""Readers of data sets by the layout of their folder: CIFAR-10, MURA, and folders of pictures as in ImageNet."""

from __future__ import annotations

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
_CIFAR10 = "cifar-10-batches-py"
_CIFAR10_FILES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
_MURA = "MURA-v1.1"
_MURA_SPLITS = {"train": "train", "test": "valid"}  # MURA's own test set is not public
_MURA_LABELS = {"negative": 0, "positive": 1}
# Any of these files or folders is the sign of a data set.
_CIFAR10_SIGNS = (_CIFAR10, "data_batch_1", "test_batch")
_MURA_SIGNS = (_MURA, "train_image_paths.csv", "valid_image_paths.csv", "train/XR_ELBOW")
# What the folders of the splits are called; ImageNet's own test/ has no labels, so val/ comes first.
_SPLIT_FOLDERS = {"train": ("train",), "test": ("val", "valid", "validation", "test")}
_HELD_OUT_SHARE, _HELD_OUT_SEED = 0.2, 0
_HIDDEN = (".", "__MACOSX")

_LAYOUTS = f"""Known layouts, each in a folder of its own:
- CIFAR-10: {_CIFAR10}/ with data_batch_1, …, test_batch, from cifar-10-python.tar.gz (www.cs.toronto.edu/~kriz/cifar.html).
- ImageNet: train/ and val/ with a folder for each synset (n01440764, …), from image-net.org, after registration; the
  validation pictures come unsorted and must be moved into such folders.
- Imagenette: the same with ten synsets, from imagenette2.tgz (github.com/fastai/imagenette).
- MURA: {_MURA}/ with train/ and valid/, from stanfordmlgroup.github.io/competitions/mura, after registration.
- Any pictures: a folder for each class, with or without train/ and val/ above them, or pictures alone."""


def has_layout(folder: Path) -> bool:
    """Whether a folder has a layout with splits, which :func:`open_data` reads."""
    signs = (*_CIFAR10_SIGNS, *_MURA_SIGNS)
    return any((folder / sign).exists() for sign in signs) or all(_split_folder(folder, split) for split in _SPLIT_FOLDERS)


def open_data(folder: str | Path, split: Split = "train") -> LabelledImages:
    """Read one split of the data set in a folder: CIFAR-10, MURA, ImageNet, Imagenette or any folder of pictures.

    ``"test"`` is the part that is held out: the data set's own where it has one, else a fifth of each class, drawn with a
    fixed seed.
    """
    check_split(split)
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"No folder at {folder}. {_LAYOUTS}")
    for reader, signs in ((cifar10, _CIFAR10_SIGNS), (_mura, _MURA_SIGNS)):
        if any((folder / sign).exists() for sign in signs):
            return reader(folder, split)
    visible = [path for path in sorted(folder.iterdir()) if not path.name.startswith(_HIDDEN)]
    if len(visible) == 1 and visible[0].is_dir() and _split_folder(visible[0], "train"):  # imagenette2/ in an outer folder
        return _image_folder(visible[0], split)
    if not any(path.suffix.lower() in SUFFIXES for path in folder.rglob("*")):
        contents = ", ".join(path.name for path in visible[:5]) or "nothing"
        raise FileNotFoundError(f"{folder} holds no data set that is known here (it holds {contents}). {_LAYOUTS}")
    return _image_folder(folder, split)


def _inner(folder: str | Path, name: str) -> Path:
    """Return the folder of this name in a folder, or the folder itself."""
    inner = Path(folder) / name
    return inner if inner.is_dir() else Path(folder)


def cifar10(folder: str | Path, split: Split = "train") -> LabelledImages:
    """Read one split of CIFAR-10 from a folder that holds, or is, ``cifar-10-batches-py``."""
    paths = [_inner(folder, _CIFAR10) / name for name in _CIFAR10_FILES[split]]
    if missing := next((path for path in paths if not path.is_file()), None):
        raise FileNotFoundError(f"{folder} has no {_CIFAR10}/{missing.name}. {_LAYOUTS}")
    batches = [_cifar10_batch(path) for path in paths]
    images, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return LabelledImages(images, labels, list(CIFAR10_CLASSES))


def _cifar10_batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read images ``[n, 32, 32, 3]`` and labels ``[n]`` from a file."""
    try:
        batch = read_restricted_pickle(path.read_bytes())
        pixels, labels = batch[b"data"], np.array(batch[b"labels"])
        if not (isinstance(pixels, np.ndarray) and labels.dtype.kind in "iu" and labels.ndim == 1):
            raise ValueError("its data are no array, or its labels no list of numbers")
        if pixels.shape != (len(labels), 3 * 32 * 32) or not ((labels >= 0) & (labels < 10)).all():
            raise ValueError(f"it has data of shape {list(pixels.shape)} and labels up to {labels.max(initial=0)}")
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise ValueError(
            f"{path} is not a batch of CIFAR-10 for Python, or it is damaged ({error}); unpack it again."
        ) from error
    return np.ascontiguousarray(pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), labels.astype(np.int64)


def _mura(folder: str | Path, split: Split = "train") -> LabelledImages:
    """Read one split of MURA from a folder that holds, or is, ``MURA-v1.1``.

    A picture has the label that its study's folder is named after; ``study1_positive`` is abnormal. The held-out split is
    MURA's validation set.
    """
    place = _inner(folder, _MURA) / _MURA_SPLITS[split]
    if not place.is_dir():
        raise FileNotFoundError(f"{folder} has no {_MURA}/{place.name}. {_LAYOUTS}")
    pictures = image_files(place)
    studies = [path.parent.name.rpartition("_")[2] for path in pictures]
    if unknown := next((path for path, study in zip(pictures, studies, strict=True) if study not in _MURA_LABELS), None):
        raise ValueError(f"{unknown} lies in no study such as study1_positive or study1_negative; unpack MURA again.")
    return LabelledImages(pictures, np.array([_MURA_LABELS[study] for study in studies], dtype=np.int64), list(_MURA_LABELS))


def _image_folder(folder: str | Path, split: Split = "train") -> LabelledImages:
    """Read one split of a folder of pictures; classes and pictures are in sorted order.

    The folder holds one of

    - ``train/`` and ``val/`` (or ``valid/``, ``validation/``, ``test/``), each with a subfolder for each class,
    - a subfolder for each class,
    - pictures whose names begin with a synset, as ``n01440764_tench.jpg``,
    - pictures, which are then all of one class.

    Subfolders and pictures of ImageNet's synsets get the names of their classes. Hidden files are left out. Where no part
    is held out already, a fifth of each class is, drawn with a fixed seed: the same files give the same split everywhere.
    """
    folder = Path(folder)
    train, test = (_split_folder(folder, name) for name in _SPLIT_FOLDERS)
    if test is None:  # nothing is held out yet
        return _held_out(_labelled(_files_by_class(train or folder, must_have_classes=train is not None)), split)
    if train is None:
        raise FileNotFoundError(f"{folder} holds {test.name}/ but no train/ to draw corpora and foils from; add it.")
    classes = sorted({*_class_folders(train), *_class_folders(test)})
    return _labelled(_files_by_class(test if split == "test" else train, must_have_classes=True), classes)


def _split_folder(folder: Path, split: str) -> Path | None:
    """Return the subfolder that holds a split, or ``None``."""
    return next((folder / name for name in _SPLIT_FOLDERS[split] if (folder / name).is_dir()), None)


def _class_name(folder: str) -> str:
    """Return the name of a class: ImageNet's where its folder is a synset (``n01440764`` is a tench), else the folder's."""
    return _names_of_synsets().get(folder, folder)


@cache
def _names_of_synsets() -> dict[str, str]:
    synsets = files("cocoax.data").joinpath("imagenet_synsets.txt").read_text(encoding="utf-8").split()
    return dict(zip(synsets, imagenet_classes(), strict=True))


def _class_folders(folder: Path) -> dict[str, Path]:
    """Return the subfolders, one for each class, by name."""
    return {path.name: path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(_HIDDEN)}


def _files_by_class(folder: Path, must_have_classes: bool) -> dict[str, list[Path]]:
    """Return pictures by the folder, or the synset, of their class."""
    subfolders = _class_folders(folder)
    beside = [path.name for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")]
    if beside and (subfolders or must_have_classes):
        where = f"beside folders ({min(subfolders)}, …)" if subfolders else "but no folders of classes"
        raise ValueError(f"{folder} holds pictures ({beside[0]}, …) {where}; move each picture into the folder of its class.")
    if subfolders:
        return {name: image_files(subfolder) for name, subfolder in subfolders.items()}
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
    return LabelledImages(images, labels, [_class_name(name) for name in classes])


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
