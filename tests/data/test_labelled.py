"""Labelled images: as many labels as images, and each of a class that there is."""

from __future__ import annotations

import numpy as np
import pytest

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
