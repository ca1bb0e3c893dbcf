"""Rows of a table as inputs: the features are columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from cocoax.checks import as_items, as_numbers, shown
from cocoax.inputs.base import Inputs, naming_input
from cocoax.inputs.explicand import Explicand, Names


class Rows(Inputs):
    """Rows of numbers: arrays, lists, tensors, dicts by column names, data frames and their rows.

    Args:
        columns: the names of the m columns.
        preprocess: from a row ``[m]`` as given to the floats ``[m]`` that the module takes; also done to the background.
        background: rows ``[n, m]`` that say what columns usually hold.

    """

    noun = "row"
    feature_kind = "row"
    hint = "Check the number and the order of the columns that it expects."
    removals: ClassVar[tuple[str, ...]] = ("Background", "Constant", "Fixed")
    advice = "Columns take cocoax.Background(rows), a row, or cocoax.Constant(0.0)."

    def __init__(
        self,
        columns: Sequence[str],
        preprocess: Callable[[Tensor], Tensor] | None = None,
        background: Any = None,
    ) -> None:
        if isinstance(columns, str):
            raise ValueError(
                f"The 'columns' parameter must be a list of names, one for each column. Got {columns!r} instead."
            )
        self.columns = tuple(map(str, as_items("The 'columns' parameter", columns)))
        self.preprocess = preprocess
        if not self.columns:
            raise ValueError("The 'columns' parameter must be a list of names, one for each column. Got [] instead.")
        twice = [column for index, column in enumerate(self.columns) if column in self.columns[:index]]
        if twice:
            raise ValueError(f"Two columns are called {twice[0]!r}; give each a name of its own.")
        self.background = None if background is None else self._background(background)

    def _background(self, rows: Any) -> Tensor:
        prepared = []
        for index, row in enumerate(self.each(rows)[0]):
            with naming_input(index):
                prepared.append(self.prepare(row))
        if not prepared:
            raise ValueError("The background has 0 rows; pass at least one.")
        return torch.cat(prepared)

    @property
    def settings(self) -> tuple[object, ...]:
        """The preprocessing; names and background change no representation."""
        return (self.preprocess,)

    def probe(self) -> Tensor:
        """Return a row of numbers between 0 and 1, preprocessed."""
        return self.prepare(torch.rand(len(self.columns), generator=torch.Generator().manual_seed(0), dtype=torch.float32))

    @property
    def removes_by_default(self) -> bool:
        """Whether there is a background."""
        return self.background is not None

    def is_one(self, inputs: object) -> bool:
        """Whether this is one row rather than many."""
        values = list(inputs.values()) if isinstance(inputs, Mapping) else inputs
        if isinstance(values, list | tuple):  # what is no number is an error of the row, not another row
            return len(values) > 0 and all(value is None or isinstance(value, Real | str) for value in values)
        return isinstance(inputs, Explicand) or getattr(inputs, "ndim", None) == 1

    def many(self, inputs: Any) -> Iterable[Any]:
        """Return the rows of an array, a data frame or a list."""
        if hasattr(inputs, "to_numpy"):  # a data frame, which would give its columns
            self._check_names(getattr(inputs, "columns", self.columns))
            inputs = inputs.to_numpy()
        if isinstance(inputs, str):
            raise TypeError("Inputs must be rows of numbers: an array [n, m], a data frame or a list. Got str instead.")
        return super().many(inputs)

    def prepare(self, item: Any) -> Tensor:
        """Return one row as floats ``[1, m]``."""
        if isinstance(item, Explicand):
            return item.tensor
        if isinstance(item, Tensor) and item.ndim == 2 and item.shape[0] == 1 and item.is_floating_point():
            return item  # it was prepared before
        row = torch.from_numpy(self._numbers(item).astype(np.float32))
        if row.ndim != 1 or (self.preprocess is None and len(row) != len(self.columns)):
            raise ValueError(
                f"A row of {self.encoder!r} has {len(self.columns)} columns ({', '.join(self.columns[:4])}…). "
                f"Got shape {list(row.shape)} instead."
            )
        if self.preprocess is not None:
            row = torch.as_tensor(self.preprocess(row)).float()
            if tuple(row.shape) != (len(self.columns),):
                raise ValueError(
                    f"The encoder's preprocess must return one number for each of the {len(self.columns)} columns. "
                    f"Got shape {list(row.shape)} instead."
                )
        bad = (~torch.isfinite(row)).nonzero()[:, 0].tolist()
        if bad:
            raise ValueError(f"Column {self.columns[bad[0]]!r} is {float(row[bad[0]])}; fill in what is missing first.")
        return row[None]

    def _numbers(self, item: Any) -> np.ndarray:
        """Return a row as numbers, in the order of the columns; raise if it holds anything else."""
        if hasattr(item, "index") and hasattr(item, "to_numpy"):  # a row of a data frame
            self._check_names(item.index)
            item = item.to_numpy()
        if isinstance(item, Mapping):
            item = self._by_name(item)
        if isinstance(item, Tensor):
            return as_numbers("A row", item).numpy()
        try:
            array = np.asarray(item)
        except ValueError as error:
            raise TypeError(f"A row must hold numbers only ({error}).") from error
        if array.dtype.kind in "biuf":
            return array
        for place, value in enumerate(item if isinstance(item, list | tuple) else array.reshape(-1).tolist()):
            if not isinstance(value, Real):
                column = repr(self.columns[place]) if len(array.reshape(-1)) == len(self.columns) else place
                raise TypeError(
                    f"A row must hold numbers only: column {column} is {shown(value)}; turn categories into numbers, and "
                    "fill in what is missing first."
                )
        return array.astype(np.float64)

    def _by_name(self, item: Mapping[Any, Any]) -> list[Any]:
        """Return the values of a dict in the order of the columns; raise unless it has just these columns."""
        named = {str(name): value for name, value in item.items()}
        if set(named) != set(self.columns):
            missing, unknown = (
                [name for name in some if name not in others]
                for some, others in ((self.columns, named), (named, self.columns))
            )
            what = f"has no column {missing[0]!r}" if missing else f"has a column {unknown[0]!r} too much"
            raise ValueError(f"The row {what}; the columns of {self.encoder!r} are {', '.join(self.columns[:4])}…")
        return [named[name] for name in self.columns]

    def _check_names(self, names: Any) -> None:
        if tuple(map(str, names)) != self.columns:
            raise ValueError(
                f"The columns are {', '.join(map(str, list(names)[:4]))}… but {self.encoder!r} expects "
                f"{', '.join(self.columns[:4])}…; they must be the same, in the same order."
            )

    def explicand(self, item: Any) -> Explicand:
        """Return a row made ready to be explained."""
        if isinstance(item, Explicand):
            return item
        prepared = self.prepare(item)
        given = self._numbers(item).astype(np.float64).reshape(-1).tolist()  # as they were before they were preprocessed
        return Explicand(prepared, Names(self.columns, tuple(given) if len(given) == len(self.columns) else None))

    def to_module(self, batch: Any) -> Any:
        """Return rows ``[n, m]``, without the dimension of one channel that explicands have."""
        return batch.reshape(len(batch), len(self.columns))

    def default_batch_size(self, tensor: Tensor, on_cpu: bool) -> int:
        """Return thousands: rows are small."""
        return 4096
