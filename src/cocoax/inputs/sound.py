"""Sounds as inputs: files opened safely, samples of one channel at the encoder's rate, spectra and back, display and kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import torch
from torch import Tensor

from cocoax.checks import check_choice, check_count, check_positive, import_optional
from cocoax.inputs.base import Inputs
from cocoax.inputs.explicand import Display, Explicand
from cocoax.show import Effects, SoundMap
from cocoax.store import digest, file_digest, files_below

SUFFIXES = frozenset({".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif", ".au"})
_MAX_CHANNELS = 2  # what more channels mean (surround, instruments) is not for us to guess
_MAX_AMPLITUDE = 100.0  # files of floats may go a little over full scale, which is 1
FRAME, HOP = 512, 128  # of spectra, in samples
_FREQUENCIES = FRAME // 2 + 1
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
    soundfile = import_optional("soundfile", "Sounds need", "sound")
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
        array = import_optional("soxr", "Sounds need", "sound").resample(
            np.ascontiguousarray(array, np.float32), float(rate), to_rate
        )
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
    if channels > _MAX_CHANNELS:
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
    if peak > _MAX_AMPLITUDE:
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


# --- sound ------------------------------------------------------------------------------------------------------------------

SoundPart = Literal["segments", "cells"]


@dataclass(frozen=True, eq=False)
class Sound(Display):
    """A sound, with its segments or cells in colour.

    Attributes:
        waveform: the samples ``[T]`` that the encoder was given.
        rate: samples per second.
        segments: how many there are.
        bands: of frequency, from low to high; 1 where features are segments of time alone.

    """

    kind = "sound"
    waveform: Tensor = field(repr=False)
    rate: int
    segments: int
    bands: int = 1

    @property
    def seconds(self) -> np.ndarray:
        """Where segments begin and end, ``[segments + 1]``."""
        return np.linspace(0, len(self.waveform) / self.rate, self.segments + 1)

    @property
    def hertz(self) -> np.ndarray:
        """Where bands begin and end, ``[bands + 1]``."""
        return np.linspace(0, self.rate / 2, self.bands + 1)

    @property
    def names(self) -> tuple[str, ...]:
        """When each feature is, and at which frequencies: segment by segment, from low bands to high ones."""
        digits = max(2, 1 - math.floor(math.log10(self.seconds[1])))  # so that neighbours have different names
        times = [f"{begin:.{digits}f}-{end:.{digits}f} s" for begin, end in zip(self.seconds, self.seconds[1:], strict=False)]
        if self.bands == 1:
            return tuple(times)
        bands = [f"{low:.0f}-{high:.0f} Hz" for low, high in zip(self.hertz, self.hertz[1:], strict=False)]
        return tuple(f"{time}, {band}" for time in times for band in bands)

    def view(self, effects: Effects | None) -> SoundMap:
        """Return the effects behind the waveform, or for cells over the spectrogram."""
        waveform, decibels = self.waveform.numpy(), None
        if self.bands > 1:  # in decibels, down to 80 below the loudest
            power = to_spectra(self.waveform).square().sum(0)
            decibels = (10 * (power / power.max().clamp(min=1e-20)).clamp(min=1e-8).log10()).numpy()
        return SoundMap(waveform, self.rate, self.segments, self.bands, decibels, effects, self.names)

    def input_view(self) -> SoundMap:
        """Return the waveform, or for cells the spectrogram, alone."""
        return replace(self.view(None), title="input")

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return waveform and layout."""
        return {"waveform": self.waveform}, {"rate": self.rate, "segments": self.segments, "bands": self.bands}

    @classmethod
    def restored(cls, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> Self:
        """Return the sound that was saved."""
        return cls(tensors["waveform"], int(header["rate"]), int(header["segments"]), int(header["bands"]))


class Sounds(Inputs):
    """Sounds: files and folders, samples with their rate (``(samples, rate)`` in either order), or samples at the own rate.

    Samples are arrays or tensors ``[T]``, or with one or two channels, which become one. A float tensor ``[1, T]`` (for cells
    spectra ``[2, F, frames]``) is taken for one that was prepared before.

    Args:
        rate: samples per second that the module takes; everything else is resampled.
        preprocess: from samples ``[T]`` at that rate to those that the module takes; done once, before anything is removed.
        features: what explanations are about: ``"segments"`` of time, or ``"cells"`` of time and frequency, for which the
            sound is taken apart into spectra, and put together again for the module.
        segments: how many, of equal length.
        bands: of frequency, for cells.
        longest: seconds; what lasts longer is refused.

    """

    noun = "sound"
    feature_kind = "sound"
    hint = "Check the rate and the length that it expects."
    removals: ClassVar[tuple[str, ...]] = ("Silence", "SpectralNoise", "Mean", "Constant", "Fixed", "Background")
    removal_names: ClassVar[tuple[str, ...]] = ("silence", "noise", "mean")
    advice = (
        "Sounds take baseline='silence', 'noise' (of the sound's own spectrum) or 'mean', or another sound of the same "
        "length: Path(...), or samples."
    )
    any_shape = True

    def __init__(
        self,
        rate: int,
        preprocess: Callable[[Tensor], Tensor] | None = None,
        *,
        features: SoundPart = "segments",
        segments: int = 40,
        bands: int = 8,
        longest: float = 60.0,
    ) -> None:
        check_choice("features", features, get_args(SoundPart))
        for name, value in (("rate", rate), ("segments", segments), ("bands", bands)):
            check_count(name, value, 1)
        check_positive("longest", longest)
        self.rate = int(rate)
        self.preprocess = preprocess
        self.features = features
        self.segments = int(segments)
        self.bands = int(bands)
        self.longest = longest

    @property
    def settings(self) -> tuple[object, ...]:
        """The rate, the preprocessing, and whether sounds pass through spectra."""
        return self.rate, self.preprocess, self.features

    @property
    def space_settings(self) -> tuple[object, ...]:
        """The rate and the preprocessing; segments and cells share a space."""
        return self.rate, self.preprocess

    def probe(self) -> Tensor:
        """Return half a second of soft noise, in whole frames, so that segments and cells hear the same."""
        samples = torch.randn(
            max(1, self.rate // 2 // FRAME) * FRAME, generator=torch.Generator().manual_seed(0), dtype=torch.float32
        )
        return self.prepare((samples.float().numpy() / 10, self.rate))

    # --- what users hold ------------------------------------------------------------------------------------------------

    def is_one(self, inputs: object) -> bool:
        """Whether this is one sound rather than many."""
        if isinstance(inputs, Tensor | np.ndarray):
            if inputs.ndim == 2:  # [1, T] or [T, channels]; otherwise one sound a row
                return inputs.shape[0] == 1 or inputs.shape[0] > inputs.shape[1]
            return inputs.ndim < 2 or self._is_prepared(inputs)
        if isinstance(inputs, tuple):
            return _with_rate(inputs) is not None
        return isinstance(inputs, Explicand) or (isinstance(inputs, str | Path) and not Path(inputs).is_dir())

    def many(self, inputs: Any) -> Iterable[Any]:
        """Return the sounds of a folder, or what an iterable gives."""
        if isinstance(inputs, str | Path):
            return sound_files(Path(inputs))
        if isinstance(inputs, Tensor | np.ndarray):
            self._check_many(inputs)
        return super().many(inputs)

    def _check_many(self, inputs: Tensor | np.ndarray) -> None:
        """Raise unless an array holds one sound a row."""
        shape = list(inputs.shape)
        if inputs.ndim == 2 and shape[0] == 2:
            raise ValueError(
                f"An array {shape} may be two sounds or two channels of one; write list(samples) for the first, and "
                "(samples, rate) for the second."
            )
        if inputs.ndim > 2 and not (len(inputs) and self._is_prepared(inputs[0])):
            raise ValueError(
                f"Sounds must be arrays [T], or [n, T] for n of them. Got {inputs.dtype} {shape} instead, which looks like "
                "pictures."
            )

    def _is_prepared(self, item: object) -> bool:
        """Whether this is what :meth:`prepare` returns."""
        if not isinstance(item, Tensor) or not item.is_floating_point():
            return False
        if self.features == "segments":
            return item.ndim == 2 and item.shape[0] == 1
        return item.ndim == 3 and tuple(item.shape[:2]) == (2, _FREQUENCIES)

    def prepare(self, item: Any) -> Tensor:
        """Return one sound as samples ``[1, T]``, or as spectra ``[2, F, frames]``, real and imaginary."""
        if isinstance(item, Explicand):
            return item.tensor
        if isinstance(item, Tensor) and self._is_prepared(item):
            return item
        samples = self.samples(item)
        return samples[None] if self.features == "segments" else to_spectra(samples)

    def samples(self, item: Any) -> Tensor:
        """Return one sound as samples ``[T]`` at the encoder's rate, preprocessed."""
        samples = self._read(item)
        if self.preprocess is None:
            return samples
        samples = self.preprocess(samples)
        if not isinstance(samples, Tensor) or samples.ndim != 1 or not samples.is_floating_point():
            what = f"{samples.dtype} {list(samples.shape)}" if isinstance(samples, Tensor) else type(samples).__name__
            raise TypeError(f"The encoder's preprocess must return samples [T], a float tensor. Got {what} instead.")
        return samples

    def _read(self, item: Any) -> Tensor:
        if isinstance(item, str | Path):
            return one_channel(*read_file(Path(item), self.longest), self.rate, self.longest, str(item))
        pair = _with_rate(item) if isinstance(item, tuple) else None
        if pair is not None:
            return one_channel(*pair, self.rate, self.longest)
        if isinstance(item, Tensor | np.ndarray):
            return one_channel(item, self.rate, self.rate, self.longest)
        raise TypeError(
            f"A sound must be a file, (samples, rate), or an array or tensor of samples at {self.rate} per second; a list "
            f"holds many sounds. Got {type(item).__name__} instead."
        )

    def explicand(self, item: Any) -> Explicand:
        """Return one sound made ready to be explained."""
        if isinstance(item, Explicand):
            return item
        tensor = self.prepare(item).detach().to("cpu", torch.float32)
        tensor = tensor.clone() if tensor.is_inference() else tensor  # so that gradients can be taken
        steps = tensor.shape[-1]
        if steps < self.segments:
            what = "samples" if self.features == "segments" else f"spectra (one for each {HOP} samples)"
            raise ValueError(
                f"The sound has {steps} {what}, too few for {self.segments} segments of {self.encoder!r}; pass a longer one, "
                "or ask for fewer with segments=."
            )
        members = torch.arange(steps) * self.segments // steps
        bands = 1
        if self.features == "cells":
            if self.bands > _FREQUENCIES:
                raise ValueError(f"There are {_FREQUENCIES} frequencies, too few for {self.bands} bands; ask for fewer.")
            bands = self.bands
            members = members * bands + (torch.arange(_FREQUENCIES) * bands // _FREQUENCIES)[:, None]
        display = Sound(self.to_module(tensor[None])[0, 0], self.rate, self.segments, bands)
        # Gradients by samples swing to and fro; what a segment's volume does is their sum, each times its sample.
        scale = tensor.square().mean((0, -1), keepdim=True)[0].sqrt()
        return Explicand(tensor, display, members, scale)

    # --- what the module takes ------------------------------------------------------------------------------------------

    def to_module(self, batch: Any) -> Any:
        """Return samples ``[n, 1, T]``; spectra are put together again."""
        return batch if self.features == "segments" else from_spectra(batch)[:, None]

    # --- what it is -----------------------------------------------------------------------------------------------------

    def digest(self, item: Any) -> str:
        """Return a digest of one sound: the content of its file, or its samples and their rate."""
        if isinstance(item, str | Path):
            return file_digest(item)
        return digest(*item) if isinstance(item, tuple) else digest(item)


def _with_rate(parts: tuple[Any, ...]) -> tuple[Any, Any] | None:
    """Return samples and their rate, whichever comes first; None if these are several sounds."""
    arrays = [isinstance(part, list) or (isinstance(part, Tensor | np.ndarray) and part.ndim > 0) for part in parts]
    if len(parts) != 2 or sum(arrays) != 1:
        return None
    samples, rate = parts if arrays[0] else reversed(parts)
    return None if isinstance(rate, Path | tuple | Explicand) else (samples, rate)
