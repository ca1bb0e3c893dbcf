"""TensorFlow checkpoints (the "tensor bundle" or V2 format), read without TensorFlow.

A checkpoint ``model.ckpt-100`` is ``model.ckpt-100.index``, which says where each tensor lies, and files
``model.ckpt-100.data-00000-of-00001`` of raw little-endian numbers. The index is a LevelDB table: blocks of sorted keys
with shared prefixes, found through an index block, found through a footer of 48 bytes. Its values are small protocol
buffers. Both are as in ``tensorflow/core/lib/io/format.cc`` and ``tensorflow/core/protobuf/tensor_bundle.proto``.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cocoax.paper.networks.crc32c import masked_crc32c

FOOTER, MAGIC = 48, 0xDB4775248B80FB57
LONGEST_KEY = 1024  # keys are told as what differs from the one before, so that long ones would be cheap to claim
# Numbers of tensorflow/core/framework/types.proto.
DTYPES = {
    1: "<f4", 2: "<f8", 19: "<f2", 10: "?", 6: "i1", 5: "<i2", 3: "<i4", 9: "<i8", 4: "u1", 17: "<u2", 22: "<u4", 23: "<u8",
}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """Where a tensor lies in the files of a checkpoint, and its type and shape."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int | None
    sliced: bool


class TensorBundle:
    """A TensorFlow checkpoint: a folder that holds one, its prefix (``.../model.ckpt-100``) or its index file."""

    def __init__(self, path: str | Path) -> None:
        self.prefix = _prefix(Path(path))
        index = Path(f"{self.prefix}.index")
        try:
            values = dict(_table(index.read_bytes()))
            header = dict(_fields(values.pop(b"")))
            self.entries = {key.decode(): _entry(value) for key, value in values.items()}
            self.shards = _number(header.get(1, 1))
            big_endian = bool(header.get(2, 0))
        except (IndexError, KeyError, TypeError, ValueError, struct.error) as error:
            raise ValueError(f"{index} is not the index of a TensorFlow checkpoint, or it is damaged ({error}).") from error
        if big_endian:
            raise ValueError(f"{index} is of a checkpoint with big-endian numbers, which are not supported.")

    def __getitem__(self, name: str) -> np.ndarray:
        """Read the tensor of a variable."""
        if name not in self.entries:
            raise KeyError(f"The checkpoint {self.prefix} has no variable {name!r}.")
        entry = self.entries[name]
        if entry.sliced or entry.dtype not in DTYPES:
            trouble = "is saved in slices" if entry.sliced else f"has data type {entry.dtype}, which is no plain number"
            raise ValueError(f"The variable {name!r} of {self.prefix} {trouble}; that is not supported.")
        dtype = np.dtype(DTYPES[entry.dtype])
        count = math.prod(entry.shape)
        file = Path(f"{self.prefix}.data-{entry.shard:05d}-of-{self.shards:05d}")
        if not file.is_file():
            raise FileNotFoundError(f"{file} is missing; a checkpoint is the .index file and all of its .data files.")
        if entry.size != count * dtype.itemsize or entry.offset + entry.size > file.stat().st_size:
            raise ValueError(f"{file} is too short for the variable {name!r}: it is cut off; fetch it again.")
        values = np.fromfile(file, dtype, count, offset=entry.offset)
        if entry.checksum is not None and masked_crc32c(values) != entry.checksum:
            raise ValueError(f"{file} is damaged: the variable {name!r} does not have its checksum; fetch it again.")
        return values.reshape(entry.shape)


def _prefix(path: Path) -> Path:
    """What the names of a checkpoint's files begin with."""
    if path.is_dir():
        indices = sorted(path.glob("*.index"))
        latest = path / "checkpoint"  # TensorFlow's note of which one is the latest
        if len(indices) > 1 and latest.is_file():
            named = re.search(r'^model_checkpoint_path: "(.*)"', latest.read_text(encoding="utf-8"), re.MULTILINE)
            indices = [file for file in indices if named and file.name == f"{Path(named[1]).name}.index"] or indices
        if len(indices) != 1:
            names = ", ".join(file.stem for file in indices[:4])
            several = f"several checkpoints ({names}); pass the path of one"
            raise FileNotFoundError(f"{path} holds {several if indices else 'no TensorFlow checkpoint (*.index)'}.")
        return indices[0].with_suffix("")
    path = path.with_suffix("") if path.suffix == ".index" else path
    if not Path(f"{path}.index").is_file():
        raise FileNotFoundError(f"No file at {path}.index; pass the folder of a TensorFlow checkpoint, or its prefix.")
    return path


# --- LevelDB tables -----------------------------------------------------------------------------------------------------


def _table(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a table."""
    footer = data[-FOOTER:]
    if len(footer) < FOOTER or struct.unpack("<Q", footer[-8:])[0] != MAGIC:
        raise ValueError("its last bytes are not those of a table")
    _, _, after = _handle(footer, 0)  # of the block of metadata, which is empty
    offset, size, _ = _handle(footer, after)
    end = 0
    for _, handle in _block(data, offset, size):
        start, size, _ = _handle(handle, 0)
        if start < end:  # or else a small file could hold any number of keys
            raise ValueError("its blocks overlap")
        end = start + size
        yield from _block(data, start, size)


def _handle(data: bytes, at: int) -> tuple[int, int, int]:
    """Offset and size of a block, and where the next thing begins."""
    offset, at = _varint(data, at)
    size, at = _varint(data, at)
    return offset, size, at


def _block(data: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a block; a key is told as the part that differs from the key before."""
    if data[offset + size] != 0:  # the byte after a block says how it is compressed
        raise ValueError("its blocks are compressed, which TensorFlow never does")
    block = data[offset : offset + size]
    if struct.unpack("<I", data[offset + size + 1 : offset + size + 5])[0] != masked_crc32c(data[offset : offset + size + 1]):
        raise ValueError("a block does not have its checksum")
    restarts = struct.unpack("<I", block[-4:])[0]
    end = size - 4 * (restarts + 1)
    at, key = 0, b""
    while at < end:
        shared, at = _varint(block, at)
        fresh, at = _varint(block, at)
        length, at = _varint(block, at)
        key = key[:shared] + block[at : at + fresh]
        if len(key) > LONGEST_KEY:
            raise ValueError(f"a key is longer than {LONGEST_KEY} bytes")
        at += fresh
        yield key, block[at : at + length]
        at += length


# --- protocol buffers ---------------------------------------------------------------------------------------------------


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits per byte, lowest first, and where the next thing begins."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
    raise ValueError("a number is longer than 64 bits")


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and values of a message's fields, in order."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value: int | bytes
            value, at = _varint(data, at)
        elif kind in (1, 2, 5):  # eight bytes, as many as a number says, four bytes
            length, at = _varint(data, at) if kind == 2 else (8 if kind == 1 else 4, at)
            if at + length > len(data):
                raise ValueError("a field is cut off")
            value, at = data[at : at + length], at + length
        else:
            raise ValueError(f"a field has the unknown kind {kind}")
        yield number, value


def _entry(message: bytes) -> Entry:
    """A BundleEntryProto: 1 data type, 2 shape, 3 shard, 4 offset, 5 size, 6 checksum, 7 slices. Zeros are left out."""
    fields = dict(_fields(message))
    dimensions = [dict(_fields(_bytes(value))) for number, value in _fields(_bytes(fields.get(2, b""))) if number == 2]
    shape = tuple(_number(dimension.get(1, 0)) for dimension in dimensions)
    dtype, shard, offset, size = (_number(fields.get(number, 0)) for number in (1, 3, 4, 5))
    checksum = struct.unpack("<I", _bytes(fields[6]))[0] if 6 in fields else None
    return Entry(dtype, shape, shard, offset, size, checksum, sliced=7 in fields)


def _number(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise TypeError("a number was expected where a message is")
    return value


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise TypeError("a message was expected where a number is")
    return value
