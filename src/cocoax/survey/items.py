"""Items: what a data set consists of, wherever it lies: folders, tables, data sets of Hugging Face, arrays."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from cocoax.checks import as_items
from cocoax.data import open_data
from cocoax.data.labelled import LabelledImages, Split
from cocoax.data.open import has_layout
from cocoax.inputs import Inputs
from cocoax.inputs.audio import SUFFIXES as SOUNDS
from cocoax.inputs.base import plural
from cocoax.inputs.image_files import SUFFIXES as PICTURES
from cocoax.store import files_below
from cocoax.survey.tables import SUFFIXES as TABLES
from cocoax.survey.tables import Table, read_hugging_face, read_table

TEXTS = frozenset({".txt", ".md", ".rst"})
FILES = {"image": PICTURES, "sound": SOUNDS, "text": TEXTS}  # by what the kind of input calls one
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
        return self.value.load() if isinstance(self.value, Later) else self.value


Kept = TypeVar("Kept")


def storable(value: Kept) -> Kept:
    """Return a value; texts without what no file can hold (halves of letters, as in broken file names), which are escaped."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value  # type: ignore[return-value]


class Later(ABC):
    """A value that is read when its turn comes, so that what is wrong with it is told there."""

    @abstractmethod
    def load(self) -> Any:
        """Return what the encoder takes, or the bytes of a file of that."""


@dataclass(frozen=True)
class TextFile(Later):
    """A text in a file."""

    path: Path

    def load(self) -> str:
        """Return the text."""
        return self.path.read_text(encoding="utf-8", errors="replace").strip()


@dataclass(frozen=True)
class Broken(Later):
    """A row of a table that cannot be read."""

    why: str

    def load(self) -> Any:
        """Raise, saying why."""
        raise ValueError(self.why)


@dataclass(frozen=True, eq=False)
class Cell(Later):
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
        if path.suffix.lower() not in TABLES:
            raise ValueError(f"{path} is no table; a data set is a folder, or a file ending in {', '.join(sorted(TABLES))}.")
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
        return Item(f"row {number}", Broken(str(row)))
    rest = {name: plain(own) for name, own in row.items() if name not in (*columns, reading.id_column) and _carried(own)}
    if reading.id_column is None:
        return Item(str(number), value, rest)
    name = plain(row.get(reading.id_column))
    if name is None:
        return Item(f"row {number}", Broken(f"It has no {reading.id_column!r}, which tells rows apart."), rest, str(number))
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
