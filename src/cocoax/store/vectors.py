"""Arrays that a model gave for texts and the like, in memory and in a file, so that nothing is encoded twice."""

from __future__ import annotations

import sqlite3
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from cocoax.store.cache import cache_folder
from cocoax.store.digests import digest

_KEYS_PER_QUERY = 500  # SQLite takes some thousand parameters at most
_MEMORY = 256 * 2**20  # bytes in memory of what a file holds as well


class VectorCache:
    """Arrays by key (a text), of one model: a vector ``[d]``, or one vector for each token ``[tokens, d]``.

    Args:
        name: of the model. Its arrays are in a file of the cache folder as well, which several processes may use at once and
            a killed one leaves whole. None keeps them in memory alone.

    """

    def __init__(self, name: str | None) -> None:
        self._memory: OrderedDict[str, np.ndarray] = OrderedDict()
        self._bytes = 0
        self._path = None if name is None else cache_folder() / "vectors" / f"{digest('arrays', name)}.sqlite"
        self.width: int | None = None  # of the last dimension

    def get(self, keys: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the arrays of those keys that have one."""
        distinct = dict.fromkeys(keys)
        found = {key: self._memory[key] for key in distinct if key in self._memory}
        missing = [key for key in distinct if key not in found]
        if missing and self._path is not None and self._path.exists():
            found |= self._read(self._path, missing)
        return found

    def add(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep the arrays of keys."""
        for key, array in arrays.items():
            self._remember(key, array)
        if self._path is not None:
            try:
                self._write(self._path, arrays)
            except (OSError, sqlite3.Error) as error:
                warnings.warn(f"Vectors cannot be kept in {self._path} ({error}); they are kept in memory.", stacklevel=3)
                self._path = None

    def _remember(self, key: str, array: np.ndarray) -> None:
        self.width = array.shape[-1]
        if key not in self._memory:
            self._bytes += array.nbytes
        self._memory[key] = array
        while self._bytes > _MEMORY and self._path is not None and len(self._memory) > 1:
            self._bytes -= self._memory.popitem(last=False)[1].nbytes

    def _read(self, path: Path, keys: Sequence[str]) -> dict[str, np.ndarray]:
        named = {digest(key): key for key in keys}
        numbers = list(named)
        found: dict[str, np.ndarray] = {}
        try:
            with closing(sqlite3.connect(path, timeout=30)) as file:
                for start in range(0, len(numbers), _KEYS_PER_QUERY):
                    some = numbers[start : start + _KEYS_PER_QUERY]
                    marks = ", ".join("?" * len(some))
                    for key, rows, data in file.execute(f"SELECT key, rows, data FROM arrays WHERE key IN ({marks})", some):
                        array = np.frombuffer(data, dtype="<f4")
                        found[named[key]] = array if rows is None else array.reshape(rows, -1)
        except (sqlite3.Error, ValueError) as error:
            warnings.warn(f"{path} cannot be read ({error}); its texts are encoded again.", stacklevel=4)
        for key, array in found.items():
            self._remember(key, array)
        return found

    def _write(self, path: Path, arrays: Mapping[str, np.ndarray]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=30)) as file, file:
            file.execute(
                "CREATE TABLE IF NOT EXISTS arrays (key TEXT PRIMARY KEY, rows INTEGER, data BLOB NOT NULL) WITHOUT ROWID"
            )
            rows = [
                (digest(key), None if array.ndim == 1 else len(array), np.ascontiguousarray(array, dtype="<f4").tobytes())
                for key, array in arrays.items()
            ]
            file.executemany("INSERT OR REPLACE INTO arrays VALUES (?, ?, ?)", rows)
