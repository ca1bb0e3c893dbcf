"""Vectors of texts that a model gave, so that no text is embedded twice: in memory, and in one file of the cache folder."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from cocoax.store.cache import cache_folder
from cocoax.store.digests import digest

_TEXTS_PER_QUERY = 500  # SQLite takes some thousand parameters at most


class VectorCache:
    """Vectors by text, of one model.

    Args:
        name: of the model. Its vectors are in a file of the cache folder as well, which several processes may use at once and
            a killed one leaves whole. None keeps them in memory alone.

    """

    def __init__(self, name: str | None) -> None:
        self._memory: dict[str, np.ndarray] = {}
        self._path = None if name is None else cache_folder() / "vectors" / f"{digest('vectors', name)}.sqlite"
        self.width: int | None = None

    def get(self, texts: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the vectors of those texts that have one."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._memory]
        if missing and self._path is not None and self._path.exists():
            self._read(self._path, missing)
        return {text: self._memory[text] for text in texts if text in self._memory}

    def add(self, vectors: Mapping[str, np.ndarray]) -> None:
        """Keep the vectors of texts."""
        for text, vector in vectors.items():
            self._remember(text, vector)
        if self._path is not None:
            try:
                self._write(self._path, vectors)
            except (OSError, sqlite3.Error) as error:
                warnings.warn(f"Vectors cannot be kept in {self._path} ({error}); they are kept in memory.", stacklevel=3)
                self._path = None

    def _remember(self, text: str, vector: np.ndarray) -> None:
        self._memory[text] = vector
        self.width = len(vector)

    def _read(self, path: Path, texts: Sequence[str]) -> None:
        keys = {digest(text): text for text in texts}
        numbers = list(keys)
        try:
            with closing(sqlite3.connect(path, timeout=30)) as file:
                for start in range(0, len(numbers), _TEXTS_PER_QUERY):
                    some = numbers[start : start + _TEXTS_PER_QUERY]
                    marks = ", ".join("?" * len(some))
                    for key, vector in file.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", some):
                        self._remember(keys[key], np.frombuffer(vector, dtype="<f4"))
        except sqlite3.Error as error:
            warnings.warn(f"{path} cannot be read ({error}); its texts are embedded again.", stacklevel=4)

    def _write(self, path: Path, vectors: Mapping[str, np.ndarray]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=30)) as file, file:
            file.execute("CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID")
            rows = [(digest(text), np.ascontiguousarray(vector, dtype="<f4").tobytes()) for text, vector in vectors.items()]
            file.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
