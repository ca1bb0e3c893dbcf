"""Pickles of plain data: what Python's own reader makes of them, and nothing else."""

from __future__ import annotations

import os
import pickle
import struct
import tracemalloc
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from cocoax.data.restricted_pickle import read_restricted_pickle

PLAIN: list[Any] = [
    {},
    {b"a": 1, "b": [2, -3, 2**70, 1.5, None, True, False, "text é", b"bytes\xff", (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)]},
    [[1], [2, [3]], {"a": {"b": ()}}],
    list(range(3000)),
]


@pytest.mark.parametrize("protocol", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("value", PLAIN)
def test_read_restricted_pickle__what_python_reads(value: Any, protocol: int) -> None:
    if protocol < 3 and value == PLAIN[1]:
        value = {key: item for key, item in value.items() if key != "b"}
    assert read_restricted_pickle(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", [1, 2, 4])
def test_read_restricted_pickle__arrays(protocol: int) -> None:
    array = np.arange(12, dtype=np.uint8).reshape(3, 4)
    for each in (array, np.asfortranarray(array), array[:0]):
        read = read_restricted_pickle(pickle.dumps({b"data": each, b"labels": [1]}, protocol))
        assert read[b"labels"] == [1]
        assert np.array_equal(read[b"data"], each)


@pytest.mark.parametrize("dtype", ["<u2", ">i8", "f4", "b1", "O", "S9", "M8[s]", [("a", "u1")]])
@pytest.mark.parametrize("protocol", [2, 4])
def test_read_restricted_pickle__other_types_are_refused(dtype: Any, protocol: int) -> None:
    with pytest.raises(ValueError, match="uint8"):
        read_restricted_pickle(pickle.dumps({b"data": np.zeros(3, dtype)}, protocol))


def test_read_restricted_pickle__texts_of_python_2_are_bytes() -> None:
    written = b"\x80\x02}q\x01(U\x06labelsq\x02]q\x03(K\x06K\te" + b"U\x04nameq\x04U\x03a\xe9bq\x05u."
    assert read_restricted_pickle(written) == {b"labels": [6, 9], b"name": b"a\xe9b"}


class Call:
    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __reduce__(self) -> Any:
        return self.arguments


def state_of(state: Any) -> bytes:
    """A pickle of an array whose type has a state of one's own choice."""
    dtype = Call(np.dtype, ("u1", False, True), state)
    rebuild: Any = np.zeros(1, np.uint8).__reduce__()[0]
    return pickle.dumps(Call(rebuild, (np.ndarray, (0,), b"b"), (1, (2,), dtype, False, b"ab")), protocol=2)


HOSTILE = {
    "code": pickle.dumps(Call(os.mkdir, ("attacked",))),
    "eval": b"cbuiltins\neval\n(S'1'\ntR.",
    "another function of numpy": pickle.dumps(Call(np.frombuffer, (b"abc",))),
    "objects": pickle.dumps(Call(np.dtype, ("O", False, True)), protocol=2),
    "texts as numbers": pickle.dumps(Call(np.dtype, ("S9", False, True)), protocol=2),
    "state with fields": state_of((3, "|", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 1, 27)),
    "state with another size": state_of((3, "|", None, None, None, 1 << 40, 1, 0)),
    "state of another length": state_of((3, "|", None)),
    "nested calls": pickle.dumps(Call(np.dtype, (Call(np.dtype, ("u1",)),)), protocol=2),
    "call of an array": b"cnumpy\nndarray\n)R.",
    "subclass of an array": b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\ndtype\n(K\x00tS'b'\ntR.",
    "a set": pickle.dumps({1, 2}, protocol=4),
    "a bytearray": pickle.dumps(bytearray(b"abc"), protocol=5),
    "instance": b"(i__main__\nobject\n.",
    "new object": pickle.dumps(Call(np.dtype, ("u1",)), protocol=4)[:-2] + b"\x81.",
    "extension": b"\x80\x02\x82\x01.",
    "persistent": b"Pid\n.",
    "attributes of a name": b"cnumpy\nndarray\n}b.",
    "call of a number": b"K\x01)R.",
    "empty stack": b"0.",
    "no mark": b"K\x01t.",
    "no end": b"K\x01",
    "memo that is empty": b"h\x05.",
    "cut off": b"B\xff\xff\xff\x7fabc",
    "appending to a number": b"K\x01K\x02a.",
    "keys that are lists": b"}]K\x01s.",
    "encoding by another codec": b"c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_read_restricted_pickle__anything_else_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def called(*_arguments: object) -> None:
        raise AssertionError("called")

    monkeypatch.setattr(os, "mkdir", called)
    with pytest.raises(ValueError):  # noqa: PT011 (its callers say which file it is)
        read_restricted_pickle(HOSTILE[name])


@pytest.mark.parametrize(
    ("shape", "length"), [((2**40, 2**40), 4), ((-1, -4), 4), ((5,), 4), ((2**63,), 4), ((1,) * 60, 1), ((4, 0), 4)]
)
def test_read_restricted_pickle__shapes_that_do_not_fit(shape: tuple[int, ...], length: int) -> None:
    rebuild: Any = np.zeros(1, np.uint8).__reduce__()[0]
    written = Call(rebuild, (np.ndarray, (0,), b"b"), (1, shape, np.dtype("u1"), False, b"a" * length))
    with pytest.raises(ValueError, match="an array whose shape"):
        read_restricted_pickle(pickle.dumps(written, protocol=2))


@pytest.mark.parametrize(
    "content",
    [
        b"K\x01r" + struct.pack("<I", 2**32 - 1) + b".",  # a memo of four thousand million places
        b"\x8e" + struct.pack("<Q", 2**60) + b"a.",  # bytes that are not there
    ],
)
def test_read_restricted_pickle__reserves_no_memory_that_a_file_asks_for(content: bytes) -> None:
    tracemalloc.start()
    try:
        with suppress(ValueError):
            read_restricted_pickle(content)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_read_restricted_pickle__nested_references_take_no_time() -> None:
    """Each list holds the one before twice: 2**60 numbers, if one went through them."""
    content = b"]q\x00" + b"".join(b"](h%ch%ceq%c" % (n, n, n + 1) for n in range(60)) + b"."
    assert len(read_restricted_pickle(content)) == 2
    keys = b")q\x00" + b"".join(b"h%ch%c\x86q%c" % (n, n, n + 1) for n in range(60))
    with pytest.raises(ValueError, match="keys are neither"):
        read_restricted_pickle(keys + b"}h\x3cK\x01s.")
