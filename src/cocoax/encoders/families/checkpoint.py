"""Checkpoints: reading weights from a local file, whoever wrote it, without running code that the file may hold."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cocoax.store import check_torch_file, header_of, load_tensors


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
    single = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    return Checkpoint(path, single, metadata)


def _read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors, metadata = load_tensors(path)
    if "cocoax" not in metadata:
        if any('"digest": ' in text for text in metadata.values()):
            raise ValueError(f"{path} is damaged: its header is not what was written. It is not used.")
        return tensors, dict(metadata)
    own = header_of(path, tensors, metadata.pop("cocoax"))
    return tensors, {**metadata, **own}


def _read_torch(path: Path) -> dict[str, Tensor]:
    check_torch_file(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of old ways to write checkpoints
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a file that is no checkpoint makes torch raise
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


def torchvision_name(name: str) -> str:
    """Return the name that torchvision gives to a weight of a ResNet here; other names stay."""
    name = re.sub(r"\bstages\.(\d+)\.", lambda match: f"layer{int(match[1]) + 1}.", name)
    return re.sub(r"\bshortcut\.(\d)\.", r"downsample.\1.", name)
