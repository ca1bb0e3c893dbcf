"""Items of a data set: each input with its id and metadata. An input is decoded when its turn comes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
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
from cocoax.inputs.base import check_elements
from cocoax.inputs.open import FILE_SUFFIXES, TABLE_SUFFIXES, each_input, read_table
from cocoax.store import digest, files_below

Scalar = str | int | float | bool | None
TableColumns = Mapping[str, Any]  # of a table, by name: lists, or columns of Arrow
Kept = TypeVar("Kept")
_WHOLE = re.compile(r"\s*[+-]?(0|[1-9][0-9]*)\s*")
_DECIMAL = re.compile(r"\s*[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")


@dataclass(frozen=True, eq=False)
class Item:
    """One input of a data set.

    Attributes:
        id: tells it from all others: the path of a file, the number of a row, or the value of a column.
        value: what the encoder takes: a file, a text, an array; or a :class:`_StoredValue`.
        columns: metadata, such as a label.
        source: where it lies, if the id does not say it: the path of a file, or the number of a row.

    """

    id: str
    value: Any
    columns: Mapping[str, Scalar] = field(default_factory=dict)
    source: str = ""

    def __post_init__(self) -> None:
        own: dict[str, Any] = {"id": escaped(self.id), "source": escaped(self.source or self.id)}
        own["columns"] = {escaped(name): escaped(value) for name, value in self.columns.items()}
        for name, value in own.items():
            object.__setattr__(self, name, value)

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: of a tensor that is part of a larger one, that part alone."""
        return {**vars(self), "value": self.value.clone() if isinstance(self.value, Tensor) else self.value}

    def load(self) -> Any:
        """Return what the encoder takes; raise if that cannot be read."""
        return self.value.load() if isinstance(self.value, _StoredValue) else self.value


@dataclass(frozen=True, eq=False)
class _StoredValue:
    """A text file, or a cell of a table: a text, the path of a file, or the bytes of one. It is read when its turn comes.

    Attributes:
        values: of all rows: a list or a column of Arrow.
        row: which of them.
        noun: what one input is called.
        folder: what paths are relative to.

    """

    values: Any
    row: int
    noun: str
    folder: Path

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: one value alone."""
        return {**vars(self), "values": [self.raw()], "row": 0}

    def raw(self) -> Any:
        """Return the stored value."""
        value = self.values[self.row]
        return value.as_py() if hasattr(value, "as_py") else value

    def load(self) -> Any:
        """Return what the encoder takes, or the bytes of a file of that."""
        value = self.raw()
        if isinstance(value, Mapping):  # how Hugging Face keeps pictures and sounds in tables
            value = value.get("path") if value.get("bytes") is None else value["bytes"]
        if self.noun == "text" and isinstance(value, bytes | Path):
            read = value if isinstance(value, bytes) else value.read_bytes()
            return read.decode(errors="replace").strip()
        if isinstance(value, str):
            return value if self.noun == "text" else self.folder / value
        if isinstance(value, int | float | bool) or value is None:
            raise ValueError(f"The table holds {value!r} here, which is no {self.noun}.")
        return value


def escaped(value: Kept) -> Kept:
    """Return a value; texts without lone surrogates (as in broken file names), which no file can hold: they are escaped."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value  # type: ignore[return-value]


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts texts as people do: 9 before 10."""
    parts = re.split(r"(\d+)", text)
    return tuple((1, int(part), part) if part.isdecimal() else (0, 0, part) for part in parts if part)


def open_items(
    inputs: Any,
    kind: Inputs,
    column: str | None = None,
    id_column: str | None = None,
    split: Split = "train",
    labels: Any = None,
) -> list[Item]:
    """Return the inputs of a data set, one item each; raise if there are none, or if two have one id.

    Args:
        inputs: a folder, the file of a table, a data frame, a data set of Hugging Face, labelled images, or any sequence.
        kind: what the encoder takes.
        column: of a table, the one that holds the inputs; may be left out where there is no other one.
        id_column: of a table, the one that tells rows apart; by default they are numbered.
        split: of a data set that has several parts.
        labels: one for each input, or a dict of columns.

    """
    if isinstance(inputs, str | Path):
        items = _of_path(Path(inputs), kind, column, id_column, split)
    elif isinstance(inputs, LabelledImages):
        items = _of_images(inputs)
    elif hasattr(inputs, "column_names") or hasattr(inputs, "iloc"):  # of Arrow, Hugging Face, pandas
        items = _of_table(_columns(inputs), kind, column, id_column, Path())
    else:
        items = _numbered(each_input(inputs, kind, column)[0])
    if labels is not None:
        items = _labelled(items, labels)
    if not items:
        named = str(inputs) if isinstance(inputs, str | Path) else "what was given"
        raise ValueError(f"There are no {kind.nouns} in {named}; nothing can be asked about.")
    twice = [name for name, count in Counter(item.id for item in items).items() if count > 1]
    if twice:
        raise ValueError(f"{len(twice)} ids occur more than once, such as {twice[0]!r}; every input needs one of its own.")
    return items


def _numbered(values: Iterable[Any]) -> list[Item]:
    return [Item(str(n), value, {}, str(value) if isinstance(value, Path) else "") for n, value in enumerate(values)]


def _labelled(items: Sequence[Item], labels: Any) -> list[Item]:
    """Return items with more columns: a list of values in the order of the items for each, whatever its own index says."""
    several = isinstance(labels, Mapping) or (hasattr(labels, "iloc") and hasattr(labels, "columns"))  # a data frame
    columns: dict[str, list[Scalar]] = {}
    for name, values in (labels if several else {"label": labels}).items():
        if isinstance(values, Mapping | Set):
            raise TypeError(f"Values of {name!r} must be a list in the order of the inputs. Got a {type(values).__name__}.")
        columns[str(name)] = [plain_value(value) for value in as_items(f"Values of {name!r}", values)]
        if (count := len(columns[str(name)])) != len(items):
            raise ValueError(f"There are {len(items)} inputs but {count} values of {name!r}; give one for each.")
    return [
        replace(item, columns={**item.columns, **{name: values[n] for name, values in columns.items()}})
        for n, item in enumerate(items)
    ]


def plain_value(value: Any) -> Scalar:
    """Return the value of a cell as a number, text or truth value: a missing one as None, any other as text."""
    value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
    if (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


# --- images and folders -----------------------------------------------------------------------------------------------


def _of_images(images: LabelledImages) -> list[Item]:
    names = images.names or map(str, range(len(images)))
    return [
        Item(name, value, {"label": images.classes[int(label)]})
        for name, value, label in zip(names, images.images, images.labels, strict=True)
    ]


def _of_path(path: Path, kind: Inputs, column: str | None, id_column: str | None, split: Split) -> list[Item]:
    if not path.exists():
        raise FileNotFoundError(f"No file or folder at {path}; check the path.")
    if path.is_file():
        if path.suffix.lower() not in TABLE_SUFFIXES:
            raise ValueError(
                f"{path} is no table; a data set is a folder, or a file ending in {', '.join(sorted(TABLE_SUFFIXES))}."
            )
        table = read_table(path)
        if path.suffix.lower() in (".csv", ".tsv"):
            table = {name: values if name == id_column else _as_numbers(values) for name, values in table.items()}
        return _of_table(table, kind, column, id_column, path.parent)
    if (path / "dataset_info.json").is_file() or (path / "dataset_dict.json").is_file():
        return _of_table(_from_hugging_face(path, split), kind, column, id_column, path)
    if kind.noun == "image" and has_layout(path):
        return _of_images(open_data(path, split))
    if kind.noun in FILE_SUFFIXES:
        files = files_below(path, FILE_SUFFIXES[kind.noun])
        if not files:
            endings = ", ".join(sorted(FILE_SUFFIXES[kind.noun]))
            raise ValueError(f"There are no {kind.nouns} in {path}; files end in {endings}.")
    else:  # a kind of a user's own says itself what a folder holds
        files = list(kind.each(path)[0])
        if not all(isinstance(file, Path) and file.is_relative_to(path) for file in files):
            return _numbered(files)
    items = []
    for file in files:  # the folder that a file lies in is its label
        below = file.relative_to(path)
        value = _StoredValue([file], 0, "text", path) if kind.noun == "text" else file
        items.append(Item(below.as_posix(), value, {"label": below.parent.name} if len(below.parts) > 1 else {}))
    return sorted(items, key=lambda item: natural_key(item.id))


# --- tables -----------------------------------------------------------------------------------------------------------


def _columns(data: Any) -> TableColumns:
    """Return the columns of a data frame, an Arrow table or a data set of Hugging Face, whose files are not decoded."""
    names = [str(name) for name in (data.columns if hasattr(data, "iloc") else data.column_names)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"There are several columns called {twice[0]!r}; give each a name of its own.")
    if hasattr(data, "iloc"):
        return {str(name): data[name].tolist() for name in data.columns}
    for name, feature in getattr(data, "features", {}).items():
        if getattr(feature, "decode", False) is True:
            data = data.cast_column(name, replace(feature, decode=False))
    table = data.with_format("arrow")[:] if hasattr(data, "with_format") else data
    return {name: table.column(name) for name in table.column_names}


def _from_hugging_face(folder: Path, split: str) -> TableColumns:
    """Return the columns of a data set of Hugging Face on disk; ``split`` is the part of one that has several."""
    try:
        from datasets import DatasetDict, load_from_disk
    except ImportError as error:
        raise ImportError("A data set of Hugging Face is read by their package: pip install datasets.") from error
    data = load_from_disk(str(folder))
    if isinstance(data, DatasetDict):
        if split not in data:
            raise ValueError(f"{folder} has no part {split!r}; it has {', '.join(data)}. Say which by split=.")
        data = data[split]
    return _columns(data)


def _of_table(table: TableColumns, kind: Inputs, column: str | None, id_column: str | None, folder: Path) -> list[Item]:
    """Return the rows of a table as items; paths in it are relative to a folder."""
    own_columns = tuple(getattr(kind, "columns", ()))
    wanted = own_columns or (_input_column(table, kind, column, id_column),)
    for name in (*wanted, *(() if id_column is None else (id_column,))):
        if name not in table:
            raise ValueError(f"There is no column {name!r}; the columns are {', '.join(table) or 'none'}.")
    count = len(table[wanted[0]])
    values: Sequence[Any] = [_StoredValue(table[wanted[0]], row, kind.noun, folder) for row in range(count)]
    sources = [str(row) for row in range(count)]
    if own_columns:
        values = [list(row) for row in zip(*(map(_number, _as_list(table[name])) for name in wanted), strict=True)]
    else:
        stored = (value.raw() for value in values)
        first = next((value for value in stored if plain_value(value) is not None), None)
        if isinstance(first, int | float | bool):
            raise ValueError(
                f"The column {wanted[0]!r} holds numbers such as {first!r}, which are no {kind.nouns}; name another "
                "by column=."
            )
        if isinstance(first, str) and kind.noun != "text":  # paths
            sources = [path if isinstance(path, str) else sources[row] for row, path in enumerate(_as_list(table[wanted[0]]))]
    ids = [str(row) for row in range(count)]
    if id_column is not None:
        names = [plain_value(name) for name in _as_list(table[id_column])]
        if None in names:
            raise ValueError(f"Row {names.index(None)} has no {id_column!r}, which tells rows apart; leave that row out.")
        ids = [str(name) for name in names]
    known = {
        name: _plain_values(own) for name, own in table.items() if name not in (*wanted, id_column) and _is_plain_column(own)
    }
    return [
        Item(ids[row], values[row], {name: own[row] for name, own in known.items()}, sources[row]) for row in range(count)
    ]


def _input_column(table: TableColumns, kind: Inputs, column: str | None, id_column: str | None) -> str:
    """Return the name of the column that holds the inputs; raise if it is not named and there are several."""
    others = [name for name in table if name != id_column]
    if column is None and len(others) != 1:
        raise ValueError(f"Say which column holds the {kind.nouns} by column=; the columns are {', '.join(table) or 'none'}.")
    return others[0] if column is None else column


def _as_list(values: Any) -> list[Any]:
    return values.to_pylist() if hasattr(values, "to_pylist") else list(values)


def _is_plain_column(values: Any) -> bool:
    """Whether a column holds numbers, texts or truth values, rather than files, lists, pictures or structures."""
    if hasattr(values, "type"):
        from pyarrow import types

        return not (types.is_nested(values.type) or types.is_binary(values.type) or types.is_large_binary(values.type))
    return not any(
        isinstance(value, Mapping | list | tuple | bytes) or getattr(value, "ndim", 0) or hasattr(value, "size")
        for value in values
    )


def _plain_values(values: Any) -> list[Scalar]:
    return [plain_value(value) for value in _as_list(values)]


def _as_numbers(values: Sequence[str | None]) -> Sequence[Any]:
    """Return a column of CSV as numbers, if all of it are; a number with a leading zero, such as 001, is a name."""
    written = [value for value in values if value is not None]
    for pattern, kind in ((_WHOLE, int), (_DECIMAL, float)):
        if written and all(map(pattern.fullmatch, written)):
            return [None if value is None else kind(value) for value in values]
    return values


def _number(value: Any) -> Any:
    """Return the number that a text holds; any other value unchanged."""
    return float(value) if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9.]+([eE][+-]?[0-9]+)?\s*", value) else value


# --- metadata and digests ----------------------------------------------------------------------------------------


def column_types(items: Sequence[Item]) -> dict[str, str]:
    """Return the type of each column that items carry, by what Arrow calls it: the narrowest that fits all values."""
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
