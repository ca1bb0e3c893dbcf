"""Fields: what a run really measures. For every feature one vector in the representation space.

Attribution is linear in the target, and for the cosine and the dot product a target is one vector w. So a run's maps are all
A·w, with one field A of vectors: how much keeping a feature moves the representation. A field is small, and answers any
target of its similarity; kernels have no such vector and keep the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor

from cocoax.checks import check_count
from cocoax.inputs import Display, Explicand
from cocoax.inputs.explicand import load_display, save_display
from cocoax.inputs.segmentation import check_grid, check_sides
from cocoax.masking.masks import averaging
from cocoax.methods.estimate import Estimate, Origin, attributions
from cocoax.methods.method import Askable, as_asked, check_targets
from cocoax.results.attribution import Attribution
from cocoax.seeding import stream
from cocoax.similarity import LinearSimilarity, Similarity, get_similarity
from cocoax.store import Layout, corrupt_file_errors, read_safetensors, write_safetensors
from cocoax.targets import Target

if TYPE_CHECKING:
    from cocoax.methods.run import RemovalMethod, Run

GROUPS = 16  # random sums that errors are kept by: an error is then known to about 1 / sqrt(2 * 16), 18 %
AT_ONCE = 32  # columns of a map of pixels that are in memory at a time
_SAVED = ("values", "neutral", "anchors", "own", "deviations")
_LAYOUT = Layout(
    "field",
    {
        "values": "*cells d",
        "values_scale": "*cells 1",
        "deviations?": "groups *cells d",
        "deviations_scale?": "groups *cells 1",
        "neutral": "d",
        "anchors": "2 d",
        "own": "representation",
        "feature_ids?": "int * *",
    },
    {"similarity": str, "origin": dict, "unit": float | int},
)


@dataclass(frozen=True, eq=False)
class Field:
    """One vector in the representation space for every feature of an input; made by ``run.field()``.

    Attributes:
        values: the vectors ``[*cells, d]``: of words, columns and segments one each, of pixels pooled to a grid.
        neutral: the vector of a feature that makes no difference, ``[d]``.
        anchors: feature vectors of the explicand and of the emptied input, ``[2, d]``.
        own: the representation of the explicand, ``[d]``, for targets that compare with it.
        similarity: the one whose targets it answers.
        origin: method, encoder, space and number of samples.
        display: how the input is shown.
        deviations: random sums of the samples' contributions ``[groups, *cells, d]``, from which standard errors come; None
            where nothing is known about them.
        feature_ids: of a picture whose features are parts of it, the part that each pixel belongs to, ``[H, W]``.
        unit: the effect for each unit that a value lies above ``neutral``.

    """

    values: Tensor
    neutral: Tensor
    anchors: Tensor
    own: Tensor
    similarity: LinearSimilarity
    origin: Origin
    display: Display
    deviations: Tensor | None = None
    feature_ids: Tensor | None = None
    unit: float = 1.0

    def __repr__(self) -> str:
        cells = " x ".join(map(str, self.values.shape[:-1]))
        return (
            f"Field({cells} vectors of {self.values.shape[-1]} dimensions, {self.similarity.name}, {self.origin.encoder!r})"
        )

    @property
    def space(self) -> str:
        """The representation space that its targets must live in."""
        return self.origin.space

    @overload
    def explain(self, targets: Target) -> Attribution: ...

    @overload
    def explain(self, targets: Sequence[Target]) -> list[Attribution]: ...

    @overload
    def explain(self, targets: Mapping[str, Askable]) -> dict[str, Attribution]: ...

    def explain(self, targets: Askable | Sequence[Askable] | Mapping[str, Askable]) -> Any:
        """Return the attribution of a target to the cells, a list of them for a list, a dict for a dict."""
        asked = check_targets(targets)
        for target in asked:
            target.check_space(self.space, len(self.own))
            if target.similarity != self.similarity:
                raise ValueError(
                    f"The field answers targets of the {self.similarity.name} similarity, not of {target.similarity.name}: a "
                    "field is made of feature vectors of one similarity, and kernels have none. Ask the run, or make a field "
                    "with run.field(similarity=...)."
                )
        directions = torch.stack([target.direction(self.own) for target in asked]).double()  # [k, d]
        error = None
        if self.deviations is not None:
            error = (self.deviations.double() @ directions.T).square().mean(0).sqrt().movedim(-1, 0)
        values, neutral = (self.values.double() @ directions.T).movedim(-1, 0), directions @ self.neutral.double()
        maps = Estimate(values, error, neutral, unit=self.unit)
        shape = tuple(self.values.shape[:-1] if self.feature_ids is None else self.feature_ids.shape)
        shown = Explicand(torch.zeros(1, *shape), self.display, self.feature_ids)
        answers = attributions(self.origin, shown, asked, self.anchors.double() @ directions.T, maps, self.own)
        return as_asked(targets, answers)

    def save(self, path: str | Path) -> Path:
        """Write it as safetensors, vectors in half precision; returns the path."""
        shown, display = save_display(self.display)
        tensors = {name: tensor for name in _SAVED if (tensor := getattr(self, name)) is not None}
        # Vectors are small differences of large ones where similarities are high: what half precision takes away is 0.05 %
        # of a vector, whatever its size, since each is scaled to its own largest number.
        scales = {}
        for name in ("values", "deviations"):
            if name in tensors:
                whole = tensors[name] - self.neutral if name == "values" else tensors[name]
                scale = whole.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
                tensors[name], scales[f"{name}_scale"] = (whole / scale).half(), scale.float()
        if self.feature_ids is not None:
            tensors["feature_ids"] = self.feature_ids.to(torch.int16)
        header = {"similarity": self.similarity.name, "display": display, "origin": vars(self.origin), "unit": self.unit}
        return write_safetensors(path, {**tensors, **scales, **shown}, "field", header)

    @classmethod
    def load(cls, path: str | Path) -> Field:
        """Read a field written by :meth:`save`."""
        tensors, header = read_safetensors(path, _LAYOUT)
        with corrupt_file_errors(path):
            similarity = get_similarity(header["similarity"])
            assert isinstance(similarity, LinearSimilarity)
            for name in ("values", "deviations"):
                if name in tensors:
                    tensors[name] = tensors[name].float() * tensors[f"{name}_scale"]
            tensors["values"] = tensors["values"] + tensors["neutral"]
            parts: dict[str, Any] = {name: tensors[name] for name in _SAVED if name in tensors}
            parts["unit"] = float(header["unit"])
            if similarity.features(parts["own"][None].double()).shape[1:] != parts["neutral"].shape:
                raise ValueError("its input's representation does not have the dimension of its vectors.")
            if (labels := tensors.get("feature_ids")) is not None:
                if not -1 <= int(labels.min()) <= int(labels.max()) < len(parts["values"]):
                    raise ValueError(f"it has {len(parts['values'])} vectors but parts up to {int(labels.max())}.")
                parts["feature_ids"] = labels.long()
            origin = Origin(**header["origin"])
            str(origin.method["type"])  # which answers tell
            display = load_display(tensors, header.get("display"))
            display.check_names(parts["values"].shape[:-1])
            return cls(**parts, similarity=similarity, origin=origin, display=display)


def field_of(run: Run, similarity: str | Similarity, grid: int | tuple[int, int] | None, groups: int) -> Field:
    """Return the field of a run; see :meth:`cocoax.Run.field`."""
    linear = get_similarity(similarity)
    if not isinstance(linear, LinearSimilarity):
        raise ValueError(
            f"A field needs a similarity that is a dot product of feature vectors, cosine or dot; {linear.name} compares "
            "with every sample and has no such vectors. Keep the run, which answers it."
        )
    check_count("groups", groups, 0, 10_000)
    shape = tuple(run.explicand.shape)
    vectors, anchors = feature_vectors(run.representations, run.anchors, linear)
    grid = (default_grid(run.method, shape, 2) if grid is None else grid) if len(shape) == 2 else None
    masks = run.method.cells(run.masks, grid)
    values, deviations, neutrals = [], [], []

    def signs(count: int) -> Tensor:
        return torch.from_numpy(stream(0, 3).choice([-1.0, 1.0], (count, groups)))

    for scores in in_steps(run, masks, vectors, anchors):
        maps = run.method.estimate(masks, *scores)
        values.append(pooled(maps.values, shape, grid))
        neutrals.append(torch.zeros(len(maps.values), dtype=torch.float64) if maps.neutral is None else maps.neutral)
        apart = run.method.deviations(masks, *scores, signs) if groups else None
        deviations += [] if apart is None else [pooled(apart, shape, grid, 2)]
    together, neutral = torch.cat(values).movedim(0, -1).float(), torch.cat(neutrals).float()
    apart = torch.cat(deviations, dim=1).movedim(1, -1).float() if deviations else None
    return Field(
        together,
        neutral,
        anchors.float(),
        run.anchors[0].float(),
        linear,
        run.origin,
        run.explicand.display,
        apart,
        run.explicand.label_map,
        maps.unit,
    )


def in_steps(run: Run, masks: Any, vectors: Tensor, anchors: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Go through the columns of vectors ``[n, d]`` and of anchors: all at once, but few where maps are of all pixels."""
    step = AT_ONCE if masks is run.masks and len(run.explicand.shape) == 2 else vectors.shape[1]
    return zip(torch.split(vectors, step, dim=1), torch.split(anchors, step, dim=1), strict=True)


def feature_vectors(representations: Tensor, anchors: Tensor, similarity: LinearSimilarity) -> tuple[Tensor, Tensor]:
    """Return feature vectors ``[n, d]`` of masked inputs and ``[2, d]`` of the anchors; means over several baselines."""
    anchors = similarity.features(anchors.double())
    vectors = similarity.features(representations.flatten(0, -2).double())
    if representations.ndim == 3:
        anchors = torch.stack([anchors[0], anchors[1:].mean(0)])
        vectors = vectors.view(len(representations), -1, vectors.shape[-1]).mean(1)
    return vectors, anchors


def default_grid(method: RemovalMethod, shape: tuple[int, ...], times: int) -> tuple[int, int]:
    """Return so many times the cells of the method's own grid, or of 7 x 7, but no more than there are pixels."""
    rows, columns = check_sides(getattr(method, "grid", None) or 7)
    height, width = shape
    return min(times * rows, height), min(times * columns, width)


def pooled(maps: Tensor, shape: tuple[int, ...], grid: int | tuple[int, int] | None, leading: int = 1) -> Tensor:
    """Return maps of an input's shape as one value per feature of a list, or as means over the cells of a grid of pixels.

    ``leading`` is the number of dimensions before those of the map.
    """
    if grid is None:
        return maps.reshape(*maps.shape[:leading], *shape)
    if tuple(maps.shape[leading:]) != shape:
        return maps
    height, width = shape
    rows, columns = check_grid(height, width, grid)
    return averaging(height, rows) @ maps.double() @ averaging(width, columns).T
