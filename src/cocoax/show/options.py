"""Options of drawings and of the files they are written to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

COLOURS = "RdBu_r"
_WIDTHS = {"single": 3.5, "double": 7.2}  # inches of one and of two columns of a paper


@dataclass(frozen=True)
class PlotOptions:
    """How results are drawn.

    Attributes:
        title: instead of the question and the score.
        limit: the colour scale runs from -limit to +limit; by default it ends at the largest value, or at the 99th
            percentile where a few values dwarf all others.
        opacity: of a map over its input, from 0 (input only) to 1 (map only).
        cmap: a diverging colour map of matplotlib.
        colour_bar: whether there is one.
        order: of bars: by ``"size"``, the largest first whatever its sign, or as ``"given"``.
        most: how many bars, rows or links are drawn.
        uncertainty: how effects are drawn whose interval of two standard errors includes zero: ``"hatch"``, ``"fade"`` (in
            grey) or ``"none"`` (as all others).
        width: of the figure in inches, or ``"single"`` (3.5) or ``"double"`` (7.2) for a column of a paper.
        dpi: dots per inch of a file.
        transparent: whether the background of a file is.

    """

    title: str | None = None
    limit: float | None = None
    opacity: float | None = None
    cmap: str = COLOURS
    colour_bar: bool = True
    order: Literal["size", "given"] | None = None
    most: int | None = None
    uncertainty: Literal["hatch", "fade", "none"] = "hatch"
    width: float | Literal["single", "double"] | None = None
    dpi: float = 150
    transparent: bool = False

    def __post_init__(self) -> None:
        if self.limit is not None and not self.limit > 0:
            raise ValueError(f"The 'limit' parameter must be above 0. Got {self.limit!r} instead.")
        if self.opacity is not None and not 0 <= self.opacity <= 1:
            raise ValueError(f"The 'opacity' parameter must lie between 0 and 1. Got {self.opacity!r} instead.")
        for name, known in (("order", (None, "size", "given")), ("uncertainty", ("hatch", "fade", "none"))):
            if getattr(self, name) not in known:
                listed = " or ".join(repr(value) for value in known if value)
                raise ValueError(f"The {name!r} parameter must be {listed}. Got {getattr(self, name)!r} instead.")
        if self.most is not None and self.most < 1:
            raise ValueError(f"The 'most' parameter must be at least 1. Got {self.most!r} instead.")
        if self.width is not None and self.inches is None:
            raise ValueError(
                f"The 'width' parameter must be 'single', 'double' or inches above 0. Got {self.width!r} instead."
            )

    @property
    def inches(self) -> float | None:
        """The width in inches, if one is asked for."""
        if isinstance(self.width, str):
            return _WIDTHS.get(self.width)
        return self.width if self.width is not None and self.width > 0 else None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> PlotOptions:
        """Return options from keywords; another keyword is a ``TypeError`` that lists those there are."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(options) - known)
        if unknown:
            raise TypeError(f"Options of drawings are {', '.join(sorted(known))}. Got {unknown[0]!r} instead.")
        return cls(**options)
