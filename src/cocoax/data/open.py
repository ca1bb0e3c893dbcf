"""Opening a data set by the look of its folder."""

from __future__ import annotations

from pathlib import Path

from cocoax.data.cifar10 import CIFAR10_FOLDER, cifar10
from cocoax.data.folders import image_folder, split_folder
from cocoax.data.labelled import LabelledImages, Split
from cocoax.data.mura import MURA_FOLDER, mura
from cocoax.inputs.image import SUFFIXES

LAYOUTS = f"""Known layouts, each in a folder of its own:
- CIFAR-10: {CIFAR10_FOLDER}/ with data_batch_1, … and test_batch. Get cifar-10-python.tar.gz from its author's page at the
  University of Toronto (www.cs.toronto.edu/~kriz/cifar.html) and unpack it.
- ImageNet: train/ and val/ with a folder for each synset (n01440764, …). Get it from image-net.org, after registration; the
  validation pictures come unsorted and must be moved into such folders.
- Imagenette: the same with ten synsets. Get imagenette2.tgz from github.com/fastai/imagenette and unpack it.
- MURA: {MURA_FOLDER}/ with train_image_paths.csv, train_labeled_studies.csv, and the same for valid. Get it from the Stanford
  ML Group (stanfordmlgroup.github.io/competitions/mura), after registration, and unpack it.
- Any pictures: a folder for each class, with or without train/ and val/ above them, or pictures alone."""


def has_layout(folder: Path) -> bool:
    """Whether a folder is laid out as a data set with parts, so that :func:`open_data` knows more of it than its files."""
    known = (CIFAR10_FOLDER, "data_batch_1", "test_batch", MURA_FOLDER, "train_image_paths.csv", "valid_image_paths.csv")
    return any((folder / place).exists() for place in known) or all(split_folder(folder, part) for part in ("train", "test"))


def open_data(folder: str | Path, split: Split = "train") -> LabelledImages:
    """Read one split of the data set in a folder: CIFAR-10, MURA, ImageNet, Imagenette or any folder of pictures.

    ``"test"`` is the part that is held out: the data set's own where it has one, else a fifth of each class, drawn with a
    fixed seed.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"No folder at {folder}. {LAYOUTS}")
    visible = [path for path in sorted(folder.iterdir()) if not path.name.startswith((".", "__MACOSX"))]
    if any((folder / place).exists() for place in (CIFAR10_FOLDER, "data_batch_1", "test_batch")):
        return cifar10(folder, split)
    if any((folder / place).exists() for place in (MURA_FOLDER, "train_image_paths.csv", "valid_image_paths.csv")):
        return mura(folder, split)
    if len(visible) == 1 and visible[0].is_dir() and split_folder(visible[0], "train"):  # imagenette2/ in an outer folder
        return image_folder(visible[0], split)
    if not any(path.suffix.lower() in SUFFIXES for path in folder.rglob("*")):
        contents = ", ".join(path.name for path in visible[:5]) or "nothing"
        raise FileNotFoundError(f"{folder} holds no data set that is known here (it holds {contents}). {LAYOUTS}")
    return image_folder(folder, split)
