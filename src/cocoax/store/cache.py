"""The cache folder: what it holds, how to make it smaller, and what becomes of damaged files."""

from __future__ import annotations

import json
import math
import os
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from cocoax.checks import check_kind, shown

Content = TypeVar("Content")

_FOLDERS = ("references", "runs", "vectors")
CACHE_KINDS = (*_FOLDERS, "leftovers")  # the last: what killed writers left behind, and damaged files that were put aside
# A key, which is a digest; the rest is what atomic_write and load_or_quarantine add.
_CACHED_NAME = re.compile(r"[0-9a-f]{32}((\.unfinished)?\.safetensors(?P<leftover>\.[0-9a-f]{8}\.part|\.damaged)?|\.sqlite)")
_LONGEST_HEADER = 100_000_000  # of a safetensors file, as the format has it


def cache_folder() -> Path:
    """Return where references and runs are cached: ``$COCOAX_CACHE``, or ``cocoax`` in the user's cache folder.

    A variable that is empty is as good as none. Raises an ``OSError`` where there is no home folder.
    """
    if own := os.environ.get("COCOAX_CACHE"):
        return Path(own)
    if common := os.environ.get("XDG_CACHE_HOME"):
        return Path(common) / "cocoax"
    try:
        return Path.home() / ".cache" / "cocoax"
    except RuntimeError as error:
        raise OSError("There is no home folder to keep a cache in; set COCOAX_CACHE to a folder.") from error


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
    """Counts and sizes of cached files, or of those that were deleted.

    Attributes:
        folder: where it is.
        references: how many chunks of references.
        bytes: of everything together.
        runs: how many saved runs.
        leftovers: how many files whose writer was killed before they were whole, or that are damaged.
        contents: the files themselves.

    """

    folder: Path
    references: int
    bytes: int
    runs: int = 0
    leftovers: int = 0
    contents: tuple[CachedFile, ...] = field(default=(), repr=False)

    def of(self, kind: str) -> list[CachedFile]:
        """Return the files of a kind."""
        return [file for file in self.contents if file.kind == kind]


def cache_info(*, kind: str | None = None, encoder: str | None = None, older_than: timedelta | None = None) -> CacheInfo:
    """Look at the cache: its folder, how many references and runs, how many bytes.

    Args:
        kind: only ``"references"``, ``"runs"``, ``"vectors"`` or ``"leftovers"``.
        encoder: only what the encoder of this name made.
        older_than: only what was written longer ago.

    """
    if kind is not None and (not isinstance(kind, str) or kind not in CACHE_KINDS):
        raise ValueError(f"The 'kind' parameter must be one of {', '.join(CACHE_KINDS)}. Got {shown(kind)} instead.")
    if encoder is not None:
        check_kind("The 'encoder' parameter", encoder, str, "must be the name of an encoder")
    if older_than is not None:
        check_kind("The 'older_than' parameter", older_than, timedelta, "must be a datetime.timedelta")
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
    """Yield the files that Cocoax wrote into the cache, unfinished ones included."""
    for folder in _FOLDERS:
        for path in sorted((cache_folder() / folder).glob("*")):
            if (name := _CACHED_NAME.fullmatch(path.name)) is None:
                continue  # the user's own
            with suppress(FileNotFoundError):  # another process may have finished or deleted it just now
                status = path.stat()
                kind = "leftovers" if name["leftover"] else folder
                encoder = _encoder_of(path) if kind == folder else None
                yield CachedFile(path, kind, status.st_size, status.st_mtime, encoder)


def _encoder_of(path: Path) -> str | None:
    """Return the name of the encoder that made a file, from its header, without importing torch."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(json.loads(file.read(min(length, _LONGEST_HEADER)))["__metadata__"]["cocoax"])
        name = header.get("encoder", header.get("name"))  # chunks of references bear the name of their encoder
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):  # cut off, or from another version
        return None
    return None if name is None or name == "reference" else str(name)


def load_or_quarantine(path: Path, load: Callable[[Path], Content]) -> Content | None:
    """Return what ``load`` makes of a file; None if there is no file, or no sound one.

    A damaged file, for which ``load`` raises a ``ValueError``, gets the ending ``.damaged``, and a warning names it.
    """
    try:
        return load(path) if path.exists() else None
    except ValueError as error:
        aside = path.with_name(f"{path.name}.damaged")
        with suppress(OSError):  # it is not used, wherever it is
            os.replace(path, aside)
        warnings.warn(f"{error} It was put aside as {aside.name}, and what was in it is computed again.", stacklevel=3)
    except OSError as error:
        warnings.warn(f"{path} cannot be read ({error}); going on without.", stacklevel=3)
    return None


@dataclass(frozen=True)
class KeyedCache:
    """Files of one kind, found by a key: a digest of all that the content of a file depends on.

    A file that is damaged is quarantined and is as good as none; a cache that cannot be written is a warning, not an error.

    Attributes:
        kind: the name of the folder in the cache folder.
        folder: where the files are instead, if given.

    """

    kind: str
    folder: Path | None = None

    def path(self, key: str) -> Path:
        """Return the path of the file with a key; raise an ``OSError`` where there is no cache folder."""
        folder = cache_folder() / self.kind if self.folder is None else self.folder
        return folder / f"{key}.safetensors"

    def get(self, key: str, load: Callable[[Path], Content]) -> Content | None:
        """Return what ``load`` makes of the file with a key; None if there is no sound one."""
        try:
            path = self.path(key)
        except OSError:  # of which put warns
            return None
        return load_or_quarantine(path, load)

    def put(self, key: str, save: Callable[[Path], object]) -> None:
        """Let ``save`` write the file with a key."""
        try:
            save(self.path(key))
        except (OSError, TypeError) as error:
            warnings.warn(f"The cache of {self.kind} cannot be written ({error}); going on without.", stacklevel=3)
