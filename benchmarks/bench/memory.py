"""Memory: what a long run takes beyond a short one."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import torch
from torch import Tensor, nn

from benchmarks.bench.measurement import Measurement, at_most
from cocoax.encoders import Encoder
from cocoax.methods import Rise
from cocoax.targets import representation_similarity


class Pooled(nn.Module):
    """A cheap encoder: pixels pooled to 16x16, 768 dimensions."""

    def forward(self, images: Tensor) -> Tensor:
        """Return ``[n, 768]`` for ``[n, 3, H, W]``."""
        return nn.functional.adaptive_avg_pool2d(images, 16).flatten(1)


def peak_memory() -> Measurement:
    """Compare the peak memory of a run of 20 000 samples with that of 1000, less what a run keeps."""
    peaks = {samples: peak_of(samples) - samples * 768 * 4 for samples in (1000, 20_000)}
    value = peaks[20_000] / peaks[1000]
    each = (peaks[20_000] - peaks[1000]) / 19_000
    name = "peak memory, 20 000 / 1000 samples"
    return at_most(name, "any encoder, 224x224", [value], 1.1, bytes=peaks, bytes_per_further_sample=each)


def peak_of(samples: int) -> int:
    """Return the most bytes that a process of its own holds during a run."""
    command = [sys.executable, "-c", f"from {__name__} import print_peak; print_peak({samples})"]
    environment = {**os.environ, "COCOAX_PROGRESS": "0"}
    return int(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)


def print_peak(samples: int) -> None:
    """Do a run and answer a target; print the most bytes this process ever held."""
    encoder = Encoder(Pooled(), name="pooled pixels")
    explicand = torch.rand(3, 224, 224, generator=torch.Generator().manual_seed(0))
    Rise(samples=samples).run(encoder, explicand).explain(representation_similarity())
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
