"""Pickles of plain data, read without running anything: numbers, texts, lists, dicts, and NumPy arrays of whole numbers.

Python's own reader calls what a file names, and reserves memory that a file asks for. This one knows the few operations that
plain data need, does each itself, and refuses the rest.
"""

from __future__ import annotations

import math
import pickletools
from dataclasses import dataclass
from typing import Any

import numpy as np

# What arrays are made of in a pickle; the names stand for what is done here, and nothing is imported or called.
_RECONSTRUCT = ("numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct")
_NAMES = (*_RECONSTRUCT, "numpy ndarray", "numpy dtype", "_codecs encode", "__builtin__ bytes")
_INTEGERS = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8")


@dataclass(frozen=True)
class _Name:
    """A name of something in Python, which is known here."""

    name: str


@dataclass
class _Dtype:
    """A type of whole numbers; its state says which byte comes first."""

    code: str
    order: str = "="

    def set_state(self, state: Any) -> None:
        """Take the order of bytes from the state of a plain type, which says nothing else."""
        if not isinstance(state, tuple) or state[0] != 3 or state[2:] != (None, None, None, -1, -1, 0):
            raise ValueError("an array has a type that is not one of plain numbers")
        self.order = _text(state[1])
        if self.order not in ("|", "<", ">", "="):
            raise ValueError(f"numbers have no order {self.order!r:.20} of bytes")


@dataclass
class _Array:
    """An array, once its state is known."""

    values: np.ndarray | None = None

    def set_state(self, state: Any) -> None:
        """Take shape, type and content from ``(version, shape, type, is_fortran, bytes)``."""
        if not (isinstance(state, tuple) and len(state) == 5 and isinstance(state[2], _Dtype)):
            raise ValueError("an array is not described by shape, type and bytes")
        _, shape, dtype, fortran, content = state
        sizes = (
            isinstance(shape, tuple) and len(shape) <= 4 and all(type(size) is int and 0 <= size < 2**48 for size in shape)
        )
        if not isinstance(content, bytes) or not sizes:
            raise ValueError("an array is not described by shape, type and bytes")
        kind = np.dtype(dtype.order.replace("|", "=") + dtype.code)
        if math.prod(shape) * kind.itemsize != len(content):
            raise ValueError(f"an array of {list(shape)} numbers has {len(content)} bytes")
        values = np.frombuffer(content, kind).reshape(shape, order="F" if fortran is True else "C")
        self.values = values.astype(kind.newbyteorder("="))


def read_plain_pickle(content: bytes) -> Any:
    """Return the data in a pickle; texts of Python 2 are bytes. Raise a ``ValueError`` if there is anything else in it."""
    try:
        return _Reader().read(content)
    except (IndexError, KeyError, TypeError, AttributeError, OverflowError, MemoryError, RecursionError) as error:
        raise ValueError(f"it is not a whole pickle of plain data ({type(error).__name__})") from error


class _Reader:
    """A stack of values and a memo of them, as pickles expect."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []  # how long the stack was at each mark
        self.memo: dict[int, Any] = {}

    def read(self, content: bytes) -> Any:
        for operation, argument, _ in pickletools.genops(content):
            name = operation.name
            if name == "STOP":
                return _finished(self.stack.pop())
            if name in _CONSTANTS:
                self.stack.append(_CONSTANTS[name]())
            elif name in _VALUES:
                self.stack.append(argument)
            elif name in _STRINGS:
                self.stack.append(argument.encode("latin-1") if isinstance(argument, str) else argument)
            elif name in _IGNORED:
                continue
            elif (act := getattr(self, f"_{name.lower()}", None)) is not None:
                act(argument)
            else:
                raise ValueError(f"it has the operation {name}, which no plain data need")
        raise ValueError("it has no end")

    def _above_mark(self) -> list[Any]:
        """Take what lies above the last mark off the stack."""
        place = self.marks.pop()
        values = self.stack[place:]
        del self.stack[place:]
        return values

    def _mark(self, _argument: None) -> None:
        self.marks.append(len(self.stack))

    def _put(self, number: int) -> None:
        self.memo[number] = self.stack[-1]

    _binput = _long_binput = _put

    def _memoize(self, _argument: None) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def _get(self, number: int) -> None:
        self.stack.append(self.memo[number])

    _binget = _long_binget = _get

    def _global(self, name: str) -> None:
        if name not in _NAMES:
            raise ValueError(f"it asks for {name.replace(' ', '.'):.80}, which no data need")
        self.stack.append(_Name(name))

    def _stack_global(self, _argument: None) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self._global(f"{_text(module)} {_text(name)}")

    def _reduce(self, _argument: None) -> None:
        arguments, called = self.stack.pop(), self.stack.pop()
        if not isinstance(called, _Name) or not isinstance(arguments, tuple):
            raise ValueError("it calls something that is no part of an array")
        self.stack.append(_made(called.name, arguments))

    def _build(self, _argument: None) -> None:
        state = self.stack.pop()
        if not isinstance(self.stack[-1], _Dtype | _Array):
            raise ValueError("it changes something that is no part of an array")
        self.stack[-1].set_state(state)

    def _tuple(self, _argument: None) -> None:
        self.stack.append(tuple(self._above_mark()))

    def _tuple1(self, _argument: None) -> None:
        self.stack[-1:] = [tuple(self.stack[-1:])]

    def _tuple2(self, _argument: None) -> None:
        self.stack[-2:] = [(self.stack[-2], self.stack[-1])]

    def _tuple3(self, _argument: None) -> None:
        self.stack[-3:] = [(self.stack[-3], self.stack[-2], self.stack[-1])]

    def _list(self, _argument: None) -> None:
        self.stack.append(self._above_mark())

    def _append(self, _argument: None) -> None:
        value = self.stack.pop()
        _of(list, self.stack[-1]).append(value)

    def _appends(self, _argument: None) -> None:
        values = self._above_mark()
        _of(list, self.stack[-1]).extend(values)

    def _dict(self, _argument: None) -> None:
        values = self._above_mark()
        self.stack.append(_entries(values))

    def _setitem(self, _argument: None) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        _of(dict, self.stack[-1]).update(_entries([key, value]))

    def _setitems(self, _argument: None) -> None:
        values = self._above_mark()
        _of(dict, self.stack[-1]).update(_entries(values))


# By pickletools' names of operations.
_CONSTANTS: dict[str, Any] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
}
_VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
}
_STRINGS = {"STRING", "BINSTRING", "SHORT_BINSTRING"}  # of Python 2, which are bytes
_IGNORED = {"PROTO", "FRAME"}


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"it adds to a {type(value).__name__} as if it were a {kind.__name__}")
    return value


def _entries(values: list[Any]) -> dict[Any, Any]:
    """Return keys and values in turn as a dict; keys are plain, since to hash nested ones may take for ever."""
    if not all(isinstance(key, str | bytes | int) for key in values[::2]):
        raise ValueError("a dict in it has keys that are neither texts nor numbers")
    return dict(zip(values[::2], values[1::2], strict=True))


def _text(value: Any) -> str:
    if not isinstance(value, str | bytes):
        raise TypeError("a text was expected")
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _made(name: str, arguments: tuple[Any, ...]) -> Any:
    """Return what a call of one of the known names gives."""
    if name in _RECONSTRUCT and arguments[:1] == (_Name("numpy ndarray"),):
        return _Array()
    if name == "numpy dtype" and arguments and _text(arguments[0]) in _INTEGERS:
        return _Dtype(_text(arguments[0]))
    if name == "_codecs encode" and len(arguments) == 2 and isinstance(arguments[0], str) and arguments[1] == "latin1":
        return arguments[0].encode("latin-1")  # how Python 3 writes bytes for Python 2
    if name == "__builtin__ bytes" and not arguments:
        return b""
    raise ValueError(f"it calls {name.replace(' ', '.')} with something that makes no array of whole numbers")


def _finished(value: Any) -> Any:
    """Return a value with arrays in the place of what they were described by, one level deep in a dict."""
    if isinstance(value, dict):
        return {key: _finished(item) if isinstance(item, _Array) else item for key, item in value.items()}
    return value.values if isinstance(value, _Array) else value
