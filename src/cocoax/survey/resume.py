"""Going on with an index: which of its entries are kept, and which inputs have none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cocoax.cautions import caution
from cocoax.encoders import Encoder
from cocoax.progress import bar
from cocoax.survey.items import Item, content_digest
from cocoax.survey.storage import (
    Manifest,
    known_table,
    read_known,
    read_shard,
    shard_files,
    shard_name,
    with_known,
    write_shard,
)

MAX_DROPPED_SHARE = 0.5  # of all entries: more than that are dropped only if it is asked for


@dataclass
class _Entries:
    """The entries of an index compared with the inputs that there are now.

    Attributes:
        kept: rows of each shard that stay.
        done: ids that need no entry any more.
        same, changed, unreadable: how many inputs have the content that they had, another one, or cannot be read now.
        gone: how many entries are of inputs that are not there any more.
        numbered: whether all ids are row numbers, which inputs of other data have as well.

    """

    kept: dict[Path, list[int]] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    same: int = 0
    changed: int = 0
    unreadable: int = 0
    gone: int = 0
    numbered: bool = True


def missing_items(
    encoder: Encoder, items: Sequence[Item], folder: Path, manifest: Manifest, retry: bool, drop: bool, progress: bool | None
) -> list[tuple[int, Item]]:
    """Return the inputs that have no entry yet, with their numbers.

    Entries of inputs that have changed or are gone are dropped, most of all entries only if ``drop``; what is known about the
    other inputs is brought up to date. With ``retry`` those that failed are missing, too.
    """
    by_id = {item.id: item for item in items}
    entries = _compare(encoder, by_id, folder, manifest, retry, progress)
    if entries.kept:
        _check(entries, folder, drop)
    for path, rows in entries.kept.items():
        _bring_up_to_date(path, rows, by_id, manifest)
    return [(number, item) for number, item in enumerate(items) if item.id not in entries.done]


def _compare(
    encoder: Encoder, by_id: Mapping[str, Item], folder: Path, manifest: Manifest, retry: bool, progress: bool | None
) -> _Entries:
    """Compare every entry with its input, by id and digest alone."""
    entries = _Entries()
    paths = shard_files(folder)
    with bar(len(by_id) if paths else 0, "looking for what has changed", progress) as shown:
        for path in paths:
            table, kept = read_shard(path, ["id", "digest", "error"], None, manifest), []
            for row, (name, content, error) in enumerate(zip(*(column.to_pylist() for column in table), strict=True)):
                entries.numbered &= name.isdecimal()
                if name not in by_id:
                    entries.gone += 1
                elif name not in entries.done:
                    now = content_digest(encoder, by_id[name])
                    shown.update()
                    entries.same += now == content
                    entries.unreadable += not now and bool(content)
                    entries.changed += bool(now) and now != content
                    if now in ("", content) and not (retry and error is not None):
                        kept.append(row)
                        entries.done.add(name)
            entries.kept[path] = kept
    return entries


def _check(entries: _Entries, folder: Path, drop: bool) -> None:
    """Raise if these are other data, or if most entries would be dropped unasked; say what is dropped, or cannot be read."""
    known = entries.same + entries.changed + entries.unreadable
    if not known or (entries.numbered and not entries.same and not entries.unreadable):
        raise ValueError(
            f"None of the inputs of the index in {folder} is among these: it is of other data. Write to another folder."
        )
    # Where ids are numbers, another content is that of another input.
    total, dropped = known + entries.gone, entries.gone + (entries.changed if entries.numbered else 0)
    if dropped > MAX_DROPPED_SHARE * total and not drop:
        raise ValueError(
            f"{dropped} of the {total} inputs of the index in {folder} are not among these, and their entries would be "
            "dropped. If they are gone for good, say drop=True (--drop); else check the data, or write to another folder."
            + (" Ids (id_column=, --id-column) tell inputs apart wherever they stand." if entries.numbered else "")
        )
    if dropped:
        caution("dropped", str(folder), f"{dropped} of {total} entries are dropped: their inputs are gone, or replaced.")
    if entries.unreadable:
        caution(
            "unreadable",
            str(folder),
            f"{entries.unreadable} inputs that have entries cannot be read now; the entries are kept as they are.",
        )


def _bring_up_to_date(path: Path, rows: Sequence[int], by_id: Mapping[str, Item], manifest: Manifest) -> None:
    """Leave the given rows of a shard, with what is known about their inputs now; fields are read only if that changed."""
    stored = read_known(path)
    whole = len(rows) == len(stored)
    names = stored["id"].take(np.array(rows, int)).to_pylist()
    known = known_table([by_id[name] for name in names], manifest.columns)
    if whole and known.equals(stored.drop_columns(["id"])):
        return
    if rows:  # another file, since an index that is open would find other rows in this one
        number = int(path.name.split("-")[0])
        current = with_known(read_shard(path).take(np.array(rows, int)), known)
        write_shard(path.with_name(shard_name(number, names)), current, manifest, len(rows))
    if not whole:
        path.unlink()
