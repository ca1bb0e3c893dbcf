"""Rows of a table as inputs: the features are columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from cocoax.checks import as_items, as_numbers
from cocoax.inputs.base import Inputs, naming_input
from cocoax.inputs.display import Names
from cocoax.inputs.explicand import Explicand


class Rows(Inputs):
    """Rows of numbers: arrays, lists, tensors, data frames and their rows.

    Args:
        columns: the names of the m columns.
        preprocess: from a row ``[m]`` as given to the floats ``[m]`` that the module takes; also done to the background.
        background: rows ``[n, m]`` that say what columns usually hold.

    """

    noun = "row"
    hint = "Check the number and the order of the columns that it expects."
    removals: ClassVar[tuple[str, ...]] = ("Background", "Constant", "Fixed")
    advice = "Columns take cocoax.Background(rows), a row, or cocoax.Constant(0.0)."

    def __init__(
        self,
        columns: Sequence[str],
        preprocess: Callable[[Tensor], Tensor] | None = None,
        background: Any = None,
        encoder: str = "the encoder",
    ) -> None:
        self.encoder = encoder
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

    @property
    def removes_by_default(self) -> bool:
        """Whether there is a background."""
        return self.background is not None

    def is_one(self, inputs: object) -> bool:
        """Whether this is one row rather than many."""
        if isinstance(inputs, list | tuple):
            return len(inputs) > 0 and all(isinstance(value, int | float | np.number) for value in inputs)
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
        if hasattr(item, "index") and hasattr(item, "to_numpy"):  # a row of a data frame
            self._check_names(item.index)
            item = item.to_numpy()
        try:
            array = as_numbers("A row", item).numpy() if isinstance(item, Tensor) else np.asarray(item)
            row = torch.from_numpy(array.astype(np.float32))
        except (ValueError, TypeError) as error:
            raise TypeError(f"A row must hold numbers only ({error}); turn categories into numbers first.") from error
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
        given = np.asarray(item, np.float64).reshape(-1).tolist()  # as they were before they were preprocessed
        return Explicand(prepared, Names(self.columns, tuple(given) if len(given) == len(self.columns) else None))

    def to_module(self, batch: Any) -> Any:
        """Return rows ``[n, m]``, without the dimension of one channel that explicands have."""
        return batch.reshape(len(batch), len(self.columns))

    def at_once(self, tensor: Tensor, on_cpu: bool) -> int:
        """Return thousands: rows are small."""
        return 4096
