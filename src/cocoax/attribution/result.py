"""What an explanation is: the attribution of a target to the features of one input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from cocoax.encoders.images import WHOLE, Box
from cocoax.references import read_safetensors, write_safetensors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TENSORS = ("values", "raw", "standard_error", "features", "picture")


@dataclass(frozen=True, eq=False)
class Attribution:
    """How much each part of an input counts for a target.

    Attributes:
        values: one signed value per pixel ``[H, W]``: the mean over channels.
        score: the target's value for the explicand.
        baseline_score: the target's value for the baseline.
        standard_error: of each value ``[H, W]``, where the method samples.
        raw: values per channel ``[C, H, W]``, where the method has them.
        features: one value per removed feature (patch, segment), where the method works on those.
        neutral: the value of a pixel that makes no difference: 0, or for RISE the mean score of masked inputs.
        metadata: method and options, target, encoder, versions.
        picture: the original as uint8 ``[h, w, 3]``.
        box: the part of the picture that the values cover: left, top, right, bottom in [0, 1].

    """

    values: Tensor
    score: float
    baseline_score: float
    standard_error: Tensor | None = None
    raw: Tensor | None = None
    features: Tensor | None = None
    neutral: float = 0.0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    picture: Tensor | None = None
    box: Box = WHOLE

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.values.shape))
        return f"Attribution({self.name!r}, {shape}, score {self.score:+.3f}, by {self.metadata.get('method', 'unknown')})"

    @property
    def name(self) -> str:
        """The question that was asked."""
        return str(self.metadata.get("target", "attribution"))

    def save(self, path: str | Path) -> Path:
        """Write it as safetensors with a JSON header; returns the path."""
        tensors = {name: tensor for name in _TENSORS if (tensor := getattr(self, name)) is not None}
        header = {
            "score": self.score,
            "baseline_score": self.baseline_score,
            "neutral": self.neutral,
            "box": self.box,
            "metadata": dict(self.metadata),
        }
        return write_safetensors(path, tensors, "attribution", header)

    @classmethod
    def load(cls, path: str | Path) -> Attribution:
        """Read an attribution written by :meth:`save`."""
        tensors, header = read_safetensors(path, "attribution")
        left, top, right, bottom = header.pop("box")
        return cls(**tensors, **header, box=(left, top, right, bottom))

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw it over the picture; see :func:`cocoax.plots.overlay` for the options."""
        from cocoax.plots import overlay

        return overlay(self, ax, **options)
