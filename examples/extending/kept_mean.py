"""Removed places take the mean of what was kept."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cocoax.inputs import Explicand
from cocoax.masking import Removal


@dataclass(frozen=True)
class KeptMean(Removal):
    """Removed places take the mean of the kept ones, for each channel apart; where nothing is kept, that of all."""

    made_for = "numbers"

    def baseline_input(self, explicand: Explicand) -> Tensor:
        """Return the mean of each channel everywhere; elements that are never removed stay."""
        nothing = explicand.tensor.new_zeros(1, *explicand.shape)
        return self.masked(explicand, explicand.tensor, nothing)[0]

    def masked(self, explicand: Explicand, baseline_input: Tensor, kept: Tensor) -> Tensor:
        """Return inputs ``[n, *tensor.shape]``."""
        x = explicand.tensor  # [C, ...]
        kept = explicand.elements_kept(kept)  # [n, 1, ...], or [n, C, ...] where features differ by channel
        places = tuple(range(2, x.ndim + 1))
        number = kept.sum(places, keepdim=True)  # [n, 1 or C, 1, ...]
        mean = (kept * x).sum(places, keepdim=True) / number.clamp(min=1e-6)
        mean = mean.where(number > 0, x.mean(tuple(range(1, x.ndim)), keepdim=True))
        return kept * x + (1 - kept) * mean
