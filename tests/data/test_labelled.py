"""Labelled images: as many labels as images, and each of a class that there is."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cocoax.data import LabelledImages


def test_labelled_images__holds_them() -> None:
    data = LabelledImages(["a.png", "b.png", "c.png"], np.array([1, 0, 1]), ["cat", "dog"])
    assert len(data) == 3
    assert data.classes[data.labels[0]] == "dog"
    assert len(LabelledImages([], np.array([], dtype=int), ["cat"])) == 0


def test_labelled_images__a_label_each() -> None:
    with pytest.raises(ValueError, match=r"There are 2 images but 1 labels; each image needs one"):
        LabelledImages(["a.png", "b.png"], np.array([0]), ["cat"])


@pytest.mark.parametrize("label", [2, -1])
def test_labelled_images__labels_number_the_classes(label: int) -> None:
    with pytest.raises(ValueError, match=r"Labels must number the 2 classes from 0"):
        LabelledImages(["a.png", "b.png"], np.array([0, label]), ["cat", "dog"])


def arrays(seed: int = 0) -> LabelledImages:
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 256, (6, 4, 4, 3), dtype=np.uint8)
    return LabelledImages(pixels, np.array([0, 1, 0, 1, 1, 0]), ["cat", "dog"])  # type: ignore[arg-type]


def written(folder: Path, number: int = 6, content: str = "") -> LabelledImages:
    """Files, which a fingerprint does not decode."""
    files = [folder / f"{index % 2}" / f"{index:03}.png" for index in range(number)]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{content}{file.name}")
    return LabelledImages(files, np.arange(number) % 2, ["cat", "dog"])


def test_fingerprint__of_arrays_tells_classes_labels_and_any_pixel_apart() -> None:
    data = arrays()
    pixels = np.array(data.images)
    pixels[4, 3, 2, 1] ^= 1
    others = [
        replace(data, images=pixels),
        replace(data, labels=1 - data.labels),
        replace(data, classes=["cat", "cow"]),
        LabelledImages(data.images[:5], data.labels[:5], data.classes),
    ]
    assert len({data.fingerprint, *(other.fingerprint for other in others)}) == 5
    assert data.fingerprint == arrays().fingerprint
    assert data.fingerprint == replace(data, labels=data.labels.astype(np.uint8)).fingerprint


def test_fingerprint__of_pictures_in_memory() -> None:
    data, other = (
        replace(arrays(seed), images=[Image.fromarray(pixels) for pixels in arrays(seed).images]) for seed in (0, 1)
    )
    again = replace(data, images=[image.copy() for image in data.images])
    assert data.fingerprint == again.fingerprint != other.fingerprint


def test_fingerprint__of_files_is_of_names_and_content_wherever_they_are(tmp_path: Path) -> None:
    data = written(tmp_path / "here")
    shutil.copytree(tmp_path / "here", tmp_path / "moved")
    moved = replace(data, images=[str(tmp_path / "moved" / file.relative_to(tmp_path / "here")) for file in data.images])
    assert moved.fingerprint == data.fingerprint
    assert written(tmp_path / "other", content="other").fingerprint != data.fingerprint
    renamed = [file.rename(file.with_suffix(".jpg")) for file in data.images]
    assert replace(data, images=renamed).fingerprint != data.fingerprint
    assert LabelledImages([], np.array([], dtype=int), ["cat"]).fingerprint


def test_fingerprint__looks_into_a_hundred_files_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = written(tmp_path, 250)
    looked: list[Path] = []
    monkeypatch.setattr("cocoax.data.labelled.file_digest", lambda path: looked.append(path) or path.read_text())
    assert data.fingerprint == data.fingerprint
    assert len(looked) == 100
    assert (looked[0], looked[-1]) == (data.images[0], data.images[-1])
