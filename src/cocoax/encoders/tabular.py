"""Encoders of tables: rows in, representations out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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
        layer, head, classes, name: as in :class:`cocoax.Encoder`.

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
        head: nn.Module | None = None,
        classes: Sequence[str] | None = None,
        name: str | None = None,
    ) -> None:
        columns = getattr(background, "columns", None) if columns is None else columns
        if columns is None:
            raise TypeError("An encoder of columns needs columns=, the name of each column, or a data frame as background=.")
        inputs = Rows(columns, preprocess, background)
        super().__init__(module, layer=layer, head=head, classes=classes, name=name, inputs=inputs)
