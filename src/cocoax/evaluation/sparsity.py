"""How concentrated an attribution is."""

from __future__ import annotations

import torch
from torch import Tensor

from cocoax.methods.attribution import Attribution


def gini(attribution: Attribution | Tensor) -> float:
    """Return the Gini index of the magnitudes: 0 if all are equal, towards 1 if a single pixel has everything.

    An :class:`Attribution` counts from its neutral value, where a pixel makes no difference.
    """
    values = attribution.relative if isinstance(attribution, Attribution) else torch.as_tensor(attribution)
    ordered = values.detach().double().abs().flatten().sort().values
    total = float(ordered.sum())
    if total == 0:
        return 0.0
    n = len(ordered)
    ranks = torch.arange(1, n + 1, dtype=torch.float64)
    return float((2 * ranks - n - 1) @ ordered) / (n * total)
