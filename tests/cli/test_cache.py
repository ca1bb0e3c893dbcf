"""cocoax cache: what it holds, and clearing all or some of it; and the functions behind it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

import cocoax
from cocoax.cli.cache import duration_of, size_of
from cocoax.methods.run_cache import cached_run
from tests.cli.support import invoke, rows_of
from tests.conftest import SmallNet, images

DAY = 86_400


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A cache with two chunks of references and a run of one encoder, a chunk of another, and what a killed writer left."""
    first, second = cocoax.Encoder(SmallNet().eval(), name="first"), cocoax.Encoder(SmallNet(seed=1).eval(), name="second")
    first.reference(images(3))
    first.reference(images(2, seed=1))
    second.reference(images(3))
    cached_run(first, images(1)[0], cocoax.Rise(samples=20))
    folder = tmp_path / "cache"
    (folder / "runs" / f"{'a' * 32}.safetensors.01234567.part").write_bytes(b"half")
    return folder


def age(file: Path, days: float) -> None:
    then = time.time() - days * DAY
    os.utime(file, (then, then))


def numbers() -> tuple[int, int, int]:
    info = cocoax.cache_info()
    return info.files, info.runs, info.leftovers


# --- looking --------------------------------------------------------------------------------------------------------------


def test_cache__help() -> None:
    assert "--clear" in invoke("cache", "--help").output


def test_cache__empty(tmp_path: Path) -> None:
    result = invoke("cache")
    assert result.exit_code == 0
    assert result.output.splitlines()[0] == f"{tmp_path / 'cache'}: holds 0 files, 0.0 MB"
    assert rows_of(result.output)[1:] == [
        ["kind", "number", "size", "oldest", "of encoders"],
        *([kind, "0", "0.0 MB", "–", "–"] for kind in ("references", "runs", "leftovers")),
    ]


def test_cache__filled(filled: Path) -> None:
    oldest = next(filled.glob("references/*.safetensors"))
    age(oldest, 400)
    first, _, *rows = rows_of(invoke("cache").output)
    assert first[0].startswith(f"{filled}: holds 5 files, ")
    assert [(kind, number, encoders) for kind, number, _, _, encoders in rows] == [
        ("references", "3", "first, second"),
        ("runs", "1", "first"),
        ("leftovers", "1", "–"),
    ]
    assert rows[0][3] == f"{datetime.fromtimestamp(oldest.stat().st_mtime):%Y-%m-%d %H:%M}"


def test_cache__json(filled: Path) -> None:
    result = invoke("cache", "--json")
    content = json.loads(result.stdout)
    assert (content["folder"], content["deleted"]) == (str(filled), False)
    assert {kind: entry["number"] for kind, entry in content["kinds"].items()} == {
        "references": 3,
        "runs": 1,
        "leftovers": 1,
    }
    assert content["kinds"]["leftovers"]["bytes"] == 4
    assert content["kinds"]["references"]["encoders"] == ["first", "second"]
    assert datetime.fromisoformat(content["kinds"]["runs"]["oldest"]).timestamp() == pytest.approx(time.time(), abs=100)
    assert json.loads(invoke("cache", "--kind", "runs", "--encoder", "second", "--json").stdout)["bytes"] == 0


def test_cache__folder_with_brackets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich takes what is in brackets for a style, unless it is told not to."""
    monkeypatch.setenv("COCOAX_CACHE", str(tmp_path / "cache [mine]"))
    assert f"{tmp_path / 'cache [mine]'}: holds" in invoke("cache").output


# --- clearing -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["--yes"], []])
def test_cache__clear_everything(arguments: list[str], filled: Path) -> None:
    result = invoke("cache", "--clear", *arguments, input="y\n")
    assert result.exit_code == 0, result.output
    assert f"{filled}: deleted 5 files" in result.stdout
    assert ("Delete 5 files" in result.stderr) == (arguments == [])
    assert numbers() == (0, 0, 0)
    assert not [file for file in filled.rglob("*") if file.is_file()]


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_cache__clear_asks_and_takes_no_for_an_answer(answer: str, filled: Path) -> None:
    result = invoke("cache", "--clear", input=answer)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "nothing was deleted" in result.stderr
    assert ("give --yes where nobody can answer" in result.stderr) == (answer == "")
    assert numbers() == (3, 1, 1)


def test_cache__interrupted_while_asking(
    filled: Path, monkeypatch: pytest.MonkeyPatch, interruption: Callable[..., str]
) -> None:
    def interrupted() -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdin", SimpleNamespace(readline=interrupted))
    assert interruption("cache", "--clear").endswith("interrupted: nothing was deleted")
    assert numbers() == (3, 1, 1)


def test_cache__nothing_to_clear_needs_no_answer() -> None:
    assert invoke("cache", "--clear", input="").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        (["--kind", "runs"], (3, 0, 1)),
        (["--kind", "references"], (0, 1, 1)),
        (["--kind", "leftovers"], (3, 1, 0)),
        (["--encoder", "first"], (1, 0, 1)),
        (["--encoder", "second"], (2, 1, 1)),
        (["--encoder", "first", "--kind", "references"], (1, 1, 1)),
        (["--older-than", "30d"], (1, 1, 0)),
        (["--older-than", "2w", "--kind", "leftovers"], (3, 1, 0)),
        (["--older-than", "3000h"], (3, 1, 1)),
    ],
)
def test_cache__clear_some(arguments: list[str], left: tuple[int, int, int], filled: Path) -> None:
    for file in [*sorted(filled.glob("references/*.safetensors"))[:2], *filled.glob("runs/*.part")]:
        age(file, 31)
    assert invoke("cache", "--clear", "--yes", *arguments).exit_code == 0
    assert numbers() == left


def test_cache__what_is_no_time(complaint: Callable[..., str]) -> None:
    said = complaint("cache", "--older-than", "a month")
    assert said == "--older-than is a number and one of s, m, h, d and w, as in 30d. Got 'a month' instead."


# --- the functions --------------------------------------------------------------------------------------------------------


def test_clear_cache__returns_what_was_deleted(filled: Path) -> None:
    info = cocoax.clear_cache(encoder="first", older_than=timedelta(0))
    assert (info.folder, info.files, info.runs, info.leftovers) == (filled, 2, 1, 0)
    assert info.bytes == sum(file.bytes for file in info.contents) > 0


def test_cache_info__unknown_kind() -> None:
    with pytest.raises(ValueError, match=r"must be one of references, runs, leftovers\. Got 'maps' instead"):
        cocoax.cache_info(kind="maps")


@pytest.mark.parametrize("content", [b"", b"\xff" * 8, b"\x02\0\0\0\0\0\0\0{}", b"\x04\0\0\0\0\0\0\0null"])
def test_cache_info__damaged_files_have_no_encoder(content: bytes, filled: Path) -> None:
    (filled / "runs" / f"{'b' * 32}.safetensors").write_bytes(content)
    assert cocoax.cache_info(encoder="first").runs == 1
    assert cocoax.cache_info().runs == 2


def test_cache_info__a_file_that_vanishes_is_left_out(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vanishing = next(filled.glob("runs/*.part"))
    stat = Path.stat

    def gone(path: Path, **options: bool) -> os.stat_result:
        if path == vanishing:
            raise FileNotFoundError
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", gone)
    assert numbers() == (3, 1, 0)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30d", 30 * DAY), ("12h", 43_200), ("2w", 14 * DAY), ("90 m", 5400), ("1.5H", 5400), ("5s", 5)]
)
def test_duration_of(text: str, seconds: float) -> None:
    assert duration_of(text).total_seconds() == seconds


@pytest.mark.parametrize(("number", "words"), [(0, "0.0 MB"), (5_100_000, "5.1 MB"), (12_340_000_000, "12.34 GB")])
def test_size_of(number: int, words: str) -> None:
    assert size_of(number) == words
