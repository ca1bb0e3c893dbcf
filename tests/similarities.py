"""Similarities of a user's own: one that is linear and one that is not."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cocoax.similarity import LinearSimilarity, Similarity


@dataclass(frozen=True)
class Signs(LinearSimilarity):
    """How many signs two representations share, smoothly: no mean that a reference holds tells it."""

    def features(self, representations: Tensor) -> Tensor:
        return torch.tanh(3 * representations)


@dataclass(frozen=True)
class Overlap(Similarity):
    """The sum of the smaller of both, after a softmax (the histogram intersection kernel)."""

    def pairwise(self, representations: Tensor, references: Tensor) -> Tensor:
        rows, columns = representations.softmax(1), references.softmax(1)
        return torch.minimum(rows[:, None], columns[None]).sum(2)
