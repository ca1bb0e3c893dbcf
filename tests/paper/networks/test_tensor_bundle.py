"""TensorFlow checkpoints: some that TensorFlow 2.21 wrote (``data/bundles``), and some from a slow writer of our own."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from cocoax.paper.networks.tensor_bundle import TensorBundle
from tests.paper.networks.bundles import message, number, write_bundle, write_table

BUNDLES = Path(__file__).parent / "data" / "bundles"

# What was given to TensorFlow.
SAVED: dict[str, np.ndarray] = {
    "a/scalar": np.array(2.5, np.float32),
    "a/vector": np.arange(5) / 3,
    "a/vector/Momentum": np.zeros(5),
    "a/matrix": np.arange(6, dtype=np.int32).reshape(2, 3) - 3,
    "b/long": np.array([2**40, -1]),
    "b/bytes": np.arange(4, dtype=np.uint8),
    "b/flags": np.array([True, False, True]),
    "b/half": np.array([0.5, -2], np.float16),
    "b/empty": np.zeros((0, 3), np.float32),
    "c/kernel": np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2),
    "global_step": np.array(225206),
}


# --- what TensorFlow wrote ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["one.ckpt", "two.ckpt"])
def test_tensor_bundle__reads_what_tensorflow_wrote(name: str) -> None:
    bundle = TensorBundle(BUNDLES / name)
    assert bundle.shards == (1 if name == "one.ckpt" else 2)
    assert set(bundle.entries) - {"notes"} == set(SAVED)
    for key, expected in SAVED.items():
        found = bundle[key]
        assert found.dtype == expected.dtype, key
        assert found.shape == expected.shape, key
        assert np.array_equal(found, expected), key


def test_tensor_bundle__strings_are_listed_but_not_read() -> None:
    bundle = TensorBundle(BUNDLES / "one.ckpt")
    assert bundle.entries["notes"].shape == (2,)
    with pytest.raises(ValueError, match=r"'notes' of .*one\.ckpt has data type 7, which is no plain number"):
        bundle["notes"]


def test_tensor_bundle__every_way_to_name_it(tmp_path: Path) -> None:
    for file in BUNDLES.glob("one.*"):
        shutil.copy(file, tmp_path)
    for given in (tmp_path, str(tmp_path), tmp_path / "one.ckpt", tmp_path / "one.ckpt.index"):
        assert TensorBundle(given)["a/scalar"] == 2.5


def test_tensor_bundle__latest_of_several(tmp_path: Path) -> None:
    for value in (1, 2):
        write_bundle(tmp_path / f"model.ckpt-{value}", {"x": np.full(2, value)})
    with pytest.raises(FileNotFoundError, match=r"holds several checkpoints \(model\.ckpt-1, model\.ckpt-2\); pass the path"):
        TensorBundle(tmp_path)
    (tmp_path / "checkpoint").write_text(
        'model_checkpoint_path: "/elsewhere/model.ckpt-2"\nall_model_checkpoint_paths: "model.ckpt-1"\n'
    )
    assert TensorBundle(tmp_path)["x"].tolist() == [2, 2]


# --- what the slow writer wrote -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("per_block", [1, 4, 1000])
def test_tensor_bundle__any_number_of_blocks(per_block: int, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    tensors = {
        f"net/layer_{index}/kernel": generator.normal(size=(index, 3)).astype(np.float32) for index in range(1, 200, 7)
    }
    write_bundle(tmp_path / "m", tensors, per_block)
    bundle = TensorBundle(tmp_path)
    assert set(bundle.entries) == set(tensors)
    assert all(np.array_equal(bundle[name], tensor) for name, tensor in tensors.items())


# --- what is wrong ------------------------------------------------------------------------------------------------------


def test_tensor_bundle__nothing_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds no TensorFlow checkpoint \(\*\.index\)"):
        TensorBundle(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"No file at .*model\.ckpt-5\.index; pass the folder"):
        TensorBundle(tmp_path / "model.ckpt-5")


def test_tensor_bundle__unknown_variable() -> None:
    with pytest.raises(KeyError, match=r"has no variable 'a/tensor'"):
        TensorBundle(BUNDLES / "one.ckpt")["a/tensor"]


def test_tensor_bundle__data_missing_or_cut_off(tmp_path: Path) -> None:
    write_bundle(tmp_path / "m", {"x": np.arange(10)})
    data = tmp_path / "m.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"too short for the variable 'x': it is cut off"):
        TensorBundle(tmp_path)["x"]
    data.unlink()
    with pytest.raises(FileNotFoundError, match=r"data-00000-of-00001 is missing; a checkpoint is the \.index file and all"):
        TensorBundle(tmp_path)["x"]


@pytest.mark.parametrize("keep", [0, 10, 47, 100, -1])
def test_tensor_bundle__index_cut_off(keep: int, tmp_path: Path) -> None:
    index = (BUNDLES / "one.ckpt.index").read_bytes()
    (tmp_path / "m.index").write_bytes(index[:keep])
    with pytest.raises(ValueError, match=r"m\.index is not the index of a TensorFlow checkpoint, or it is damaged"):
        TensorBundle(tmp_path)


def test_tensor_bundle__any_byte_wrong_is_an_error_or_read(tmp_path: Path) -> None:
    """No damage makes it hang or fail in a way that is not told."""
    index = bytearray((BUNDLES / "one.ckpt.index").read_bytes())
    (tmp_path / "m.data-00000-of-00001").write_bytes((BUNDLES / "one.ckpt.data-00000-of-00001").read_bytes())
    told = 0
    for place in range(len(index)):
        damaged = bytearray(index)
        damaged[place] ^= 0xFF
        (tmp_path / "m.index").write_bytes(damaged)
        try:
            bundle = TensorBundle(tmp_path)
            for name in bundle.entries:
                bundle[name]
        except (ValueError, FileNotFoundError) as error:
            told += str(tmp_path) in str(error)
        else:
            told += 1
    assert told == len(index)


def test_tensor_bundle__compressed_blocks(tmp_path: Path) -> None:
    write_bundle(tmp_path / "m", {"x": np.arange(3)}, compression=1)
    with pytest.raises(ValueError, match=r"its blocks are compressed"):
        TensorBundle(tmp_path)


# --- what is hostile ----------------------------------------------------------------------------------------------------


def test_tensor_bundle__flipped_bit_in_the_data(tmp_path: Path) -> None:
    write_bundle(tmp_path / "m", {"x": np.arange(10), "y": np.arange(3)})
    data = tmp_path / "m.data-00000-of-00001"
    damaged = bytearray(data.read_bytes())
    damaged[20] ^= 1
    data.write_bytes(damaged)
    bundle = TensorBundle(tmp_path)
    with pytest.raises(ValueError, match=r"data-00000-of-00001 is damaged: the variable 'x' does not have its checksum"):
        bundle["x"]
    assert bundle["y"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("shape", [(2**70,), (2**32, 2**32), (2**63, 2), (2**64 - 1,), (0, 2**62), (2**40, 0, 2**40)])
def test_tensor_bundle__shapes_that_no_file_has(shape: tuple[int, ...], tmp_path: Path) -> None:
    dimensions = b"".join(message(2, number(1, size)) for size in shape)
    entry = number(1, 1) + message(2, dimensions) + number(5, 40)
    write_table(Path(f"{tmp_path}/m.index"), {b"": number(1, 1), b"x": entry})
    (tmp_path / "m.data-00000-of-00001").write_bytes(bytes(40))
    with pytest.raises(ValueError, match=r"too short for the variable 'x'|a number is longer than 64 bits"):
        TensorBundle(tmp_path)["x"]


def test_tensor_bundle__number_that_never_ends(tmp_path: Path) -> None:
    """Adding seven bits at a time to a number of any length would take time in the square of it."""
    write_table(tmp_path / "m.index", {b"": number(1, 1), b"x": b"\x08" + b"\xff" * 1_000_000})
    with pytest.raises(ValueError, match="a number is longer than 64 bits"):
        TensorBundle(tmp_path)


def test_tensor_bundle__blocks_that_are_read_again_and_again(tmp_path: Path) -> None:
    write_table(tmp_path / "m.index", {b"": number(1, 1), b"x": number(1, 1)}, repeated=1000)
    with pytest.raises(ValueError, match="its blocks overlap"):
        TensorBundle(tmp_path)


def test_tensor_bundle__keys_that_grow(tmp_path: Path) -> None:
    write_table(tmp_path / "m.index", {b"": number(1, 1), b"x" * 2000: number(1, 1)})
    with pytest.raises(ValueError, match="a key is longer than 1024 bytes"):
        TensorBundle(tmp_path)
