"""Where an encoder runs, and in which precision: names of devices, and whether they are there and able to."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache

import torch

VARIABLE = "COCOAX_DEVICE"
_PRECISIONS = {
    "float16": torch.float16,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float": torch.float32,
    "float64": torch.float64,
    "double": torch.float64,
}


def device_named(name: str | torch.device | None) -> torch.device | None:
    """Return the device of this name; ``"auto"`` takes CUDA or MPS where there is one; None asks ``COCOAX_DEVICE``.

    Raise if it is not there.
    """
    if name is None:
        name = os.environ.get(VARIABLE) or None
    if name is None:
        return None
    if str(name) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if _has_mps() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"No device is called {name!r}; write 'cpu', 'cuda', 'cuda:1', 'mps' or 'auto'.") from error
    there = {"cuda": torch.cuda.is_available, "mps": _has_mps}.get(device.type, lambda: True)()
    if not there or (device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()):
        count = torch.cuda.device_count()
        have = "there is none" if device.type == "mps" or not count else f"there are {count}, counted from 0"
        raise ValueError(f"The device {str(device)!r} is not there: {have}. Use 'cpu', or 'auto' for what there is.")
    return device


def precision_named(name: str | torch.dtype | None, device: torch.device) -> torch.dtype | None:
    """Return the precision of this name; raise if the device cannot compute in it."""
    if name is None:
        return None
    precision = _PRECISIONS.get(name) if isinstance(name, str) else name
    if precision not in _PRECISIONS.values():
        raise ValueError(
            f"The 'dtype' parameter must be one of {', '.join(_PRECISIONS)}, or the torch.dtype. Got {name!r} instead."
        )
    if precision in (torch.float16, torch.bfloat16) and not _computes(str(device), str(precision)):
        raise ValueError(f"This machine cannot compute in {precision} on {str(device)!r} (tried in a process of its own).")
    return precision


@lru_cache
def _computes(device: str, precision: str) -> bool:
    """Whether a small network runs in a precision; tried in a process of its own, since some virtual CPUs kill it."""
    code = (
        f"import torch; net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), "
        f"torch.nn.Linear(288, 4)).to({device!r}, {precision}); "
        f"net(torch.ones(2, 3, 8, 8, device={device!r}, dtype={precision})).float().sum().item()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=300)
    return done.returncode == 0


def _has_mps() -> bool:
    return bool(torch.backends.mps.is_available())
