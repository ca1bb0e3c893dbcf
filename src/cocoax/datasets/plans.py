"""Plans: masks, and how a field comes of what an encoder makes of them. Inputs of a group share one, worked out once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cocoax.attribution.field import default_grid, pooled
from cocoax.attribution.removal import RemovalMethod
from cocoax.features import Masks
from cocoax.seeding import stream
from cocoax.storage import digest

GROUPS = 512  # of inputs, by their ids: each has masks of its own, so that the errors of maps average out over groups
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
        return cls(method, masks, field, _noise(method, cells, (vectors, ends), shape, grid))


def _noise(
    method: RemovalMethod,
    cells: Any,
    scores: tuple[Tensor, Tensor],
    shape: tuple[int, ...],
    grid: int | tuple[int, int] | None,
) -> Tensor:
    """Return random sums of the sampling error over samples and cells, ``[4, n + 2]``."""
    factors = method.scatter(cells, *scores)
    if factors is None:
        return torch.zeros(0, scores[0].shape[1], dtype=torch.float64)
    x, rest = factors
    x = pooled(x, shape, grid).flatten(1)
    # Other signs for every group: the errors of neighbouring cells go together, which averages out over groups alone.
    signs = stream(1, 3, getattr(method, "seed", 0))
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


def error_of_mean(maps: Tensor, names: Sequence[str], count: int) -> Tensor | None:
    """Return the standard error of the mean of ``count`` maps, from some of them, ``[n, *cells]``, and their ids.

    Maps of one group have part of their error in common, since they have the same masks. So what groups have in common is
    estimated apart (an analysis of variance with one factor): it falls with the number of groups, the rest with that of maps.
    None for one map.
    """
    if len(maps) < 2:
        return None
    _, group = torch.unique(torch.tensor([group_of(name) for name in names]), return_inverse=True)
    sizes = torch.bincount(group).double()
    apart = (maps - maps.mean(0)).flatten(1).double()
    means = torch.zeros(len(sizes), apart.shape[1], dtype=torch.float64).index_add_(0, group, apart) / sizes[:, None]
    total = apart.square().sum(0)
    between = (sizes[:, None] * means.square()).sum(0)
    free = len(maps) - len(sizes)  # degrees of freedom within groups
    if free < 1 or len(sizes) < 2:
        shared, own = torch.zeros_like(total), total / (len(maps) - 1)
    else:
        own = (total - between) / free
        size = (len(maps) - sizes.square().sum() / len(maps)) / (len(sizes) - 1)  # of a typical group
        # The part in common is about the same for all cells; one for all is known better.
        excess = ((between / (len(sizes) - 1) - own) / size).mean() / own.mean().clamp(min=1e-300)
        shared = excess.clamp(min=0) * own
    # Two of the maps are in the same group with a chance of 1 / GROUPS.
    return ((own + shared) / count + shared * (count - 1) / (count * GROUPS)).sqrt().view(maps.shape[1:])
