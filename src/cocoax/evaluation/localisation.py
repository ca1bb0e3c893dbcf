"""Localisation: does the heat of a map lie on the mask of a thing?

- **found**: of all classes in the picture, the asked one has the highest mean heat;
- **pointing game** (Zhang et al. 2018): the strongest pixel lies on the class, or within ``tolerance`` pixels of it;
- **energy** (Wang et al. 2020): the share of the positive heat that lies on the class;
- **IoU**: overlap of the class with the pixels above a threshold: the fixed one, a fraction of the map's peak, and the best
  there is for this map and mask, an upper bound that no threshold chosen in advance reaches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from cocoax.checks import as_numbers, check_at_least, check_kind, check_number
from cocoax.methods import Attribution
from cocoax.show import Box

_Map = Attribution | np.ndarray  # of an attribution, the effects


@dataclass(frozen=True)
class MaskScores:
    """Measures of how a map of a picture agrees with the mask of a class.

    Attributes:
        picture: the name of the picture.
        name: of the class.
        target: how the class was asked about.
        found: whether it is the strongest class; ``None`` where the picture has no other class.
        pointing: of the pointing game.
        energy: the share of the positive heat on the class.
        iou: at the fixed threshold.
        best_iou: at the best threshold.
        area: the share of the map that the class covers: what pointing and energy would be by chance.

    """

    picture: str
    name: str
    target: str
    found: bool | None
    pointing: float
    energy: float
    iou: float
    best_iou: float
    area: float


def mask_scores(
    attribution: Attribution,
    masks: Mapping[str, np.ndarray],
    name: str,
    *,
    picture: str = "",
    target: str = "",
    tolerance: float = 0.0,
    fraction: float = 0.5,
) -> MaskScores | None:
    """Compare a map with the masks (of the picture's size) of all classes in it; ``None`` if it covers nothing of ``name``.

    ``tolerance`` is that of the pointing game, in pixels of the picture; ``fraction`` is where the fixed threshold lies.
    """
    check_kind("What is compared with masks", attribution, Attribution, "must be an Attribution of a picture")
    check_kind("The masks", masks, Mapping, "must be a dict from class names to boolean arrays")
    if not isinstance(name, str) or name not in masks:
        raise ValueError(f"There is no mask of {name!r}; there are masks of {', '.join(map(str, masks)) or 'nothing'}.")
    values = attribution.relative.numpy()
    if values.ndim != 2:
        raise ValueError("Masks are compared with maps of pictures. The attribution has one value for each word or column.")
    height, width = values.shape
    seen = {key: seen_mask(mask, attribution.box, height, width) for key, mask in masks.items()}
    own = seen[name]
    if not own.any():
        return None
    means = {key: float(values[mask].mean()) for key, mask in seen.items() if mask.any()}
    left, top, right, bottom = attribution.box
    whole = masks[name].shape
    pixel = (whole[0] * (bottom - top) / height, whole[1] * (right - left) / width)
    return MaskScores(
        picture=picture,
        name=name,
        target=target,
        found=max(means, key=lambda key: means[key]) == name if len(means) > 1 else None,
        pointing=pointing_game(values, own, tolerance, pixel),
        energy=energy_inside(values, own),
        iou=iou_at(values, own, fraction),
        best_iou=best_iou(values, own),
        area=float(own.mean()),
    )


def seen_mask(mask: np.ndarray, box: Box, height: int, width: int) -> np.ndarray:
    """Return the mask of a picture at the centres of the pixels of a map ``[height, width]`` over ``box`` of that picture.

    It is not set where the map's pixels lie outside of the picture (padding).
    """
    check_kind("A mask", mask, np.ndarray, "must be a boolean array [H, W]")
    if mask.ndim != 2 or mask.size == 0:
        raise ValueError(f"A mask must be a boolean array [H, W]. Got shape {list(mask.shape)} instead.")
    left, top, right, bottom = box
    rows = np.floor((top + (bottom - top) * (np.arange(height) + 0.5) / height) * mask.shape[0]).astype(int)
    columns = np.floor((left + (right - left) * (np.arange(width) + 0.5) / width) * mask.shape[1]).astype(int)
    inside = ((rows >= 0) & (rows < mask.shape[0]))[:, None] & ((columns >= 0) & (columns < mask.shape[1]))[None]
    rows, columns = rows.clip(0, mask.shape[0] - 1), columns.clip(0, mask.shape[1] - 1)
    seen: np.ndarray = mask[np.ix_(rows, columns)].astype(bool) & inside
    return seen


def pointing_game(values: _Map, mask: np.ndarray, tolerance: float = 0.0, pixel: tuple[float, float] = (1.0, 1.0)) -> float:
    """Return 1 if the highest value lies on the mask or within ``tolerance`` of it, else 0; of ties, the share that does.

    ``pixel`` is the height and width of a value, in the units of the tolerance (Zhang et al. use 15 pixels of the picture).
    """
    values, mask = _checked(values, mask)
    check_at_least("tolerance", tolerance, 0)
    near = mask if tolerance == 0 else ndimage.distance_transform_edt(~mask, sampling=pixel) <= tolerance
    return float(near[values == values.max()].mean())


def energy_inside(values: _Map, mask: np.ndarray) -> float:
    """Return the share of the positive heat that lies on the mask; 0 for a map without positive heat."""
    values, mask = _checked(values, mask)
    positive = values.clip(min=0)
    total = float(positive.sum())
    return float(positive[mask].sum()) / total if total > 0 else 0.0


def iou_at(values: _Map, mask: np.ndarray, fraction: float = 0.5) -> float:
    """Return the intersection over union of the mask and the pixels of at least ``fraction`` of the peak; 0 without heat."""
    values, mask = _checked(values, mask)
    check_number("fraction", fraction)
    if not 0 < fraction <= 1:
        raise ValueError(f"The 'fraction' parameter must lie between 0 and 1. Got {fraction!r} instead.")
    peak = float(values.max())
    if not peak > 0:
        return 0.0
    hot = values >= fraction * peak
    return float((hot & mask).sum() / (hot | mask).sum())


def best_iou(values: _Map, mask: np.ndarray) -> float:
    """Return the highest intersection over union that any threshold reaches."""
    values, mask = _checked(values, mask)
    order = np.argsort(-values, axis=None, kind="stable")
    ranked, inside = values.ravel()[order], mask.ravel()[order]
    hits = np.cumsum(inside)
    ious = hits / (np.arange(1, len(hits) + 1) + mask.sum() - hits)
    last_of_ties = np.append(ranked[1:] != ranked[:-1], True)  # a threshold takes all equal values or none
    return float(ious[last_of_ties].max())


def _checked(values: _Map, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a map and its mask as arrays; raise unless they fit."""
    relative = values.relative if isinstance(values, Attribution) else values
    own = as_numbers("A map", relative).numpy()
    where = as_numbers("A mask", mask).numpy()
    if own.shape != where.shape or own.ndim != 2:
        raise ValueError(f"The map and its mask must have the same shape [H, W]. Got {own.shape} and {where.shape} instead.")
    if where.dtype != bool or not where.any():
        raise ValueError("The mask must be boolean and have at least one pixel set.")
    if not np.isfinite(own).all():
        raise ValueError("The map has values that are not finite.")
    return own, where
