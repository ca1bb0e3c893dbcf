"""Files, written whole or not at all; the cache folder; digests of content."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import cocoax
from cocoax.storage import (
    cache_folder,
    cache_info,
    clear_cache,
    digest,
    file_digest,
    read_safetensors,
    whole_file,
    write_safetensors,
    write_text,
)
from tests.conftest import images


def test_write_text__is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_text(tmp_path / "new" / "table.md", "first")
    assert path.read_text() == "first"

    def killed(*_paths: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_text(path, "second")
    assert path.read_text() == "first"


def test_whole_file__error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = write_text(tmp_path / "table.md", "first")

    def interrupted() -> None:
        with whole_file(path) as part:
            part.write_text("sec")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [file.name for file in tmp_path.iterdir()] == ["table.md"]
    assert path.read_text() == "first"


def test_whole_file__two_writers_do_not_share_a_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "table.md"
    with whole_file(path) as first, whole_file(path) as second:
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"  # the last to finish
    assert [file.name for file in tmp_path.iterdir()] == ["table.md"]


def test_write_safetensors__others_can_read_it(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "tensors", {"a": torch.zeros(1)}, "test", {})
    assert path.stat().st_mode & 0o777 == 0o644


def test_write_safetensors__a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        write_safetensors(tmp_path / "file" / "x.safetensors", {"a": torch.zeros(1)}, "test", {})


def test_cache_info__and_clear_cache(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert (cache_info().folder, cache_info().files, cache_info().bytes) == (folder, 0, 0)
    encoder.reference(images(300, 8, 8))
    on_disk = list((folder / "references").iterdir())
    info = cache_info()
    assert (info.folder, info.files) == (folder, 2)
    assert info.bytes == sum(file.stat().st_size for file in on_disk) > 0
    bystander = folder / "notes.txt"
    bystander.write_text("not ours")
    assert clear_cache() == info
    assert cache_info().files == 0
    assert list((folder / "references").iterdir()) == []
    assert bystander.exists()


def test_cache_folder__without_a_variable_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("COCOAX_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "cocoax"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "cocoax"


# --- digests ------------------------------------------------------------------------------------------------------------


def test_digest__same_content_same_digest() -> None:
    tensor = images(1)[0]
    assert digest(tensor) == digest(tensor.clone())
    assert digest(tensor) == digest(tensor.clone().requires_grad_())
    assert digest(tensor) == digest(tensor.permute(1, 2, 0).contiguous().permute(2, 0, 1))
    assert digest(np.arange(6).reshape(2, 3)) == digest(np.arange(6).reshape(3, 2).copy().reshape(2, 3))
    assert digest("a", 1, None, 2.5) == digest("a", 1, None, 2.5)


def test_digest__everything_that_must_differ() -> None:
    zeros = torch.zeros(4)
    different: list[tuple[object, ...]] = [
        (zeros,),
        (zeros.view(2, 2),),
        (zeros.view(4, 1),),
        (zeros.double(),),
        (zeros.half(),),
        (zeros.bfloat16(),),
        (zeros.int(),),
        (zeros.bool(),),
        (torch.zeros(5),),
        (torch.tensor([0.0, 0.0, 0.0, 1e-30]),),
        (torch.tensor([0.0, 0.0, 1e-30, 0.0]),),
        (torch.zeros(0),),
        (torch.zeros(0, 3),),
        (torch.zeros(()),),
        (zeros.numpy(),),
        (zeros.double().numpy(),),
        (zeros.view(2, 2).numpy(),),
        (zeros, zeros),
        (),
        ("1",),
        (1,),
        (1.0,),
        (True,),
        (None,),
        ("None",),
        (b"1",),
        ("a", "b"),
        ("ab",),
        ("a b",),
        ("b", "a"),
        ((1, 2),),
        (1, 2),
    ]
    found = [digest(*parts) for parts in different]
    assert len(set(found)) == len(different)


def test_file_digest__content_not_name(tmp_path: Path) -> None:
    for name, content in (("a", b"one"), ("b", b"one"), ("c", b"two")):
        (tmp_path / name).write_bytes(content)
    assert file_digest(tmp_path / "a") == file_digest(tmp_path / "b") != file_digest(tmp_path / "c")
    assert file_digest(tmp_path / "a") == "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"


def test_digest__arrays_without_elements_and_in_any_order() -> None:
    assert digest(np.zeros((0, 3))) == digest(np.zeros((0, 3))) != digest(np.zeros((3, 0)))
    array = np.arange(6).reshape(2, 3)
    assert digest(array) == digest(np.asfortranarray(array)) == digest(array[::-1][::-1])


# --- reading ------------------------------------------------------------------------------------------------------------


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
