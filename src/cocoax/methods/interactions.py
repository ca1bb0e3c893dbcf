"""Interactions of the features of two inputs, from a run of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cocoax.checks import check_kind
from cocoax.inputs.segmentation import check_grid, check_sides
from cocoax.methods.estimate import SampledEffects
from cocoax.methods.field import default_grid, feature_vectors, in_steps, pooled
from cocoax.methods.run import Run
from cocoax.methods.serialise import to_json_value
from cocoax.results.interactions import Interactions, PairSide, Sampled
from cocoax.similarity import LinearSimilarity, Similarity, get_similarity
from cocoax.spaces import same_space
from cocoax.store import digest


def interactions(
    run_a: Run, run_b: Run, similarity: str | Similarity = "cosine", grid: int | tuple[int, int] | None = None
) -> Interactions:
    """Return how features of two inputs interact in the similarity of their representations; no encoder is called.

    Args:
        run_a, run_b: runs of two inputs, of any kinds, of encoders that share a representation space.
        similarity: cosine or dot.
        grid: cells of a picture, a number or (rows, columns); by default those of the run's masks.

    Example:
        >>> encoder, method = cocoax.load("minilm"), cocoax.Rise(samples=60)
        >>> query, document = (method.run(encoder, text) for text in ("The violinist left", "She played a sonata"))
        >>> cocoax.interactions(query, document).top(1)[0][:2]
        ('violinist', 'sonata')

    """
    linear = get_similarity(similarity)
    if not isinstance(linear, LinearSimilarity):
        raise ValueError(f"Interactions need a similarity that is a dot product, cosine or dot. Got {linear.name} instead.")
    for run in (run_a, run_b):
        check_kind("Interactions", run, Run, "are between two runs, such as cocoax.Rise().run(encoder, input) gives")
    if not same_space(run_a.space, run_b.space):
        raise ValueError(
            f"The runs live in different representation spaces: one was made by {run_a.encoder!r}, the other by "
            f"{run_b.encoder!r}; use one encoder, or two towers that share a space."
        )
    a, b = (_Side.of(run, linear, grid) for run in (run_a, run_b))
    of_a, of_b = a.measured(), b.measured()
    vectors_a, vectors_b = of_a.values, of_b.values
    values = vectors_a.T @ vectors_b
    sampled = None
    if of_a.x is not None and of_b.x is not None and of_a.r is not None and of_b.r is not None:
        # What moves the vectors of one side moves values along the vectors of the other.
        sampled = (
            Sampled(run_a.masks.tensors, of_a.x, of_a.along(vectors_b)),
            Sampled(run_b.masks.tensors, of_b.along(vectors_a), of_b.x),
        )
        # Errors of the same masks go together, and their product has a mean.
        rows = slice(sampled[0].shared(sampled[1]))
        values -= (of_a.x[rows] * (of_a.r[rows] * of_b.r[rows]).sum(1, keepdim=True)).T @ of_b.x[rows]
    score = float(linear.pairwise(run_a.anchors[:1].double(), run_b.anchors[:1].double()))
    shape = (*a.shape, *b.shape)
    lengths = vectors_a.norm(dim=0).float(), vectors_b.norm(dim=0).float()
    sides, rounding = (a.matched(linear), b.matched(linear)), (a.rounding, b.rounding)
    return Interactions(values.float().view(shape), *sides, score, sampled, lengths, rounding)


@dataclass(frozen=True, eq=False)
class _Side:
    """One side: what keeping each of its features does to scores of masked inputs."""

    run: Run
    masks: Any
    grid: tuple[int, int] | None
    features: Tensor
    anchors: Tensor

    @classmethod
    def of(cls, run: Run, similarity: LinearSimilarity, grid: int | tuple[int, int] | None) -> _Side:
        pictures = len(run.explicand.shape) == 2
        cells, parts = None, run.explicand.label_map
        if grid is not None and parts is not None and check_sides(grid) != (layout := _layout(parts)):
            raise ValueError(
                f"The features of the run are parts of a picture, {' x '.join(map(str, layout))} of them, which no other "
                "grid can be made of; leave 'grid' out, or make a run with that grid."
            )
        if pictures:
            shape = run.explicand.shape
            cells = default_grid(run.method, shape, 1) if grid is None else check_grid(shape[0], shape[1], grid)
        vectors, anchors = feature_vectors(run.representations, run.anchors, similarity)
        return cls(run, run.method.cells(run.masks, cells), cells, vectors, anchors)

    def matched(self, similarity: LinearSimilarity) -> PairSide:
        """Return the input of this side, as it is shown."""
        method, tensors = self.run.method, dict[str, Tensor]()
        unimportant = (
            *method.length_options,
            *method.estimator_options,
            "baseline",
            "batch_size",
            "seed",
        )  # baselines are in the anchors
        asked = {name: value for name, value in to_json_value(method, tensors).items() if name not in unimportant}
        identity = digest(self.run.anchors, self.run.space, str(similarity), asked, *tensors.values())
        explicand = self.run.explicand
        members = explicand.label_map
        return PairSide(explicand.display, self.shape, identity, members)

    @property
    def rounding(self) -> float:
        """The largest change of a vector by rounding alone."""
        return self.run.rounding * float(self.anchors.norm(dim=1).max())

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its features."""
        explicand = self.run.explicand
        if explicand.label_map is not None:
            return _layout(explicand.label_map)
        return explicand.shape if self.grid is None else self.grid

    def _laid_out(self, effects: SampledEffects) -> SampledEffects:
        """Return effects and factors with one value per feature, ``[k, features]`` and ``[n, features]``."""

        def per_feature(maps: Tensor) -> Tensor:
            return pooled(maps, self.run.explicand.shape, self.grid).flatten(1)

        x = None if effects.x is None else per_feature(effects.x)
        return replace(effects, values=per_feature(effects.values), x=x)

    def measured(self) -> SampledEffects:
        """Return one vector for each feature, ``[d, features]``: what keeping the feature does to the representation."""
        steps = in_steps(self.run, self.masks, self.features, self.anchors)
        first, *others = (self._laid_out(self.run.method.effects(self.masks, *step)) for step in steps)
        values = torch.cat([first.values, *(other.values for other in others)])
        r = None if first.r is None else torch.cat([first.r, *(other.r for other in others if other.r is not None)], dim=1)
        return replace(first, values=values, r=r)


def _layout(cells: Tensor) -> tuple[int, ...]:
    """Return rows and columns of a picture's parts if they are all cells of a grid, row by row, else how many they are."""
    for axis in (0, 1):  # rows and columns that differ from those before
        changes = (cells.diff(dim=axis) != 0).any(1 - axis).nonzero()[:, 0] + 1
        cells = cells.index_select(axis, torch.cat([changes.new_zeros(1), changes]))
    grid = cells[(cells >= 0).any(1)][:, (cells >= 0).any(0)]
    count = int(cells.max()) + 1
    return tuple(grid.shape) if torch.equal(grid.flatten(), torch.arange(count)) else (count,)
