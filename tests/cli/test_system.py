"""cocoax demo, app, encoders and cache."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import datetime
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

import cocoax
from cocoax.cli.system import CAPTIONS, QUADRANTS, _duration_of
from cocoax.data import COLLAGE, collage, photo
from cocoax.data.samples import square
from cocoax.encoders import ENCODERS, Known
from cocoax.methods.run_cache import cached_run
from cocoax.store import CACHE_KINDS
from tests.cli.support import invoke, load_starter, picture, rows_of, two_towers
from tests.conftest import SmallNet, images

# --- demo ---


@pytest.fixture
def starter(monkeypatch: pytest.MonkeyPatch) -> cocoax.Encoder:
    """The starter encoder; the demo gets the same one."""
    encoder = load_starter()
    monkeypatch.setattr(cocoax, "load", lambda _name, device: encoder)
    return encoder


def test_demo__finds_all_quadrants_and_writes_files(tmp_path: Path, starter: cocoax.Encoder) -> None:
    result = invoke("demo", "--samples", "200", "--out", str(tmp_path / "out [new]"), catch_exceptions=False)
    rows = [rows_of(line)[0] for line in result.output.splitlines() if " rather than the other " in line]
    assert [row[2:] for row in rows] == [[quadrant, "yes"] for quadrant in QUADRANTS] * 2
    assert [row[0].split(" rather")[0] for row in rows] == [*CAPTIONS.values(), *(f"the {name} photo" for name in CAPTIONS)]
    for name in ("collage.png", "astronaut.png", "report.html"):
        assert f"wrote {tmp_path / 'out [new]' / name}" in result.output
        assert (tmp_path / "out [new]" / name).stat().st_size > 1000
    page = unescape((tmp_path / "out [new]" / "report.html").read_text(encoding="utf-8"))
    assert all(row[0] in page and row[1] in page for row in rows)
    assert not plt.get_fignums()  # figures that stay open in pyplot stay in memory


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_demo__all_right_whatever_the_seed(seed: int, tmp_path: Path, starter: cocoax.Encoder) -> None:
    result = invoke("demo", "--seed", str(seed), "--out", str(tmp_path), catch_exceptions=False)
    assert "expected" not in result.output.replace("as expected", "")


def test_collage__quadrants_are_the_photos_that_the_demo_asks_about() -> None:
    assert tuple(CAPTIONS) == COLLAGE
    pixels = np.asarray(collage(256)).astype(float)
    for number, name in enumerate(COLLAGE):
        quadrant = pixels[128 * (number // 2) :, 128 * (number % 2) :][:128, :128]
        distances = {
            other: np.abs(quadrant - np.asarray(square(photo(other), 128)).astype(float)).mean() for other in COLLAGE
        }
        assert min(distances, key=distances.__getitem__) == name


# --- app ---


def test_app__serves_and_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    web = pytest.importorskip("cocoax.app")
    asked: list[Any] = []
    waited: list[str] = []
    blocks = SimpleNamespace(block_thread=lambda: waited.append("until interrupted"))
    page = SimpleNamespace(blocks=blocks, close=lambda: waited.append("closed"))

    def launch(encoder: Any, **options: Any) -> tuple[Any, str]:
        asked.append((encoder, options))
        return page, "http://127.0.0.1:7861/"

    monkeypatch.setattr(web, "launch", launch)
    monkeypatch.setattr(
        cocoax, "load", lambda name, device: SimpleNamespace(name=(name, device), cropped=lambda: (name, device, "cropped"))
    )
    result = invoke("app", "--device", "cuda:1", "--samples", "200", "--kept", "3", "--no-browser")
    assert result.exit_code == 0, result.output
    ((encoder, options),) = asked
    assert encoder.name == ("starter", "cuda:1")
    assert options.items() >= {"samples": 200, "port": None, "kept": 3, "browser": False, "wait": False}.items()
    assert "http://127.0.0.1:7861/" in result.output
    assert waited == ["until interrupted", "closed"]
    assert invoke("app", "--device", "cpu", "--crop").exit_code == 0
    assert asked[1][0] == ("starter", "cpu", "cropped")
    monkeypatch.setattr(cocoax, "load", lambda name, device: two_towers())
    assert invoke("app", "--features", "segments:5").exit_code == 0
    assert asked[2][0].explicand(picture()).shape == (5,)


# --- encoders ---


def test_encoders__lists_all_and_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENCODERS, "mine:", Known("[mine]", "nowhere:load", ("no_such_package",), "hf", takes="FILE"))
    result = invoke("encoders")
    assert result.exit_code == 0, result.output
    header, *rows = rows_of(result.output)
    assert header == ["name", "what it is", "installed"]
    assert [row[0] for row in rows] == [
        f"{name}{known.takes}" if name.endswith(":") else name for name, known in ENCODERS.items()
    ]
    assert rows[-1] == ["mine:FILE", "[mine]", "no: pip install 'cocoax[hf]'"]
    assert ["starter", ENCODERS["starter"].what, "yes"] in rows


def test_encoders__json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENCODERS, "mine:", Known("[mine]", "nowhere:load", ("no_such_package",), "hf", takes="FILE"))
    listed = json.loads(invoke("encoders", "--json").stdout)
    assert len(listed) == len(ENCODERS)
    assert listed[0] == {"name": "starter", "what": ENCODERS["starter"].what, "installed": True, "install": None}
    install = "pip install 'cocoax[hf]'"
    assert listed[-1] == {"name": "mine:FILE", "what": "[mine]", "installed": False, "install": install}


# --- cache ---


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
    return info.references, info.runs, info.leftovers


def test_cache__empty(tmp_path: Path) -> None:
    result = invoke("cache")
    assert result.exit_code == 0
    assert result.output.splitlines()[0] == f"{tmp_path / 'cache'}: holds 0 files, 0.0 MB"
    assert rows_of(result.output)[1:] == [
        ["kind", "number", "size", "oldest", "of encoders"],
        *([kind, "0", "0.0 MB", "–", "–"] for kind in CACHE_KINDS),
    ]


def test_cache__filled(filled: Path) -> None:
    oldest = next(filled.glob("references/*.safetensors"))
    age(oldest, 400)
    first, _, *rows = rows_of(invoke("cache").output)
    assert first[0].startswith(f"{filled}: holds 5 files, ")
    assert [(kind, number, encoders) for kind, number, _, _, encoders in rows] == [
        ("references", "3", "first, second"),
        ("runs", "1", "first"),
        ("vectors", "0", "–"),
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
        "vectors": 0,
        "leftovers": 1,
    }
    assert content["kinds"]["leftovers"]["bytes"] == 4
    assert content["kinds"]["references"]["encoders"] == ["first", "second"]
    assert datetime.fromisoformat(content["kinds"]["runs"]["oldest"]).timestamp() == pytest.approx(time.time(), abs=100)
    assert json.loads(invoke("cache", "--kind", "runs", "--encoder", "second", "--json").stdout)["bytes"] == 0


@pytest.mark.parametrize("arguments", [["--yes"], []])
def test_cache__clear_everything(arguments: list[str], filled: Path) -> None:
    result = invoke("cache", "--clear", *arguments, input="y\n")
    assert result.exit_code == 0, result.output
    assert f"{filled}: deleted 5 files" in result.stdout
    assert ("Delete 5 files" in result.stderr) == (arguments == [])
    assert numbers() == (0, 0, 0)
    assert not [file for file in filled.rglob("*") if file.is_file() and not file.name.startswith(".")]


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
    assert "--older-than" in said


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
    assert _duration_of(text).total_seconds() == seconds
