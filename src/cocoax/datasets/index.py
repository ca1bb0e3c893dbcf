"""An index: the fields of a whole data set, which answer any question about all of it with one matrix product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from cocoax.attribution.field import Field
from cocoax.attribution.result import Attribution, Origin
from cocoax.datasets.items import natural
from cocoax.datasets.shards import OWN, Manifest, field_values, read_shard, shard_files, unpack_display
from cocoax.encoders import Encoder, load
from cocoax.inputs import Display
from cocoax.questions import Question
from cocoax.references import Reference
from cocoax.similarity import LinearSimilarity, get_similarity
from cocoax.targets import Target

if TYPE_CHECKING:
    import pandas as pd

    from cocoax.datasets.shortcuts import Shortcuts, Typical
    from cocoax.datasets.survey import Survey

Where = Mapping[str, Any] | Sequence[int] | Sequence[bool] | np.ndarray | None
SMALL = ("id", "error", "representation", "emptied", "noise", "shape", "scale")


class Index:
    """The fields of a data set; made by :func:`cocoax.datasets.build`, opened by :meth:`open`.

    Rows are in the order of their ids (9 before 10). Inputs that failed are in ``failed``, and are no rows.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self._files = shard_files(folder)
        self._encoder: Encoder | None = None

    @classmethod
    def open(cls, folder: str | Path) -> Index:
        """Open the index in a folder."""
        return cls(Path(folder), Manifest.load(folder))

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"Index({str(self.folder)!r}, {len(self)} {self.manifest.noun}s{failed}, {self.manifest.encoder!r})"

    def check_any(self) -> None:
        """Raise if there is nothing to ask."""
        if not len(self):
            name, why = next(iter(self.failed.items()), ("", "there are no inputs"))
            raise ValueError(f"None of the {len(self.failed)} inputs could be explained; the first, {name!r}: {why}")

    # --- what it holds ------------------------------------------------------------------------------------------------

    @cached_property
    def _rows(self) -> _Rows:
        return _Rows.read(self._files, self.manifest.columns)

    @property
    def ids(self) -> list[str]:
        """The ids of all rows."""
        return self._rows.ids

    @property
    def failed(self) -> dict[str, str]:
        """What went wrong with inputs that are no rows, by id."""
        return self._rows.failed

    @property
    def columns(self) -> Mapping[str, np.ndarray]:
        """What is known about rows, by the name of the column."""
        return self._rows.columns

    @property
    def representations(self) -> Tensor:
        """The representations of all rows, ``[n, d]``."""
        return self._rows.representations

    @property
    def similarity(self) -> LinearSimilarity:
        """The similarity of the questions that it answers."""
        similarity = get_similarity(str(self.manifest.making["similarity"]))
        assert isinstance(similarity, LinearSimilarity)
        return similarity

    @cached_property
    def cells(self) -> tuple[int, ...] | None:
        """The shape of every map; None where inputs have different ones, as texts do."""
        shapes = set(self._rows.shapes)
        return shapes.pop() if len(shapes) == 1 else None

    def column(self, name: str) -> np.ndarray:
        """Return what a column says about every row; raise if there is none of this name."""
        if name not in self.columns:
            have = ", ".join(self.columns) or "none"
            raise ValueError(f"There is no column {name!r}; the columns are {have}.")
        return self.columns[name]

    def select(self, where: Where = None) -> np.ndarray:
        """Return the numbers of rows: those whose columns have these values (one or several), or as they are given."""
        if where is None:
            return np.arange(len(self))
        if isinstance(where, Mapping):
            chosen = np.ones(len(self), bool)
            for name, values in where.items():
                wanted = (
                    [values] if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) else list(values)
                )
                chosen &= np.isin(self.column(name).astype(str), [str(value) for value in wanted])
            rows = np.flatnonzero(chosen)
        else:
            rows = np.asarray(where)
            if rows.dtype == bool:
                if len(rows) != len(self):
                    raise ValueError(f"There are {len(self)} rows; a selection of {len(rows)} does not fit.")
                rows = np.flatnonzero(rows)
        if not len(rows):
            raise ValueError(
                f"No row has {where if isinstance(where, Mapping) else 'been selected'}; nothing is left to ask."
            )
        return rows

    def reference(self, where: Where = None, name: str | None = None) -> Reference:
        """Return some rows as a corpus or a foil; nothing is encoded."""
        rows = self.select(where)
        if name is None:
            name = _words(where) if isinstance(where, Mapping) else f"{len(rows)} rows"
        return Reference.from_representations(self.representations[rows], name=name, space=self.manifest.space)

    def display(self, row: int) -> Display | None:
        """Return how a row is shown, small."""
        shard, place = self._rows.places[row]
        packed = read_shard(self._files[shard], ["shown"])["shown"][int(place)].as_py()
        return None if packed is None else unpack_display(packed)

    def displays(self, rows: Sequence[int]) -> list[Display | None]:
        """Return how rows are shown; every shard is read once."""
        places = self._rows.places[list(rows)]
        shown: dict[tuple[int, int], Display | None] = {}
        for shard in np.unique(places[:, 0]):
            column = read_shard(self._files[shard], ["shown"])["shown"]
            for place in places[places[:, 0] == shard, 1]:
                packed = column[int(place)].as_py()
                shown[int(shard), int(place)] = None if packed is None else unpack_display(packed)
        return [shown[int(shard), int(place)] for shard, place in places]

    def field(self, row: int) -> Field:
        """Return the field of one row, which answers targets as those of runs do; without standard errors."""
        shard, place = self._rows.places[row]
        column = read_shard(self._files[shard], ["field"])["field"].slice(int(place), 1)
        dimension = self.representations.shape[1]
        values = field_values(column).float().view(*self._rows.shapes[row], dimension) * float(self._rows.scales[row])
        ends = self.similarity.features(torch.stack([self.representations[row], self._rows.emptied[row]]).double())
        origin = Origin(self.manifest.making["method"], self.manifest.encoder, self.manifest.space, 0, "")
        display = self.display(row)
        assert display is not None
        return Field(
            values, torch.zeros(dimension), ends.float(), self.representations[row], self.similarity, origin, display
        )

    # --- asking -------------------------------------------------------------------------------------------------------

    @property
    def encoder(self) -> Encoder:
        """The encoder that made it, loaded by its name; set it to one in memory. Captions and pictures need it."""
        if self._encoder is None:
            self.encoder = load(self.manifest.encoder)
        assert self._encoder is not None
        return self._encoder

    @encoder.setter
    def encoder(self, encoder: Encoder) -> None:
        if encoder.space != self.manifest.space:
            raise ValueError(
                f"The index was made by the encoder {self.manifest.encoder!r}; {encoder.name!r} is another one, or its "
                "weights or preprocessing have changed."
            )
        self._encoder = encoder

    def ask(self, question: str | Question | Target, where: Where = None, *, top: int = 50) -> Survey:
        """Ask all rows, or those of ``where``: how much is each like this, and what in it makes it so?

        Args:
            question: ``"a cat rather than a dog"``, a :class:`cocoax.Question`, or a target, as of ``index.reference(...)``.
            where: which rows: ``{"label": "cat"}``, numbers, or one truth value for each.
            top: how many of the highest and of the lowest come with their maps.

        """
        from cocoax.datasets.survey import survey

        return survey(self, question, self.select(where), top)

    def shortcuts(self, label: str = "label") -> Shortcuts:
        """Find inputs whose similarity to their class rests on a place where that of the class does not usually rest.

        ``label`` is the column that tells the class.
        """
        from cocoax.datasets.shortcuts import shortcuts

        return shortcuts(self, label)

    def typicality(self, label: str = "label") -> list[Typical]:
        """Return all rows, the least typical of its class first: where wrong labels are."""
        from cocoax.datasets.shortcuts import typicality

        return typicality(self, label)

    def to_dataframe(self) -> pd.DataFrame:
        """Return ids, columns and representations as a pandas data frame."""
        import pandas as pd

        return pd.DataFrame({"id": self.ids, **self.columns, "representation": list(self.representations.numpy())})

    # --- maps ---------------------------------------------------------------------------------------------------------

    def maps(self, target: Target, rows: np.ndarray) -> list[Tensor]:
        """Return the map of a target on each of some rows, ``[*cells]``, relative to a cell that makes no difference."""
        directions = self.directions(target, rows)
        maps: list[Tensor] = [torch.empty(0)] * len(rows)
        for numbers, flat in self._fields(rows):
            own = directions if len(directions) == 1 else directions[numbers]
            for number, values in zip(numbers, self._products(flat, rows[numbers], own), strict=True):
                maps[number] = values
        return maps

    def directions(self, target: Target, rows: np.ndarray) -> Tensor:
        """Return the direction of a target for each row, ``[n, d]``; one for all where it does not depend on the row."""
        target.check_space(self.manifest.space, self.representations.shape[1])
        if target.similarity != self.similarity:
            raise ValueError(
                f"The index answers questions of the {self.similarity.name} similarity, not of {target.similarity.name}."
            )
        if not target.needs_explicand:
            return target.direction()[None].float()
        weight = target.weights[None]
        rest = {reference: weight for reference, weight in target.weights.items() if reference is not None}
        own = weight * self.similarity.features(self.representations[rows].double())
        return (own + Target(rest, self.similarity).direction() if rest else own).float()

    def _fields(self, rows: np.ndarray) -> Iterator[tuple[np.ndarray, list[Tensor] | Tensor]]:
        """Yield places among ``rows`` of one shard each, and their fields: one after another, or a list of each."""
        places = self._rows.places[rows]
        wanted = [shard for shard in range(len(self._files)) if (places[:, 0] == shard).any()]
        with ThreadPoolExecutor(2) as pool:  # the next file is read while this one is multiplied
            ahead = pool.map(lambda shard: read_shard(self._files[shard], ["field"])["field"], wanted)
            for shard, column in zip(wanted, ahead, strict=True):
                numbers = np.flatnonzero(places[:, 0] == shard)
                inside = places[numbers, 1]
                order = np.argsort(inside)
                numbers, inside = numbers[order], inside[order]
                whole = len(inside) == len(column) or bool((np.diff(inside) == 1).all())
                part = column.slice(int(inside[0]), len(inside)) if whole else column.take(inside)
                yield numbers, field_values(part)

    def _products(self, flat: Any, rows: np.ndarray, directions: Tensor) -> list[Tensor]:
        """Return the maps of some rows, whose fields stand one after another."""
        dimension = directions.shape[1]
        vectors = flat.view(-1, dimension).float()
        sizes = [int(np.prod(self._rows.shapes[row])) for row in rows]
        if len(directions) == 1:
            products = vectors @ directions[0]
        else:
            products = (vectors * directions.repeat_interleave(torch.tensor(sizes), 0)).sum(1)
        parts = torch.split(products, sizes)
        return [
            part.view(self._rows.shapes[row]) * float(self._rows.scales[row]) for part, row in zip(parts, rows, strict=True)
        ]

    def attribution(self, row: int, target: Target, values: Tensor, display: Display | None) -> Attribution:
        """Return the map of one row as an attribution, with the standard error of the map as a whole."""
        direction = self.directions(target, np.array([row]))[0]
        noise = self._rows.noise[row]
        error = None
        if len(noise):
            error = torch.full_like(values, float((noise @ direction).square().mean().sqrt()))
        elif noise.ndim == 2:
            error = torch.zeros_like(values)
        ends = torch.stack([self.representations[row], self._rows.emptied[row]]).double()
        score, emptied = (self.similarity.features(ends) @ direction.double()).tolist()
        method = self.manifest.making["method"]
        return Attribution(
            values=values,
            score=score,
            baseline_score=emptied,
            standard_error=error,
            metadata={"target": target.name, "method": method["type"], "encoder": self.manifest.encoder, "id": self.ids[row]},
            display=display if display is not None else _nothing(values),
        )


def _words(where: Mapping[str, Any]) -> str:
    """Return a selection in words: ``label cat / dog``."""
    sides = {
        key: [values] if isinstance(values, str) or not isinstance(values, Sequence) else values
        for key, values in where.items()
    }
    return " and ".join(f"{key} {' / '.join(map(str, values))}" for key, values in sides.items())


def _nothing(values: Tensor) -> Display:
    from cocoax.inputs import Names, Picture

    return Picture() if values.ndim == 2 else Names(tuple(map(str, range(len(values)))))


@dataclass(frozen=True, eq=False)
class _Rows:
    """All of an index but its fields, in the order of the ids."""

    ids: list[str]
    failed: dict[str, str]
    columns: dict[str, np.ndarray]
    representations: Tensor
    emptied: Tensor
    noise: list[Tensor]
    shapes: list[tuple[int, ...]]
    scales: np.ndarray
    places: np.ndarray  # shard and row of it, [n, 2]

    @classmethod
    def read(cls, files: Sequence[Path], columns: Mapping[str, str]) -> _Rows:
        import pyarrow as pa

        names = {name: f"column_{name}" if name in OWN else name for name in columns}
        tables, places = [], []
        for shard, path in enumerate(files):
            table = read_shard(path, [*SMALL, *names.values()])
            tables.append(table)
            places.append(np.stack([np.full(len(table), shard), np.arange(len(table))], 1))
        if not tables:
            return cls([], {}, {}, torch.empty(0, 0), torch.empty(0, 0), [], [], np.empty(0), np.empty((0, 2), int))
        table = pa.concat_tables(tables)
        errors = table["error"].to_pylist()
        everything = table["id"].to_pylist()
        fine = np.array([row for row, error in enumerate(errors) if error is None], int)
        fine = np.array(sorted(fine, key=lambda row: natural(everything[row])), int)
        failed = {everything[row]: error for row, error in enumerate(errors) if error is not None}
        kept = table.take(fine).combine_chunks()
        return cls(
            [everything[row] for row in fine],
            failed,
            {name: kept[stored].to_numpy(zero_copy_only=False) for name, stored in names.items()},
            _numbers(kept["representation"], len(fine)),
            _numbers(kept["emptied"], len(fine)),
            _noise(kept),
            [tuple(shape) for shape in kept["shape"].to_pylist()],
            kept["scale"].to_numpy(zero_copy_only=False),
            np.concatenate(places)[fine],
        )


def _numbers(column: Any, rows: int) -> Tensor:
    """Return a column of lists of one length as a tensor ``[rows, d]``."""
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return torch.from_numpy(np.array(flat, np.float32)).view(rows, len(flat) // max(rows, 1))


def _noise(table: Any) -> list[Tensor]:
    """Return the random sums of each row, ``[4, d]`` or ``[0, d]``."""
    dimension = len(table["representation"][0]) if len(table) else 1
    lists = table["noise"].combine_chunks()
    flat = torch.from_numpy(np.array(lists.flatten().to_numpy(zero_copy_only=False), np.float32))
    sizes = lists.value_lengths().to_pylist()
    return [part.view(-1, dimension) for part in torch.split(flat, sizes)]
