"""Fingerprints: short digests that tell whether two encoders, or two inputs, are the same."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def digest(*parts: object) -> str:
    """A digest of tensors, arrays, bytes and plain values, of their kind as well as of their content."""
    sha = hashlib.sha256()
    for part in parts:
        if isinstance(part, Tensor):
            part = part.detach().cpu()
            sha.update(f"tensor {part.dtype} {tuple(part.shape)} ".encode())
            sha.update(part.contiguous().reshape(-1).view(torch.uint8).numpy().data)
        elif isinstance(part, np.ndarray):
            sha.update(f"array {part.dtype} {part.shape} ".encode())
            sha.update(np.ascontiguousarray(part).data)
        elif isinstance(part, bytes):
            sha.update(b"bytes " + part)
        else:
            sha.update(f"{type(part).__name__} {part!r} ".encode())
    return sha.hexdigest()[:32]


def file_digest(path: Path) -> str:
    """A digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class WeightsDigest:
    """The digest of a module's weights, computed again only when they changed."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._seen: object = None
        self._digest = ""

    def __call__(self) -> str:
        """The digest of structure, parameters and buffers."""
        state = self._module.state_dict(keep_vars=True)
        seen = [(name, tensor.data_ptr(), _probe(tensor)) for name, tensor in state.items() if isinstance(tensor, Tensor)]
        if seen != self._seen:
            tensors = [part for name, tensor in state.items() for part in (name, tensor)]
            self._digest = digest(_structure(self._module), *tensors)
            self._seen = seen
        return self._digest


def _probe(tensor: Tensor) -> tuple[object, bytes]:
    """Cheap evidence of a change: the version counter, and a few values for writes that bypass it (``p.data``)."""
    flat = tensor.detach().reshape(-1)
    few = flat[:: max(1, len(flat) // 32)].cpu()
    version = None if tensor.is_inference() else tensor._version
    return version, few.contiguous().view(torch.uint8).numpy().tobytes()


def _structure(module: nn.Module) -> str:
    return _without_addresses(repr(module))


def _without_addresses(text: str) -> str:
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


def describe_callable(function: Callable[..., Any] | None) -> str:
    """What a preprocessing function is, as text: code and constants of a function, ``repr`` of an object."""
    if function is None:
        return "none"
    code = getattr(function, "__code__", None)
    if code is None:
        return f"{type(function).__module__}.{type(function).__qualname__} {_without_addresses(repr(function))}"
    closure = [_without_addresses(repr(cell.cell_contents)) for cell in function.__closure__ or ()]
    constants = _without_addresses(repr(code.co_consts))
    defaults = _without_addresses(repr(function.__defaults__))
    return f"{function.__qualname__} {code.co_code.hex()} {code.co_names} {constants} {defaults} {closure}"


def weights_digest_of(module: Callable[..., Any], name: str | None) -> Callable[[], str]:
    """How to get the digest of what computes the representations.

    A module, or a method of one, is known by its weights. Any other callable is known by the name its user gave it, or
    else by nothing that outlives this process.
    """
    owner = getattr(module, "__self__", None)
    if isinstance(module, nn.Module):
        return WeightsDigest(module)
    if isinstance(owner, nn.Module):
        weights = WeightsDigest(owner)
        return lambda: digest(weights(), getattr(module, "__name__", ""))
    known = digest("callable", name) if name is not None else f"unnamed-{uuid.uuid4().hex}"
    return lambda: known
