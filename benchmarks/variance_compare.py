"""Variance of a RISE map per encoded mask, under designs of masks and control variates, relative to what Cocoax does.

    python benchmarks/variance_compare.py FOLDER        (a folder written by variance_encode.py)

A model of the scores is fitted to half of the independent masks; what it leaves unexplained is measured on the other masks.
Masks that depend on each other (pairs, blocks) are averaged first, so that their correlation counts. Three figures: of the
pixels of the map, of the map without its mean ("shape"), and of that mean ("offset").
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from cocoax.masking.control_variates import RIDGE
from cocoax.masking.masks import GridMasks, MaskGeometry

ENCODERS = {"cifar-resnet": (4, 32), "efficientnet-224": (7, 224), "efficientnet-96": (5, 96)}  # grid, side
UNITS = {"complements": 2, "stratified": 16, "hadamard": 0, "lattice": 1, "complements + lattice": 2}  # 0: a whole block
PIXELS = 16  # maps are compared at 16x16
QUADRATIC_RIDGE = 3.0


def load(folder: Path, encoder: str, photo: str, design: str) -> tuple[GridMasks, Tensor]:
    """Masks, and scores ``[n, 3]``: label-free, corpus and contrastive corpus."""
    grid, side = ENCODERS[encoder]
    saved = torch.load(folder / f"{encoder}.{photo}.{design}.pt")
    photos = {name: _unit(one.double()) for name, one in torch.load(folder / f"{encoder}.pt").items()}
    z = _unit(saved["representations"].double())
    corpus, *foil = (one for name, one in photos.items() if name != photo)
    directions = torch.stack([photos[photo], corpus, corpus - torch.stack(foil).mean(0)], dim=1)
    return GridMasks(MaskGeometry(side, side, grid, grid), saved["bits"], saved["shifts"], 0.5), z @ directions


def _unit(vectors: Tensor) -> Tensor:
    return vectors / vectors.norm(dim=-1, keepdim=True)


def kernel(masks: GridMasks, quadratic: bool) -> Callable[[Tensor, Tensor], Tensor]:
    """Of ridge regression on the coarse mask u, and on all products of two of its cells.

    For p = 1/2 those have a known mean and no covariance with the mask, so they may be taken out just as well.
    """
    geometry = masks.geometry
    down, right = (moment @ pool.T for moment, pool in zip(geometry.pooled_moment, geometry.pool, strict=True))
    covariance = 0.25 * torch.kron(down, right)
    size, squares = covariance.trace(), covariance.square().sum()

    def of(u: Tensor, v: Tensor) -> Tensor:
        linear = u @ v.T
        if not quadratic:
            return linear / (RIDGE * size)
        means = ((u @ covariance) * u).sum(1)[:, None] + ((v @ covariance) * v).sum(1)
        return linear / (RIDGE * size) + (linear.square() - means + squares) / (QUADRATIC_RIDGE * (size**2 + squares))

    return of


def fitted(of: Callable[[Tensor, Tensor], Tensor], u: Tensor, y: Tensor) -> Callable[[Tensor], Tensor]:
    """Kernel ridge regression with a free intercept."""
    n = len(u)
    system = torch.ones(n + 1, n + 1, dtype=u.dtype)
    system[:n, :n], system[n, n] = of(u, u) + torch.eye(n, dtype=u.dtype), 0
    solution = torch.linalg.solve(system, torch.cat([y, y.new_zeros(1, y.shape[1])]))
    return lambda v: of(v, u) @ solution[:n] + solution[n]


def variances(masks: GridMasks, residuals: Tensor, unit: int) -> Tensor:
    """Variance per mask of map, shape and offset, ``[3, targets]``."""
    side = masks.geometry.height
    pool = torch.nn.functional.adaptive_avg_pool2d
    small = pool(masks.full(slice(0, len(masks))), PIXELS).flatten(1).double() if side <= 32 else _pooled(masks)
    found = []
    for residual in residuals.T:
        each = (residual[:, None] * small / masks.keep)[: len(small) // unit * unit]
        each = each.view(-1, unit, each.shape[1]).mean(1)
        offset = each.mean(1, keepdim=True)
        found.append(unit * torch.stack([each.var(0).mean(), (each - offset).var(0).mean(), offset.var()]))
    return torch.stack(found, dim=1)


def _pooled(masks: GridMasks) -> Tensor:
    parts = [masks.full(slice(start, start + 64)) for start in range(0, len(masks), 64)]
    return torch.cat([torch.nn.functional.adaptive_avg_pool2d(part, PIXELS).flatten(1) for part in parts]).double()


def main() -> None:
    """Print the table."""
    folder = Path(sys.argv[1])
    for encoder in sorted({path.name.split(".")[0] for path in folder.glob("*.iid.pt")}):
        gains: dict[tuple[str, bool], list[Tensor]] = {}
        for path in sorted(folder.glob(f"{encoder}.*.iid.pt")):
            photo = path.name.split(".")[1]
            masks, y = load(folder, encoder, photo, "iid")
            half = len(y) // 2
            rest = GridMasks(masks.geometry, masks.bits[half:], masks.shifts[half:], masks.keep)
            base = None
            for quadratic in (False, True):
                model = fitted(kernel(masks, quadratic), masks.coarse[:half], y[:half])
                found = variances(rest, y[half:] - model(rest.coarse), 1)
                base = found if base is None else base
                gains.setdefault(("independent", quadratic), []).append(base / found)
                for design, unit in UNITS.items():
                    if not (folder / f"{encoder}.{photo}.{design}.pt").exists():
                        continue
                    other, scores = load(folder, encoder, photo, design)
                    block = unit or 2 ** (masks.bits[0].numel()).bit_length() * 2
                    found = variances(other, scores - model(other.coarse), block)
                    gains.setdefault((design, quadratic), []).append(base / found)
        for (design, quadratic), ratios in gains.items():
            table = torch.stack(ratios)
            figures = ", ".join(
                f"{name} {table[:, index].median():.2f} ({table[:, index].min():.2f} to {table[:, index].max():.2f})"
                for index, name in enumerate(("map", "shape", "offset"))
            )
            print(f"{encoder}: {design}{' + quadratic' if quadratic else ''}: {figures}", flush=True)


if __name__ == "__main__":
    main()
