"""Where an encoder runs, and in which precision: what devices and precisions are called, and whether they are there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import lru_cache

import torch

VARIABLE = "COCOAX_DEVICE"
_PRECISIONS = {
    name: getattr(torch, name) for name in ("float16", "half", "bfloat16", "float32", "float", "float64", "double")
}
HALF = (torch.float16, torch.bfloat16)
# What networks are made of, in sizes for which libraries use their fast kernels, forwards and backwards.
_TRIAL = """
import torch
from torch import nn
device, dtype = {device!r}, {dtype}
pictures = torch.ones(4, 3, 32, 32, device=device, dtype=dtype).contiguous(memory_format=torch.channels_last)
convolutions = nn.Sequential(nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64).eval(), nn.GELU(), nn.Conv2d(64, 64, 3), nn.Flatten(2))
attention = nn.TransformerEncoderLayer(784, 8, 1024, batch_first=True).eval()
output = attention.to(device, dtype)(convolutions.to(device, dtype)(pictures))
output.float().sum().backward()
output.sum().item()
"""


def device_named(name: str | torch.device) -> torch.device:
    """Return the device of this name; ``"auto"`` takes CUDA or MPS where there is one. Raise if it is not there."""
    if str(name) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"No device is called {name!r}; write 'cpu', 'cuda', 'cuda:1', 'mps' or 'auto'.") from error
    if device.type == "meta":
        raise ValueError("The device 'meta' holds no numbers, so nothing can be encoded there; use 'cpu' or 'auto'.")
    try:
        torch.zeros(1, device=device)
    except Exception as error:  # each kind of device is missing in its own way
        count = torch.cuda.device_count()
        have = f"there are {count}, counted from 0" if device.type == "cuda" and count else "this machine, or torch, has none"
        raise ValueError(
            f"The device {str(device)!r} is not there: {have}. Use 'cpu', or 'auto' for the fastest that there is."
        ) from error
    return device


def device_asked_for(name: str | torch.device | None) -> torch.device | None:
    """Return the device of this name or, if that is None, of the one in ``COCOAX_DEVICE``; None if that is not set."""
    if name is not None:
        return device_named(name)
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    try:
        return device_named(named)
    except ValueError as error:
        raise ValueError(f"The environment variable {VARIABLE} is {named!r}. {error}") from error


def precision_named(name: str | torch.dtype, device: torch.device) -> torch.dtype:
    """Return the precision of this name. Raise if there is none, or if the device cannot compute in it."""
    precision = _PRECISIONS.get(name) if isinstance(name, str) else name
    if precision is None or precision not in _PRECISIONS.values():
        raise ValueError(
            f"The 'dtype' parameter must be {', '.join(map(repr, _PRECISIONS))} or the torch.dtype. Got {name!r} instead."
        )
    if device.type == "mps" and precision == torch.float64:
        raise ValueError("The device 'mps' has no float64; use float32, or the CPU.")
    reason = _why_not(device.type, str(precision)) if precision in HALF else None
    if reason is not None:
        raise ValueError(
            f"This machine cannot compute in {precision} on {device.type!r}: {reason} (tried in a process of its own). "
            "Stay with float32."
        )
    return precision


@lru_cache
def _why_not(device: str, precision: str) -> str | None:
    """Return why networks do not run in a precision on a device; None if they do.

    It is tried in a process of its own: some virtual CPUs promise bfloat16 and kill the process that uses it.
    """
    code = _TRIAL.format(device=device, dtype=precision)
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
    except subprocess.TimeoutExpired:
        return "it took more than five minutes"
    if done.returncode < 0:
        return f"the process was killed by {signal.Signals(-done.returncode).name}"
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it failed"])[-1]
