"""Rows: what is kept in memory of an index."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocoax.survey.items import natural
from cocoax.survey.manifest import Manifest
from cocoax.survey.shards import UnfinishedError, read_shard, stored_name

SMALL = ("id", "digest", "error", "representation", "shape", "scale")


@dataclass(frozen=True, eq=False)
class Rows:
    """What is kept in memory of an index, in the order of the ids."""

    ids: list[str]
    digests: list[str]  # of what the inputs were
    failed: dict[str, str]
    columns: dict[str, np.ndarray]
    representations: Tensor
    shapes: list[tuple[int, ...]]
    scales: np.ndarray
    places: np.ndarray  # shard and row of it, [n, 2]

    @classmethod
    def read(cls, files: Sequence[Path], manifest: Manifest) -> Rows:
        """Read all files of an index, but not the fields in them."""
        import pyarrow as pa

        names = {name: stored_name(name) for name in manifest.columns}
        with ThreadPoolExecutor(2) as pool:
            stored = [*SMALL, *names.values()]
            tables = list(pool.map(lambda path: read_shard(path, stored, None, manifest), files))
        if not tables:
            return cls([], [], {}, {}, torch.empty(0, 0), [], np.empty(0), np.empty((0, 2), int))
        places = [np.stack([np.full(len(table), shard), np.arange(len(table))], 1) for shard, table in enumerate(tables)]
        for path, other in zip(files, tables, strict=True):
            if not other.schema.equals(tables[0].schema):
                raise UnfinishedError(path.parent.parent, f"{path.name} has columns of other types than {files[0].name}")
        table = pa.concat_tables(tables)
        everything, digests, errors = (table[name].to_pylist() for name in ("id", "digest", "error"))
        done = [row for row, error in enumerate(errors) if error is None]
        once = _once(done, everything, digests)
        fine = np.array(sorted(once, key=lambda row: natural(everything[row])), int)
        failed = {everything[row]: error for row, error in enumerate(errors) if error is not None}
        kept = table.select(["shape", "scale", *names.values()]).take(fine)
        # Not by take: lists of numbers would be taken one by one.
        numbers = np.concatenate([part.flatten().to_numpy() for part in table["representation"].drop_null().chunks])
        order = np.empty(len(errors), int)
        order[done] = np.arange(len(done))
        vectors = torch.from_numpy(numbers.astype(np.float32, copy=False)).view(len(done), len(numbers) // max(len(done), 1))
        return cls(
            [everything[row] for row in fine],
            [digests[row] for row in fine],
            failed,
            {name: _values(kept[stored]) for name, stored in names.items()},
            vectors[torch.from_numpy(order[fine])],
            [tuple(shape) for shape in kept["shape"].to_pylist()],
            kept["scale"].to_numpy().astype(np.float32),
            np.concatenate(places)[fine],
        )


def _once(rows: Sequence[int], ids: Sequence[str], digests: Sequence[str]) -> list[int]:
    """Return rows without repetitions, which a build that was killed may leave; raise if two of one id differ."""
    first: dict[str, int] = {}
    for row in rows:
        other = first.setdefault(ids[row], row)
        if digests[other] != digests[row]:
            raise ValueError(
                f"The id {ids[row]!r} is in two shards with different contents, so one of them is from another run; build "
                "the index again, which keeps what is true."
            )
    return list(first.values())


def _values(column: Any) -> np.ndarray:
    """Return a column as an array; one with gaps as Python's own values, since NumPy's whole numbers have none."""
    return np.array(column.to_pylist(), object) if column.null_count else np.asarray(column.to_numpy())
