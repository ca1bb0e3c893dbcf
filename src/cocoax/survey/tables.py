"""Tables: files, data frames and data sets of Hugging Face, read in the same way; nothing in them is decoded."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

SUFFIXES = frozenset({".parquet", ".arrow", ".feather", ".csv", ".tsv", ".jsonl", ".ndjson"})


@dataclass(frozen=True, eq=False)
class Table:
    """A table, whatever holds it.

    Attributes:
        names: of its columns.
        values: gives those of a column, to be asked for one by one.
        rows: gives its rows, without a column if one is named; one that cannot be read is what is wrong with it.

    """

    names: Sequence[str]
    values: Callable[[str], Any]
    rows: Callable[[str | None], Iterable[Mapping[str, Any] | ValueError]]

    @classmethod
    def of(cls, frame: Any) -> Table:
        """Return a data frame, an Arrow table or a data set of Hugging Face as a table; raise if two columns share a name."""
        names = [str(name) for name in (frame.columns if hasattr(frame, "iloc") else frame.column_names)]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise ValueError(f"There are several columns called {twice[0]!r}; give each a name of its own.")
        if hasattr(frame, "to_pylist"):
            return cls._of_arrow(frame)
        if hasattr(frame, "iloc"):
            return cls.of_rows([{str(name): value for name, value in row.items()} for row in frame.to_dict("records")])
        return cls._of_hugging_face(frame)

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any] | ValueError]) -> Table:
        """Return rows that are in memory as a table."""
        names = list(dict.fromkeys(name for row in rows if isinstance(row, Mapping) for name in row))
        return cls(
            names, lambda name: [row.get(name) if isinstance(row, Mapping) else None for row in rows], lambda _column: rows
        )

    @classmethod
    def _of_arrow(cls, table: Any) -> Table:
        def rows(without: str | None) -> Iterator[Mapping[str, Any]]:
            names = [name for name in table.column_names if name != without]
            for start in range(0, len(table), 4096):
                part = table.slice(start, 4096)
                yield from part.select(names).to_pylist() if names else [{}] * len(part)

        return cls(table.column_names, table.column, rows)

    @classmethod
    def _of_hugging_face(cls, data: Any) -> Table:
        """Return a data set of Hugging Face, of which pictures and sounds are taken as files, not decoded."""
        for name, feature in data.features.items():
            if getattr(feature, "decode", False) is True:
                data = data.cast_column(name, replace(feature, decode=False))

        def rows(without: str | None) -> Iterable[Mapping[str, Any]]:
            names = [name for name in data.column_names if name != without]
            return data.select_columns(names) if names else [{}] * len(data)

        return cls(data.column_names, lambda name: _OfHuggingFace(data.select_columns([name]), name), rows)


@dataclass(frozen=True, eq=False)
class _OfHuggingFace:
    """A column of a data set of Hugging Face."""

    data: Any
    name: str

    def __getitem__(self, number: int) -> Any:
        return self.data[number][self.name]


def read_table(path: Path, id_column: str | None, numbers: Sequence[str] = ()) -> Table:
    """Return a table in a file; ids are taken as they are written, and in CSV columns with leading zeros but ``numbers``."""
    suffix = path.suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        lines = enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), 1)
        return Table.of_rows([_json_row(line, f"Line {number} of {path}") for number, line in lines if line.strip()])
    import pyarrow.csv
    import pyarrow.dataset

    try:
        if suffix in (".csv", ".tsv"):
            options = pyarrow.csv.ParseOptions(delimiter="\t" if suffix == ".tsv" else ",", newlines_in_values=True)
            return Table.of(_read_csv(path, options, [] if id_column is None else [id_column], numbers))
        kind = {".parquet": "parquet"}.get(suffix, "ipc")
        return Table.of(pyarrow.dataset.dataset(str(path), format=kind).to_table())
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path} cannot be read as a table: {error}.") from error


def _read_csv(path: Path, options: Any, texts: Sequence[str], numbers: Sequence[str]) -> Any:
    """Return a table of CSV as Arrow has it; some columns as texts, and those too in which a number has a leading zero."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow.csv import ConvertOptions, read_csv

    kept = ConvertOptions(column_types={name: pa.string() for name in texts})
    table = read_csv(path, parse_options=options, convert_options=kept)
    names = [
        field.name
        for field in table.schema
        if (pa.types.is_integer(field.type) or pa.types.is_floating(field.type)) and field.name not in numbers
    ]
    if names and len({*table.column_names}) == len(table.column_names):
        kept = ConvertOptions(column_types={name: pa.string() for name in names}, include_columns=names)
        written = read_csv(path, parse_options=options, convert_options=kept)
        for name in names:
            if pc.any(pc.match_substring_regex(written[name], r"^\s*[+-]?0[0-9]")).as_py():  # 001 is a name, and not 1
                table = table.set_column(table.column_names.index(name), name, written[name])
    return _without_empty(table)


def _without_empty(table: Any) -> Any:
    """Return a table that was read from text, in which empty cells are missing, of texts as of numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            column = table.column(place)
            table = table.set_column(place, field, pc.if_else(pc.equal(column, ""), None, column))
    return table


def _json_row(line: str, called: str) -> dict[str, Any] | ValueError:
    try:
        row = json.loads(line)
    except ValueError as error:
        return ValueError(f"{called} is no JSON: {error}.")
    return row if isinstance(row, dict) else ValueError(f"{called} is no JSON object; write one per line.")


def read_hugging_face(folder: Path, split: str) -> Table:
    """Return a data set of Hugging Face on disk; ``split`` is the part of one that has several."""
    try:
        from datasets import DatasetDict, load_from_disk
    except ImportError as error:
        raise ImportError("A data set of Hugging Face is read by their package: pip install datasets.") from error
    data = load_from_disk(str(folder))
    if isinstance(data, DatasetDict):
        if split not in data:
            raise ValueError(f"{folder} has no part {split!r}; it has {', '.join(data)}. Say which by split=.")
        data = data[split]
    return Table.of(data)
