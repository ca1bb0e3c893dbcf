"""The code of docs/how-to/sound.md runs as it stands, and the benchmark that its table is from runs too."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import soundfile

from cocoax.seeding import stream
from tests.documentation.blocks import DOCS, ROOT, blocks_of
from tests.sounds import tone

BLOCKS = blocks_of(DOCS / "how-to" / "sound.md")
installed = pytest.mark.skipif(importlib.util.find_spec("resemblyzer") is None, reason="resemblyzer is not installed")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    return tmp_path


def run(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(re.sub(r"samples=\d+", "samples=40", block), "docs/how-to/sound.md", "exec"), names)
    plt.close("all")
    return names


def write_voices(folder: Path, hertz: float, count: int) -> None:
    folder.mkdir(parents=True)
    for index in range(count):
        samples = sum(tone(k * (hertz + index), 1.6, 8000, 0.2) for k in (1, 2, 3, 5))
        soundfile.write(folder / f"{index}.wav", samples, 8000)


def test_page__has_two_examples() -> None:
    assert len(BLOCKS) == 2


def test_page__own_encoder(here: Path) -> None:
    result = run(BLOCKS[0])["result"]
    first, second = (result.values - result.neutral).view(2, -1).mean(1)
    assert first > 0 > second
    assert result.name == "the low voice rather than the high voice"
    assert (here / "voices.html").read_text(encoding="utf-8").count("<audio") == 1


@installed
def test_page__resemblyzer(here: Path) -> None:
    write_voices(here / "recordings/carlo", 110, 2)
    write_voices(here / "recordings/others", 200, 2)
    soundfile.write(here / "call.wav", np.concatenate([tone(110, 0.5, 8000), tone(200, 0.5, 8000)]), 8000)
    names = run(BLOCKS[1])
    assert names["result"].values.shape == (40,)
    assert names["cells"].explicand("call.wav").shape == (24 * 8,)
    assert (here / "call.png").stat().st_size > 5000


@pytest.fixture
def halves(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("sound_halves", ROOT / "benchmarks" / "sound_halves.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "sound_halves", module)
    spec.loader.exec_module(module)
    return module


@installed
def test_benchmark__prints_a_line_for_each_removal_and_weights(
    here: Path, halves: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_voices(here / "low", 110, 20)
    write_voices(here / "high", 230, 20)
    options = ["--clips", "1", "--samples", "20", "--untrained", "1", "--initial", "1"]
    monkeypatch.setattr(sys, "argv", ["sound_halves.py", str(here / "low"), str(here / "high"), *options])
    halves.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[:3] for line in lines] == [
        ["low rather than high", removal, weights]
        for weights in ("trained", "untrained 0", "initial 0")
        for removal in ("silence", "noise")
    ]
    assert re.fullmatch(r"[01] of 1 \| [01]\.00 \([01]\.\d\d to [01]\.\d\d\)", lines[0].split(" | ", 3)[3])


def test_benchmark__needs_recordings(here: Path, halves: ModuleType) -> None:
    write_voices(here / "few", 110, 3)
    with pytest.raises(SystemExit, match=r"few has 3 recordings of 1.5 s or more; at least 20 are needed"):
        halves.voice(here / "few", 10, stream(0))


def test_benchmark__divides_recordings(here: Path, halves: ModuleType) -> None:
    write_voices(here / "many", 110, 24)
    voice = halves.voice(here / "many", 100, stream(0))
    assert (voice.name, voice.clips.shape, voice.others.shape) == ("many", (16, 24_000), (8, 24_000))
    assert len(np.unique(np.concatenate([voice.clips, voice.others]), axis=0)) == 24  # none is in both


def test_benchmark__pieces_are_the_loudest_and_equally_loud(here: Path, halves: ModuleType) -> None:
    soundfile.write(here / "a.wav", np.concatenate([0.1 * tone(100, 2.0, 8000), tone(300, 1.5, 8000)]), 8000)
    piece = halves.loudest_piece(here / "a.wav")
    assert piece.shape == (24_000,)
    assert float(np.sqrt((piece**2).mean())) == pytest.approx(10 ** (-26 / 20), rel=1e-3)
    assert np.argmax(np.abs(np.fft.rfft(piece))) == pytest.approx(450, abs=1)  # 300 Hz, in 1.5 s
    soundfile.write(here / "short.wav", tone(300, 1.0, 8000), 8000)
    soundfile.write(here / "silent.wav", np.zeros(16_000, np.float32), 8000)
    soundfile.write(here / "empty.wav", np.zeros(0, np.float32), 8000)
    for name in ("short", "silent", "empty"):
        assert halves.loudest_piece(here / f"{name}.wav") is None
