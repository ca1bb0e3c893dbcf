"""Going on with an index: which of its entries still hold, and which inputs have none yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cocoax.cautions import caution
from cocoax.encoders import Encoder
from cocoax.progress import bar
from cocoax.survey.entries import content_digest
from cocoax.survey.items import Item
from cocoax.survey.manifest import Manifest, shard_files
from cocoax.survey.shards import known_table, read_known, read_shard, shard_name, store, with_known

MOST = 0.5  # of all entries: more than that are dropped only if it is asked for


@dataclass
class Standing:
    """How the entries of an index stand to the inputs that there are now.

    Attributes:
        kept: rows of each shard that stay.
        done: ids that need no entry any more.
        same, changed, unreadable: how many inputs have the content that they had, another one, or cannot be read now.
        gone: how many entries are of inputs that are not there any more.
        numbered: whether all ids are places (``4``, or ``row 4``), which inputs of other data have as well.

    """

    kept: dict[Path, list[int]] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    same: int = 0
    changed: int = 0
    unreadable: int = 0
    gone: int = 0
    numbered: bool = True

    @property
    def known(self) -> int:
        """How many entries are of inputs that are there."""
        return self.same + self.changed + self.unreadable


def missing_items(
    encoder: Encoder,
    items: Sequence[Item],
    folder: Path,
    manifest: Manifest,
    *,
    retry: bool,
    drop: bool,
    progress: bool | None,
) -> list[tuple[int, Item]]:
    """Return the inputs that have no entry yet, with their numbers.

    Entries of inputs that have changed are dropped, and so are those of inputs that are gone; what is known about the others
    is brought up to date. With ``retry`` those that failed are missing, too.
    """
    by_id = {item.id: item for item in items}
    standing = _standing(encoder, by_id, folder, manifest, retry, progress)
    if standing.kept:
        _check(standing, folder, drop)
    for path, rows in standing.kept.items():
        _bring_up_to_date(path, rows, by_id, manifest)
    return [(number, item) for number, item in enumerate(items) if item.id not in standing.done]


def _standing(
    encoder: Encoder, by_id: Mapping[str, Item], folder: Path, manifest: Manifest, retry: bool, progress: bool | None
) -> Standing:
    """Hold every entry against its input, by id and digest alone."""
    standing = Standing()
    paths = shard_files(folder)
    with bar(len(by_id) if paths else 0, "looking for what has changed", progress) as shown:
        for path in paths:
            table, kept = read_shard(path, ["id", "digest", "error"], None, manifest), []
            for row, (name, content, error) in enumerate(zip(*(column.to_pylist() for column in table), strict=True)):
                standing.numbered &= name.removeprefix("row ").isdecimal()
                if name not in by_id:
                    standing.gone += 1
                elif name not in standing.done:
                    now = content_digest(encoder, by_id[name])
                    shown.update()
                    standing.same += now == content
                    standing.unreadable += not now and bool(content)
                    standing.changed += bool(now) and now != content
                    if now in ("", content) and not (retry and error is not None):
                        kept.append(row)
                        standing.done.add(name)
            standing.kept[path] = kept
    return standing


def _check(standing: Standing, folder: Path, drop: bool) -> None:
    """Raise if these are other data, or if most entries would be dropped unasked; say what is dropped, or cannot be read."""
    if not standing.known or (standing.numbered and not standing.same and not standing.unreadable):
        raise ValueError(
            f"None of the inputs of the index in {folder} is among these: it is of other data. Write to another folder."
        )
    total = standing.known + standing.gone
    others = standing.changed if standing.numbered else 0
    if others > MOST * standing.known and not drop:
        raise ValueError(
            f"{others} of the {standing.known} inputs at the places of the index in {folder} are others than before, and "
            "their entries would be replaced. If these are the same data with changes, say drop=True (--drop); else write to "
            "another folder. Ids (id_column=, --id-column) tell inputs apart wherever they stand."
        )
    if standing.gone > MOST * total and not drop:
        raise ValueError(
            f"{standing.gone} of the {total} inputs of the index in {folder} are not among these, and their entries would be "
            "dropped. If they are gone for good, say drop=True (--drop); else check the data, or write to another folder."
        )
    if standing.gone:
        caution("dropped", str(folder), f"{standing.gone} of {total} entries are dropped: their inputs are gone.")
    if others:
        caution("replaced", str(folder), f"{others} of {total} entries are replaced: at their places there are other inputs.")
    if standing.unreadable:
        caution(
            "unreadable",
            str(folder),
            f"{standing.unreadable} inputs that have entries cannot be read now; the entries are kept as they are.",
        )


def _bring_up_to_date(path: Path, rows: Sequence[int], by_id: Mapping[str, Item], manifest: Manifest) -> None:
    """Leave the given rows of a shard, with what is known about their inputs now; fields are read only if that is news."""
    stored = read_known(path)
    whole = len(rows) == len(stored)
    names = stored["id"].take(np.array(rows, int)).to_pylist()
    known = known_table([by_id[name] for name in names], manifest.columns)
    if whole and known.equals(stored.drop_columns(["id"])):
        return
    if rows:  # another file, since an index that is open would find other rows in this one
        number = int(path.name.split("-")[0])
        current = with_known(read_shard(path).take(np.array(rows, int)), known)
        store(path.with_name(shard_name(number, names)), current, manifest, len(rows))
    if not whole:
        path.unlink()
