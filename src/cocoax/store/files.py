"""Files that are written whole or not at all, by one process or by several."""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PART = ".part"  # how a file ends while it is written
LOCK = ".cocoax.lock"  # the file by which a folder is locked


def as_path(path: str | Path) -> Path:
    """Return a path; raise for what is none."""
    text = str(path) if isinstance(path, str | os.PathLike) else ""
    if not text.strip() or "\0" in text or max(map(len, Path(text).parts), default=0) > 255:
        what = repr(text[:60]) if isinstance(path, str | os.PathLike) else type(path).__name__
        raise TypeError(f"A path must be a string or a pathlib.Path that names a file. Got {what} instead.")
    return Path(path)


def files_below(folder: Path, suffixes: Collection[str]) -> list[Path]:
    """Return the files below a folder that end in one of ``suffixes``, sorted; hidden files and folders are left out."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in suffixes
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Give a temporary file to write; it takes the place of ``path`` at the end of the block, and is deleted after an error.

    So ``path`` is always either the old file or the whole new one, after a power cut too. Its folder is made if there is
    none. Errors name ``path``.
    """
    path = as_path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it.")
    if path.parent.is_file():
        raise NotADirectoryError(f"{path.parent} is a file, so that {path.name} cannot be written into it; name a folder.")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PART}")  # two processes may write the same file
    try:
        with named_os_errors(path, part):
            yield part
            _to_disk(part)
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def named_os_errors(path: Path, part: Path | None = None) -> Iterator[None]:
    """Let errors of the system name the file that is written, such as of a full disk, of which Python does not say it.

    ``part`` is what the file is called while it is written.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(part)):
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


def _to_disk(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def folder_lock(folder: Path, wait: bool = True) -> Iterator[None]:
    """Wait until no other process is in such a block for the same folder; a killed process keeps nobody waiting.

    With ``wait=False`` raise a ``BlockingIOError`` instead. The lock is the file ``.cocoax.lock``, which stays there. A file
    system without locks, or a folder that cannot be written, is used without.
    """
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK, timeout=-1 if wait else 0)
    try:
        lock.acquire()
    except Timeout as error:
        raise BlockingIOError(f"Another process is at work in {folder}.") from error
    except (OSError, NotImplementedError):
        pass
    try:
        yield
    finally:
        lock.release()


@contextmanager
def readable(source: Any, holding: str = "vectors") -> Iterator[None]:
    """Turn whatever a damaged file makes a library raise into an error that names it and what it should be holding."""
    try:
        yield
    except (FileNotFoundError, PermissionError, ImportError, MemoryError):
        raise
    except Exception as error:
        if not isinstance(source, str | Path):
            raise
        reason = " ".join(str(error)[:200].split()).removesuffix(".")
        raise ValueError(f"{source} cannot be read as {holding} ({reason}); it may be damaged or cut off.") from error


@contextmanager
def prefix_errors(source: Any) -> Iterator[None]:
    """Let what is said about the content of a file begin with the file's name; a source that is no file has none."""
    try:
        yield
    except ValueError as error:
        if not isinstance(source, str | Path) or str(source) in str(error):
            raise
        raise ValueError(f"{source}: {error}") from error


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file, all or nothing; return the path."""
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8")
    return Path(path)


def write_figure(path: str | Path, figure: Figure, dpi: int = 150) -> Path:
    """Write a figure in the format that the path's ending names, all or nothing; return the path.

    It bears no date: the same figure is the same file.
    """
    path = Path(path)
    undated: dict[str, Any] = {"metadata": {"CreationDate": None}} if path.suffix == ".pdf" else {}
    with atomic_write(path) as part:
        figure.savefig(part, format=path.suffix[1:], dpi=dpi, **undated)
    return path


OTHERS = {".html", ".htm", ".json", ".png", ".jpg", ".jpeg", ".svg", ".pdf", ".md", ".txt", ".csv"}  # that no folder has


def free_ending(folder: Path, *stems: str, own: Collection[str] = ()) -> str:
    """Return what names in a folder must end in so that nothing there is replaced: nothing, ``-2``, ``-3``, ….

    ``stems`` are the names that are going to be written, without ``.html`` and the like; ``own`` may be replaced.
    """
    taken = {name.partition(".")[0] for name in os.listdir(folder)} - {*own} if folder.is_dir() else set()
    endings = chain([""], (f"-{time}" for time in count(2)))
    return next(ending for ending in endings if not any(f"{stem}{ending}" in taken for stem in stems))


def check_ending(path: Path, endings: Iterable[str]) -> None:
    """Raise if no file with the ending of a path can be written; a path without an ending is a folder."""
    ending, known = path.suffix.lower(), list(endings)
    if ending in OTHERS and ending not in known and not path.is_dir():
        raise ValueError(f"Files end in {', '.join(known)}; a path of another ending is a folder for all. Got {path.name}.")


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
