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


def masked_checksum(data: bytes) -> bytes:
    """CRC-32C bit by bit, rotated by 15 bits, plus a constant."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc // 2 ^ (0x82F63B78 if crc % 2 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32)


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
        checksum = varint(6 * 8 + 5) + masked_checksum(raw)
        entries[name.encode()] = number(1, 1) + message(2, shape) + number(4, len(data)) + number(5, len(raw)) + checksum
        data += raw
    write_table(Path(f"{prefix}.index"), entries, per_block, compression)
    Path(f"{prefix}.data-00000-of-00001").write_bytes(data)


def write_table(
    path: Path, entries: Mapping[bytes, bytes], per_block: int = 3, compression: int = 0, repeated: int = 1
) -> None:
    """A LevelDB table; its index names each block so many times."""
    file, handles = b"", {}
    keys = list(entries)
    for start in range(0, len(keys), per_block):
        chosen = {key: entries[key] for key in keys[start : start + per_block]}
        content = block(chosen)
        for time in range(repeated):
            handles[list(chosen)[-1] + bytes(time)] = varint(len(file)) + varint(len(content))
        file += content + bytes([compression]) + masked_checksum(content + bytes([compression]))
    ends = b""
    for items in ({}, handles):  # the block of metadata, and the index of blocks
        content = block(items)
        ends += varint(len(file)) + varint(len(content))
        file += content + b"\0" + masked_checksum(content + b"\0")
    path.write_bytes(file + ends.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57))
