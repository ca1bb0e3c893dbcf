"""Tables: files, data frames and data sets of Hugging Face, read in the same way; nothing in them is decoded."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from cocoax.checks import as_items
from cocoax.data import open_data
from cocoax.data.labelled import LabelledImages, Split
from cocoax.data.readers import has_layout
from cocoax.encoders import Encoder
from cocoax.inputs import Inputs
from cocoax.inputs.base import check_elements, plural
from cocoax.inputs.image import SUFFIXES as PICTURES
from cocoax.inputs.open import TABLE_SUFFIXES, TEXT_SUFFIXES
from cocoax.inputs.sound import SUFFIXES as SOUNDS
from cocoax.store import digest, files_below


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

    for place, entry in enumerate(table.schema):
        if pa.types.is_string(entry.type):
            column = table.column(place)
            table = table.set_column(place, entry, pc.if_else(pc.equal(column, ""), None, column))
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


# --- items ------------------------------------------------------------------------------------------------------------------

FILES = {"image": PICTURES, "sound": SOUNDS, "text": TEXT_SUFFIXES}  # by what the kind of input calls one
COLUMNS = ("text", "image", "audio", "sound", "path", "file", "file_name", "content", "sentence")  # usual names
Scalar = str | int | float | bool | None


@dataclass(frozen=True, eq=False)
class Item:
    """One input of a data set.

    Attributes:
        id: what tells it from all others: a path, the number of a row, or what a column says.
        value: what the encoder takes: a file, a text, an array; or what gives it when its turn comes.
        columns: what is known about it, such as a label.
        source: where it lies, if the id does not say it: the path of a file, or the number of a row.

    """

    id: str
    value: Any
    columns: Mapping[str, Scalar] = field(default_factory=dict)
    source: str = ""

    def __post_init__(self) -> None:
        own: dict[str, Any] = {"id": storable(self.id), "source": storable(self.source or self.id)}
        own["columns"] = {storable(name): storable(value) for name, value in self.columns.items()}
        for name, value in own.items():
            object.__setattr__(self, name, value)

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: of a tensor that is part of a larger one, that part alone."""
        return {**vars(self), "value": self.value.clone() if isinstance(self.value, Tensor) else self.value}

    def load(self) -> Any:
        """Return what the encoder takes; raise if that cannot be read."""
        return self.value.load() if isinstance(self.value, LazyValue) else self.value


Kept = TypeVar("Kept")


def storable(value: Kept) -> Kept:
    """Return a value; texts without what no file can hold (halves of letters, as in broken file names), which are escaped."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value  # type: ignore[return-value]


class LazyValue(ABC):
    """A value that is read when its turn comes, so that what is wrong with it is told there."""

    @abstractmethod
    def load(self) -> Any:
        """Return what the encoder takes, or the bytes of a file of that."""


@dataclass(frozen=True)
class TextFile(LazyValue):
    """A text in a file."""

    path: Path

    def load(self) -> str:
        """Return the text."""
        return self.path.read_text(encoding="utf-8", errors="replace").strip()


@dataclass(frozen=True)
class UnreadableRow(LazyValue):
    """A row of a table that cannot be read."""

    why: str

    def load(self) -> Any:
        """Raise, saying why."""
        raise ValueError(self.why)


@dataclass(frozen=True, eq=False)
class Cell(LazyValue):
    """An input in a table: a text, the path of a file, or the bytes of one.

    Attributes:
        values: all that are in the column: a list, a column of Arrow, or one of Hugging Face.
        number: of the row.
        column: what it is called.
        noun: what one input is called.
        folder: what paths are relative to.

    """

    values: Any
    number: int
    column: str
    noun: str
    folder: Path

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: one value alone."""
        return {**vars(self), "values": [self.raw()], "number": 0}

    def raw(self) -> Any:
        """Return what the table has there."""
        value = self.values[self.number]
        return value.as_py() if hasattr(value, "as_py") else value

    def load(self) -> Any:
        """Return what the encoder takes, or the bytes of a file of that."""
        value = self.raw()
        if isinstance(value, Mapping):  # how Hugging Face keeps pictures and sounds in tables
            value = value.get("path") if value.get("bytes") is None else value["bytes"]
        if isinstance(value, bytes) and self.noun == "text":
            return value.decode(errors="replace")
        if isinstance(value, str):
            return value if self.noun == "text" else self.folder / value
        if isinstance(value, int | float | bool) or value is None:
            raise ValueError(f"The column {self.column!r} holds {value!r} here, which is no {self.noun}.")
        return value


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
    elif hasattr(inputs, "column_names") or hasattr(inputs, "columns"):  # of Arrow, Hugging Face, pandas
        items = _of_table(Table.of(inputs), kind, reading, Path())
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
    return [
        Item(str(number), value, {}, str(value) if isinstance(value, Path) else "") for number, value in enumerate(values)
    ]


def _labelled(items: Sequence[Item], labels: Any) -> list[Item]:
    """Return items with more columns: a list of values in the order of the items for each, whatever its own index says."""
    several = isinstance(labels, Mapping) or (hasattr(labels, "iloc") and hasattr(labels, "columns"))  # a data frame
    columns: dict[str, list[Scalar]] = {}
    for name, values in (labels if several else {"label": labels}).items():
        if isinstance(values, Mapping | Set):
            raise TypeError(f"Values of {name!r} must be a list in the order of the inputs. Got a {type(values).__name__}.")
        columns[str(name)] = [plain(value) for value in as_items(f"Values of {name!r}", values)]
        if len(columns[str(name)]) != len(items):
            many = len(columns[str(name)])
            raise ValueError(f"There are {len(items)} inputs but {many} values of {name!r}; give one for each.")
    return [
        replace(item, columns={**item.columns, **{name: values[n] for name, values in columns.items()}})
        for n, item in enumerate(items)
    ]


def plain(value: Any) -> Scalar:
    """Return a value of a column as Python has it; what is no number, text or truth value is told in words.

    What stands for a missing value (NaN, and the NA and NaT of pandas) is None.
    """
    value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
    if (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType"):
        return None
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
        if path.suffix.lower() not in TABLE_SUFFIXES:
            raise ValueError(
                f"{path} is no table; a data set is a folder, or a file ending in {', '.join(sorted(TABLE_SUFFIXES))}."
            )
        return _of_table(read_table(path, reading.id_column, getattr(kind, "columns", ())), kind, reading, path.parent)
    if (path / "dataset_info.json").is_file() or (path / "dataset_dict.json").is_file():
        return _of_table(read_hugging_face(path, reading.split), kind, reading, path)
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
    items = [_in_folder(path, folder, TextFile(path) if texts else path) for path in files]
    return sorted(items, key=lambda item: natural(item.id))


def _in_folder(path: Path, folder: Path, value: Any) -> Item:
    """Return the item of a file; the folder that it lies in is its label."""
    below = path.relative_to(folder)
    return Item(below.as_posix(), value, {"label": below.parent.name} if len(below.parts) > 1 else {})


# --- tables -----------------------------------------------------------------------------------------------------------


def _of_table(table: Table, kind: Inputs, reading: Reading, folder: Path) -> list[Item]:
    """Return the rows of a table as items; paths in it are relative to a folder."""
    if reading.id_column is not None and reading.id_column not in table.names:
        raise ValueError(f"There is no column {reading.id_column!r}; the columns are {', '.join(table.names)}.")
    if getattr(kind, "columns", ()):
        return _of_columns(table, kind.columns, reading)  # type: ignore[attr-defined]
    column = _column(table.names, kind, reading.column)
    values, rows = table.values(column), list(table.rows(column))
    cells = [Cell(values, number, column, kind.noun, folder) for number in range(len(rows))]
    first = next((value for value in (cell.raw() for cell in cells) if plain(value) is not None), None)
    if isinstance(first, int | float | bool):
        raise ValueError(
            f"The column {column!r} holds numbers such as {first!r}, which are no {plural(kind.noun)}; name another by "
            "column=."
        )
    items = []
    for number, (row, cell) in enumerate(zip(rows, cells, strict=True)):
        known = {**row, column: cell.raw()} if column == reading.id_column and isinstance(row, Mapping) else row
        item = _of_row(number, known, cell, (column,), reading)
        path = cell.raw() if isinstance(first, str) and kind.noun != "text" else None
        items.append(replace(item, source=path) if isinstance(path, str) else item)
    return items


def _of_columns(table: Table, columns: Sequence[str], reading: Reading) -> list[Item]:
    """Return the rows of a table for an encoder that takes these columns of it."""
    missing = [name for name in columns if name not in table.names]
    if missing:
        raise ValueError(f"There is no column {missing[0]!r}; the columns are {', '.join(table.names)}.")
    return [
        _of_row(n, row, [row.get(name) for name in columns] if isinstance(row, Mapping) else None, columns, reading)
        for n, row in enumerate(table.rows(None))
    ]


def _of_row(number: int, row: Mapping[str, Any] | ValueError, value: Any, columns: Sequence[str], reading: Reading) -> Item:
    """Return the item of a row, whose value is in ``columns``; a row that cannot be read, or has no id, is one that fails."""
    if isinstance(row, ValueError):
        return Item(f"row {number}", UnreadableRow(str(row)))
    rest = {name: plain(own) for name, own in row.items() if name not in (*columns, reading.id_column) and _carried(own)}
    if reading.id_column is None:
        return Item(str(number), value, rest)
    name = plain(row.get(reading.id_column))
    if name is None:
        value = UnreadableRow(f"It has no {reading.id_column!r}, which tells rows apart.")
        return Item(f"row {number}", value, rest, str(number))
    return Item(str(name), value, rest, str(number))


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
    if type(value) is int and not -(2**63) <= value < 2**63:
        return "string"
    return {bool: "bool", int: "int64", float: "double"}.get(type(value), "string")


def _widest(types: set[str]) -> str:
    if len(types) == 1:
        return next(iter(types))
    return "double" if types == {"int64", "double"} else "string"


def content_digest(encoder: Encoder, item: Item) -> str:
    """Return a digest of an input's content; empty if it cannot be read."""
    try:
        return value_digest(encoder, item.load())
    except Exception:
        return ""


def value_digest(encoder: Encoder, value: Any) -> str:
    """Return a digest of what the encoder takes, or of the bytes of a file of that."""
    check_elements(value)
    return digest(value) if isinstance(value, bytes) else encoder.inputs.digest(value)
