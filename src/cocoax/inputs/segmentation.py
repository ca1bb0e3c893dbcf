"""Label maps ``[H, W]`` of a picture: the cells of a grid, and segments, connected parts that follow things.

For segments the picture is cut into some 200 superpixels (SLIC), and neighbours are merged, the pair first whose union costs
least (Ward):

    cost(a, b) = |a| |b| / (|a| + |b|) · ‖μ_a - μ_b‖²

where μ is the mean over a part's pixels of its colour (CIELAB) and of an encoder's inner feature maps, each map reduced to
six principal components and scaled to a total variance of one. Every step is deterministic. A tree of merges holds a
segmentation for every number of segments, and those with more refine those with fewer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

# --- grids ----------------------------------------------------------------------------------------------------------------


def grid_segments(height: int, width: int, grid: int | tuple[int, int]) -> Tensor:
    """Return a ``grid`` of rectangles, as equal as the size allows: ``[height, width]``, numbered row by row."""
    rows, columns = check_grid(height, width, grid)
    row = torch.arange(height) * rows // height
    column = torch.arange(width) * columns // width
    return row[:, None] * columns + column


def in_proportion(side: int, height: int, width: int) -> int | tuple[int, int]:
    """Return about ``side`` x ``side`` cells, as square as a picture's proportions allow: (rows, columns), or the side."""
    rows = max(1, round(side * (height / width) ** 0.5))
    columns = max(1, round(side**2 / rows))
    return side if rows == columns else (rows, columns)


def coarsest_grid(labels: Tensor) -> Tensor:
    """Return a label map ``[H, W]`` at the places of the coarsest grid that its parts are made of, ``[rows, columns]``."""
    steps = []
    for axis in (0, 1):
        changes = (labels.diff(dim=axis) != 0).any(1 - axis).nonzero()[:, 0] + 1
        steps.append(math.gcd(labels.shape[axis], *changes.tolist()))
    return labels[:: steps[0], :: steps[1]]


def check_grid(height: int, width: int, grid: int | tuple[int, int]) -> tuple[int, int]:
    """Return the grid as (rows, columns); raise if it is finer than the image."""
    rows, columns = check_sides(grid)
    if rows > height or columns > width:
        raise ValueError(
            f"A grid of {rows} x {columns} is finer than the image of {height} x {width} pixels; use a smaller grid."
        )
    return rows, columns


def check_sides(grid: int | tuple[int, int]) -> tuple[int, int]:
    """Return a grid as (rows, columns); raise if it is none."""
    sides = (grid, grid) if isinstance(grid, Integral) else grid
    if not (isinstance(sides, tuple | list) and len(sides) == 2 and all(isinstance(side, Integral) for side in sides)):
        raise ValueError(f"The 'grid' parameter must be an integer, or two: (rows, columns). Got {grid!r} instead.")
    rows, columns = sides
    if rows < 1 or columns < 1:
        raise ValueError(f"The 'grid' parameter must be at least 1. Got {grid} instead.")
    return rows, columns


# --- trees of merges ------------------------------------------------------------------------------------------------------


_SUPERPIXELS = 200
_COMPONENTS = 6  # principal components of a feature map
_COMPACTNESS = 10.0  # of superpixels: how much places count beside colours
# Of noise or a fine texture most superpixels are specks, which SLIC joins into one; then it sees the picture blurred.
_SMOOTHINGS = (0.0, 1.0, 2.0, 4.0)  # standard deviations of blurs in pixels, the next one where superpixels are few or large
_LARGEST = 0.1  # of the picture: larger superpixels are too large
_AREA = 256 * 256  # pixels of the largest picture that is segmented as it is; larger ones are reduced
_TINY = 0.01  # of the picture: smaller parts are merged before all others
_DECIMALS = 4  # of features, so that rounding elsewhere does not decide which pair is merged


@dataclass(frozen=True, eq=False)
class MergeTree:
    """Parts of a picture that are merged two by two, until one is left.

    Attributes:
        leaves: the smallest part that each pixel belongs to, ``[H, W]``, numbered 0 to n-1.
        merges: the two parts of each merge ``[n - 1, 2]``; merge k makes part n + k.

    """

    leaves: Tensor
    merges: Tensor

    def __len__(self) -> int:
        return len(self.merges) + 1

    def parts(self, count: int) -> list[int]:
        """Return the numbers of the parts that are there when ``count`` of them are left, or all leaves."""
        steps = max(0, len(self) - count)
        gone = set(self.merges[:steps].flatten().tolist())
        return [part for part in range(len(self) + steps) if part not in gone]

    def children(self, part: int) -> tuple[int, int] | None:
        """Return the two that a part was merged of; None for a leaf."""
        if part < len(self):
            return None
        one, other = self.merges[part - len(self)].tolist()
        return one, other

    def labels(self, parts: Sequence[int]) -> Tensor:
        """Return the label map ``[H, W]`` of parts that cover the picture, numbered in their order."""
        numbers = torch.full((2 * len(self) - 1,), -1)
        numbers[torch.tensor(parts)] = torch.arange(len(parts))
        for merge in range(len(self.merges) - 1, -1, -1):  # from the root down, a part's number is that of its whole
            own = numbers[len(self) + merge]
            if own >= 0:
                numbers[self.merges[merge]] = int(own)
        return numbers[self.leaves]

    def numbers(self, labels: Tensor) -> list[int]:
        """Return the number of each part of a label map ``[H, W]`` that is made of parts of this tree."""
        own = torch.full((2 * len(self) - 1,), -1)
        own[self.leaves.flatten()] = labels.flatten()
        for merge, (one, other) in enumerate(self.merges.tolist()):
            if own[one] == own[other]:
                own[len(self) + merge] = own[one]
        largest = {int(label): part for part, label in enumerate(own.tolist()) if label >= 0}  # parts grow with their numbers
        return [largest[label] for label in range(len(largest))]

    def refined(self, labels: Tensor, importance: Tensor, count: int) -> Tensor:
        """Return a finer label map of up to ``count`` parts: again and again the most important part is split in two.

        ``importance [parts]`` is that of the parts of ``labels``; each half of a part counts half. Parts are left whole where
        a half would be tiny.
        """
        areas = torch.bincount(self.leaves.flatten(), minlength=2 * len(self) - 1).tolist()
        for merge, (one, other) in enumerate(self.merges.tolist()):
            areas[len(self) + merge] = areas[one] + areas[other]
        weights = dict(zip(self.numbers(labels), importance.tolist(), strict=True))
        while len(weights) < count:
            halves = {part: pair for part in weights if (pair := self.children(part)) is not None}
            able = [part for part, pair in halves.items() if min(areas[half] for half in pair) >= _TINY * self.leaves.numel()]
            if not able:
                break
            chosen = max(able, key=lambda part: (weights[part], part))
            weight = weights.pop(chosen)
            weights |= dict.fromkeys(halves[chosen], weight / 2)
        return self.labels(sorted(weights))


def segment(picture: Tensor, maps: Sequence[Tensor] = ()) -> MergeTree:
    """Return the tree of merges of a picture ``[H, W, 3]`` (uint8), and of feature maps ``[d, h, w]`` of it."""
    leaves, features = describe_superpixels(picture, maps)
    merges = _merged(leaves, np.bincount(leaves.ravel()).astype(float), features)
    height, width = picture.shape[:2]
    rows = torch.arange(height) * leaves.shape[0] // height
    columns = torch.arange(width) * leaves.shape[1] // width
    return MergeTree(torch.from_numpy(leaves)[rows][:, columns], torch.from_numpy(merges))


def describe_superpixels(picture: Tensor, maps: Sequence[Tensor]) -> tuple[np.ndarray, np.ndarray]:
    """Return the superpixels of a picture, reduced if it is large, as labels ``[h, w]``, and features of each, ``[n, d]``."""
    height, width = picture.shape[:2]
    scale = min(1.0, (_AREA / (height * width)) ** 0.5)
    small = max(1, round(height * scale)), max(1, round(width * scale))
    image = picture.permute(2, 0, 1)[None].float()
    if scale < 1:
        image = F.interpolate(image, small, mode="bilinear", antialias=True)
    pixels = image[0].permute(1, 2, 0).numpy() / 255
    leaves = _superpixels(pixels)
    areas = np.bincount(leaves.ravel()).astype(float)
    features = [_means(_lab(pixels), leaves, areas)]
    for one in maps:
        resized = F.interpolate(_principal(one)[None], small, mode="bilinear", align_corners=False)[0]
        features.append(_means(resized.permute(1, 2, 0).numpy(), leaves, areas))
    return leaves, np.concatenate([_scaled(part, areas) for part in features], axis=1).round(_DECIMALS)


def _lab(image: np.ndarray) -> np.ndarray:
    from skimage.color import rgb2lab

    colours: np.ndarray = rgb2lab(image)
    return colours


def _superpixels(pixels: np.ndarray) -> np.ndarray:
    """Return labels ``[H, W]`` of superpixels, connected and numbered from 0; of a small picture its pixels.

    Of a picture in which nothing can be followed, however blurred, they are cells of a grid.
    """
    height, width = pixels.shape[:2]
    if height * width <= _SUPERPIXELS:
        return np.arange(height * width).reshape(height, width)
    from skimage.measure import label
    from skimage.segmentation import slic

    for sigma in _SMOOTHINGS:
        found = slic(pixels, _SUPERPIXELS, _COMPACTNESS, sigma=sigma, start_label=1)
        # Parts that touch at corners only are parts of their own.
        apart: np.ndarray = label(found, connectivity=1, background=0).astype(np.int64) - 1
        areas = np.bincount(apart.ravel())
        if len(areas) >= _SUPERPIXELS / 2 and areas.max() <= _LARGEST * areas.sum():
            return apart
    return grid_segments(height, width, in_proportion(math.isqrt(_SUPERPIXELS), height, width)).numpy()


def _means(values: np.ndarray, leaves: np.ndarray, areas: np.ndarray) -> np.ndarray:
    """Return the mean over each leaf of values ``[H, W, d]``: ``[leaves, d]``."""
    flat = values.reshape(-1, values.shape[-1])
    columns = [np.bincount(leaves.ravel(), weights=column) for column in flat.T]
    means: np.ndarray = np.stack(columns, axis=1) / areas[:, None]
    return means


def _principal(one: Tensor) -> Tensor:
    """Return the first principal components of a feature map ``[d, h, w]``: ``[components, h, w]``."""
    places = one.double().flatten(1).T
    centred = places - places.mean(0)
    _, directions = torch.linalg.eigh(centred.T @ centred)  # in ascending order
    components: Tensor = (centred @ directions[:, -_COMPONENTS:]).T.float()
    return components.reshape(-1, *one.shape[1:])


def _scaled(means: np.ndarray, areas: np.ndarray) -> np.ndarray:
    """Return means ``[leaves, d]`` with a total variance of one, or zeros where they are all the same."""
    weights = areas / areas.sum()
    centred = means - weights @ means
    total = float(weights @ (centred**2).sum(1))
    scaled: np.ndarray = centred / total**0.5 if total > 1e-8 else np.zeros_like(centred)
    return scaled


def _merged(leaves: np.ndarray, areas: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Return the merges of neighbouring leaves by Ward's cost, ``[leaves - 1, 2]``; tiny parts are merged first."""
    count = len(areas)
    sizes = np.concatenate([areas, np.zeros(count - 1)])
    means = np.concatenate([features, np.zeros((count - 1, features.shape[1]))])
    beside = ((leaves[:, 1:], leaves[:, :-1]), (leaves[1:], leaves[:-1]))
    pairs = np.concatenate([np.stack([one.ravel(), other.ravel()]) for one, other in beside], axis=1)
    edges = np.unique(np.sort(pairs[:, pairs[0] != pairs[1]], axis=0), axis=1).T  # [edges, 2]
    tiny = _TINY * areas.sum()
    merges = np.zeros((count - 1, 2), dtype=np.int64)
    for step in range(count - 1):
        one, other = edges.T
        cost = sizes[one] * sizes[other] / (sizes[one] + sizes[other]) * ((means[one] - means[other]) ** 2).sum(1)
        # Of parts of one colour the smallest pair comes first, so that what is left has about one size.
        not_tiny = np.minimum(sizes[one], sizes[other]) >= tiny
        order = np.lexsort((other, one, sizes[one] + sizes[other], cost, not_tiny))
        a, b = edges[order[0]]
        made = count + step
        merges[step] = a, b
        sizes[made] = sizes[a] + sizes[b]
        means[made] = (sizes[a] * means[a] + sizes[b] * means[b]) / sizes[made]
        edges = np.where(np.isin(edges, (a, b)), made, edges)
        edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
    return merges
