"""Checks of what a method returns, since methods may be users' own: a mistake ends in a sentence."""

from __future__ import annotations

import os
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cocoax.checks import check_kind, multiplies
from cocoax.inputs import Explicand
from cocoax.masking import GridMasks, Masks
from cocoax.masking.control_variates import FOLDS
from cocoax.methods.estimate import Estimate

if TYPE_CHECKING:
    from cocoax.methods.gradients import GradientMethod, Points
    from cocoax.methods.removal import RemovalMethod


def drawn(method: RemovalMethod, shape: tuple[int, ...], count: int | None = None) -> Masks:
    """Return the masks that a method draws; raise unless they are masks, and as many as they should be."""
    masks, name = method.draw(shape, count), type(method).__name__
    if not all(hasattr(masks, part) for part in ("__len__", "full", "tensors")):
        raise TypeError(
            f"{name}.draw must return masks: an object with len(masks), masks.full(rows) and masks.tensors. "
            f"Got {type(masks).__name__} instead."
        )
    if count is not None and len(masks) != count:
        raise ValueError(
            f"{name}.draw was asked for {count} masks and gave {len(masks)}; it must give as many as it is asked for, or say "
            "in an error that there are no more."
        )
    return masks


def check_memory(method: RemovalMethod, masks: Masks, anchors: Tensor) -> None:
    """Raise if what a run keeps, and what its map is computed from, is more than the machine has; nothing is masked yet.

    That is a representation for each mask and each of K baselines, by ``anchors [1 + K, d]``, and for an efficient map of
    pixels squares of the number of coarse cells for each fold of a regression. Other maps take little.
    """
    (ends_count, dimension), features = anchors.shape, 0
    if isinstance(masks, GridMasks) and getattr(method, "estimator", "") == "efficient":
        features = prod(map(len, masks.geometry.pool))
    kept, regression = 4 * len(masks) * (ends_count - 1) * dimension, 3 * FOLDS * 8 * features**2
    there = _memory_of_machine()
    if kept + regression > there:
        over = f" over {features} cells" if features else ""
        versions = f"{ends_count - 1} times " if ends_count > 2 else ""
        advice = "a coarser grid" if regression > kept else "fewer samples"
        raise ValueError(
            f"{len(masks)} samples{over}, with representations of {versions}{dimension} numbers, need about "
            f"{(kept + regression) / 2**30:.0f} GB of memory; this machine has {there / 2**30:.0f}. Use {advice}."
        )


def _memory_of_machine() -> int:
    names = getattr(os, "sysconf_names", {})
    known = "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if known else 64 * 2**30


def estimated(method: RemovalMethod, masks: Masks, scores: Tensor, anchors: Tensor, shape: tuple[int, ...]) -> Estimate:
    """Return a method's maps of scores ``[n, k]``; raise unless they are k, over features of this shape."""
    estimate, name = method.estimate(masks, scores, anchors), type(method).__name__
    advice = "must return an Estimate, cocoax.methods.Estimate(values)"
    check_kind(f"{name}.estimate", estimate, Estimate, advice)
    targets = scores.shape[1]
    for part, sizes in (("values", shape), ("standard_error", shape), ("neutral", ()), ("features", None)):
        given = getattr(estimate, part)
        if given is None and part != "values":
            continue
        check_kind(f"The {part} that {name}.estimate gives", given, Tensor, "must be a tensor")
        # Over a list a map may also be of one row, [k, 1, m].
        fits = given.ndim > 0 and len(given) == targets and (sizes is None or given.numel() == targets * prod(sizes))
        if not fits:
            wanted = [targets, *(["features"] if sizes is None else sizes)]
            raise ValueError(
                f"The {part} that {name}.estimate gives must be [{', '.join(map(str, wanted))}]: first the targets, of which "
                f"there {'is' if targets == 1 else 'are'} {targets}, then the features. Got {list(given.shape)} instead."
            )
    return estimate


def weights_of(method: GradientMethod) -> Tensor:
    """Return the weights of a method's points; raise unless they are one number for each of at least one."""
    weights, name = method.weights(), type(method).__name__
    check_kind(f"{name}.weights", weights, Tensor, "must return a tensor [number of points]")
    if weights.ndim != 1 or len(weights) == 0:
        raise ValueError(
            f"{name}.weights must return one weight for each point, [points]. Got {list(weights.shape)} instead."
        )
    return weights


def points_of(method: GradientMethod, explicand: Explicand, baseline: Tensor, rows: slice) -> Points:
    """Return some of a method's points, in single precision; raise unless they are as many, and of the explicand's shape."""
    points, name = method.points(explicand, baseline, rows), type(method).__name__
    if not (hasattr(points, "at") and hasattr(points, "factor")):
        raise TypeError(f"{name}.points must return cocoax.methods.Points(at, factor). Got {type(points).__name__} instead.")
    wanted = [rows.stop - rows.start, *explicand.tensor.shape]
    if list(points.at.shape) != wanted:
        raise ValueError(
            f"The points that {name}.points gives must be {wanted}: their number, then the shape of the explicand's tensor. "
            f"Got {list(points.at.shape)} instead."
        )
    if not multiplies(points.factor.shape, wanted):
        raise ValueError(
            f"The factor that {name}.points gives must be {wanted}, as the points are, {wanted[1:]} for all of them, or [1]. "
            f"Got {list(points.factor.shape)} instead."
        )
    if points.at.dtype == points.factor.dtype == torch.float32:
        return points
    return replace(points, at=points.at.float(), factor=points.factor.float())
