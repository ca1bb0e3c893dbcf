"""Files of Cocoax: safetensors with a JSON header, written whole or not at all; the cache folder; digests of content."""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # at run time they are imported where they are needed: to look at the cache they are not
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
    from safetensors import SafetensorError
    from safetensors.torch import save_file

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


def to_json(value: object, indent: int | None = None) -> str:
    """Return plain values as JSON; numbers that are not finite, which JSON does not know, become null."""
    return json.dumps(_finite(value), indent=indent, ensure_ascii=False, allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors, contiguous, with a copy of each that shares memory with another."""
    import torch

    seen: set[int] = set()
    apart = {}
    for name, tensor in tensors.items():
        place = tensor.untyped_storage().data_ptr()
        apart[name] = tensor.clone(memory_format=torch.contiguous_format) if place in seen else tensor.contiguous()
        seen.add(place)
    return apart


def read_safetensors(path: str | Path, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return tensors and JSON header of a file written by :func:`write_safetensors`; errors say what is wrong with it."""
    from safetensors import SafetensorError, safe_open

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

CACHE_KINDS = ("references", "runs", "leftovers")  # the last are what killed writers left behind
_LONGEST_HEADER = 100_000_000  # of a safetensors file, as the format has it


def cache_folder() -> Path:
    """Return where references and runs are cached: ``$COCOAX_CACHE``, or ``cocoax`` in the user's cache folder."""
    if "COCOAX_CACHE" in os.environ:
        return Path(os.environ["COCOAX_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "cocoax"


@dataclass(frozen=True)
class CachedFile:
    """A file of the cache: its ``kind``, one of ``CACHE_KINDS``, and the name of the encoder that made it, if it is known."""

    path: Path
    kind: str
    bytes: int
    written: float
    encoder: str | None


@dataclass(frozen=True)
class CacheInfo:
    """What the cache holds, or what was deleted from it.

    Attributes:
        folder: where it is.
        files: how many chunks of references.
        bytes: of everything together.
        runs: how many saved runs.
        leftovers: how many files whose writer was killed before they were whole.
        contents: the files themselves.

    """

    folder: Path
    files: int
    bytes: int
    runs: int = 0
    leftovers: int = 0
    contents: tuple[CachedFile, ...] = field(default=(), repr=False)

    def of(self, kind: str) -> list[CachedFile]:
        """Return the files of a kind."""
        return [file for file in self.contents if file.kind == kind]


def cache_info(*, kind: str | None = None, encoder: str | None = None, older_than: timedelta | None = None) -> CacheInfo:
    """Look at the cache: its folder, how many chunks and runs, how many bytes.

    Args:
        kind: only ``"references"``, ``"runs"`` or ``"leftovers"``.
        encoder: only what the encoder of this name made.
        older_than: only what was written longer ago.

    """
    if kind is not None and kind not in CACHE_KINDS:
        raise ValueError(f"The 'kind' parameter must be one of {', '.join(CACHE_KINDS)}. Got {kind!r} instead.")
    latest = math.inf if older_than is None else time.time() - older_than.total_seconds()
    files = tuple(
        file
        for file in _cached_files()
        if kind in (None, file.kind) and encoder in (None, file.encoder) and file.written < latest
    )
    number = Counter(file.kind for file in files)
    size = sum(file.bytes for file in files)
    return CacheInfo(cache_folder(), number["references"], size, number["runs"], number["leftovers"], files)


def clear_cache(*, kind: str | None = None, encoder: str | None = None, older_than: timedelta | None = None) -> CacheInfo:
    """Delete what :func:`cache_info` finds with the same arguments, everything by default; returns what was deleted."""
    info = cache_info(kind=kind, encoder=encoder, older_than=older_than)
    for file in info.contents:
        file.path.unlink(missing_ok=True)
    return info


def _cached_files() -> Iterator[CachedFile]:
    """Yield every file in the cache, those that were cut off included."""
    for folder in ("references", "runs"):
        for pattern, kind in (("*.safetensors", folder), ("*.part", "leftovers")):
            for path in sorted((cache_folder() / folder).glob(pattern)):
                with suppress(FileNotFoundError):  # another process may have finished or deleted it just now
                    status = path.stat()
                    encoder = _encoder_of(path) if kind == folder else None
                    yield CachedFile(path, kind, status.st_size, status.st_mtime, encoder)


def _encoder_of(path: Path) -> str | None:
    """Return the name of the encoder that made a file, which its header tells; torch is not needed to read that."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(json.loads(file.read(min(length, _LONGEST_HEADER)))["__metadata__"]["cocoax"])
    except (OSError, ValueError, KeyError, TypeError):  # cut off, or from another version
        return None
    name = header.get("encoder", header.get("name"))  # chunks of references bear the name of their encoder
    return None if name is None or name == "reference" else str(name)


# --- digests ----------------------------------------------------------------------------------------------------------


def digest(*parts: object) -> str:
    """Return a digest of tensors, arrays, bytes and plain values, of their kind as well as of their content."""
    import numpy as np
    import torch

    sha = hashlib.sha256()
    for part in parts:
        if isinstance(part, torch.Tensor):
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
