"""CRC-32C: published values, and the slow way bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from cocoax.paper.networks.crc32c import crc32c, masked_crc32c
from tests.paper.networks.bundles import masked_checksum


def test_crc32c__published_values() -> None:
    """Of RFC 3720, section B.4, and of the catalogue of parametrised CRC algorithms."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E


@pytest.mark.parametrize("length", [0, 1, 1000, 2**14 * 16 - 1, 2**14 * 16, 2**14 * 17 + 5])
def test_crc32c__as_bit_by_bit(length: int) -> None:
    data = np.random.default_rng(length).integers(0, 256, length, dtype=np.uint8)
    expected = int.from_bytes(masked_checksum(data.tobytes()), "little")
    assert masked_crc32c(data) == masked_crc32c(data.tobytes()) == expected
