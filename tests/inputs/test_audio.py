"""Sound files and samples: every rate, layout and type comes out as the same samples, and what is wrong is said."""

from __future__ import annotations

import base64
import io
import struct
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from torch import Tensor

from cocoax.inputs.sound import _FREQUENCIES, FRAME, HOP, from_spectra, one_channel, read_file, sound_files, to_spectra
from cocoax.show.raster import wav_uri
from tests.sounds import pitch, tone


def read(path: Path, rate: int = 16_000, longest: float = 60.0) -> Tensor:
    return one_channel(*read_file(path, longest), rate, longest, str(path))


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg", "aiff"])
def test_read_file__formats(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"tone.{suffix}"
    soundfile.write(path, tone(440, rate=16_000), 16_000)
    samples = read(path)
    assert samples.shape == (16_000,)
    assert samples.dtype == torch.float32
    assert np.abs(samples.numpy() - tone(440, rate=16_000)).max() < (0.02 if suffix == "ogg" else 1e-4)


@pytest.mark.parametrize("rate", [8000, 11_025, 22_050, 44_100, 48_000])
def test_read_file__a_tone_stays_the_same_tone_at_any_rate(tmp_path: Path, rate: int) -> None:
    soundfile.write(tmp_path / "tone.wav", tone(440, rate=rate), rate)
    samples = read(tmp_path / "tone.wav")
    assert len(samples) == 16_000
    assert pitch(samples, 16_000) == 440
    middle = samples[2000:-2000].numpy()
    np.testing.assert_allclose(middle, tone(440, rate=16_000)[2000:-2000], atol=2e-3)  # neither shifted nor louder


def test_read_file__stereo_is_the_mean_of_its_channels(tmp_path: Path) -> None:
    both = np.stack([tone(440, rate=8000), tone(100, rate=8000)], axis=1)
    soundfile.write(tmp_path / "stereo.wav", both, 8000, subtype="FLOAT")
    np.testing.assert_allclose(read(tmp_path / "stereo.wav", 8000), both.mean(1), atol=1e-7)


def test_sound_files__below_a_folder_in_order_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.wav", "a/c.FLAC", "a/notes.txt", ".hidden/d.wav", ".e.wav"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "folder.wav").mkdir()
    assert sound_files(tmp_path) == [tmp_path / "a/c.FLAC", tmp_path / "b.wav"]


def test_sound_files__none(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ValueError, match=r"No sounds below .*; expected files such as .wav, .flac or .ogg"):
        sound_files(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"not a sound at all", b"RIFF\x00\x00\x00\x00WAVE", b"\x89PNG\r\n\x1a\n" + bytes(50)]
)
def test_read_file__not_a_sound(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "text.wav").write_bytes(content)
    with pytest.raises(ValueError, match=r"text.wav is not a sound that can be read \([^()]+\); expected WAV, FLAC, OGG"):
        read(tmp_path / "text.wav")


def test_read_file__cut_off(tmp_path: Path) -> None:
    """Other libraries read a shorter sound, without a word."""
    path = tmp_path / "cut.wav"
    soundfile.write(path, np.zeros(1000), 8000)
    whole = path.read_bytes()
    path.write_bytes(whole[:-2])
    with pytest.raises(ValueError, match=rf"cut\.wav is cut off: it has {len(whole) - 2} of {len(whole)} bytes"):
        read_file(path, 60)
    endless = whole[:4] + b"\xff\xff\xff\xff" + whole[8:40] + b"\xff\xff\xff\xff" + whole[44:]
    path.write_bytes(endless)  # from a recorder that did not know how long it would go on
    assert len(read_file(path, 60)[0]) == 1000


def test_read_file__samples_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "samples.raw").write_bytes(bytes(100))
    with pytest.raises(ValueError, match=r"samples.raw is not a sound that can be read"):
        read(tmp_path / "samples.raw")


def test_read_file__missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"No file at .*none.wav; check the path"):
        read(tmp_path / "none.wav")


@pytest.mark.parametrize(("samples", "message"), [(0, "has 0 samples; pass one that lasts a while"), (1, "has 1 samples at")])
def test_read_file__nearly_nothing(tmp_path: Path, samples: int, message: str) -> None:
    soundfile.write(tmp_path / "short.wav", np.zeros(samples, np.float32), 16_000)
    with pytest.raises(ValueError, match=f"short.wav {message}"):
        read(tmp_path / "short.wav")


def refuse_to_read(*_arguments: object, **_options: object) -> None:
    raise AssertionError("the samples were read")


def test_read_file__an_hour_is_refused_by_its_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 3600 * 16_000 * 2
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 16_000, 32_000, 2, 16)
    path = tmp_path / "hour.wav"
    path.write_bytes(b"RIFF" + struct.pack("<I", 36 + size) + b"WAVE" + form + b"data" + struct.pack("<I", size))
    with path.open("r+b") as file:
        file.truncate(44 + size)  # a hole in the file, which takes no room
    monkeypatch.setattr(soundfile.SoundFile, "read", refuse_to_read)
    with pytest.raises(ValueError, match=r"hour.wav lasts 3600 s, longer than the 60 s .* cut out the part .* longest="):
        read(path)


def test_read_file__eight_channels_are_refused_by_the_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soundfile.write(tmp_path / "many.wav", np.zeros((100, 8), np.float32), 16_000)
    monkeypatch.setattr(soundfile.SoundFile, "read", refuse_to_read)
    with pytest.raises(ValueError, match=r"many.wav has 8 channels; mix it down to one or two first"):
        read(tmp_path / "many.wav")


def test_read_file__nan(tmp_path: Path) -> None:
    samples = tone(10)
    samples[3:5] = np.nan
    soundfile.write(tmp_path / "nan.wav", samples, 1000, subtype="FLOAT")
    with pytest.raises(ValueError, match=r"nan.wav has 2 samples that are not finite; cut them out or fill them in"):
        read(tmp_path / "nan.wav")


# --- samples ----------------------------------------------------------------------------------------------------------


def test_one_channel__types_and_layouts() -> None:
    wanted = torch.tensor([-1.0, 0.0, 0.5, -0.5])
    whole = np.array([-(2**15), 0, 2**14, -(2**14)])
    same: list[Any] = [
        wanted,
        wanted.double().numpy(),
        wanted.bfloat16(),
        wanted.clone().requires_grad_(),
        whole.astype(np.int16),
        torch.from_numpy(whole.astype(np.int16)),
        (whole * 2**16).astype(np.int32),
        (whole // 2**8 + 128).astype(np.uint8),
        wanted[:, None],
        wanted[None],
        torch.stack([wanted - 0.25, wanted + 0.25]),  # [channels, T], as torch has it
        np.stack([wanted - 0.25, wanted + 0.25], axis=1),
        wanted.numpy()[::-1].copy()[::-1],  # which torch cannot take as it is
    ]
    for samples in same:
        assert torch.equal(one_channel(samples, 8000, 8000, 60), wanted), samples
    assert one_channel(wanted, np.float64(8000), 8000, 60).dtype == torch.float32


def test_one_channel__does_not_share_memory() -> None:
    samples = tone(10)
    one_channel(samples, 1000, 1000, 60)[:] = 0
    assert np.array_equal(samples, tone(10))


@pytest.mark.parametrize("rate", [0, -8000, float("nan"), float("inf"), "8000", None, True])
def test_one_channel__rate(rate: Any) -> None:
    with pytest.raises(ValueError, match=r"The sound has a rate of .*; it must be a number of samples per second above 0"):
        one_channel(tone(10), rate, 1000, 60)


@pytest.mark.parametrize(
    ("samples", "kind", "message"),
    [
        (np.zeros(0), ValueError, "has 0 samples; pass one that lasts a while"),
        (np.zeros(1), ValueError, "has 1 samples at 1000 per second; pass one that lasts a while"),
        (np.full(10, np.inf), ValueError, "has 10 samples that are not finite"),
        (np.zeros((100, 8)), ValueError, "has 8 channels; mix it down to one or two first"),
        (np.zeros((8, 100)), ValueError, "has 8 channels; mix it down to one or two first"),
        (np.zeros((2, 3, 4)), ValueError, r"must be numbers \[T\] or \[T, channels\]. Got float64 \[2, 3, 4\] instead"),
        (np.array(["a", "b"]), ValueError, r"must be numbers \[T\]"),
        (np.array([True, False]), ValueError, r"must be numbers \[T\]"),
        (np.zeros(5, complex), ValueError, r"must be numbers \[T\]"),
        (np.arange(9), ValueError, "samples of int64, whose full scale is not known; pass int16, int32, uint8, as files"),
        (np.array([0.0, 20_000.0]), ValueError, "goes up to 20000, but full scale is 1; divide samples of 16 bits by 32768"),
        ([0.1, 0.2], TypeError, r"Samples must be an array or a tensor. Got list instead; write np.array\(...\)"),
        (np.zeros(60_001), ValueError, "lasts 60.001 s, longer than the 60 s that are taken at once"),
    ],
)
def test_one_channel__wrong(samples: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        one_channel(samples, 1000, 1000, 60)


def test_one_channel__nothing_left_at_a_lower_rate() -> None:
    with pytest.raises(ValueError, match=r"The sound has 0 samples at 1000 per second; pass one that lasts a while"):
        one_channel(np.zeros(10), 1_000_000, 1000, 60)


# --- spectra ----------------------------------------------------------------------------------------------------------


def test_to_spectra__are_fourier_transforms_of_windows() -> None:
    samples = torch.from_numpy(tone(60) + 0.1 * np.random.default_rng(0).standard_normal(1000)).double()
    spectra = to_spectra(samples)
    padded = np.pad(np.pad(samples, (0, 24)), FRAME // 2, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME) / FRAME)
    slow = np.stack([np.fft.rfft(window * padded[start : start + FRAME]) for start in range(0, 1025, HOP)], axis=1)
    assert spectra.shape == (2, _FREQUENCIES, 9)
    np.testing.assert_allclose(spectra, [slow.real, slow.imag], atol=1e-10)


@pytest.mark.parametrize("length", [2, 100, 256, 257, 1000, 1024, 5001])
def test_from_spectra__gives_the_samples_back(length: int) -> None:
    samples = torch.from_numpy(np.random.default_rng(length).standard_normal(length)).float()
    back = from_spectra(to_spectra(samples)[None])[0]
    assert length <= len(back) < length + HOP + FRAME
    assert float((back[:length] - samples).abs().max()) < 1e-5
    assert float(back[length:].abs().sum()) < 1e-3  # filled up with silence


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_from_spectra__in_the_precision_of_the_module(dtype: torch.dtype) -> None:
    samples = torch.from_numpy(tone(60))
    back = from_spectra(to_spectra(samples)[None].to(dtype))[0]
    assert back.dtype == dtype
    torch.testing.assert_close(back[:1000].float(), samples, atol=2e-2, rtol=0)


# --- the player -------------------------------------------------------------------------------------------------------


def played(element: str) -> tuple[np.ndarray, int]:
    data = base64.b64decode(element.split("base64,")[1].split('"')[0], validate=True)
    with wave.open(io.BytesIO(data)) as sound:
        assert (sound.getnchannels(), sound.getsampwidth()) == (1, 2)
        return np.frombuffer(sound.readframes(sound.getnframes()), np.int16), sound.getframerate()


def test_player__plays_the_samples() -> None:
    samples, rate = played(wav_uri(tone(60), 1000))
    assert rate == 1000
    np.testing.assert_array_equal(samples, np.round(tone(60) * 32767))


def test_player__turns_down_what_is_too_loud() -> None:
    samples, _ = played(wav_uri(np.array([0.0, 4.0, -2.0]), 1000))
    assert samples.tolist() == [0, 32767, -16384]
