"""Sounds as inputs: the features are segments of time, or cells of time and frequency."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from cocoax.inputs.audio import one_channel, player, read_file, sound_files
from cocoax.inputs.display import Display
from cocoax.inputs.drawing import BLUE, COLOURS, RED, Shown, check_limit, meaning, question
from cocoax.inputs.explicand import Explicand
from cocoax.inputs.kind import Inputs
from cocoax.storage import digest, file_digest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FRAME, HOP = 512, 128  # of the spectra that cells are cut from, in samples
Features = Literal["segments", "cells"]


@dataclass(frozen=True, eq=False)
class Sound(Display):
    """A sound, with its segments or cells in colour.

    Attributes:
        waveform: the samples ``[T]`` in [-1, 1] that the encoder was given.
        rate: samples per second.
        segments: how many there are.
        bands: of frequency, from low to high; 1 where features are segments of time alone.

    """

    kind = "sound"
    waveform: Tensor
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
        times = [f"{begin:.2f}-{end:.2f} s" for begin, end in zip(self.seconds, self.seconds[1:], strict=False)]
        if self.bands == 1:
            return tuple(times)
        bands = [f"{low:.0f}-{high:.0f} Hz" for low, high in zip(self.hertz, self.hertz[1:], strict=False)]
        return tuple(f"{time}, {band}" for time in times for band in bands)

    def plot(self, shown: Shown, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the waveform (for cells the spectrogram) with the map under it.

        The options are those of :func:`cocoax.plots.overlay`: ``opacity``, ``limit``, ``title`` and ``colour_bar``.
        """
        return self._draw(shown, ax, **options)

    def _draw(
        self,
        shown: Shown,
        ax: Axes | None,
        *,
        opacity: float = 0.8,
        limit: float | None = None,
        title: str | None = None,
        colour_bar: bool = True,
    ) -> Axes:
        import matplotlib.pyplot as plt

        check_limit(limit)
        if ax is None:
            ax = plt.subplots(figsize=(8, 2.8), layout="constrained")[1]
        values = shown.relative.numpy().reshape(self.segments, self.bands).T
        limit = float(np.abs(values).max()) or 1.0 if limit is None else limit
        if self.bands == 1:
            high = float(self.waveform.abs().max()) or 1.0
            drawn = ax.pcolormesh(
                self.seconds, [-high, high], values, cmap=COLOURS, vmin=-limit, vmax=limit, alpha=opacity, linewidth=0
            )
            times = np.arange(len(self.waveform)) / self.rate
            ax.plot(times, self.waveform.numpy(), color="black", linewidth=0.3)
            ax.set_yticks([])
        else:
            power = _spectrum(self.waveform).square().sum(0).clamp(min=1e-10).log10().numpy()
            extent = (0.0, float(self.seconds[-1]), 0.0, self.rate / 2)
            ax.imshow(power, cmap="Greys", origin="lower", aspect="auto", extent=extent)
            drawn = ax.pcolormesh(
                self.seconds, self.hertz, values, cmap=COLOURS, vmin=-limit, vmax=limit, alpha=0.7 * opacity, linewidth=0
            )
            ax.set_ylabel("Hz", fontsize=8)
        ax.set_xlabel("seconds", fontsize=8)
        ax.tick_params(labelsize=8)
        # Dollars are dollars, not the beginning of a formula.
        ax.set_title(question(shown).replace("\n", " · ") if title is None else title, fontsize=10, parse_math=False)
        if colour_bar and ax.figure is not None:
            bar = ax.figure.colorbar(drawn, ax=ax, fraction=0.046, pad=0.02)
            bar.ax.tick_params(labelsize=8)
            bar.set_label(meaning(shown), fontsize=8)
        return ax

    def draw_input(self, ax: Axes) -> None:
        """Draw the waveform alone."""
        ax.plot(np.arange(len(self.waveform)) / self.rate, self.waveform.numpy(), color="black", linewidth=0.3)
        ax.set_title("input", fontsize=10)
        ax.set_yticks([])

    def html(self, shown: Shown, limit: float | None = None) -> str:
        """Return a player with a strip of colours under it; pointing at a part shows its time and value."""
        values = shown.relative.tolist()
        limit = max(map(abs, values)) if limit is None else limit
        errors = None if shown.standard_error is None else shown.standard_error.tolist()
        rows = []
        for band in reversed(range(self.bands)):
            cells = []
            for index in range(band, len(values), self.bands):
                error = "" if errors is None else f" ± {errors[index]:.3f}"
                label = html.escape(f"{self.names[index]}: {values[index]:+.3f}{error}")
                colour = ", ".join(map(str, RED if values[index] > 0 else BLUE))
                strength = min(1.0, abs(values[index]) / limit) if limit else 0.0
                style = f"flex: 1; background: rgba({colour}, {0.85 * strength:.2f})"
                cells.append(f'<span style="{style}" title="{label}"></span>')
            rows.append(f'<div style="display: flex; height: {max(8, 40 // self.bands)}px">{"".join(cells)}</div>')
        end = f"{self.seconds[-1]:.2f} s"
        scale = f'<div style="display: flex; justify-content: space-between"><small>0 s</small><small>{end}</small></div>'
        return f'<div class="cocoax-sound">{player(self.waveform, self.rate)}{"".join(rows)}{scale}</div>'

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return waveform and layout."""
        return {"waveform": self.waveform}, {"rate": self.rate, "segments": self.segments, "bands": self.bands}

    @classmethod
    def restored(cls, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> Self:
        """Return the sound that was saved."""
        return cls(tensors["waveform"], int(header["rate"]), int(header["segments"]), int(header["bands"]))


class Sounds(Inputs):
    """Sounds: files and folders, samples with their rate (``(samples, rate)`` in either order), or samples at the own rate.

    Two channels become one. A tensor or array without a rate is taken to be at the encoder's rate.

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
    hint = "Check the rate and the length that it expects."
    removals: ClassVar[tuple[str, ...]] = ("Silence", "SpectralNoise", "Mean", "Constant", "Fixed")
    removal_names: ClassVar[tuple[str, ...]] = ("silence", "noise", "mean")
    advice = "Sounds take baseline='silence', 'noise' (of the sound's own spectrum) or 'mean', or another sound."
    any_shape = True

    def __init__(
        self,
        rate: int,
        preprocess: Callable[[Tensor], Tensor] | None = None,
        *,
        features: Features = "segments",
        segments: int = 40,
        bands: int = 8,
        longest: float = 60.0,
    ) -> None:
        if features not in ("segments", "cells"):
            raise ValueError(f"The 'features' parameter must be 'segments' or 'cells'. Got {features!r} instead.")
        for name, value in (("rate", rate), ("segments", segments), ("bands", bands)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"The '{name}' parameter must be an integer of at least 1. Got {value!r} instead.")
        self.rate = rate
        self.preprocess = preprocess
        self.features = features
        self.segments = segments
        self.bands = bands
        self.longest = longest

    @property
    def settings(self) -> tuple[object, ...]:
        """The rate, the preprocessing, and whether sounds pass through spectra."""
        return self.rate, self.preprocess, self.features

    @property
    def space_settings(self) -> tuple[object, ...]:
        """The rate and the preprocessing; segments and cells share a space."""
        return self.rate, self.preprocess

    def is_one(self, inputs: object) -> bool:
        """Whether this is one sound rather than many."""
        if isinstance(inputs, tuple) and len(inputs) == 2:
            return any(np.ndim(part) == 0 for part in inputs) and not all(np.ndim(part) == 0 for part in inputs)
        if isinstance(inputs, Tensor | np.ndarray):
            return inputs.ndim == 1
        return isinstance(inputs, Explicand) or (isinstance(inputs, str | Path) and not Path(inputs).is_dir())

    def each(self, inputs: Any) -> tuple[Iterator[Any], int | None]:
        """Return sounds one by one: a single one, those of a folder, what an iterable gives."""
        if isinstance(inputs, str | Path) and not self.is_one(inputs):
            inputs = sound_files(Path(inputs))
        return super().each(inputs)

    def prepare(self, item: Any) -> Tensor:
        """Return one sound as samples ``[1, T]``, or as spectra ``[2, F, frames]``, real and imaginary."""
        if isinstance(item, Explicand):
            return item.tensor
        if isinstance(item, Tensor) and item.ndim == (2 if self.features == "segments" else 3) and item.shape[0] < 3:
            return item  # it was prepared before
        return self._prepared(self.samples(item))

    def _prepared(self, samples: Tensor) -> Tensor:
        return samples[None] if self.features == "segments" else _spectrum(samples)

    def samples(self, item: Any) -> Tensor:
        """Return one sound as samples ``[T]`` at the encoder's rate, preprocessed."""
        samples = self._read(item)
        return samples if self.preprocess is None else self.preprocess(samples)

    def _read(self, item: Any) -> Tensor:
        if isinstance(item, str | Path):
            return one_channel(*read_file(Path(item), self.longest), self.rate, self.longest, str(item))
        if isinstance(item, tuple) and len(item) == 2:
            first, second = item
            samples, rate = (second, first) if np.ndim(first) == 0 else (first, second)
            return one_channel(samples, rate, self.rate, self.longest)
        if isinstance(item, Tensor | np.ndarray):
            return one_channel(item, self.rate, self.rate, self.longest)
        raise TypeError(
            f"A sound must be a file, (samples, rate), or samples at {self.rate} per second. "
            f"Got {type(item).__name__} instead."
        )

    def explicand(self, item: Any) -> Explicand:
        """Return one sound made ready to be explained."""
        if isinstance(item, Explicand):
            return item
        samples = self.samples(item)
        tensor = self._prepared(samples)
        steps = tensor.shape[-1]
        if steps < self.segments or len(samples) < 2:
            raise ValueError(
                f"The sound has {len(samples)} samples, too few for {self.segments} segments of {self.encoder!r}; pass a "
                "longer one, or ask for fewer segments."
            )
        members = torch.arange(steps) * self.segments // steps
        if self.features == "segments":
            return Explicand(tensor, Sound(samples, self.rate, self.segments), members)
        frequencies = tensor.shape[1]
        if self.bands > frequencies:
            raise ValueError(f"There are {frequencies} frequencies, too few for {self.bands} bands; ask for fewer.")
        band = torch.arange(frequencies) * self.bands // frequencies
        cells = members * self.bands + band[:, None]
        return Explicand(tensor, Sound(samples, self.rate, self.segments, self.bands), cells)

    def to_module(self, batch: Any) -> Any:
        """Return samples ``[n, 1, T]``; spectra are put together again."""
        if self.features == "segments":
            return batch
        whole = torch.complex(batch[:, 0], batch[:, 1])
        return torch.istft(whole, FRAME, HOP, window=torch.hann_window(FRAME, device=batch.device))[:, None]

    def digest(self, item: Any) -> str:
        """Return a digest of one sound: the content of its file, or the prepared tensor."""
        if isinstance(item, str | Path):
            return file_digest(Path(item)) if Path(item).is_file() else "missing"
        return digest(item)

    def label(self, item: Any) -> str:
        """Return the name of a file without its ending."""
        return Path(item).stem if isinstance(item, str | Path) else self.noun

    def name_together(self, labels: Sequence[str], count: int) -> str:
        """Return the names of up to three files, or how many sounds there are."""
        if count <= 3 and len(labels) == count and self.noun not in labels:
            return ", ".join(labels)
        return super().name_together(labels, count)


def _spectrum(samples: Tensor) -> Tensor:
    """Return spectra ``[2, F, frames]`` of samples ``[T]``, filled up with silence to whole steps."""
    samples = torch.nn.functional.pad(samples, (0, -len(samples) % HOP))
    if len(samples) <= FRAME // 2:  # frames reach that far beyond both ends
        samples = torch.nn.functional.pad(samples, (0, FRAME // 2 + HOP - len(samples)))
    spectrum = torch.stft(samples, FRAME, HOP, window=torch.hann_window(FRAME), return_complex=True)
    return torch.stack([spectrum.real, spectrum.imag])
