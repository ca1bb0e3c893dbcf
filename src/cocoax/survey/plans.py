"""Plans: the masks of an input, and how a field comes of what an encoder makes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cocoax.masking import Masks
from cocoax.methods.field import default_grid, pooled
from cocoax.methods.removal import RemovalMethod
from cocoax.seeding import stream
from cocoax.store import digest

NOISE = 4  # random sums of the error of a whole map: an error is then known to about 1 / sqrt(2 * 4), 35 %


def seeded(method: RemovalMethod, name: str) -> RemovalMethod:
    """Return the method with the seed of an input, by its id: each has masks of its own, so that errors average out."""
    if not hasattr(method, "seed"):
        return method
    mixed: Any = {"seed": int(digest(method.seed, name)[:8], 16)}
    return replace(method, **mixed)


@dataclass(frozen=True, eq=False)
class Plan:
    """Masks, and the matrices by which a field comes of the feature vectors of masked inputs and of the two ends.

    All estimates are linear in the scores, so what they do to n masked inputs and two ends is known before there are any.

    Attributes:
        method: the one that drew the masks.
        masks: n of them.
        field: ``[*cells, n + 2]``.
        noise: ``[4, n + 2]``; no rows where nothing is left to chance, or known about it.

    """

    method: RemovalMethod
    masks: Masks
    field: Tensor
    noise: Tensor

    @classmethod
    def draw(cls, method: RemovalMethod, shape: tuple[int, ...], grid: int | tuple[int, int] | None) -> Plan:
        """Return the plan of a method for inputs whose features have this shape, pooled to a grid if they are pixels."""
        masks = method.draw(shape)
        count = len(masks)
        every = torch.eye(count + 2, dtype=torch.float64)
        vectors, ends = every[:count], every[count:]
        grid = (default_grid(method, shape, 1) if grid is None else grid) if len(shape) == 2 else None
        cells = method.cells(masks, grid)
        effects, factors = method.effects_and_scatter(cells, vectors, ends)
        if factors is not None:
            factors = pooled(factors[0], shape, grid).flatten(1), factors[1]
        field = pooled(effects, shape, grid).movedim(0, -1)
        return cls(method, masks, field, _noise(factors, count + 2, getattr(method, "seed", 0)))


def _noise(factors: tuple[Tensor, Tensor] | None, columns: int, seed: int) -> Tensor:
    """Return random sums of the sampling error over samples and cells, ``[4, n + 2]``, from its factors."""
    if factors is None or not len(factors[0]):
        return torch.zeros(0, columns, dtype=torch.float64)
    x, rest = factors
    # Other signs for every input: the errors of neighbouring cells go together, which averages out over inputs alone.
    signs = stream(1, 3, seed)
    over_cells = torch.from_numpy(signs.choice([-1.0, 1.0], (x.shape[1], NOISE)))
    over_samples = torch.from_numpy(signs.choice([-1.0, 1.0], (len(x), NOISE)))
    sums: Tensor = ((x @ over_cells) * over_samples).T @ rest / x.shape[1] ** 0.5
    return sums
