"""Pickles of plain data (numbers, texts, lists, dicts, uint8 arrays), read without calling anything that a file names.

``find_class`` has an allow-list ("Restricting Globals" in Python's manual), and stand-ins answer to the names on it, since
NumPy trusts the shapes and types in a pickle. The unpickler is the one written in Python: the one in C reserves as much
memory as a file asks for.
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
    except Exception as error:  # whatever a damaged file makes the unpickler raise
        raise ValueError(f"it is not a pickle of plain data ({type(error).__name__}: {str(error)[:100]})") from error
    if isinstance(data, _Name):
        raise ValueError(f"it holds {data.name} and no data")
    return data


class _Name:
    """A name on the allow-list; a call of it makes an array, its type or bytes, and nothing else."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *arguments: Any) -> Any:
        match self.name.rpartition(".")[2], arguments:
            case "_reconstruct", (_Name(name="numpy.ndarray"), *_):
                return _Uint8Array(0, np.uint8)
            case "dtype", ("u1" | b"u1", *_):
                return _Name("uint8")
            case "encode", (str() as text, "latin1"):
                return text.encode("latin-1")
            case "bytes", ():
                return b""
        raise ValueError(f"a call of {self.name} that makes no array of uint8")

    def __setstate__(self, state: Any) -> None:
        if self.name != "uint8" or state not in _UINT8_STATES:
            raise ValueError(f"a changed {self.name}")


class _Uint8Array(np.ndarray):
    """An array whose shape and content are compared before NumPy sees them."""

    def __setstate__(self, state: Any) -> None:
        match state:
            case (int(), tuple() as shape, _Name(name="uint8"), fortran, bytes() as content):
                sizes = len(shape) <= 4 and all(type(size) is int and 0 <= size < 2**31 for size in shape)
                if sizes and math.prod(shape) == len(content):
                    known: Any = (1, shape, np.dtype(np.uint8), bool(fortran), content)
                    return super().__setstate__(known)
        raise ValueError("an array whose shape does not fit its bytes, or of a type other than uint8")


class _Dict(dict[Any, Any]):
    """A dict whose keys are plain, since a nested tuple may take for ever to hash."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, str | bytes | int):
            raise ValueError("a dict whose keys are neither texts nor numbers")
        super().__setitem__(key, value)


class _Unpickler(pickle._Unpickler):
    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch) | {
        pickle.EMPTY_DICT[0]: lambda self: self.append(_Dict()),
        # A dict of protocol 0 and a set hash what they hold at once; a bytearray is reserved before its bytes are read.
        **dict.fromkeys(code[0] for code in (pickle.DICT, pickle.EMPTY_SET, pickle.FROZENSET, pickle.BYTEARRAY8)),
    }

    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.{name}" not in _ALLOWED:
            raise ValueError(f"{f'{module}.{name}':.80}, which no data need")
        return _Name(f"{module}.{name}")
