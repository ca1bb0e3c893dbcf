"""What an explanation is: the attribution of a target to the features of one input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cocoax.inputs.explicand import WHOLE, Box, Offsets
from cocoax.storage import read_safetensors, write_safetensors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TENSORS = ("values", "raw", "standard_error", "features", "picture")


@dataclass(frozen=True, eq=False)
class Attribution:
    """How much each part of an input counts for a target.

    Attributes:
        values: one signed value per pixel ``[H, W]`` (the mean over channels), or per word, token, sentence or column
            ``[m]`` (the sum over its elements).
        score: the target's value for the explicand.
        baseline_score: the target's value for the baseline.
        standard_error: of each value, where the method samples.
        raw: values per channel ``[C, H, W]``, or per embedding dimension and token ``[d, L]``, where the method has them.
        features: one value per removed feature (patch, segment), where the method works on those.
        neutral: the value of a pixel that makes no difference: 0, or for RISE the mean score of masked inputs.
        metadata: method and options, target, encoder, versions.
        picture: the original as uint8 ``[h, w, 3]``.
        box: the part of the picture that the values cover: left, top, right, bottom in [0, 1].
        tokens: what each of ``m`` values belongs to: words as they stand in the text, or names of columns.
        text: the original text.
        offsets: where each feature begins and ends in the text: ``text[begin:end]`` is the feature.

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
    tokens: tuple[str, ...] | None = None
    text: str | None = None
    offsets: Offsets | None = None

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
            "tokens": self.tokens,
            "text": self.text,
            "offsets": self.offsets,
            "metadata": dict(self.metadata),
        }
        return write_safetensors(path, tensors, "attribution", header)

    @classmethod
    def load(cls, path: str | Path) -> Attribution:
        """Read an attribution written by :meth:`save`."""
        tensors, header = read_safetensors(path, "attribution")
        left, top, right, bottom = header.pop("box")
        named = named_features(header)
        return cls(**tensors, **header, **named, box=(left, top, right, bottom))

    def top(self, count: int = 5) -> list[tuple[str, float]]:
        """The words or columns that count most for the target, with their values relative to ``neutral``, largest first."""
        if self.tokens is None:
            raise ValueError("The attribution is of an image, whose pixels have no names; look at 'values'.")
        order = torch.argsort(self.values, descending=True, stable=True)[:count].tolist()
        return [(self.tokens[index], float(self.values[index]) - self.neutral) for index in order]

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw it: over the picture (see :func:`cocoax.plots.overlay` for the options), or as bars for words and columns."""
        from cocoax.plots import bars, overlay

        return (overlay if self.tokens is None else bars)(self, ax, **options)

    def html(self) -> str:
        """A text with its words in colour, as an HTML fragment; notebooks show it by themselves."""
        from cocoax.highlight import to_html

        return to_html(self)

    def _repr_html_(self) -> str | None:
        return None if self.text is None else self.html()


def named_features(header: dict[str, Any]) -> dict[str, Any]:
    """Takes names and offsets of features out of a JSON header, as tuples."""
    tokens, text, offsets = (header.pop(name, None) for name in ("tokens", "text", "offsets"))
    return {
        "tokens": None if tokens is None else tuple(tokens),
        "text": text,
        "offsets": None if offsets is None else tuple((begin, end) for begin, end in offsets),
    }
