"""A folder of units: long work in pieces, each in a file of its own, so that a killed process loses one piece."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cocoax.store.cache import load_or_quarantine
from cocoax.store.digests import with_checksum, without_checksum
from cocoax.store.files import LOCK, PART, folder_lock, to_json, write_text
from cocoax.store.tensors import Layout, corrupt_file_errors, read_safetensors, write_safetensors

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class UnitFolder:
    """A folder with a head, which says how its units are made, and one file for each unit.

    Every file is written whole or not at all. Files of other names are the user's own: they are neither read nor deleted.

    Attributes:
        folder: where it is.
        layout: the kind of the head and the types of its entries.
        head: the name of the head, JSON with a checksum.
        units: the name of the folder of the units.
        unit_name: a pattern of the names of units.

    """

    folder: Path
    layout: Layout
    head: str = "options.json"
    units: str = "units"
    unit_name: str = r".+\.safetensors"

    def path(self, name: str) -> Path:
        """Return the path of a unit."""
        return self.folder / self.units / name

    def files(self) -> list[Path]:
        """Return the units that there are, in the order of their names."""
        folder = self.folder / self.units
        return sorted(path for path in folder.glob("*") if re.fullmatch(self.unit_name, path.name) and path.is_file())

    def read_head(self) -> dict[str, Any] | None:
        """Return the head, None if there is none; raise if it is damaged or of another kind."""
        path = self.folder / self.head
        if not path.is_file():
            return None
        try:
            plain = json.loads(without_checksum(path.read_text(encoding="utf-8").removesuffix("\n")))
            kind = plain.pop("kind")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(f"{path} is damaged ({str(error)[:200]}); move the folder away to start anew.") from error
        if kind != self.layout.kind:
            raise ValueError(f"{path} is that of a Cocoax {kind}, not of a Cocoax {self.layout.kind}.")
        with corrupt_file_errors(path):
            self.layout.check({}, plain)
        return dict(plain)

    def write_head(self, plain: Mapping[str, Any]) -> None:
        """Write the head."""
        text = to_json({"kind": self.layout.kind, **plain}, indent=1)
        write_text(self.folder / self.head, with_checksum(text) + "\n")

    def check_unused(self) -> None:
        """Raise if a folder without a head holds anything but what a killed writer left there: it is the user's own."""
        own = {self.folder / self.units, self.folder / LOCK, *self.leftovers()}
        there = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        if self.files() or any(path not in own for path in there):
            raise ValueError(
                f"{self.folder} is not empty, and no {self.layout.kind}: it has no {self.head}. Choose an empty folder, or a "
                "new one."
            )

    def leftovers(self) -> list[Path]:
        """Return the unfinished files of killed writers, by the names that :func:`atomic_write` gives them."""
        places = ((self.folder, re.escape(self.head)), (self.folder / self.units, self.unit_name))
        patterns = [(folder, re.compile(rf"(?:{names})\.[0-9a-f]{{8}}{re.escape(PART)}")) for folder, names in places]
        return [
            path
            for folder, pattern in patterns
            for path in sorted(folder.glob(f"*{PART}"))
            if pattern.fullmatch(path.name) and path.is_file()
        ]

    def remove_leftovers(self) -> None:
        """Delete the unfinished files of killed writers; the folder must be locked, or they may be those of a living one."""
        for path in self.leftovers():
            path.unlink(missing_ok=True)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder, so that no two processes write the same units; raise if another one holds it."""
        try:
            with folder_lock(self.folder, wait=False):
                yield
        except BlockingIOError:
            raise ValueError(f"Another process is at work in {self.folder}; wait until it is done.") from None


class Results:
    """A folder of units that are tensors with a header, and the options they were made with.

    A folder made with other options is refused: nothing is overwritten. A damaged unit is quarantined, with a warning, and is
    made again.
    """

    def __init__(
        self, folder: str | Path, options: Mapping[str, Any], layout: Layout, unit_name: str = UnitFolder.unit_name
    ) -> None:
        self.units = UnitFolder(Path(folder), Layout("folder of results", {}, {"options": dict}), unit_name=unit_name)
        self.layout = layout
        self.options: dict[str, Any] = json.loads(json.dumps(options))
        head, path = self.units.read_head(), Path(folder) / self.units.head
        if head is not None:
            earlier = head["options"]
            changed = [name for name in {**earlier, **self.options} if earlier.get(name) != self.options.get(name)]
            if changed:
                raise ValueError(
                    f"{folder} holds results with other options: {changed[0]} was {earlier.get(changed[0])!r}, now it is "
                    f"{self.options.get(changed[0])!r}. Pass another folder, or the same options as in its {path.name}."
                )
        else:
            self.units.check_unused()
            self.units.write_head({"options": self.options})

    def path(self, unit: str) -> Path:
        """Return the file of a unit."""
        return self.units.path(f"{unit}.safetensors")

    def __contains__(self, unit: str) -> bool:
        return self.get(unit) is not None

    def write(self, unit: str, tensors: Mapping[str, Tensor], header: Mapping[str, object]) -> None:
        """Write the file of a unit, all of it or nothing."""
        write_safetensors(self.path(unit), tensors, self.layout.kind, header)

    def get(self, unit: str) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Return a unit as it was written; None if there is none, or none that is sound."""
        return load_or_quarantine(self.path(unit), lambda path: read_safetensors(path, self.layout))
