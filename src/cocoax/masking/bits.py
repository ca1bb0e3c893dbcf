"""The masks of RISE for a list of features (words, columns): independent bits, one for each feature.

They offer what :class:`cocoax.masking.GridMasks` offers, as masks of an image of one row, with simpler sums: a bit is its
own square, and the control variates are the bits themselves, u = m - p, whose covariance with the mask is p(1-p) I, and
products of two and three of them, which have none.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from cocoax.masking.control_variates import KernelControls, Units
from cocoax.seeding import stream

_BLOCK = 256  # masks of one block come from one random stream, so that any number of masks starts the same
_DESIGN = 2  # part of the stream; masks over pixels have another


class BitMasks:
    """Masks over ``m`` features: ``bits [n, m]`` (uint8), each kept with probability ``keep``."""

    def __init__(self, bits: Tensor, keep: float) -> None:
        self.bits = bits
        self.keep = keep

    @classmethod
    def draw(cls, features: int, keep: float, count: int, seed: int) -> BitMasks:
        """Return ``count`` random masks; a larger count begins with the same ones."""
        streams = (stream(seed, block, _DESIGN, int(keep * 2**32)) for block in range(-(-count // _BLOCK)))
        blocks = [random.random((_BLOCK, features)) < keep for random in streams]
        bits = np.concatenate([np.zeros((0, features), bool), *blocks])[:count]
        return cls(torch.from_numpy(bits.astype(np.uint8)), keep)

    @classmethod
    def enumerate(cls, features: int, count: int | None, seed: int) -> BitMasks:
        """Return all subsets, each once, in a random order, so that the first ``count`` of them are a fair sample."""
        order = stream(seed, 0).permutation(2**features)[:count]
        bits = (order[:, None] >> np.arange(features)) & 1
        return cls(torch.from_numpy(bits.astype(np.uint8)), 0.5)

    def __len__(self) -> int:
        return len(self.bits)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The bits."""
        return {"bits": self.bits}

    def full(self, rows: slice) -> Tensor:
        """Return some masks, ``[n, m]``."""
        return self.bits[rows].float()

    @cached_property
    def complete(self) -> bool:
        """Whether they are all subsets, each once, with equal chances: then sums over them are expectations."""
        features = self.bits.shape[1]
        return self.keep == 0.5 and len(self) == 2**features and len(torch.unique(self.bits, dim=0)) == len(self)

    def places(self, masks: BitMasks) -> Tensor:
        """Return where each of other masks stands among these, which are all subsets: ``[n]``."""
        powers = 2 ** torch.arange(self.bits.shape[1])
        place = torch.empty(len(self), dtype=torch.int64)
        place[self.bits.long() @ powers] = torch.arange(len(self))
        return place[masks.bits.long() @ powers]

    @property
    def units(self) -> Units:
        """Each is drawn by itself."""
        return Units.alone(len(self))

    @property
    def firsts(self) -> BitMasks:
        """All of them."""
        return self

    @property
    def cells(self) -> Tensor:
        """The bits as numbers, ``[n, m]``."""
        return self.bits.double()

    def weighted_sum(self, weights: Tensor, groups: Tensor | None = None) -> Tensor:
        """Return Σᵢ wᵢ mᵢ for every column of ``weights [n, k]``: ``[k, 1, m]``; ``[groups, k, 1, m]`` for groups apart."""
        bits, weights = self.bits.double(), weights.double()
        if groups is None:
            return (weights.T @ bits)[:, None]
        members = [groups == group for group in range(int(groups.max()) + 1)]
        return torch.stack([(weights[mine].T @ bits[mine])[:, None] for mine in members])

    def weighted_sum_of_squares(self, weights: Tensor) -> Tensor:
        """Return Σᵢ wᵢ mᵢ², the same as Σᵢ wᵢ mᵢ."""
        return self.weighted_sum(weights)

    @cached_property
    def controls(self) -> KernelControls:
        """Models of scores on the masks, minus their expectation."""
        return KernelControls(self.bits.double() - self.keep, self.keep * (1 - self.keep))

    def coarse_covariance(self, coefficients: Tensor) -> Tensor:
        """Return Cov(u·b, m), exactly, for every column of ``coefficients [m, k]``: ``[k, 1, m]``."""
        return self.keep * (1 - self.keep) * coefficients.T[:, None, :]
