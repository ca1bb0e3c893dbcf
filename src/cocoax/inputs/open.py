"""One way in: what a user names or holds becomes inputs, in Python and in every command.

A name is a text, a file, a folder, a pattern such as ``photos/*.jpg``, a table of which a column is named, or a text file
with one input a line. An object is what a kind of input takes, or what training loops hold: data loaders, data sets, batches.
"""

from __future__ import annotations

import csv
import glob
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from cocoax.checks import import_optional
from cocoax.inputs.base import Inputs
from cocoax.inputs.image import SUFFIXES as PICTURES
from cocoax.inputs.image import image_files
from cocoax.inputs.sound import SUFFIXES as SOUNDS
from cocoax.store import files_below, readable

_TEXT_SUFFIXES = frozenset({".txt", ".md", ".rst"})
TABLE_SUFFIXES = frozenset({".parquet", ".arrow", ".feather", ".csv", ".tsv", ".jsonl", ".ndjson"})
FILE_SUFFIXES = {"image": PICTURES, "sound": SOUNDS, "text": _TEXT_SUFFIXES}  # by what a kind of input calls one

# --- what users name ------------------------------------------------------------------------------------------------------


def open_input(name: str) -> str | Path:
    """Return the one input that a name stands for: a text, or the path of a picture or a sound.

    The name of a text file is the text in it, ``-`` is the text of standard input, and what names no file is a text itself.
    """
    text = sys.stdin.read() if name == "-" else name
    if os.path.isdir(text):  # a Path raises where the text is long
        raise ValueError(f"{text} is a folder; name one file of it. If it is meant as a text, write more words.")
    if _names_file(text, PICTURES | SOUNDS):
        return _existing(text)
    if _names_file(text, _TEXT_SUFFIXES):
        text = _existing(text).read_text(encoding="utf-8")
    if not text.strip():
        raise ValueError("The text is empty; write at least one word.")
    return text if text == name else text.strip()


def open_inputs(name: str | Path, column: str | None = None, noun: str | None = None) -> list[str | Path]:
    """Return the inputs that a name stands for: texts, and paths of pictures and sounds.

    A folder stands for its files of the kind that ``noun`` says (``"text"``, ``"sound"`` or ``"image"``), by default its
    texts, or else its sounds, or else its pictures; a pattern (``photos/*.jpg``) for the files that match; a table for the
    values of ``column``; a text file for its lines; what names no file is a text itself.
    """
    text = str(name)
    if os.path.isdir(text):
        return _in_folder(Path(text), noun)
    if _names_file(text, TABLE_SUFFIXES):
        return _column(_existing(text), column)
    if column is not None:
        raise ValueError(f"A column is one of a table ({', '.join(sorted(TABLE_SUFFIXES))}), and {text} is none.")
    if _names_file(text, PICTURES | SOUNDS):
        return [_existing(text)] if "*" not in text else _matching(text)
    if os.path.isfile(text) or isinstance(name, Path) or _names_file(text, _TEXT_SUFFIXES):
        return _matching(text) if "*" in text else [*read_lines(_existing(text))]
    return _matching(text) if "*" in text and " " not in text else [open_input(text)]


def names_file(name: str, suffixes: Iterable[str] = PICTURES) -> bool:
    """Return whether words name a file: one that exists, or any with such an ending."""
    return os.path.isfile(name) or _names_file(name, suffixes)


def read_lines(file: Path) -> list[str]:
    """Return the lines of a text file that are not empty; raise if there are none."""
    if not file.is_file():
        raise FileNotFoundError(f"No file at {file}; check the path.")
    with readable(file, "texts, one per line"):
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{file} holds no texts; write one per line.")
    return lines


def _names_file(name: str, suffixes: Iterable[str]) -> bool:
    """Return whether words end as such files do; a text that happens to end so has spaces, and is no file."""
    return Path(name).suffix.lower() in suffixes and (" " not in name or os.path.isfile(name))


def _existing(name: str) -> Path:
    if not os.path.isfile(name):
        raise FileNotFoundError(f"No file at {name}; check the path.")
    return Path(name)


def _in_folder(folder: Path, noun: str | None) -> list[str | Path]:
    found: list[str | Path] = []
    if noun in (None, "text"):
        texts = (path.read_text(encoding="utf-8", errors="replace").strip() for path in files_below(folder, _TEXT_SUFFIXES))
        found += [text for text in texts if text]
    if noun == "sound" or (noun is None and not found):
        found += files_below(folder, SOUNDS)
    if noun == "text" and not found:
        raise ValueError(f"No texts below {folder}; expected files such as {', '.join(sorted(_TEXT_SUFFIXES))}.")
    return found or [*image_files(folder)]


def _matching(pattern: str) -> list[str | Path]:
    """Return the inputs in the files that match a pattern."""
    files = sorted(file for file in glob.glob(pattern, recursive=True) if os.path.isfile(file))
    if not files:
        raise FileNotFoundError(f"No file matches {pattern}; check the path.")
    return [open_input(file) for file in files]


def _column(file: Path, column: str | None) -> list[str | Path]:
    """Return the values of a column of a table: texts, or paths, relative to the table's folder, of pictures and sounds."""
    table = read_table(file)
    names = ", ".join(table) or "none"
    if column is None and len(table) != 1:
        raise ValueError(f"{file} is a table; say which column holds the inputs. The columns are {names}.")
    column = next(iter(table)) if column is None else column
    if column not in table:
        raise ValueError(f"{file} has no column {column!r}; the columns are {names}.")
    values = table[column].to_pylist() if hasattr(table[column], "to_pylist") else table[column]
    if not values:
        raise ValueError(f"{file} has no rows; there is nothing in it.")
    for row, value in enumerate(values):
        if value is None or not str(value).strip():
            raise ValueError(f"Row {row} of {file} has nothing in the column {column!r}; leave that row out of the file.")
        if not isinstance(value, str):
            raise ValueError(f"The column {column!r} of {file} holds {type(value).__name__}, not texts or paths of files.")
    if all(_names_file(value, PICTURES | SOUNDS) for value in values):
        return [file.parent / value for value in values]
    return list(values)


def read_table(file: Path) -> dict[str, Any]:
    """Return the columns of a table by name: columns of Arrow, or lists. CSV holds texts, and None where a cell is empty."""
    suffix = file.suffix.lower()
    with readable(file, "a table"):
        if suffix in (".csv", ".tsv"):
            with file.open(newline="", encoding="utf-8-sig") as text:
                names, *cells = [*csv.reader(text, delimiter="\t" if suffix == ".tsv" else ",")] or [[]]
            _check_names(names)
            if long := next((number for number, row in enumerate(cells, 2) if len(row) > len(names)), None):
                raise ValueError(f"row {long} has {len(cells[long - 2])} cells for {len(names)} columns")
            filled = [[*row, *[""] * (len(names) - len(row))] for row in cells if row]
            return {name: [row[place] or None for row in filled] for place, name in enumerate(names)}
        if suffix in (".jsonl", ".ndjson"):
            lines = enumerate(file.read_text(encoding="utf-8").split("\n"), 1)
            rows = [_json_row(number, line) for number, line in lines if line.strip()]
            every = dict.fromkeys(name for row in rows for name in row)
            return {name: [row.get(name) for row in rows] for name in every}
        dataset = import_optional("pyarrow.dataset", f"{file} needs", "datasets")
        table = dataset.dataset(file, format="parquet" if suffix == ".parquet" else "ipc").to_table()
        _check_names(table.column_names)
        return {name: table.column(name) for name in table.column_names}


def _check_names(names: Sequence[str]) -> None:
    if twice := next((name for name, count in Counter(names).items() if count > 1), None):
        raise ValueError(f"several columns are called {twice!r}")


def _json_row(number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ValueError(f"line {number} is no JSON: {error}") from error
    if not isinstance(row, dict):
        raise ValueError(f"line {number} is no JSON object")
    return row


# --- what users hold ------------------------------------------------------------------------------------------------------


def is_one(inputs: object, kind: Inputs) -> bool:
    """Return whether this is one input rather than many; tables and patterns of files name many."""
    return kind.is_one(inputs) and not _names_many(inputs, kind)


def _names_many(inputs: object, kind: Inputs) -> bool:
    if kind.noun == "text":
        return isinstance(inputs, Path)  # a string is a text
    if kind.noun not in ("image", "sound") or not isinstance(inputs, str | Path):
        return False
    return Path(inputs).suffix.lower() in TABLE_SUFFIXES or ("*" in str(inputs) and not os.path.exists(inputs))


def each_input(inputs: Any, kind: Inputs, key: str | None = None) -> tuple[Iterator[Any], int | None]:
    """Return inputs one by one, and how many there are if that is known.

    Beside what the kind of input takes: a pattern of files, a table of which ``key`` names the column, a ``DataLoader`` or
    any iterable of batches, a map-style data set, items or batches that are ``(input, label)`` or dicts, of which ``key``
    names the entry to take.
    """
    if _names_many(inputs, kind):
        inputs = open_inputs(inputs, key, kind.noun)
    if kind.is_one(inputs) or isinstance(inputs, str):
        return kind.each(inputs)
    loader = hasattr(inputs, "dataset") and hasattr(inputs, "batch_size")
    indexed = not isinstance(inputs, Iterable) and hasattr(inputs, "__getitem__") and hasattr(inputs, "__len__")
    if not (loader or indexed):
        items, total = kind.each(inputs)
        return _unpacked(items, kind, key, paired=False), total
    held = inputs.dataset if loader else inputs
    total = len(held) if hasattr(held, "__len__") else None
    items = iter(inputs) if loader else (inputs[index] for index in range(len(inputs)))
    return _unpacked(items, kind, key, paired=True, single=not loader), total


def _unpacked(items: Iterable[Any], kind: Inputs, key: str | None, paired: bool, single: bool = False) -> Iterator[Any]:
    """Yield inputs; ``paired`` ones may come with labels, ``single`` ones are one example each, never a batch."""
    for item in items:
        part = _entry(item, key) if isinstance(item, Mapping) and (paired or key is not None) else item
        several = isinstance(part, tuple | list) and bool(part) and not kind.is_one(part)
        if several and (_is_labelled(part, kind) if not paired else single or not _alike(part, kind)):
            part = part[0]  # (inputs, labels)
        if _is_batch(part, kind, paired):
            yield from part
        else:
            yield part


def _alike(parts: Any, kind: Inputs) -> bool:
    """Whether all parts are inputs of one type: a batch of them, rather than an input and its label."""
    return len({type(part) for part in parts}) == 1 and all(kind.is_one(part) for part in parts)


def _is_labelled(parts: Any, kind: Inputs) -> bool:
    """Whether a list of a user's own holds an input and its label here: a pair of which only the first can be an input."""
    if not (isinstance(parts, tuple) and len(parts) == 2):
        return False
    given, label = parts
    if kind.is_one(given):
        return not kind.is_one(label) and not _is_batch(label, kind, False)
    return _is_batch(given, kind, False) and not _is_batch(label, kind, False)


def _is_batch(item: Any, kind: Inputs, paired: bool) -> bool:
    """Whether an item holds several inputs."""
    if kind.is_one(item):
        return False
    if isinstance(item, Tensor | np.ndarray):
        return item.ndim > 1 and len(item) > 0 and kind.is_one(item[0])
    return paired and isinstance(item, tuple | list)


def _entry(item: Mapping[Any, Any], key: str | None) -> Any:
    if key is None or key not in item:
        keys = ", ".join(repr(name) for name in item)
        what = "say which entry is the input" if key is None else f"there is no entry {key!r}"
        raise ValueError(f"The inputs come as dicts with the keys {keys}; {what}, as in key={next(iter(item), 'image')!r}.")
    return item[key]
