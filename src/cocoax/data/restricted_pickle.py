"""Pickles of plain data (numbers, texts, lists, dicts, uint8 arrays), read without calling anything that a file names.

An unpickler with an allow-list in ``find_class`` ("Restricting Globals" in Python's manual). NumPy's names are on the list,
but stand-ins answer to them, since NumPy trusts the shapes and types in a pickle. The unpickler is the one written in Python:
the one in C reserves as much memory as a file asks for.
"""

from __future__ import annotations

import io
import math
import pickle
from typing import Any, ClassVar

import numpy as np

_ALLOWED = {
    *("numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct", "numpy.ndarray", "numpy.dtype"),
    *("_codecs.encode", "__builtin__.bytes"),  # how Python 3 writes bytes for Python 2
}
_UINT8_STATES = [(3, order, None, None, None, -1, -1, 0) for order in ("|", b"|")]  # of NumPy's pickled dtype


def read_restricted_pickle(content: bytes) -> Any:
    """Return the data in a pickle; texts of Python 2 are bytes. Raise a ``ValueError`` if there is anything else in it."""
    try:
        data = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except ValueError:
        raise
    except Exception as error:  # whatever a damaged file makes the unpickler raise
        raise ValueError(f"it is not a whole pickle of plain data ({type(error).__name__})") from error
    if isinstance(data, _Name | _Uint8):
        raise ValueError("it holds a name of NumPy's and no data")
    return data


class _Name:
    """A name on the allow-list; calls of it are answered by a stand-in."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *arguments: Any) -> Any:
        match self.name.rpartition(".")[2], arguments:
            case "_reconstruct", (_Name(name="numpy.ndarray"), *_):
                return _Uint8Array(0, np.uint8)
            case "dtype", ("u1" | b"u1", *_):
                return _Uint8()
            case "encode", (str() as text, "latin1"):
                return text.encode("latin-1")
            case "bytes", ():
                return b""
        raise ValueError(f"it calls {self.name} with something that makes no array of bytes")

    def __setstate__(self, state: Any) -> None:
        raise ValueError(f"it changes {self.name}")


class _Uint8:
    """The data type of bytes; a crafted one would have another state."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        if state not in _UINT8_STATES:
            raise ValueError("an array has a type other than uint8")


class _Uint8Array(np.ndarray):
    """An array whose shape and content are compared before NumPy sees them."""

    def __setstate__(self, state: Any) -> None:
        match state:
            case (int(), tuple() as shape, _Uint8(), int() as fortran, bytes() as content) if (
                len(shape) <= 4
                and all(type(size) is int and 0 <= size < 2**31 for size in shape)
                and math.prod(shape) == len(content)
            ):
                known: Any = (1, shape, np.dtype(np.uint8), bool(fortran), content)
                super().__setstate__(known)
            case _:
                raise ValueError("an array has a shape that does not fit its bytes, or a type other than uint8")


class _Dict(dict[Any, Any]):
    """A dict whose keys are plain: to hash nested tuples may take for ever."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, str | bytes | int):
            raise ValueError("a dict in it has keys that are neither texts nor numbers")
        super().__setitem__(key, value)


class _Unpickler(pickle._Unpickler):
    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)
    for _code in (pickle.EMPTY_SET, pickle.FROZENSET, pickle.ADDITEMS):  # sets hash what they hold
        del dispatch[_code[0]]
    del dispatch[pickle.BYTEARRAY8[0]]  # reserved before its bytes are read

    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.{name}" not in _ALLOWED:
            raise ValueError(f"it asks for {f'{module}.{name}':.80}, which no data need")
        return _Name(f"{module}.{name}")

    def _load_empty_dict(self: Any) -> None:
        self.append(_Dict())

    def _load_dict(self: Any) -> None:
        items, made = self.pop_mark(), _Dict()
        for key, value in zip(items[::2], items[1::2], strict=True):
            made[key] = value
        self.append(made)

    dispatch[pickle.EMPTY_DICT[0]] = _load_empty_dict
    dispatch[pickle.DICT[0]] = _load_dict
