"""Files of Cocoax: safetensors with a JSON header, written whole or not at all; the cache folder; digests of content."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

# --- files ------------------------------------------------------------------------------------------------------------


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Give a temporary file to write; it takes the place of ``path`` at the end of the block, and is deleted after an error.

    So ``path`` is always either the old file or the whole new one. Its folder is made if there is none.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")  # two processes may write the same file
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_safetensors(path: str | Path, tensors: Mapping[str, Tensor], kind: str, header: Mapping[str, object]) -> Path:
    """Write tensors and a JSON header, all or nothing; return the path."""
    metadata = {"cocoax": json.dumps({"kind": kind, **header})}
    with whole_file(path) as part:
        try:
            save_file(_apart(tensors), part, metadata=metadata)
        except SafetensorError as error:
            raise OSError(f"{path} cannot be written: {error}") from error
        part.chmod(0o644)  # safetensors makes files that only their owner can read
    return Path(path)


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file, all or nothing; return the path."""
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")
    return Path(path)


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors, contiguous, with a copy of each that shares memory with another."""
    seen: set[int] = set()
    apart = {}
    for name, tensor in tensors.items():
        place = tensor.untyped_storage().data_ptr()
        apart[name] = tensor.clone(memory_format=torch.contiguous_format) if place in seen else tensor.contiguous()
        seen.add(place)
    return apart


def read_safetensors(path: str | Path, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return tensors and JSON header of a file written by :func:`write_safetensors`; errors say what is wrong with it."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"No file at {path}; check the path.")
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get("cocoax", "{}"))
            # Copied to memory of their own, since sums come out differently, in the last bit, where memory is not aligned.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not a readable safetensors file ({error}); it may be truncated.") from error
    held = header.pop("kind", None)
    if held != kind:
        raise ValueError(f"{path} does not hold a Cocoax {kind}: it holds {held or 'something else'}.")
    return tensors, header


# --- the cache --------------------------------------------------------------------------------------------------------


def cache_folder() -> Path:
    """Return where references and runs are cached: ``$COCOAX_CACHE``, or ``cocoax`` in the user's cache folder."""
    if "COCOAX_CACHE" in os.environ:
        return Path(os.environ["COCOAX_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "cocoax"


@dataclass(frozen=True)
class CacheInfo:
    """What the cache holds: ``files`` chunks of references, ``runs`` saved runs, ``bytes`` in all."""

    folder: Path
    files: int
    bytes: int
    runs: int = 0


def cache_info() -> CacheInfo:
    """Look at the cache: its folder, how many chunks and runs, how many bytes."""
    files, runs = _cached_files("references"), _cached_files("runs")
    return CacheInfo(cache_folder(), len(files), sum(file.stat().st_size for file in [*files, *runs]), len(runs))


def clear_cache() -> CacheInfo:
    """Delete every cached chunk and run; return what was deleted."""
    info = cache_info()
    for file in [*_cached_files("references"), *_cached_files("runs")]:
        file.unlink(missing_ok=True)
    return info


def _cached_files(kind: str) -> list[Path]:
    return sorted((cache_folder() / kind).glob("*.safetensors"))


# --- digests ----------------------------------------------------------------------------------------------------------


def digest(*parts: object) -> str:
    """Return a digest of tensors, arrays, bytes and plain values, of their kind as well as of their content."""
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
    """Return a digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
