"""Folders of units: what a killed process, damage, another process and other options do to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import cocoax
from cocoax.store import Layout, Results, UnitFolder, folder_lock, write_text

UNIT = Layout("unit", {"a?": "n"}, {})
HEAD = Layout("test", {}, {"count": int})
FOREIGN = ("film.mkv.part", "x.safetensors", "y.damaged", ".lock", "options.json.part", "options.json.0123abcd.part.bak")


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_head__is_read_as_written_and_every_damaged_byte_is_seen(tmp_path: Path) -> None:
    folder = UnitFolder(tmp_path, HEAD)
    assert folder.read_head() is None
    folder.write_head({"count": 3, "name": "a cat’s"})
    assert folder.read_head() == {"count": 3, "name": "a cat’s"}
    path = tmp_path / "options.json"
    sound = path.read_bytes()
    for place in range(len(sound) - 1):  # the last is the end of the line
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        with pytest.raises(ValueError, match=r"options\.json is damaged .*move the folder away"):
            folder.read_head()


@pytest.mark.parametrize(
    ("layout", "head", "said"),
    [
        (HEAD, {}, "lacks 'count'"),
        (HEAD, {"count": "3"}, "'count' in its header is '3'"),
        (Layout("other"), {"count": 3}, "of a Cocoax test, not of a Cocoax other"),
    ],
)
def test_head__of_another_kind_or_with_other_types(layout: Layout, head: dict[str, Any], said: str, tmp_path: Path) -> None:
    UnitFolder(tmp_path, HEAD).write_head(head)
    with pytest.raises(ValueError, match=rf"options\.json .*{said}"):
        UnitFolder(tmp_path, layout).read_head()


def test_leftovers__only_files_that_cocoax_named_are_removed(tmp_path: Path) -> None:
    folder = UnitFolder(tmp_path, HEAD, unit_name=r"\d+\.safetensors")
    foreign = [tmp_path / place / name for place in ("", "units", "downloads") for name in FOREIGN]
    names = ("options.json.0123abcd.part", "units/7.safetensors.0123abcd.part")
    leftovers = [tmp_path / name for name in names]
    for path in [*foreign, *leftovers]:
        write_text(path, "the user's own")
    folder.write_head({"count": 1})
    with folder.lock():
        folder.remove_leftovers()
    assert all(path.read_text() == "the user's own" for path in foreign)
    assert not any(path.exists() for path in leftovers)
    assert folder.files() == []


def test_lock__another_process_is_told(tmp_path: Path) -> None:
    with (
        folder_lock(tmp_path),
        pytest.raises(ValueError, match=r"Another process is at work"),
        UnitFolder(tmp_path, HEAD).lock(),
    ):
        pass


def test_results__are_read_as_written(tmp_path: Path) -> None:
    results = Results(tmp_path, {"runs": 2, "classes": (1, 2)}, UNIT)
    assert "123-0000" not in results
    results.write("123-0000", {"a": torch.arange(6.0)}, {"rows": [{"method": "rise"}]})
    again = Results(tmp_path, {"runs": 2, "classes": [1, 2]}, UNIT).get("123-0000")  # JSON knows lists only
    assert again is not None
    assert torch.equal(again[0]["a"], torch.arange(6.0))
    assert again[1] == {"rows": [{"method": "rise"}]}


@pytest.mark.parametrize("other", [{"runs": 3, "foil": 5}, {"runs": 2}, {"runs": 2, "foil": 5, "grid": 4}])
def test_results__of_other_options_or_without_them_are_refused(tmp_path: Path, other: dict[str, Any]) -> None:
    Results(tmp_path, {"runs": 2, "foil": 5}, UNIT).write("1", {"a": torch.zeros(1)}, {})
    before = content(tmp_path)
    with pytest.raises(ValueError, match=r"holds results with other options: (runs was 2|foil was 5|grid was None), now"):
        Results(tmp_path, other, UNIT)
    assert content(tmp_path) == before
    (tmp_path / "options.json").unlink()
    with pytest.raises(ValueError, match=r"is not empty, and no folder of results: it has no options\.json"):
        Results(tmp_path, other, UNIT)


@pytest.mark.parametrize("keep", [0, 7, 50, -3])
def test_results__a_damaged_unit_is_quarantined_and_made_again(keep: int, tmp_path: Path) -> None:
    results = Results(tmp_path, {}, UNIT)
    results.write("1", {"a": torch.zeros(100)}, {})
    path = results.path("1")
    damaged = path.read_bytes()[:keep]
    path.write_bytes(damaged)
    with pytest.warns(UserWarning, match=r"1\.safetensors .*put aside as 1\.safetensors\.damaged"):
        assert "1" not in results
    assert path.with_name("1.safetensors.damaged").read_bytes() == damaged
    results.write("1", {"a": torch.zeros(100)}, {})
    assert "1" in results


def test_results__a_unit_of_another_kind(tmp_path: Path) -> None:
    results = Results(tmp_path, {}, UNIT)
    cocoax.Reference.from_representations(torch.ones(2, 3)).save(results.path("1"))
    with pytest.warns(UserWarning, match="it holds reference"):
        assert "1" not in results
