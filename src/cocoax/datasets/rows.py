"""Rows: what is kept in memory of an index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocoax.datasets.items import natural
from cocoax.datasets.shards import OWN, read_shard

SMALL = ("id", "error", "representation", "shape", "scale")


@dataclass(frozen=True, eq=False)
class Rows:
    """What is kept in memory of an index, in the order of the ids."""

    ids: list[str]
    failed: dict[str, str]
    columns: dict[str, np.ndarray]
    representations: Tensor
    shapes: list[tuple[int, ...]]
    scales: np.ndarray
    places: np.ndarray  # shard and row of it, [n, 2]

    @classmethod
    def read(cls, files: Sequence[Path], columns: Mapping[str, str]) -> Rows:
        """Read all files of an index, but not the fields in them."""
        import pyarrow as pa

        names = {name: f"column_{name}" if name in OWN else name for name in columns}
        with ThreadPoolExecutor(2) as pool:
            tables = list(pool.map(lambda path: read_shard(path, [*SMALL, *names.values()]), files))
        if not tables:
            return cls([], {}, {}, torch.empty(0, 0), [], np.empty(0), np.empty((0, 2), int))
        places = [np.stack([np.full(len(table), shard), np.arange(len(table))], 1) for shard, table in enumerate(tables)]
        table = pa.concat_tables(tables)
        everything, errors = table["id"].to_pylist(), table["error"].to_pylist()
        done = [row for row, error in enumerate(errors) if error is None]
        fine = np.array(sorted(done, key=lambda row: natural(everything[row])), int)
        failed = {everything[row]: error for row, error in enumerate(errors) if error is not None}
        kept = table.select(["shape", "scale", *names.values()]).take(fine)
        # Not by take: lists of numbers would be taken one by one.
        numbers = np.concatenate([part.flatten().to_numpy() for part in table["representation"].drop_null().chunks])
        order = np.empty(len(errors), int)
        order[done] = np.arange(len(done))
        vectors = torch.from_numpy(numbers.astype(np.float32, copy=False)).view(len(fine), len(numbers) // max(len(fine), 1))
        return cls(
            [everything[row] for row in fine],
            failed,
            {name: _values(kept[stored]) for name, stored in names.items()},
            vectors[torch.from_numpy(order[fine])],
            [tuple(shape) for shape in kept["shape"].to_pylist()],
            kept["scale"].to_numpy().astype(np.float32),
            np.concatenate(places)[fine],
        )


def _values(column: Any) -> np.ndarray:
    """Return a column as an array; one with gaps as Python's own values, since NumPy's whole numbers have none."""
    return np.array(column.to_pylist(), object) if column.null_count else np.asarray(column.to_numpy())
