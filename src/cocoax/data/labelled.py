"""Images with labels: what studies draw explicands, corpora and foils from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """One split of a data set.

    ``images`` are inputs for an encoder (files, or uint8 arrays ``[H, W, 3]``), opened when they are used; ``labels`` ``[n]``
    number the ``classes``.
    """

    images: Sequence[Any]
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
