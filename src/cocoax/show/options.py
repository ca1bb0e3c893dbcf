"""Options of drawings and of the files they are written to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from numbers import Real
from types import MappingProxyType
from typing import Any, Literal

from cocoax.checks import check_choice, check_count, check_number, shown
from cocoax.show.palette import COLOURS, STYLES, WIDTHS, Style

MAX_WIDTH = 100  # inches
# What matplotlib and libraries around it call options, and what they are here.
_ELSEWHERE = {
    "alpha": "'opacity'",
    "figsize": "'width', in inches",
    "colormap": "'cmap'",
    "vmax": "'limit'",
    "vmin": "'limit'",
}
UNCERTAINTY = ("fade", "hatch", "none")


@dataclass(frozen=True)
class PlotOptions:
    """Options of drawings.

    Attributes:
        title: instead of the question and the score.
        limit: the colour scale runs from -limit to +limit; by default it ends at the largest value, or at the 99th
            percentile where a few values dwarf all others.
        opacity: of a map over its input, from 0 (input only) to 1 (map only).
        cmap: a diverging colour map: the project's own, or one of matplotlib's.
        colorbar: whether there is a colour bar.
        order: of bars: by ``"size"``, the largest first whatever its sign, or as ``"given"``.
        most: how many bars, rows or links are drawn.
        uncertainty: how effects are drawn whose interval of two standard errors includes zero: ``"fade"`` (in grey),
            ``"hatch"`` or ``"none"`` (as all others).
        width: of the figure in inches, or ``"single"`` (3.5) or ``"double"`` (7.2) for a column of a paper.
        style: ``"screen"``, ``"paper"`` (smaller letters) or ``"dark"``.
        dpi: dots per inch of a file; by default 300 on paper and 160 on screens.
        transparent: whether the background of a file is.

    """

    title: str | None = None
    limit: float | None = None
    opacity: float | None = None
    cmap: str = COLOURS
    colorbar: bool = True
    order: Literal["size", "given"] | None = None
    most: int | None = None
    uncertainty: Literal["fade", "hatch", "none"] = "fade"
    width: float | Literal["single", "double"] | None = None
    style: Literal["screen", "paper", "dark"] = "screen"
    dpi: float | None = None
    transparent: bool = False

    def __post_init__(self) -> None:
        if self.title is not None and not isinstance(self.title, str):
            raise TypeError(f"The 'title' parameter must be a string or None. Got {type(self.title).__name__} instead.")
        for name in ("limit", "opacity", "dpi"):
            if (value := getattr(self, name)) is not None:
                check_number(name, value)
        if self.limit is not None and not self.limit > 0:
            raise ValueError(f"The 'limit' parameter must be above 0. Got {self.limit!r} instead.")
        if self.opacity is not None and not 0 <= self.opacity <= 1:
            raise ValueError(f"The 'opacity' parameter must lie between 0 and 1. Got {self.opacity!r} instead.")
        if self.dpi is not None and not 10 <= self.dpi <= 2400:
            raise ValueError(f"The 'dpi' parameter must lie between 10 and 2400. Got {self.dpi!r} instead.")
        choices = (("order", (None, "size", "given")), ("uncertainty", UNCERTAINTY), ("style", tuple(STYLES)))
        for name, known in choices:
            if getattr(self, name) is not None or None not in known:
                check_choice(name, getattr(self, name), [value for value in known if value])
        if self.most is not None:
            check_count("most", self.most, 1)
        if self.width is not None and self.inches is None:
            expected = f"'single', 'double' or inches up to {MAX_WIDTH}"
            raise ValueError(f"The 'width' parameter must be {expected}. Got {shown(self.width)} instead.")

    @property
    def inches(self) -> float | None:
        """The width in inches, if one is asked for."""
        if isinstance(self.width, str):
            return WIDTHS.get(self.width)
        return self.width if isinstance(self.width, Real) and 0 < self.width <= MAX_WIDTH else None

    @property
    def look(self) -> Style:
        """The sizes and colours of the style."""
        return STYLES[self.style]

    @property
    def resolution(self) -> float:
        """The dots per inch of a file."""
        return self.look.dpi if self.dpi is None else self.dpi

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> PlotOptions:
        """Return options from keywords; another keyword is a ``TypeError`` that lists those there are."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(options) - known)
        if unknown and unknown[0] in _ELSEWHERE:
            raise TypeError(f"Drawings have no option {unknown[0]!r}; here it is {_ELSEWHERE[unknown[0]]}.")
        if unknown:
            raise TypeError(f"Options of drawings are {', '.join(sorted(known))}. Got {unknown[0]!r} instead.")
        return cls(**{**_DEFAULTS.get(), **options})


_DEFAULTS: ContextVar[Mapping[str, Any]] = ContextVar("options of drawings", default=MappingProxyType({}))


@contextmanager
def default_options(**options: Any) -> Iterator[None]:
    """Change the default options of drawings inside a block: ``with default_options(style="paper"):``."""
    PlotOptions.of(options)
    before = _DEFAULTS.set({**_DEFAULTS.get(), **options})
    try:
        yield
    finally:
        _DEFAULTS.reset(before)
