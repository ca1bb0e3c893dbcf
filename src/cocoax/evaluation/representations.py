"""How good representations are, whatever is asked of them later."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from cocoax.similarity import Cosine


def knn_accuracy(known: Tensor, labels: np.ndarray, asked: Tensor, truth: np.ndarray, neighbours: int = 20) -> float:
    """Return how often the weighted vote of the nearest neighbours is right (cosine, weights exp(s / .1); Wu et al. 2018).

    ``known`` is ``[n, d]`` with labels ``[n]``, ``asked`` ``[m, d]`` with labels ``[m]``.
    """
    known, asked = Cosine().features(known), Cosine().features(asked)
    near = (asked @ known.T).topk(min(neighbours, len(known)), dim=1)
    votes = functional.one_hot(torch.from_numpy(np.array(labels, np.int64)))[near.indices]  # [m, k, classes]
    winners = ((near.values / 0.1).exp()[..., None] * votes).sum(1).argmax(1)
    return float((winners == torch.from_numpy(np.array(truth, np.int64))).float().mean())


def effective_rank(representations: Tensor) -> float:
    """Return the exponential of the entropy of the variances along the principal axes (after Roy & Vetterli 2007).

    From 1, all representations on a line, to d, the same variance in every direction. A standard deviation per dimension
    does not notice a collapse onto a few directions that no axis is aligned with; this does.
    """
    centred = representations.double() - representations.double().mean(0)
    shares = torch.linalg.svdvals(centred) ** 2
    if float(shares.sum()) == 0:
        return 1.0
    shares = shares / shares.sum()
    return float(torch.exp(torch.special.entr(shares).sum()))
