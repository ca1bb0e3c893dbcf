"""Sound files and samples: opening them safely, one channel, at the rate that an encoder takes; spectra and back."""

from __future__ import annotations

import base64
import io
import wave
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocoax.store import files_below

SUFFIXES = frozenset({".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif", ".au"})
CHANNELS = 2  # what more channels mean (surround, instruments) is not for us to guess
LOUDEST = 100.0  # files of floats may go a little over full scale, which is 1
FRAME, HOP = 512, 128  # of spectra, in samples
FREQUENCIES = FRAME // 2 + 1
_INTEGERS = ("int16", "int32", "uint8")  # as files have them; others have been made by accident, at an unknown scale


def sound_files(folder: Path) -> list[Path]:
    """Return every sound below a folder, in sorted order; hidden files and folders are left out."""
    files = files_below(folder, SUFFIXES)
    if not files:
        raise ValueError(f"No sounds below {folder}; expected files such as .wav, .flac or .ogg.")
    return files


def read_file(path: Path, longest: float) -> tuple[np.ndarray, float]:
    """Return the samples ``[T, channels]`` of a file and their rate; one that is too long is refused by its header."""
    if not path.is_file():
        raise FileNotFoundError(f"No file at {path}; check the path.")
    soundfile = import_library("soundfile")
    _check_whole(path)
    try:
        with soundfile.SoundFile(str(path)) as file:
            _check_size(file.frames / file.samplerate, file.channels, longest, str(path))
            return file.read(dtype="float32", always_2d=True), file.samplerate
    except (soundfile.LibsndfileError, TypeError) as error:  # a TypeError for samples without a header
        reason = getattr(error, "error_string", str(error)).rstrip(".")
        raise ValueError(
            f"{path} is not a sound that can be read ({reason}); expected WAV, FLAC, OGG or the like."
        ) from error


def _check_whole(path: Path) -> None:
    """Raise if a WAV file is shorter than its header says, which libsndfile reads as a shorter sound."""
    with path.open("rb") as file:
        head = file.read(8)
    said = int.from_bytes(head[4:], "little") + 8
    endless = said >= 2**31 - 2**20  # what recorders write that do not know the length in advance
    if head[:4] == b"RIFF" and not endless and said > path.stat().st_size:
        raise ValueError(f"{path} is cut off: it has {path.stat().st_size} of {said} bytes; fetch it again.")


def one_channel(samples: Any, rate: Any, to_rate: int, longest: float, name: str = "The sound") -> Tensor:
    """Return samples of any rate and up to two channels as one channel ``[T]`` at another rate.

    Integers are scaled as in files, so that full scale is 1. Channels may come first or last; there are fewer than samples.
    """
    if isinstance(rate, bool) or not isinstance(rate, int | float | np.number) or not 0 < rate < np.inf:
        raise ValueError(f"{name} has a rate of {rate!r}; it must be a number of samples per second above 0.")
    array = _as_array(samples, name)
    if array.shape[1] > array.shape[0]:
        array = array.T  # [channels, T], as torch has it
    _check_size(len(array) / float(rate), array.shape[1], longest, name)
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        array = (array.astype(np.float64) - (limits.max + limits.min + 1) / 2) / ((limits.max - limits.min + 1) / 2)
    array = array.mean(1)
    _check_values(array, name)
    if float(rate) != to_rate:
        array = import_library("soxr").resample(np.ascontiguousarray(array, np.float32), float(rate), to_rate)
    if len(array) < 2:
        raise ValueError(f"{name} has {len(array)} samples at {to_rate} per second; pass one that lasts a while.")
    return torch.from_numpy(np.array(array, np.float32))


def _as_array(samples: Any, name: str) -> np.ndarray:
    """Return samples as an array ``[T, channels]`` or ``[channels, T]`` of numbers."""
    if isinstance(samples, Tensor):
        samples = samples.detach().cpu()
        samples = (samples.float() if samples.is_floating_point() else samples).numpy()
    if not isinstance(samples, np.ndarray):
        raise TypeError(f"Samples must be an array or a tensor. Got {type(samples).__name__} instead; write np.array(...).")
    if samples.ndim not in (1, 2) or samples.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be numbers [T] or [T, channels]. Got {samples.dtype} {list(samples.shape)} instead.")
    if samples.dtype.kind in "iu" and samples.dtype.name not in _INTEGERS:
        raise ValueError(
            f"{name} has samples of {samples.dtype}, whose full scale is not known; pass {', '.join(_INTEGERS)}, as files "
            "have them, or floats in [-1, 1]."
        )
    if samples.size == 0:
        raise ValueError(f"{name} has 0 samples; pass one that lasts a while.")
    return samples if samples.ndim == 2 else samples[:, None]


def _check_size(seconds: float, channels: int, longest: float, name: str) -> None:
    """Raise if a sound lasts longer than an encoder should take at once, or has many channels."""
    if channels > CHANNELS:
        raise ValueError(f"{name} has {channels} channels; mix it down to one or two first.")
    if seconds > longest:
        raise ValueError(
            f"{name} lasts {seconds:.6g} s, longer than the {longest:g} s that are taken at once; cut out the part to "
            "explain, or give the encoder a larger longest= (memory and time grow with it)."
        )


def _check_values(array: np.ndarray, name: str) -> None:
    """Raise if samples are not finite, or far beyond full scale."""
    bad = int((~np.isfinite(array)).sum())
    if bad:
        raise ValueError(f"{name} has {bad} samples that are not finite; cut them out or fill them in first.")
    peak = float(np.abs(array).max())
    if peak > LOUDEST:
        raise ValueError(f"{name} goes up to {peak:.0f}, but full scale is 1; divide samples of 16 bits by 32768.")


def to_spectra(samples: Tensor) -> Tensor:
    """Return spectra ``[2, F, frames]``, real and imaginary, of samples ``[T]``, filled up with silence to whole steps."""
    samples = torch.nn.functional.pad(samples, (0, -len(samples) % HOP))
    if len(samples) <= FRAME // 2:  # frames reach that far beyond both ends
        samples = torch.nn.functional.pad(samples, (0, FRAME // 2 + HOP - len(samples)))
    window = torch.hann_window(FRAME, dtype=samples.dtype, device=samples.device)
    spectrum = torch.stft(samples, FRAME, HOP, window=window, return_complex=True)
    return torch.stack([spectrum.real, spectrum.imag])


def from_spectra(spectra: Tensor) -> Tensor:
    """Return samples ``[n, T]`` from spectra ``[n, 2, F, frames]``; differentiable."""
    wide = spectra if spectra.dtype == torch.float64 else spectra.float()  # there are no transforms of half precision
    window = torch.hann_window(FRAME, dtype=wide.dtype, device=wide.device)
    samples: Tensor = torch.istft(torch.complex(wide[:, 0], wide[:, 1]), FRAME, HOP, window=window)
    return samples.to(spectra.dtype)


def player(samples: Tensor, rate: int) -> str:
    """Return an HTML element that plays samples ``[T]``, which are inside of it; turned down if too loud."""
    quieter = samples / max(1.0, float(samples.abs().max()))
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes((quieter * 32767).round().to(torch.int16).numpy().tobytes())
    data = base64.b64encode(file.getvalue()).decode()
    return f'<audio controls preload="metadata" style="width: 100%" src="data:audio/wav;base64,{data}"></audio>'


def import_library(name: str) -> Any:
    """Return a library that reads or resamples sound; an error says how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"Sounds need the package {name!r} ({error}); pip install 'cocoax[sound]'.") from error
