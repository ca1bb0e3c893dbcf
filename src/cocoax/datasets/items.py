"""Items: what a data set consists of, wherever it lies: folders, tables, data sets of Hugging Face, arrays."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from cocoax.data import open_data
from cocoax.data.labelled import LabelledImages, Split
from cocoax.data.open import has_layout
from cocoax.inputs import Inputs
from cocoax.inputs.audio import SUFFIXES as SOUNDS
from cocoax.inputs.images import SUFFIXES as PICTURES
from cocoax.inputs.kind import plural
from cocoax.storage import files_below

TEXTS = frozenset({".txt", ".md", ".rst"})
TABLES = frozenset({".parquet", ".arrow", ".feather", ".csv", ".tsv", ".jsonl", ".ndjson"})
FILES = {"image": PICTURES, "sound": SOUNDS, "text": TEXTS}  # by what the kind of input calls one
COLUMNS = ("text", "image", "audio", "sound", "path", "file", "file_name", "content", "sentence")  # usual names
Scalar = str | int | float | bool | None


@dataclass(frozen=True, eq=False)
class Item:
    """One input of a data set.

    Attributes:
        id: what tells it from all others: a path, the number of a row, or what a column says.
        value: what the encoder takes: a file, a text, an array.
        columns: what is known about it, such as a label.

    """

    id: str
    value: Any
    columns: Mapping[str, Scalar] = field(default_factory=dict)

    def load(self) -> Any:
        """Return what the encoder takes, of a table's cell what it holds."""
        return self.value.load() if isinstance(self.value, Cell) else self.value


@dataclass(frozen=True)
class Reading:
    """How a data set is read.

    Attributes:
        column: of a table, the one that holds the inputs; by default the one with a usual name.
        id_column: the one that tells rows apart; by default they are numbered.
        split: of a data set that has several parts.

    """

    column: str | None = None
    id_column: str | None = None
    split: Split = "train"


def open_items(inputs: Any, kind: Inputs, reading: Reading, labels: Any = None) -> list[Item]:
    """Return the inputs of a data set, one item each; raise if there are none, or if two have one id.

    ``inputs`` is a folder, the file of a table, a data frame, labelled images, or any sequence of inputs; ``kind`` is what
    the encoder takes. ``labels`` are one for each input, or a dict of columns.
    """
    if isinstance(inputs, str | Path):
        items = _of_path(Path(inputs), kind, reading)
    elif isinstance(inputs, LabelledImages):
        items = _of_images(inputs)
    elif hasattr(inputs, "column_names") or hasattr(inputs, "columns"):  # of Hugging Face, pandas
        items = _of_table(_frame_rows(inputs), list(_names(inputs)), kind, reading, Path())
    else:
        items = _numbered(kind.each(inputs)[0])
    if labels is not None:
        items = _labelled(items, labels)
    if not items:
        raise ValueError(f"There are no {plural(kind.noun)} in {_said(inputs)}; nothing can be asked about.")
    twice = [name for name, count in Counter(item.id for item in items).items() if count > 1]
    if twice:
        raise ValueError(f"{len(twice)} ids occur more than once, such as {twice[0]!r}; every input needs one of its own.")
    return items


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts texts as people do: 9 before 10."""
    parts = re.split(r"(\d+)", text)
    return tuple((1, int(part), part) if part.isdecimal() else (0, 0, part) for part in parts if part)


def _said(inputs: Any) -> str:
    return str(inputs) if isinstance(inputs, str | Path) else "what was given"


def _numbered(values: Iterable[Any]) -> list[Item]:
    return [Item(str(number), value) for number, value in enumerate(values)]


def _labelled(items: Sequence[Item], labels: Any) -> list[Item]:
    """Return items with more columns."""
    columns = labels if isinstance(labels, Mapping) else {"label": labels}
    for name, values in columns.items():
        if len(values) != len(items):
            raise ValueError(f"There are {len(items)} inputs but {len(values)} values of {name!r}; give one for each.")
    return [
        Item(item.id, item.value, {**item.columns, **{name: plain(values[n]) for name, values in columns.items()}})
        for n, item in enumerate(items)
    ]


def plain(value: Any) -> Scalar:
    """Return a value of a column as Python has it; what is no number, text or truth value is told in words."""
    value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


# --- images and folders -----------------------------------------------------------------------------------------------


def _of_images(images: LabelledImages) -> list[Item]:
    values = images.images
    paths = [Path(value) for value in values] if all(isinstance(value, str | Path) for value in values) else None
    names = [str(number) for number in range(len(values))]
    if paths:
        above = Path(*_common([path.parent.parts for path in paths]))
        names = [path.relative_to(above).as_posix() for path in paths]
    return [
        Item(name, value, {"label": images.classes[int(label)]})
        for name, value, label in zip(names, values, images.labels, strict=True)
    ]


def _common(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    shared = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return tuple(shared)


def _of_path(path: Path, kind: Inputs, reading: Reading) -> list[Item]:
    if not path.exists():
        raise FileNotFoundError(f"No file or folder at {path}; check the path.")
    if path.is_file():
        if path.suffix.lower() not in TABLES:
            raise ValueError(f"{path} is no table; a data set is a folder, or a file ending in {', '.join(sorted(TABLES))}.")
        rows, names = _read_table(path, reading.id_column)
        return _of_table(rows, names, kind, reading, path.parent)
    if (path / "dataset_info.json").is_file() or (path / "dataset_dict.json").is_file():
        return _of_hugging_face(path, kind, reading)
    if kind.noun == "image" and has_layout(path):
        return _of_images(open_data(path, reading.split))
    return _of_folder(path, kind)


def _of_folder(folder: Path, kind: Inputs) -> list[Item]:
    """Return the files of the kind that the encoder takes; the folder that a file lies in is its label."""
    if kind.noun not in FILES:  # a kind of a user's own says itself what a folder holds
        values = list(kind.each(folder)[0])
        if not all(isinstance(value, Path) and value.is_relative_to(folder) for value in values):
            return _numbered(values)
        return sorted((_in_folder(path, folder, path) for path in values), key=lambda item: natural(item.id))
    suffixes = FILES[kind.noun]
    files = files_below(folder, suffixes)
    if not files:
        raise ValueError(f"There are no {plural(kind.noun)} in {folder}; files end in {', '.join(sorted(suffixes))}.")
    texts = kind.noun == "text"
    items = [
        _in_folder(path, folder, path.read_text(encoding="utf-8", errors="replace").strip() if texts else path)
        for path in files
    ]
    return sorted(items, key=lambda item: natural(item.id))


def _in_folder(path: Path, folder: Path, value: Any) -> Item:
    """Return the item of a file; the folder that it lies in is its label."""
    below = path.relative_to(folder)
    return Item(below.as_posix(), value, {"label": below.parent.name} if len(below.parts) > 1 else {})


# --- tables -----------------------------------------------------------------------------------------------------------


def _read_table(path: Path, id_column: str | None) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of a file, and the names of its columns; ids are taken as they are written."""
    suffix = path.suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        rows = []
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if line.strip():
                try:
                    row = json.loads(line)
                except ValueError as error:
                    raise ValueError(f"Line {number} of {path} is no JSON: {error}.") from error
                if not isinstance(row, dict):
                    raise ValueError(f"Line {number} of {path} is no JSON object; write one per line.")
                rows.append(row)
        return rows, list(dict.fromkeys(name for row in rows for name in row))
    import pyarrow.csv
    import pyarrow.dataset

    try:
        if suffix in (".csv", ".tsv"):
            options = pyarrow.csv.ParseOptions(delimiter="\t" if suffix == ".tsv" else ",", newlines_in_values=True)
            types = {} if id_column is None else {id_column: pyarrow.string()}
            kept = pyarrow.csv.ConvertOptions(column_types=types)
            table = pyarrow.csv.read_csv(path, parse_options=options, convert_options=kept)
        else:
            kind = {".parquet": "parquet"}.get(suffix, "ipc")
            table = pyarrow.dataset.dataset(str(path), format=kind).to_table()
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path} cannot be read as a table: {error}.") from error
    return table.to_pylist(), table.column_names


def _names(frame: Any) -> Iterable[str]:
    return map(str, frame.column_names if hasattr(frame, "column_names") else frame.columns)


def _frame_rows(frame: Any) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a data frame, an Arrow table or a data set of Hugging Face."""
    if hasattr(frame, "to_pylist"):
        return list(frame.to_pylist())
    if hasattr(frame, "to_dict") and hasattr(frame, "iloc"):
        return list(frame.to_dict("records"))
    return frame  # type: ignore[no-any-return]


def _of_hugging_face(folder: Path, kind: Inputs, reading: Reading) -> list[Item]:
    try:
        from datasets import DatasetDict, load_from_disk
    except ImportError as error:
        raise ImportError("A data set of Hugging Face is read by their package: pip install datasets.") from error
    data = load_from_disk(str(folder))
    if isinstance(data, DatasetDict):
        if reading.split not in data:
            raise ValueError(f"{folder} has no part {reading.split!r}; it has {', '.join(data)}. Say which by split=.")
        data = data[reading.split]
    return _of_table(data, data.column_names, kind, reading, folder)


def _of_table(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], kind: Inputs, reading: Reading, folder: Path
) -> list[Item]:
    """Return the rows of a table as items; paths in it are relative to a folder."""
    column = _column(names, kind, reading.column)
    if reading.id_column is not None and reading.id_column not in names:
        raise ValueError(f"There is no column {reading.id_column!r}; the columns are {', '.join(names)}.")
    light = rows
    if hasattr(rows, "select_columns"):  # of Hugging Face: pictures in it are decoded when their turn comes
        light = rows.select_columns([name for name in names if name != column])
    items = []
    for number, row in enumerate(light):
        name = str(number) if reading.id_column is None else str(row[reading.id_column])
        rest = {key: plain(value) for key, value in row.items() if key not in (column, reading.id_column) and _carried(value)}
        items.append(Item(name, Cell(rows, number, column, kind.noun, folder), rest))
    if items and isinstance(items[0].value.raw(), int | float | bool):
        raise ValueError(
            f"The column {column!r} holds numbers such as {items[0].value.raw()!r}, which are no {plural(kind.noun)}; name "
            "another by column=."
        )
    return items


@dataclass(frozen=True, eq=False)
class Cell:
    """An input in a table, read when its turn comes: a text, the path of a file, or a picture that the table holds."""

    rows: Any
    number: int
    column: str
    noun: str
    folder: Path

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: one row alone of a list of them."""
        if isinstance(self.rows, list):
            return {**vars(self), "rows": [self.rows[self.number]], "number": 0}
        return dict(vars(self))

    def raw(self) -> Any:
        """Return what the table has there."""
        return self.rows[self.number].get(self.column)

    def load(self) -> Any:
        """Return what the encoder takes."""
        value = self.raw()
        if isinstance(value, Mapping) and value.get("bytes") is not None:  # how Hugging Face keeps pictures in tables
            value = Image.open(io.BytesIO(value["bytes"]))
            value.load()
        elif isinstance(value, Mapping) and value.get("path") is not None:
            value = value["path"]
        if isinstance(value, str):
            return value if self.noun == "text" else self.folder / value
        if isinstance(value, int | float | bool) or value is None:
            raise ValueError(f"The column {self.column!r} holds {value!r} here, which is no {self.noun}.")
        return value


def _column(names: Sequence[str], kind: Inputs, asked: str | None) -> str:
    """Return the name of the column that holds the inputs."""
    if asked is not None:
        if asked not in names:
            raise ValueError(f"There is no column {asked!r}; the columns are {', '.join(names) or 'none'}.")
        return asked
    usual = [name for name in (kind.noun, *COLUMNS) if name in names]
    if not usual and len(names) != 1:
        raise ValueError(
            f"Say which column holds the {plural(kind.noun)} by column=; the columns are {', '.join(names) or 'none'}."
        )
    return usual[0] if usual else names[0]


def _carried(value: Any) -> bool:
    """Whether a value of a table tells something in a word: no lists, pictures, or structures."""
    return (
        not isinstance(value, Mapping | list | tuple | bytes)
        and getattr(value, "ndim", 0) == 0
        and not hasattr(value, "size")
    )


def column_types(items: Sequence[Item]) -> dict[str, str]:
    """Return the type of each column that items carry, by what Arrow calls it: the widest that all values have."""
    kinds: dict[str, set[str]] = {}
    for item in items:
        for name, value in item.columns.items():
            kinds.setdefault(name, set()).update(() if value is None else (_type(value),))
    return {name: _widest(types) for name, types in sorted(kinds.items())}


def _type(value: Scalar) -> str:
    return {bool: "bool", int: "int64", float: "double"}.get(type(value), "string")


def _widest(types: set[str]) -> str:
    if len(types) == 1:
        return next(iter(types))
    return "double" if types == {"int64", "double"} else "string"
