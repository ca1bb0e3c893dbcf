"""DNA in text files, one sequence each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dna import Dna
from torch import Tensor

from cocoax.inputs import Explicand
from cocoax.store import file_digest


class DnaFiles(Dna):
    """Sequences, or files of one sequence each; a folder holds many.

    Args:
        width: letters of a stretch, which are removed together.
        longest: letters of a file that are read.

    """

    def __init__(self, width: int = 3, longest: int = 1000) -> None:
        super().__init__(width)
        self.longest = longest

    @property
    def settings(self) -> tuple[object, ...]:
        """How much is read."""
        return (self.longest,)

    def is_one(self, inputs: object) -> bool:
        """Whether this is one sequence or file rather than many."""
        return not inputs.is_dir() if isinstance(inputs, Path) else super().is_one(inputs)

    def many(self, inputs: Any) -> Iterable[Any]:
        """Return the files of a folder, or what an iterable gives."""
        return sorted(inputs.glob("*.txt")) if isinstance(inputs, Path) else super().many(inputs)

    def prepare(self, item: Any) -> Tensor:
        """Return a sequence as ``[4, L]``."""
        return super().prepare(self._read(item))

    def explicand(self, item: Any) -> Explicand:
        """Return a sequence made ready to be explained."""
        return super().explicand(self._read(item))

    def _read(self, item: Any) -> Any:
        return item.read_text().strip()[: self.longest] if isinstance(item, Path) else item

    def digest(self, item: Any) -> str:
        """Return a digest of what a file holds, not of its path."""
        return file_digest(item) if isinstance(item, Path) else super().digest(item)

    def label(self, item: Any) -> str:
        """Return the name of a file without its ending."""
        return item.stem if isinstance(item, Path) else super().label(item)
