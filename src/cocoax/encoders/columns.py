"""Encoders of tables: rows in, representations out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from cocoax.encoders.encoder import Encoder
from cocoax.inputs.explicand import Explicand
from cocoax.storage import digest


class TabularEncoder(Encoder):
    """An encoder of rows of a table, whose explanations are about columns.

    Args:
        module: from rows ``[n, m]`` to representations ``[n, d]``.
        columns: the names of the m columns.
        background: rows ``[n, m]`` that say what columns usually hold; removed columns are replaced by their mean, or see
            :class:`cocoax.Background`.
        preprocess: from a row ``[m]`` as given to the floats ``[m]`` that the module takes; also done to the background.
        layer, head, name: as in :class:`cocoax.Encoder`.

    """

    hint = "Check the number and the order of the columns that it expects."

    def __init__(
        self,
        module: Callable[..., Any],
        preprocess: Callable[[Tensor], Tensor] | None = None,
        layer: str | None = None,
        *,
        columns: Sequence[str],
        background: Any = None,
        features: Literal["columns"] = "columns",
        head: nn.Module | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(module, preprocess, layer, head=head, name=name)  # type: ignore[arg-type]
        self.columns = tuple(str(column) for column in columns)
        if isinstance(columns, str) or not self.columns:
            raise ValueError(
                f"The 'columns' parameter must be a list of names, one for each column. Got {columns!r} instead."
            )
        twice = [column for index, column in enumerate(self.columns) if column in self.columns[:index]]
        if twice:
            raise ValueError(f"Two columns are called {twice[0]!r}; give each a name of its own.")
        self.background: Tensor | None = None
        if background is not None:
            rows = [self.prepare_numbered(index, one) for index, one in enumerate(self.as_list(background))]
            if not rows:
                raise ValueError("The background has 0 rows; pass at least one.")
            self.background = torch.cat(rows)

    def is_one(self, inputs: object) -> bool:
        """Whether this is one row rather than many."""
        if isinstance(inputs, list | tuple):
            return len(inputs) > 0 and all(isinstance(value, int | float | np.number) for value in inputs)
        return isinstance(inputs, Explicand) or getattr(inputs, "ndim", None) == 1

    def several(self, inputs: Any) -> tuple[Any, int | None]:
        """Rows one by one: of an array, a data frame, a list."""
        if not self.is_one(inputs) and hasattr(inputs, "to_numpy"):  # a data frame, which would give its columns
            self._check_names(getattr(inputs, "columns", self.columns))
            inputs = inputs.to_numpy()
        if isinstance(inputs, str):
            raise TypeError("Inputs must be rows of numbers: an array [n, m], a data frame or a list. Got str instead.")
        return super().several([inputs] if self.is_one(inputs) else inputs)

    def prepare(self, one: Any) -> Tensor:
        """One row as floats ``[1, m]``."""
        if isinstance(one, Explicand):
            return one.tensor
        if isinstance(one, Tensor) and one.ndim == 2 and one.shape[0] == 1 and one.is_floating_point():  # it was prepared
            return one
        if hasattr(one, "index") and hasattr(one, "to_numpy"):  # a row of a data frame
            self._check_names(one.index)
            one = one.to_numpy()
        try:
            array = one.detach().cpu().numpy() if isinstance(one, Tensor) else np.asarray(one)
            row = torch.from_numpy(array.astype(np.float32))
        except (ValueError, TypeError) as error:
            raise TypeError(f"A row must hold numbers only ({error}); turn categories into numbers first.") from error
        if row.ndim != 1 or (self.preprocess is None and len(row) != len(self.columns)):
            raise ValueError(
                f"A row of {self.name!r} has {len(self.columns)} columns ({', '.join(self.columns[:4])}…). "
                f"Got shape {list(row.shape)} instead."
            )
        if self.preprocess is not None:
            row = torch.as_tensor(self.preprocess(row)).float()  # type: ignore[arg-type]
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
                f"The columns are {', '.join(map(str, list(names)[:4]))}… but {self.name!r} expects "
                f"{', '.join(self.columns[:4])}…; they must be the same, in the same order."
            )

    def explicand(self, one: Any) -> Explicand:
        """A row made ready to be explained."""
        if isinstance(one, Explicand):
            return one
        return Explicand(self.prepare(one), tokens=self.columns)

    def collate(self, prepared: Sequence[Any] | Tensor) -> Any:
        """Rows ``[n, 1, m]``."""
        like = self._first_parameter()
        rows = prepared if isinstance(prepared, Tensor) else torch.stack([row.detach() for row in prepared])
        return rows.to(like.device, like.dtype)

    def __call__(self, batch: Any) -> Tensor:
        """Representations ``[n, d]`` of rows ``[n, 1, m]`` or ``[n, m]``, differentiable."""
        return super().__call__(batch.reshape(len(batch), len(self.columns)))

    def batch_size(self, one: Any, asked: int | None = None) -> int:
        """Thousands of rows at a time, which are small, unless asked otherwise."""
        return super().batch_size(one, 4096 if asked is None else asked)

    def digest_input(self, one: Any) -> str:
        """A digest of the row."""
        return digest(one)

    def label(self, one: Any) -> str:
        """A row has no name."""
        return "row"

    def made_up_name(self, labels: list[str], count: int) -> str:
        """How many rows."""
        return f"{count} row{'s' if count != 1 else ''}"
