"""The cache folder: where it is, what it holds, and damaged files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import cocoax
from cocoax.store import KeyedCache, cache_folder, cache_info, clear_cache, load_or_quarantine, write_text
from tests.conftest import images


def test_cache_info__and_clear_cache(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert (cache_info().folder, cache_info().references, cache_info().bytes) == (folder, 0, 0)
    encoder.reference(images(300, 8, 8))
    on_disk = list((folder / "references").iterdir())
    info = cache_info()
    assert (info.folder, info.references) == (folder, 2)
    assert info.bytes == sum(file.stat().st_size for file in on_disk) > 0
    bystander = folder / "notes.txt"
    bystander.write_text("not ours")
    assert clear_cache() == info
    assert cache_info().references == 0
    assert list((folder / "references").iterdir()) == []
    assert bystander.exists()


def test_cache_folder__without_a_variable_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("COCOAX_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "cocoax"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "cocoax"


@pytest.mark.parametrize("name", ["COCOAX_CACHE", "XDG_CACHE_HOME"])
def test_cache_folder__an_empty_variable_is_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COCOAX_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv(name, "")
    assert cache_folder() == Path.home() / ".cache" / "cocoax"


def no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_cache_folder__without_a_home(encoder: cocoax.Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = encoder.reference(images(3), cache=False)
    monkeypatch.delenv("COCOAX_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(OSError, match="no home folder to keep a cache in; set COCOAX_CACHE to a folder"):
        cache_info()
    with pytest.warns(UserWarning, match="no home folder .* set COCOAX_CACHE"):
        reference = encoder.reference(images(3))
    assert reference.mean.tolist() == expected.mean.tolist()
    with pytest.warns(UserWarning, match="no home folder .* set COCOAX_CACHE"):
        (answer,) = cocoax.ask(encoder, images(1)[0], cocoax.Question(), cocoax.Rise(samples=20, grid=4))
    assert answer.attribution.metadata["samples"] == 20


def test_cache_info__all_kinds_of_leftovers(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "references"
    folder.mkdir(parents=True)
    for name in (f"{'a' * 32}.safetensors.01234567.part", f"{'a' * 32}.safetensors.damaged"):
        (folder / name).write_bytes(b"half")
    assert (cache_info().leftovers, cache_info().bytes) == (2, 8)
    assert clear_cache(kind="leftovers").leftovers == 2
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("header", [b"[]", b'"text"', b"[" * 100_000, b'{"__metadata__": {"cocoax": "[1]"}}'])
def test_cache_info__rubbish_is_counted(header: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "runs"
    folder.mkdir(parents=True)
    (folder / f"{'a' * 32}.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    assert (cache_info().runs, cache_info().contents[0].encoder) == (1, None)


# --- damaged files ------------------------------------------------------------------------------------------------------


def read_whole(path: Path) -> str:
    text = path.read_text()
    if text != "whole":
        raise ValueError(f"{path} is damaged.")
    return text


def test_load_or_quarantine__sound_absent_and_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert load_or_quarantine(path, read_whole) is None
    path.write_text("whole")
    assert load_or_quarantine(path, read_whole) == "whole"
    path.write_text("half")
    with pytest.warns(UserWarning, match=rf"{path} is damaged. It was put aside as a.damaged, and .* computed again"):
        assert load_or_quarantine(path, read_whole) is None
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a.damaged", "half")]


def test_load_or_quarantine__what_may_not_be_read_is_not_damaged(tmp_path: Path) -> None:
    def forbidden(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    path = tmp_path / "a"
    path.write_text("of another user")
    with pytest.warns(UserWarning, match=r"a cannot be read .*Permission denied.*going on without"):
        assert load_or_quarantine(path, forbidden) is None
    assert os.listdir(tmp_path) == ["a"]


def test_clear_cache__files_that_cocoax_did_not_write_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCOAX_CACHE", str(tmp_path))
    names = ("model.safetensors", "film.mkv.part", "disk.damaged", ".tmp1", "notes.txt", f"{'a' * 32}.pt")
    foreign = [tmp_path / folder / name for folder in ("runs", "references", "own") for name in names]
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_text("the user's own")
    assert clear_cache().bytes == 0
    assert all(path.read_text() == "the user's own" for path in foreign)


def test_keyed_cache__kept_damaged_and_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = KeyedCache("things", tmp_path / "things")
    assert cache.get("a", read_whole) is None
    cache.put("a", lambda path: write_text(path, "whole"))
    assert cache.get("a", read_whole) == "whole"
    cache.path("a").write_text("half")
    with pytest.warns(UserWarning, match="put aside as a.safetensors.damaged"):
        assert cache.get("a", read_whole) is None
    (tmp_path / "file").touch()
    with pytest.warns(UserWarning, match=r"The cache of things cannot be written .*going on without"):
        KeyedCache("things", tmp_path / "file" / "below").put("a", lambda path: write_text(path, "whole"))
    monkeypatch.delenv("COCOAX_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    assert KeyedCache("things").get("a", read_whole) is None
    with pytest.warns(UserWarning, match="no home folder"):
        KeyedCache("things").put("a", lambda path: write_text(path, "whole"))
