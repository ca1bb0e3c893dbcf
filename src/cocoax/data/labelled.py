"""Images with labels: what studies draw explicands, corpora and foils from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cocoax.store import digest, file_digest

Split = Literal["train", "test"]  # "test" is what is held out
_LOOKED_INTO = 100  # files whose content a fingerprint takes in; to read all of ImageNet would take an hour


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """One split of a data set.

    ``images`` are inputs for an encoder (files, or uint8 arrays ``[H, W, 3]``), opened when they are used; ``labels`` ``[n]``
    number the ``classes``.
    """

    images: Sequence[Any] | np.ndarray
    labels: np.ndarray
    classes: list[str]

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels):
            raise ValueError(f"There are {len(self.images)} images but {len(self.labels)} labels; each image needs one.")
        if len(self.labels) and not 0 <= int(self.labels.min()) <= int(self.labels.max()) < len(self.classes):
            raise ValueError(
                f"Labels must number the {len(self.classes)} classes from 0. Got up to {int(self.labels.max())}."
            )

    def __len__(self) -> int:
        return len(self.images)

    @cached_property
    def names(self) -> list[str] | None:
        """The paths of the images below the folder that holds them all; None where they are not files."""
        if isinstance(self.images, np.ndarray) or not all(isinstance(image, str | Path) for image in self.images):
            return None
        above = os.path.commonpath([Path(image).parent for image in self.images]) if len(self.images) else ""
        return [Path(image).relative_to(above).as_posix() for image in self.images]

    @cached_property
    def fingerprint(self) -> str:
        """A digest of classes, labels and images, which does not depend on where the data are kept.

        Arrays count as a whole; of files their names below the folder that holds them all count, and the content of a
        hundred of them.
        """
        content: list[object] = [self.images]
        if self.names:
            looked_into = np.unique(np.linspace(0, len(self) - 1, _LOOKED_INTO).round().astype(int))
            content = [self.names, *(file_digest(Path(self.images[number])) for number in looked_into)]
        elif not isinstance(self.images, np.ndarray):
            content = [np.asarray(image) for image in self.images]
        return digest(self.classes, self.labels.astype(np.int64), *content)


def check_split(split: str) -> None:
    """Raise unless this is the name of a split."""
    if split not in ("train", "test"):
        raise ValueError(f"The 'split' parameter must be 'train' or 'test'. Got {split!r} instead.")
