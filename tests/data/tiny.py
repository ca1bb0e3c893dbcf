"""Small data sets, written as the real ones are, and pictures and masks of noise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

HEIGHT, WIDTH = 23, 31
CIFAR10_FILES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
MURA_STUDIES = {
    "train/XR_WRIST/patient00002/study1_negative": ["image2.png", "image1.png"],
    "train/XR_ELBOW/patient00001/study1_positive": ["image1.png"],
    "train/XR_ELBOW/patient00001/study2_negative": ["image1.png", "._image1.png"],
    "valid/XR_HAND/patient00009/study1_positive": ["image1.png", "image2.png"],
}


def picture(width: int = WIDTH, height: int = HEIGHT, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def write_picture(path: Path, value: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((4, 4, 3), value, np.uint8)).save(path)
    return path


def random_mask(seed: int, height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """A few blobs."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[:height, :width]
    mask = np.zeros((height, width), bool)
    for _ in range(3):
        y, x, r = random.uniform(0, height), random.uniform(0, width), random.uniform(2, 8)
        mask |= (rows - y) ** 2 + (columns - x) ** 2 < r**2
    return mask


def write_coco(folder: Path, **changes: Any) -> Path:
    picture().save(folder / "one.png")
    picture(seed=1).save(folder / "two.png")
    content = {
        "images": [
            {"id": 1, "file_name": "one.png", "height": HEIGHT, "width": WIDTH},
            {"id": 2, "file_name": "two.png", "height": HEIGHT, "width": WIDTH},
            {"id": 3, "file_name": "nothing-in-it.png", "height": HEIGHT, "width": WIDTH},
        ],
        "categories": [{"id": 10, "name": "cat"}, {"id": 20, "name": "dog"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 10, "bbox": [0, 0, 5, 5]},
            {"id": 2, "image_id": 1, "category_id": 10, "bbox": [10, 10, 5, 5]},
            {"id": 3, "image_id": 1, "category_id": 20, "bbox": [20, 0, 5, 5]},
            {"id": 4, "image_id": 2, "category_id": 20, "bbox": [1, 1, 3, 3]},
        ],
        **changes,
    }
    path = folder / "annotations.json"
    path.write_text(json.dumps(content))
    return path


def cifar10_batch(seed: int, count: int = 4) -> dict[bytes, Any]:
    """A batch as in the published files: rows of 1024 red, 1024 green and 1024 blue values."""
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 256, (count, 3072), dtype=np.uint8)
    return {b"data": pixels, b"labels": random.integers(0, 10, count).tolist(), b"batch_label": b"a batch"}


def write_mura(folder: Path) -> Path:
    """The layout of MURA v1.1, with empty pictures: they are opened by who looks at them."""
    for study, names in MURA_STUDIES.items():
        (folder / study).mkdir(parents=True)
        for name in names:
            (folder / study / name).write_bytes(b"")
    return folder
