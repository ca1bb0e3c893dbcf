"""``cocoax cache``: what is in the cache, and how to make it smaller."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cocoax
from cocoax.cli.terminal import AsJson, Kept, counted, note, print_json, print_plain, print_table

if TYPE_CHECKING:
    from cocoax.store import CachedFile, CacheInfo

EXAMPLES = (
    "cocoax cache",
    "cocoax cache --clear --older-than 30d",
    "cocoax cache --clear --kind runs --encoder starter --yes",
)

WHICH = "Only a part of it"
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Kind(StrEnum):
    """What the cache holds."""

    references = "references"
    runs = "runs"
    leftovers = "leftovers"


def show_cache(
    clear: Annotated[bool, typer.Option("--clear", help="Delete what is in it, after asking.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --clear: do not ask.")] = False,
    kind: Annotated[Kind | None, typer.Option(help="Only files of this kind.", rich_help_panel=WHICH)] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Only what the encoder of this name made.", rich_help_panel=WHICH)
    ] = None,
    older_than: Annotated[
        str | None, typer.Option(help="Only what was written longer ago: 30d, 12h, 2w.", rich_help_panel=WHICH)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look at the cache of encoded references and saved runs, or clear it.

    Leftovers are what killed processes left half written.
    """
    which: dict[str, Any] = {
        "kind": None if kind is None else kind.value,
        "encoder": encoder,
        "older_than": None if older_than is None else duration_of(older_than),
    }
    info = cocoax.cache_info(**which)
    if clear and info.contents and not (yes or confirmed(info)):
        note("nothing was deleted")
        raise typer.Exit(1)
    if clear:
        info = cocoax.clear_cache(**which)
    if as_json:
        print_json(describe(info, deleted=clear))
    else:
        print_cache(info, "deleted" if clear else "holds")


def duration_of(text: str) -> timedelta:
    """Return the time that is written as a number and a unit: ``30d``."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*", text.lower())
    if match is None:
        raise ValueError(f"--older-than is a number and one of s, m, h, d and w, as in 30d. Got {text!r} instead.")
    return timedelta(**{_UNITS[match[2]]: float(match[1])})


def confirmed(info: CacheInfo) -> bool:
    """Return whether the user, who is asked on standard error, wants this to be deleted."""
    files = counted(len(info.contents), "file")
    note(f"Delete {files} ({size_of(info.bytes)}) from {info.folder}? [y/N] ", end="")
    try:
        answer = sys.stdin.readline()
    except KeyboardInterrupt as stop:
        raise Kept("nothing was deleted") from stop
    if not answer:  # not even a line
        note("\n--clear asks before it deletes; give --yes where nobody can answer")
    return answer.strip().lower() in ("y", "yes")


def print_cache(info: CacheInfo, verb: str) -> None:
    """Print how much the cache holds of each kind, or how much was deleted."""
    print_plain(f"{info.folder}: {verb} {counted(len(info.contents), 'file')}, {size_of(info.bytes)}")
    rows = []
    for kind in Kind:
        files = info.of(kind.value)
        oldest = f"{datetime.fromtimestamp(min(file.written for file in files)):%Y-%m-%d %H:%M}" if files else "–"
        number, size = str(len(files)), size_of(sum(file.bytes for file in files))
        rows.append([kind.value, number, size, oldest, ", ".join(encoders_of(files)) or "–"])
    print_table(("kind", "number", "size", "oldest", "of encoders"), rows)


def encoders_of(files: Sequence[CachedFile]) -> list[str]:
    """Return the names of the encoders that made these files."""
    return sorted({file.encoder for file in files if file.encoder is not None})


def describe(info: CacheInfo, deleted: bool) -> dict[str, Any]:
    """Return what the cache holds, or what was deleted, as plain values."""
    kinds = {}
    for kind in Kind:
        files = info.of(kind.value)
        oldest = min((file.written for file in files), default=None)
        kinds[kind.value] = {
            "number": len(files),
            "bytes": sum(file.bytes for file in files),
            "oldest": None if oldest is None else datetime.fromtimestamp(oldest).astimezone().isoformat(),
            "encoders": encoders_of(files),
        }
    return {"folder": info.folder, "deleted": deleted, "bytes": info.bytes, "kinds": kinds}


def size_of(number: int) -> str:
    """Return a number of bytes in words."""
    return f"{number / 1e9:.2f} GB" if number >= 1e9 else f"{number / 1e6:.1f} MB"
