"""Checkpoints: reading weights from a local file, whoever wrote it, without running code that the file may hold."""

from __future__ import annotations

import json
import pickle
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Weights by name, and the metadata of the file (most have none)."""

    path: Path
    tensors: dict[str, Tensor]
    metadata: dict[str, Any]


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read the weights in a safetensors file or in one that ``torch.save`` wrote; numbers become float32.

    A torch file is a state dict, or a dict that holds one beside other things (``"state_dict"``, ``"model"``, …).
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"No file at {path}; pass the path of a checkpoint (.safetensors, .pth, .pt, .th, .ckpt).")
    tensors, metadata = _read_safetensors(path) if path.suffix == ".safetensors" else (_read_torch(path), {})
    return Checkpoint(path, {name: _single(tensor) for name, tensor in tensors.items()}, metadata)


def _single(tensor: Tensor) -> Tensor:
    """The tensor in single precision, if it holds floating-point numbers."""
    return tensor.float() if tensor.is_floating_point() else tensor


def _read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with safe_open(path, framework="pt") as file:
            metadata: dict[str, Any] = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a mapping)
        metadata |= json.loads(metadata.pop("cocoax", "{}"))
    except (SafetensorError, OSError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not a readable safetensors file ({error}); it may be cut off.") from error
    return tensors, metadata


def _read_torch(path: Path) -> dict[str, Tensor]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of old ways to write checkpoints
            content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, zipfile.BadZipFile, RuntimeError, EOFError, ValueError, KeyError, TypeError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ValueError(
            f"{path} cannot be read as weights alone ({reason}). It is damaged, no torch file, or holds objects that could "
            "run code when read; save the model's state_dict() and pass that."
        ) from error
    if not isinstance(content, Mapping):
        raise ValueError(f"{path} holds a {type(content).__name__}; expected a dict of weights by name, a state_dict().")
    candidates = [content, *(value for value in content.values() if isinstance(value, Mapping))]
    weights = max(map(_tensors, candidates), key=len)
    if not weights:
        raise ValueError(
            f"{path} holds no weights: its entries are {', '.join(map(str, list(content)[:5])) or 'none'}; "
            "expected a state_dict(), alone or as one of the entries."
        )
    return weights


def _tensors(content: Mapping[object, object]) -> dict[str, Tensor]:
    """The entries that are tensors with a name."""
    return {name: value for name, value in content.items() if isinstance(name, str) and isinstance(value, Tensor)}
