"""Changing columns of a row, within what the data hold."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from torch import Tensor

from cocoax.inputs.exchange import Change, Exchange, Flips, without

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_VALUES = 8  # that are offered for a column of numbers, over its range
_HALVINGS = 12  # of a change, to find the least that is enough


class ColumnExchange(Exchange):
    """Columns, each of which may take a value that the data hold, or one between their least and their largest.

    Args:
        row: as given, ``[m]``.
        columns: the names of the columns.
        data: rows ``[n, m]``, as given, that say what columns may hold: the donors.
        prepare: the kind of input's, from a row as given to the tensor for the encoder.
        constraints: ``fixed``, ``integer`` and ``categorical``: names of columns that stay, take whole numbers only, or take
            only values that the data hold.

    """

    noun = "column"

    def __init__(
        self,
        row: np.ndarray,
        columns: Sequence[str],
        data: np.ndarray,
        prepare: Callable[[Any], Tensor],
        constraints: dict[str, Sequence[str]],
    ) -> None:
        self.row, self.names, self.prepare = row.astype(float), tuple(columns), prepare
        asked = {name: [value] if isinstance(value, str) else list(value) for name, value in constraints.items()}
        for name in [name for names in asked.values() for name in names]:
            if name not in self.names:
                raise ValueError(f"There is no column {name!r}; there are {', '.join(self.names[:8])}.")
        self.integer, self.categorical = (
            np.isin(np.array(self.names, dtype=object), asked.get(kind, [])) for kind in ("integer", "categorical")
        )
        values = [self._values(column, data[:, column].astype(float)) for column in range(len(self.names))]
        most = max(map(len, values), default=0)
        self.values = np.array([[*own, *[np.nan] * (most - len(own))] for own in values]).reshape(len(self.names), most)
        self.offered = without(self.names, asked.get("fixed", []), ~np.isnan(self.values))
        if not self.offered.any():
            raise ValueError(
                "No column may change: all are fixed, or the data hold no other value. Fix fewer columns, or "
                "give other donors."
            )

    def _values(self, column: int, seen: np.ndarray) -> list[float]:
        """Return the values that are offered for a column: other than its own, all categories, or some over the range."""
        if self.categorical[column]:
            offers = np.unique(seen)
        elif self.integer[column]:
            low, high = np.ceil(seen.min()), np.floor(seen.max())
            offers = np.unique(np.round(np.linspace(low, high, _VALUES))) if low <= high else np.zeros(0)
        else:
            offers = np.linspace(seen.min(), seen.max(), _VALUES)
        return [float(value) for value in offers if value != self.row[column]]

    def _changed(self, choice: np.ndarray) -> np.ndarray:
        offers = self.values[np.arange(len(choice)), np.maximum(choice - 1, 0)]
        return np.where(choice > 0, offers, self.row)

    def made(self, choices: np.ndarray) -> list[Tensor]:
        """Return prepared rows."""
        return [self.prepare(self._changed(choice)) for choice in choices]

    def outcome(self, choice: np.ndarray) -> np.ndarray:
        """Return the row, as it was given but for the columns that change."""
        return self._changed(choice)

    def changes(self, choice: np.ndarray) -> list[Change]:
        """Return each column that changes, with both values."""
        new = self._changed(choice)
        return [Change(self.names[part], f"{self.row[part]:.5g}", f"{new[part]:.5g}") for part in np.flatnonzero(choice)]

    def closer(self, choice: np.ndarray, flips: Flips) -> Self:
        """Return the exchange with values as close to the row's own as is enough, one column after the other."""
        result = copy.copy(self)
        result.values = self.values.copy()
        for part in np.flatnonzero(choice).tolist():
            place = (part, choice[part] - 1)
            near, far = self.row[part], result.values[place]
            for _ in range(_HALVINGS):
                between = self._between(part, near, far)
                if between is None:
                    break
                result.values[place] = between
                if flips(result.made(choice[None]))[0]:
                    far = between
                else:
                    near = between
            result.values[place] = far
        return result

    def _between(self, part: int, near: float, far: float) -> float | None:
        """Return a value in the middle that the column may hold; None if there is none."""
        if self.categorical[part]:
            return None
        middle = (near + far) / 2
        if self.integer[part]:
            middle = float(np.floor(middle) if far > near else np.ceil(middle))
        return middle if min(near, far) < middle < max(near, far) else None

    @property
    def height(self) -> float:
        """As many inches as the bars take."""
        return max(2.6, 0.9 + 0.25 * len(self.names))

    def draw(self, axes: Sequence[Axes], choice: np.ndarray, titles: Sequence[str]) -> None:
        """Draw each column's place within its range, before and after; a list of the changes stands in the middle."""
        from cocoax.inputs.outlines import write_on

        low = np.nanmin(np.c_[self.values, self.row], axis=1)
        width = np.nanmax(np.c_[self.values, self.row], axis=1) - low
        width[width == 0] = 1
        for ax, title, row in ((axes[0], titles[0], self.row), (axes[2], titles[2], self._changed(choice))):
            colours = ["#b2182b" if number else "#999999" for number in choice]
            ax.barh(self.names, (row - low) / width, color=colours)
            ax.invert_yaxis()
            ax.set_xlim(0, 1)
            ax.tick_params(labelsize=7)
            ax.set_xlabel("place within the data's range", fontsize=8)
            ax.set_title(title, fontsize=10, parse_math=False)
        write_on(axes[1], "\n".join(map(str, self.changes(choice))), titles[1])
