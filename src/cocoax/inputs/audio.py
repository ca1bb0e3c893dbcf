"""Sound files: opening them safely, one channel, at the rate that an encoder takes."""

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

SUFFIXES = frozenset({".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif", ".au"})
CHANNELS = 2  # what more channels mean (surround, instruments) is not for us to guess


def sound_files(folder: Path) -> list[Path]:
    """Return every sound below a folder, in sorted order; hidden files and folders are left out."""
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in SUFFIXES
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    if not files:
        raise ValueError(f"No sounds below {folder}; expected files such as .wav, .flac or .ogg.")
    return files


def read_file(path: Path, longest: float) -> tuple[np.ndarray, float]:
    """Return the samples ``[T, channels]`` of a file and their rate; one that lasts longer is not read at all."""
    if not path.is_file():
        raise FileNotFoundError(f"No file at {path}; check the path.")
    soundfile = import_library("soundfile")
    try:
        about = soundfile.info(str(path))
        check_duration(about.duration, longest, str(path))
        samples, rate = soundfile.read(str(path), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise ValueError(f"{path} is not a sound that can be read ({error}); expected WAV, FLAC, OGG or the like.") from error
    return samples, rate


def check_duration(seconds: float, longest: float, name: str) -> None:
    """Raise if a sound lasts longer than an encoder should take at once."""
    if seconds > longest:
        raise ValueError(
            f"{name} lasts {seconds:.0f} s, longer than the {longest:g} s that are taken at once; cut out the part to "
            "explain, or give the encoder a larger longest= (memory and time grow with it)."
        )


def one_channel(samples: Any, rate: Any, to_rate: int, longest: float, name: str = "The sound") -> Tensor:
    """Return samples of any rate and up to two channels as one channel ``[T]`` at another rate."""
    if isinstance(rate, bool) or not isinstance(rate, int | float | np.number) or not 0 < rate < np.inf:
        raise ValueError(f"{name} has a rate of {rate!r}; it must be a number of samples per second above 0.")
    array = samples.detach().cpu().numpy() if isinstance(samples, Tensor) else np.asarray(samples)
    if array.ndim not in (1, 2) or array.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be numbers [T] or [T, channels]. Got {array.dtype} {list(array.shape)} instead.")
    if array.size == 0:
        raise ValueError(f"{name} has 0 samples; pass one that lasts a while.")
    if array.dtype.kind in "iu":  # as files have it: full scale is 1
        limits = np.iinfo(array.dtype)
        array = (array.astype(np.float64) - (limits.max + limits.min + 1) / 2) / ((limits.max - limits.min + 1) / 2)
    if array.ndim == 2:
        array = array if array.shape[0] >= array.shape[1] else array.T  # [channels, T], as torch has it
        if array.shape[1] > CHANNELS:
            raise ValueError(f"{name} has {array.shape[1]} channels; mix it down to one or two first.")
        array = array.mean(1)
    check_duration(len(array) / float(rate), longest, name)
    bad = int((~np.isfinite(array)).sum())
    if bad:
        raise ValueError(f"{name} has {bad} samples that are not finite; cut them out or fill them in first.")
    if float(rate) != to_rate:
        array = import_library("soxr").resample(np.ascontiguousarray(array, np.float32), float(rate), to_rate)
    return torch.from_numpy(np.array(array, np.float32))


def player(samples: Tensor, rate: int) -> str:
    """Return an HTML element that plays samples ``[T]``, which are inside of it."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes((samples.clamp(-1, 1) * 32767).round().to(torch.int16).numpy().tobytes())
    data = base64.b64encode(file.getvalue()).decode()
    return f'<audio controls preload="metadata" style="width: 100%" src="data:audio/wav;base64,{data}"></audio>'


def import_library(name: str) -> Any:
    """Return a library that reads or resamples sound; an error says how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"Sounds need the package {name!r} ({error}); pip install 'cocoax[sound]'.") from error
