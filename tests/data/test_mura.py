"""MURA: labels of studies reach their pictures, whatever the folder is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cocoax.data.mura import mura
from tests.data.tiny import write_mura


def test_mura__pictures_have_the_labels_of_their_studies(tmp_path: Path) -> None:
    folder = write_mura(tmp_path / "MURA-v1.1")
    for given in (tmp_path, folder, str(folder)):
        train, test = mura(given), mura(given, "test")
        assert train.classes == test.classes == ["negative", "positive"]
        assert [path.relative_to(folder).as_posix() for path in train.images] == [
            "train/XR_ELBOW/patient00001/study1_positive/image1.png",
            "train/XR_ELBOW/patient00001/study2_negative/image1.png",
            "train/XR_WRIST/patient00002/study1_negative/image1.png",
            "train/XR_WRIST/patient00002/study1_negative/image2.png",
        ]
        assert train.labels.tolist() == [1, 0, 0, 0]
        assert test.labels.tolist() == [1, 1]


def test_mura__folder_of_another_name(tmp_path: Path) -> None:
    assert len(mura(write_mura(tmp_path / "x-rays"))) == 4


def test_mura__one_part_of_the_body(tmp_path: Path) -> None:
    folder = write_mura(tmp_path / "MURA-v1.1")
    assert mura(folder, part="elbow").labels.tolist() == [1, 0]
    assert len(mura(folder, part="hand")) == 0
    with pytest.raises(ValueError, match=r"'part' parameter must be one of elbow, .*wrist. Got 'knee' instead"):
        mura(folder, part="knee")


# --- what is wrong ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["train_image_paths.csv", "train_labeled_studies.csv"])
def test_mura__missing_says_where_to_get_it(name: str, tmp_path: Path) -> None:
    folder = write_mura(tmp_path / "MURA-v1.1")
    (folder / name).unlink()
    with pytest.raises(
        FileNotFoundError, match=rf"has no {name}. Get MURA v1.1 from the Stanford ML Group .*holds MURA-v1.1"
    ):
        mura(tmp_path)


def test_mura__missing_pictures(tmp_path: Path) -> None:
    folder = write_mura(tmp_path / "MURA-v1.1")
    (folder / "train/XR_ELBOW/patient00001/study1_positive/image1.png").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"1 of the 4 pictures in train_image_paths\.csv are missing, such as .*image1"
    ):
        mura(folder)


def test_mura__study_without_a_label(tmp_path: Path) -> None:
    folder = write_mura(tmp_path / "MURA-v1.1")
    studies = (folder / "train_labeled_studies.csv").read_text().splitlines()
    (folder / "train_labeled_studies.csv").write_text("\n".join(studies[1:]))
    with pytest.raises(ValueError, match=r"has no label for the study of MURA-v1\.1/train/XR_WRIST/.*must belong together"):
        mura(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("MURA-v1.1/train/XR_WRIST/patient00002/study1_neg", r"Line 1 of .* has 1 columns; expected 2. It may be cut off"),
        ("MURA-v1.1/train/XR_WRIST/patient00002/study1_negative/,yes", r"the label 'yes'; expected 0 or 1"),
        ("", r"is empty; unpack MURA again"),
        ("MURA-v1.1/../../secret/study/,1", r"is not a path such as MURA-v1\.1/train"),
        ("/root/train/study/,1", r"is not a path such as MURA-v1\.1/train"),
        ("image.png,1", r"is not a path such as MURA-v1\.1/train"),
    ],
)
def test_mura__damaged_csv(content: str, message: str, tmp_path: Path) -> None:
    folder = write_mura(tmp_path / "MURA-v1.1")
    (folder / "train_labeled_studies.csv").write_text(content)
    with pytest.raises(ValueError, match=message):
        mura(folder)


def test_mura__unknown_split(tmp_path: Path) -> None:
    split: Any = "valid"
    with pytest.raises(ValueError, match=r"'split' parameter must be 'train' or 'test'. Got 'valid' instead"):
        mura(tmp_path, split)
