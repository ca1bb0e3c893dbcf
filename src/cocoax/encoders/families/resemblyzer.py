"""Resemblyzer's speaker encoder (Wan et al. 2018, GE2E): whose voice is it?

The weights come with the pip package ``resemblyzer`` (Apache-2.0), which itself is never imported, since that would need a
chain of other packages. The network is small: spectra on the mel scale, three LSTM layers, a vector for each window of 1.6 s.
"""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cocoax.encoders.encoder import Encoder
from cocoax.encoders.families.starter import check_sha256
from cocoax.inputs.sound import Sounds

_RATE = 16_000
FRAME, HOP, MELS = 400, 160, 40  # 25 ms, 10 ms
WINDOW, STEP = 160, 77  # frames of a window, which the network was trained on, and from one to the next
_SHA256 = "39373b86598fa3da9fcddee6142382efe09777e8d37dc9c0561f41f0070f134e"


def load_resemblyzer(*, name: str = "resemblyzer", **options: Any) -> Encoder:
    """Return the speaker encoder, 256 dimensions. Options are those of :class:`cocoax.inputs.sound.Sounds`."""
    network = _SpeakerNetwork()
    path = _weights()
    check_sha256(path, _SHA256)
    state = torch.load(path, map_location="cpu", weights_only=True)["model_state"]
    own = network.state_dict()
    network.load_state_dict({key: value for key, value in state.items() if key in own})
    return Encoder(network.eval(), inputs=Sounds(_RATE, _MinimumLoudness(), **options), name=name)


def _weights() -> Path:
    found = importlib.util.find_spec("resemblyzer")
    if found is None or found.origin is None:
        raise ImportError(
            "This encoder needs the weights of the package 'resemblyzer'; pip install --no-deps resemblyzer==0.1.4 "
            "(what else that package asks for is not used here)."
        )
    return Path(found.origin).parent / "pretrained.pt"


@dataclass(frozen=True)
class _MinimumLoudness:
    """Amplifies a sound that is quieter than those the network was trained on; louder ones stay as they are.

    Attributes:
        level: root mean square, in decibels below full scale.

    """

    level: float = -30.0

    def __call__(self, samples: Tensor) -> Tensor:
        """Return the samples ``[T]``."""
        size = float(samples.square().mean().sqrt())
        return samples if size == 0 else samples * max(1.0, 10 ** (self.level / 20) / size)


class _SpeakerNetwork(nn.Module):
    """Samples ``[n, 1, T]`` to unit vectors ``[n, 256]``: the mean over windows that overlap by half."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():  # modules draw their initial weights, which are replaced, from the global random state
            self.lstm = nn.LSTM(MELS, 256, num_layers=3, batch_first=True)
            self.linear = nn.Linear(256, 256)
        self.filters: Tensor
        self.register_buffer("filters", _mel_filters(), persistent=False)
        self.taper: Tensor
        self.register_buffer("taper", torch.hann_window(FRAME), persistent=False)

    def spectra(self, samples: Tensor) -> Tensor:
        """Return power on the mel scale ``[n, frames, 40]`` of samples ``[n, T]``."""
        spectrum = torch.stft(samples, FRAME, HOP, window=self.taper, center=True, pad_mode="constant", return_complex=True)
        power = spectrum.real.square() + spectrum.imag.square()
        return (self.filters @ power).mT

    def forward(self, samples: Tensor) -> Tensor:
        """Return one vector for each sound."""
        samples = samples.flatten(1)
        starts = _window_starts(samples.shape[1])
        samples = F.pad(samples, (0, max(0, (starts[-1] + WINDOW) * HOP - samples.shape[1])))
        spectra = self.spectra(samples)
        windows = torch.stack([spectra[:, start : start + WINDOW] for start in starts], dim=1)
        hidden = self.lstm(windows.flatten(0, 1))[1][0][-1]
        vectors = F.normalize(torch.relu(self.linear(hidden)), dim=1).view(len(samples), len(starts), -1)
        return F.normalize(vectors.mean(1), dim=1)


def _window_starts(samples: int) -> list[int]:
    """Return the first frame of every window over so many samples; a last one that is mostly empty is left out."""
    frames = -(-(samples + 1) // HOP)
    starts = list(range(0, max(1, frames - WINDOW + STEP + 1), STEP))
    covered = (samples - starts[-1] * HOP) / (WINDOW * HOP)
    return starts[:-1] if covered < 0.75 and len(starts) > 1 else starts


def _mel_filters() -> Tensor:
    """Return triangles of unit area on Slaney's mel scale, ``[40, frequencies]``."""
    # 200/3 Hz a mel up to 1000 Hz, then a factor of 6.4 every 27 mels.
    corner, per_mel = 15.0, math.log(6.4) / 27.0
    top = corner + math.log(_RATE / 2 / 1000.0) / per_mel
    mels = torch.linspace(0.0, top, MELS + 2, dtype=torch.float64)
    edges = torch.where(mels < corner, mels * 200.0 / 3.0, 1000.0 * torch.exp(per_mel * (mels - corner)))
    hertz = torch.linspace(0.0, _RATE / 2, FRAME // 2 + 1, dtype=torch.float64)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (hertz - low) / (middle - low), (high - hertz) / (high - middle)
    filters: Tensor = torch.minimum(rising, falling).clamp(min=0.0) * (2.0 / (high - low))
    return filters.float()
