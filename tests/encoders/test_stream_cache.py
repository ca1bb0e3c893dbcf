"""The cache of streamed references: what is found in it, what is not, and what happens to damaged files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from torch import Tensor

import cocoax
from cocoax.references import Reference
from cocoax.store import cache_folder, cache_info
from tests.conftest import SmallNet, images
from tests.encoders.streams import assert_same, checked, encoded_by, write_pictures


def test_cache__second_call_does_not_run_the_encoder(net: SmallNet) -> None:
    encoder = checked(cocoax.Encoder(net))
    inputs = images(300, 8, 8)
    made: list[Reference] = []
    assert encoded_by(net, lambda: made.append(encoder.reference(inputs))) == 300
    assert encoded_by(net, lambda: made.append(encoder.reference(inputs))) == 0
    assert encoded_by(net, lambda: made.append(encoder.reference(list(inputs), name="other"))) == 0
    assert_same(made[1], made[0])
    assert_same(made[2], made[0])
    assert made[2].name == "other"  # the name is not cached


def test_cache__serves_an_equal_encoder(net: SmallNet) -> None:
    """As in the next session: other objects, the same weights."""
    inputs = images(5)
    expected = cocoax.Encoder(net).reference(inputs)
    again = SmallNet().eval()
    found = cocoax.Encoder(again).reference(inputs)
    assert again.inputs == 0
    assert_same(found, expected)


def test_cache__samples_are_there_when_asked_for(net: SmallNet) -> None:
    encoder = checked(cocoax.Encoder(net))
    inputs = images(5)
    encoder.reference(inputs, keep_samples=False)
    kept = encoder.reference(inputs, keep_samples=True)
    assert kept.samples is not None
    assert encoded_by(net, lambda: encoder.reference(inputs, keep_samples=True)) == 0
    assert_same(encoder.reference(inputs, keep_samples=True), kept)
    assert encoder.reference(inputs, keep_samples=False).samples is None


def test_cache__changed_input_misses(net: SmallNet) -> None:
    encoder = checked(cocoax.Encoder(net))
    inputs = images(300, 8, 8)
    encoder.reference(inputs)
    inputs[10, 0, 0, 0] += 1e-3
    assert encoded_by(net, lambda: encoder.reference(inputs)) == 256  # the chunk that holds it, and not the other one
    assert encoded_by(net, lambda: encoder.reference(inputs[:200])) == 200
    assert encoded_by(net, lambda: encoder.reference(inputs.flip(0))) == 300


def test_cache__changed_file_misses(net: SmallNet, tmp_path: Path) -> None:
    encoder = checked(cocoax.Encoder(net))
    paths = write_pictures(tmp_path, ["a.png", "b.png"])
    encoder.reference(paths)
    assert encoded_by(net, lambda: encoder.reference(paths)) == 0
    Image.new("RGB", (16, 16), "red").save(paths[1])
    assert encoded_by(net, lambda: encoder.reference(paths)) == 2


def test_cache__off(net: SmallNet) -> None:
    encoder = checked(cocoax.Encoder(net))
    inputs = images(5)
    encoder.reference(inputs, cache=False)
    assert cache_info().references == 0
    encoder.reference(inputs)
    assert encoded_by(net, lambda: encoder.reference(inputs, cache=False)) == 5  # nor is it read


def test_cache__unnamed_callables_are_not_cached(net: SmallNet) -> None:
    encoder = checked(cocoax.Encoder(lambda batch: net(batch)))
    inputs = images(5)
    assert encoded_by(net, lambda: encoder.reference(inputs)) == 5
    assert encoded_by(net, lambda: encoder.reference(inputs)) == 5
    assert cache_info().references == 0
    other = cocoax.Encoder(lambda batch: net(batch))
    assert encoder.reference(inputs).space == encoder.space != other.space


def test_cache__named_callables_are_known_by_their_name(net: SmallNet) -> None:
    inputs = images(5)
    checked(cocoax.Encoder(lambda batch: net(batch), name="mine")).reference(inputs)
    assert encoded_by(net, lambda: cocoax.Encoder(lambda batch: net(batch), name="mine").reference(inputs)) == 0
    other = cocoax.Encoder(lambda batch: net(batch), name="yours")
    assert encoded_by(net, lambda: other.reference(inputs)) > 0


def test_cache__interrupted_stream_goes_on_where_it_stopped(net: SmallNet) -> None:
    encoder = checked(cocoax.Encoder(net))
    inputs = images(600, 8, 8)
    expected = encoder.reference(inputs, cache=False)

    def interrupted() -> Iterator[Tensor]:
        yield from inputs[:300]
        raise ConnectionError("the line is dead")

    with pytest.raises(ConnectionError, match="the line is dead"):
        encoder.reference(interrupted())
    assert cache_info().references == 1  # the finished chunk
    made: list[Reference] = []
    assert encoded_by(net, lambda: made.append(encoder.reference(iter(inputs)))) == 600 - 256
    assert_same(made[0], expected)


def test_cache__bad_input_later_on_keeps_what_came_before(net: SmallNet) -> None:
    encoder = checked(cocoax.Encoder(net))
    inputs = images(300, 8, 8)
    spoiled = inputs.clone()
    spoiled[299] = math.nan
    with pytest.raises(ValueError, match="Input 299: its representation is not finite"):
        encoder.reference(spoiled)
    assert encoded_by(net, lambda: encoder.reference(inputs)) == 300 - 256


def test_cache__skipped_inputs_are_reported_every_time(four_files: list[Path], encoder: cocoax.Encoder) -> None:
    for _ in range(2):
        with pytest.warns(UserWarning, match=r"1 input.* skipped"):
            assert encoder.reference(four_files, on_error="skip").skipped[0][0] == 2
    with pytest.raises(ValueError, match="Input 2"):
        encoder.reference(four_files)


@pytest.mark.parametrize("place", [-1, -40, 60, 150])
def test_cache__flipped_bit_is_encoded_again(net: SmallNet, place: int) -> None:
    encoder = checked(cocoax.Encoder(net))
    inputs = images(5)
    expected = encoder.reference(inputs)
    (file,) = (cache_folder() / "references").iterdir()
    damaged = bytearray(file.read_bytes())
    damaged[place] ^= 4
    file.write_bytes(damaged)
    made: list[Reference] = []
    with pytest.warns(UserWarning, match=rf"{file.name}.* It was put aside"):
        assert encoded_by(net, lambda: made.append(encoder.reference(inputs))) == 5
    assert_same(made[0], expected)
