"""A slow writer of TensorFlow checkpoints."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value % 128 + 128]) + varint(value // 128)


def number(field: int, value: int) -> bytes:
    return varint(field * 8) + varint(value)


def message(field: int, content: bytes) -> bytes:
    return varint(field * 8 + 2) + varint(len(content)) + content


def block(items: Mapping[bytes, bytes]) -> bytes:
    """Keys told in full, each a restart point: the format allows it."""
    content, restarts = b"", []
    for key, value in items.items():
        restarts.append(len(content))
        content += varint(0) + varint(len(key)) + varint(len(value)) + key + value
    return content + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def write_bundle(prefix: Path, tensors: Mapping[str, np.ndarray], per_block: int = 3, compression: int = 0) -> None:
    """A checkpoint of float32 tensors, with a few keys in each block."""
    entries = {b"": number(1, 1)}
    data = b""
    for name in sorted(tensors):
        raw = tensors[name].astype("<f4").tobytes()
        shape = b"".join(message(2, number(1, size)) for size in tensors[name].shape)
        entries[name.encode()] = number(1, 1) + message(2, shape) + number(4, len(data)) + number(5, len(raw))
        data += raw
    file, handles = b"", {}
    keys = list(entries)
    for start in range(0, len(keys), per_block):
        chosen = {key: entries[key] for key in keys[start : start + per_block]}
        content = block(chosen)
        handles[list(chosen)[-1]] = varint(len(file)) + varint(len(content))
        file += content + bytes([compression]) + b"sums"
    ends = b""
    for items in ({}, handles):  # the block of metadata, and the index of blocks
        content = block(items)
        ends += varint(len(file)) + varint(len(content))
        file += content + b"\0" + b"sums"
    file += ends.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)
    Path(f"{prefix}.index").write_bytes(file)
    Path(f"{prefix}.data-00000-of-00001").write_bytes(data)
