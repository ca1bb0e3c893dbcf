"""Plans: masks, and how a field comes of what an encoder makes of them. Many inputs share one, worked out once."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cocoax.attribution.field import default_grid, pooled
from cocoax.attribution.removal import RemovalMethod
from cocoax.features import Masks
from cocoax.seeding import stream
from cocoax.storage import digest

GROUPS = 512  # of inputs, by their ids; each has masks of its own, so that the errors of maps average out over inputs
NOISE = 4  # random sums of the error of a whole map: an error is then known to about 1 / sqrt(2 * 4), 35 %


def group_of(name: str) -> int:
    """Return the group of an input, by its id: those of one group are explained with the same masks."""
    return int(digest(name)[:8], 16) % GROUPS


def seeded(method: RemovalMethod, group: int) -> RemovalMethod:
    """Return the method with the seed of a group."""
    if not hasattr(method, "seed"):
        return method
    mixed: Any = {"seed": int(digest(method.seed, str(group))[:8], 16)}
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
        field = pooled(method.effects(cells, vectors, ends, errors=False).values, shape, grid).movedim(0, -1)
        return cls(method, masks, field, _noise(method.scatter(cells, vectors, ends), shape, grid, count + 2))


def _noise(
    factors: tuple[Tensor, Tensor] | None, shape: tuple[int, ...], grid: int | tuple[int, int] | None, count: int
) -> Tensor:
    """Return random sums of the sampling error over samples and cells, ``[4, count]``."""
    if factors is None:
        return torch.zeros(0, count, dtype=torch.float64)
    x, rest = factors
    x = pooled(x, shape, grid).flatten(1)
    signs = stream(1, 3)
    over_cells = torch.from_numpy(signs.choice([-1.0, 1.0], (x.shape[1], NOISE)))
    over_samples = torch.from_numpy(signs.choice([-1.0, 1.0], (len(x), NOISE)))
    sums: Tensor = ((x @ over_cells) * over_samples).T @ rest / x.shape[1] ** 0.5
    return sums


class Plans:
    """The plans of a method, by group and shape; those used last are kept."""

    def __init__(self, method: RemovalMethod, grid: int | tuple[int, int] | None) -> None:
        self._method = method
        self._grid = grid
        self._kept: OrderedDict[tuple[int, tuple[int, ...]], Plan] = OrderedDict()

    def of(self, name: str, shape: tuple[int, ...]) -> Plan:
        """Return the plan for an input with this id and shape."""
        key = group_of(name), shape
        plan = self._kept.pop(key, None) or Plan.draw(seeded(self._method, key[0]), shape, self._grid)
        self._kept[key] = plan
        if len(self._kept) > GROUPS:
            self._kept.popitem(last=False)
        return plan
