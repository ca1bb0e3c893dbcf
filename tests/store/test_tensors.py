"""Safetensors: written as the library writes them, with a digest; read only if they are sound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from cocoax.store import Layout, check_torch_file, corrupt_file_errors, load_tensors, read_safetensors, write_safetensors
from cocoax.store.tensors import _DTYPES

HEADER = {"number": 0.1, "names": ["a", None, "猫"]}


def every_type() -> dict[str, torch.Tensor]:
    numbers = {f"{dtype} {size}": torch.arange(size).to(getattr(torch, dtype)) for dtype in _DTYPES for size in (0, 1, 3)}
    return {**numbers, "scalar": torch.tensor(2.5), "cat 猫": torch.ones(2, 3, 0), "turned": torch.arange(6.0).view(2, 3).T}


def test_write_safetensors__is_what_the_library_writes(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "a.safetensors", every_type(), "thing", HEADER)
    metadata = load_tensors(path)[1]
    contiguous = {name: tensor.contiguous() for name, tensor in every_type().items()}
    assert path.read_bytes() == safetensors.torch.save(contiguous, metadata)


def test_write_safetensors__the_same_bytes_every_time(tmp_path: Path) -> None:
    files = [write_safetensors(tmp_path / name, every_type(), "thing", HEADER).read_bytes() for name in "ab"]
    assert files[0] == files[1]


def test_write_safetensors__types_that_files_do_not_keep(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'a' has the type torch.complex64, which is not kept in files"):
        write_safetensors(tmp_path / "a", {"a": torch.zeros(1, dtype=torch.complex64)}, "thing", {})
    assert list(tmp_path.iterdir()) == []


def test_write_safetensors__a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        write_safetensors(tmp_path / "file" / "x.safetensors", {"a": torch.zeros(1)}, "test", {})


def test_read_safetensors__what_was_written(tmp_path: Path) -> None:
    whole = torch.arange(12.0).view(3, 4)
    tensors = {"whole": whole, "row": whole[1], "turned": whole.T}  # parts of one memory, and not contiguous
    path = write_safetensors(tmp_path / "a.safetensors", tensors, "thing", {"number": 0.1, "names": ["a", None]})
    read, header = read_safetensors(path, "thing")
    assert {name: tensor.tolist() for name, tensor in read.items()} == {name: t.tolist() for name, t in tensors.items()}
    assert header == {"number": 0.1, "names": ["a", None]}


def test_read_safetensors__another_kind(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "a.safetensors", {"a": torch.zeros(1)}, "thing", {})
    with pytest.raises(ValueError, match=r"a\.safetensors does not hold a Cocoax run: it holds thing"):
        read_safetensors(path, "run")


def test_read_safetensors__missing_and_damaged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"No file at .*none"):
        read_safetensors(tmp_path / "none", "thing")
    path = tmp_path / "bad"
    path.write_bytes(b"not safetensors at all")
    with pytest.raises(ValueError, match=r"bad is not a readable safetensors file .*it may be truncated"):
        read_safetensors(path, "thing")


@pytest.mark.parametrize("step", [1, 7])
def test_read_safetensors__no_flipped_bit_is_overlooked(step: int, tmp_path: Path) -> None:
    """Whatever bit it is, the content is what was written or an error names the file."""
    path = write_safetensors(tmp_path / "a.safetensors", {"a": torch.arange(3.0)}, "thing", HEADER)
    whole = path.read_bytes()
    right = refused = 0
    for place in range(0, len(whole), step):
        for bit in (0, 5, 7):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            try:
                tensors, header = read_safetensors(path, "thing")
            except ValueError as error:
                refused += str(path) in str(error)
            else:
                assert torch.equal(tensors["a"], torch.arange(3.0))
                assert header == HEADER
                right += 1
    assert refused + right == 3 * len(range(0, len(whole), step))
    assert refused > 20 * right


@pytest.mark.parametrize("text", ["[]", "3", '{"kind": ' + "[" * 100_000, '{"kind": ' + "9" * 5000 + "}", "null", ""])
def test_read_safetensors__rubbish_in_the_header(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    safetensors.torch.save_file({"a": torch.ones(2)}, path, metadata={"cocoax": text})
    with pytest.raises(ValueError, match=r"a\.safetensors (is damaged|does not hold a Cocoax thing)"):
        read_safetensors(path, "thing")


LAYOUT = Layout(
    "thing",
    {
        "mean": "d",
        "samples?": "count d",
        "numbers?": "int count",
        "map?": "* 2 d",
        "field?": "*cells d",
        "error?": "groups *cells 1",
    },
    {"count": int},
)
MEAN = torch.zeros(4)


@pytest.mark.parametrize(
    ("tensors", "header", "said"),
    [
        ({"mean": MEAN}, {}, "its header lacks 'count'"),
        ({"mean": MEAN}, {"count": "3"}, "'count' in its header is '3'"),
        ({}, {"count": 3}, "it lacks the tensor 'mean'"),
        ({"mean": MEAN.long()}, {"count": 3}, r"its tensor 'mean' is torch.int64 \[4\] rather than \[d\]"),
        ({"mean": MEAN[None]}, {"count": 3}, r"its tensor 'mean' is torch.float32 \[1, 4\] rather than \[d\]"),
        ({"mean": MEAN, "samples": torch.zeros(3, 5)}, {"count": 3}, "samples"),
        ({"mean": MEAN, "samples": torch.zeros(2, 4)}, {"count": 3}, "samples"),
        ({"mean": MEAN, "samples": torch.zeros(2, 4)}, {"count": -2}, "samples"),
        ({"mean": MEAN, "numbers": torch.zeros(3)}, {"count": 3}, "numbers"),
        ({"mean": MEAN, "map": torch.zeros(4)}, {"count": 3}, "map"),
        ({"mean": MEAN, "map": torch.zeros(7, 3, 4)}, {"count": 3}, "map"),
        ({"mean": MEAN, "field": torch.zeros(7, 3, 4), "error": torch.zeros(9, 1, 3, 1)}, {"count": 3}, "error"),
        ({"mean": MEAN, "field": torch.zeros(7, 3, 4), "error": torch.zeros(7, 3, 1)}, {"count": 3}, "error"),
    ],
)
def test_layout__what_is_not_as_it_should_be(tensors: Any, header: Any, said: str, tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "a", tensors, "thing", header)
    with pytest.raises(ValueError, match=rf"{path} cannot be used: .*{said}"):
        read_safetensors(path, LAYOUT)


def test_layout__what_is(tmp_path: Path) -> None:
    more = {"samples": torch.zeros(3, 4), "numbers": torch.zeros(3, dtype=torch.long), "map": torch.zeros(5, 6, 2, 4)}
    more |= {"field": torch.zeros(7, 3, 4), "error": torch.zeros(9, 7, 3, 1)}
    for tensors in ({"mean": MEAN}, {"mean": MEAN, **more}, {"mean": MEAN, "other": torch.zeros(2)}):
        path = write_safetensors(tmp_path / "a", tensors, "thing", {"count": 3})
        assert set(read_safetensors(path, LAYOUT)[0]) == set(tensors)


@pytest.mark.parametrize("error", [KeyError("a"), IndexError("b"), RecursionError("c"), TypeError("d"), OverflowError("e")])
def test_corrupt_file_errors__names_the_file(error: Exception) -> None:
    with (
        pytest.raises(ValueError, match=rf"file is damaged, or not of this version .*{type(error).__name__}"),
        corrupt_file_errors("file"),
    ):
        raise error
    with pytest.raises(ValueError, match=r"^file cannot be used: too small.$"), corrupt_file_errors("file"):
        raise ValueError("too small.")


def test_check_torch_file__a_flipped_bit(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save({"a": torch.arange(100.0)}, path)
    check_torch_file(path)
    whole = path.read_bytes()
    place = whole.index(torch.tensor(50.0).numpy().tobytes())
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    with pytest.raises(ValueError, match=r"a\.pt is damaged: .*data/0 .* checksum"):
        check_torch_file(path)
    end = whole.rindex(b"PK\x06\x07")  # which says how many disks the file spans
    path.write_bytes(whole[: end + 16] + b"\x02" + whole[end + 17 :])
    with pytest.raises(ValueError, match=r"a\.pt is damaged \(zipfiles that span multiple disks"):
        check_torch_file(path)
    path.write_bytes(whole[:-30])
    check_torch_file(path)  # no longer a file with checksums: torch says what is wrong with it


@pytest.mark.parametrize("name", ["a.html", "a.PNG", "a.json", "folder.v1/a.csv"])
def test_write_safetensors__under_a_name_that_says_something_else(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"would not be what its name says: a Cocoax run is saved as safetensors; let the name"
    ):
        write_safetensors(tmp_path / name, {}, "run", {})
    assert not (tmp_path / name).exists()
