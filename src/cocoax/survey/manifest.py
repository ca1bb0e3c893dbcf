"""The manifest of an index: what all of its entries have in common."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from cocoax.cautions import caution
from cocoax.inputs.base import plural
from cocoax.methods.serialise import to_plain
from cocoax.store import Layout, UnitFolder, as_path, corrupt_file_errors, digest, to_json
from cocoax.survey.entries import Making
from cocoax.version import versions

MANIFEST = "manifest.json"
FORMAT = 2
WORDS = {  # of what is noted only where there is something to note: what it is called, and what else it is
    "view": ("view of its inputs", "what the encoder itself sees"),
    "tensors": ("content of the method's tensors", "not noted"),
}


SHARD_NAME = r"\d{8,}-[0-9a-f]{8}\.parquet"  # a pattern of what shard_name returns
POSITIONS = "positions.safetensors"
_HEAD = {"encoder": str, "space": str, "making": dict, "noun": str, "source": str, "columns": dict}
_LAYOUT = Layout("index", {}, {**_HEAD, "rounding": int | float, "made_by": dict, "format": int})


def index_folder(folder: str | Path) -> UnitFolder:
    """Return the folder of an index: its manifest is the head, its shards are the units."""
    return UnitFolder(Path(folder), _LAYOUT, MANIFEST, "shards", SHARD_NAME, (rf"{re.escape(POSITIONS)}(\.damaged)?",))


@dataclass(frozen=True)
class Manifest:
    """What all entries of an index have in common.

    Attributes:
        encoder: what :func:`cocoax.load` takes, or the name of an encoder that was made by hand.
        space: identifies its representation space.
        making: method, similarity and grid, as plain values; the view, where it is not the encoder's own, and a digest of
            the method's tensors, where it has any.
        noun: what one input is called.
        source: where the inputs come from.
        columns: the types of what is known about inputs, by name.
        rounding: how far rounding moves scores of the encoder, relative to the terms that they are sums of.
        made_by: what the numbers may depend on in their last bits: versions, and threads of a process. A build that went on
            under others adds those.
        format: of the files.

    """

    encoder: str
    space: str
    making: Mapping[str, Any]
    noun: str
    source: str
    columns: Mapping[str, str]
    rounding: float = 0.0
    made_by: Mapping[str, Sequence[str]] = field(default_factory=dict)
    format: int = FORMAT

    def save(self, folder: Path) -> None:
        """Write it."""
        index_folder(folder).write_head(asdict(self))

    @classmethod
    def load(cls, folder: str | Path) -> Manifest:
        """Read it; raise if the folder is no index, or one of another version."""
        plain = index_folder(as_path(folder)).read_head()
        if plain is None:
            raise FileNotFoundError(
                f"{folder} is no index: it has no {MANIFEST}. Make one with 'cocoax index DATA --out INDEX'."
            )
        path = Path(folder) / MANIFEST
        if plain["format"] != FORMAT:
            raise ValueError(f"{path} is that of an index of another version; make the index anew.")
        with corrupt_file_errors(path):
            return cls(**plain)

    def after(self, earlier: Manifest | None, more: bool) -> Manifest:
        """Return it with what made the entries that are there already, and if there will be ``more``, what makes those."""
        if earlier is None:
            return self
        both = (
            {name: sorted({*earlier.made_by.get(name, ()), *own}) for name, own in self.made_by.items()}
            if more
            else earlier.made_by
        )
        if len(both["threads"]) > len(earlier.made_by["threads"]):
            caution(
                "threads",
                self.space,
                f"The index was made on {earlier.made_by['threads'][0]} threads a process, and goes on on "
                f"{self.made_by['threads'][0]}: some networks round the last bit of a number otherwise then.",
            )
        return replace(self, made_by=both)

    @property
    def nouns(self) -> str:
        """What several inputs are called."""
        return plural(self.noun)

    @property
    def origin(self) -> bytes:
        """A digest of encoder and method, by which shards are known to belong together."""
        return digest(self.space, to_json(self.making)).encode()

    def check_begun(self, folder: str | Path) -> None:
        """Raise if there is no shard beside it yet."""
        if not shard_files(folder):
            raise ValueError(
                f"The index {folder} is unfinished: it has no {self.nouns} yet. Run the same 'cocoax index' command again."
            )

    def check(self, other: Manifest) -> None:
        """Raise if an index that is there was made in another way than is asked for now."""
        if self.space != other.space:
            raise ValueError(
                f"The index was made by the encoder {self.encoder!r}, and {other.encoder!r} is another one, or its weights "
                "or preprocessing have changed; write to another folder."
            )
        for name in {**self.making, **other.making}:
            what, usual = WORDS.get(name, (name, None))
            before, now = (making.get(name, usual) for making in (self.making, other.making))
            if before != now:
                raise ValueError(
                    f"The index was made with another {what} ({_short(before)}) than is asked for now ({_short(now)}); write "
                    "to another folder, or ask for the same."
                )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 120 else text[:117] + "…"


def makers(threads: int) -> dict[str, list[str]]:
    """Return what numbers may depend on in their last bits, as a manifest notes it."""
    import pyarrow

    return {name: [value] for name, value in {**versions(), "pyarrow": pyarrow.__version__, "threads": str(threads)}.items()}


def plain_making(making: Making, view: tuple[object, ...] = ()) -> dict[str, Any]:
    """Return how entries are made, as JSON has it; ``view`` says how much of an input is explained, if not what is usual.

    A method's tensors, such as pictures that removed parts become, are told by their shapes there, and by a digest of all.
    """
    tensors: dict[str, Tensor] = {}
    to_plain(making, tensors)
    plain: dict[str, Any] = json.loads(json.dumps(to_plain(making)))
    plain.pop("type")
    if view:
        plain["view"] = digest(*view) if any(not isinstance(part, str) for part in view) else " ".join(map(str, view))
    if tensors:
        plain["tensors"] = digest(*tensors.values())
    return plain


def shard_files(folder: str | Path) -> list[Path]:
    """Return the shards of an index, in order."""
    return index_folder(folder).files()
