"""Encoders of tables: rows in, representations out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from torch import Tensor, nn

from cocoax.encoders.encoder import Encoder
from cocoax.inputs import Rows


class TabularEncoder(Encoder):
    """An encoder of rows of a table, whose explanations are about columns.

    Args:
        module: from rows ``[n, m]`` to representations ``[n, d]``.
        columns: the names of the m columns; those of the background if that is a data frame.
        background: rows ``[n, m]`` that say what columns usually hold; removed columns are replaced by their mean, or see
            :class:`cocoax.Background`.
        preprocess: from a row ``[m]`` as given to the floats ``[m]`` that the module takes; also done to the background.
        layer, head, name: as in :class:`cocoax.Encoder`.

    """

    inputs: Rows

    def __init__(
        self,
        module: Callable[..., Any],
        preprocess: Callable[[Tensor], Tensor] | None = None,
        layer: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        background: Any = None,
        features: Literal["columns"] = "columns",
        head: nn.Module | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            module, preprocess, layer, columns=columns, background=background, features=features, head=head, name=name
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.inputs.columns

    @property
    def background(self) -> Tensor | None:
        """The prepared rows that say what columns usually hold."""
        return self.inputs.background
