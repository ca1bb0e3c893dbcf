"""Results of a study, written as they are made: a study that is killed goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocoax.data.labelled import LabelledImages
from cocoax.encoders import Encoder
from cocoax.progress import bar
from cocoax.references import Reference
from cocoax.store import Layout, read_safetensors, sealed, sound_or_aside, unsealed, write_safetensors, write_text

UNIT = Layout("study unit")
_REPRESENTATIONS = Layout("representations", {"numbers": "int n", "vectors": "n d"}, {"space": str, "data": str})


class Results:
    """A folder with one file for each explicand, and the options they were made with.

    A folder made with other options is refused: nothing is overwritten. A damaged file of an explicand is put aside, with a
    warning, and is as good as none.
    """

    def __init__(self, folder: str | Path, options: Mapping[str, Any], layout: Layout = UNIT) -> None:
        self.folder = Path(folder)
        self.layout = layout
        self.options: dict[str, Any] = json.loads(json.dumps(options))
        path = self.folder / "options.json"
        if path.exists():
            try:
                text = path.read_text(encoding="utf-8")
                earlier = json.loads(text)
                if earlier.pop("digest", None):  # one from before there were digests must be what it should be anyway
                    unsealed(text.strip())
            except (ValueError, AttributeError) as error:
                raise ValueError(f"{path} is damaged ({error}); move the folder away to start anew.") from error
            changed = [name for name in {**earlier, **self.options} if earlier.get(name) != self.options.get(name)]
            if changed:
                raise ValueError(
                    f"{self.folder} holds results with other options: {changed[0]} was {earlier.get(changed[0])!r}, "
                    f"now it is {self.options.get(changed[0])!r}. Pass another folder, or the same options as "
                    f"in its {path.name}."
                )
        elif any((self.folder / "units").glob("*.safetensors")):
            raise ValueError(
                f"{self.folder} holds results but not the options.json that tells how they were made; put that file back, "
                "or pass another folder."
            )
        else:
            plain = json.dumps(self.options, indent=2)
            write_text(path, (sealed(plain) if self.options else plain) + "\n")

    def path(self, unit: str) -> Path:
        """Return the file of a unit of work."""
        return self.folder / "units" / f"{unit}.safetensors"

    def __contains__(self, unit: str) -> bool:
        return self.get(unit) is not None

    def write(self, unit: str, tensors: Mapping[str, Tensor], header: Mapping[str, object]) -> None:
        """Write the file of a unit, all of it or nothing."""
        write_safetensors(self.path(unit), tensors, self.layout.kind, header)

    def get(self, unit: str) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Return a unit as it was written; None if there is none, or none that is sound."""
        return sound_or_aside(self.path(unit), self._read)

    def read(self, unit: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Read a unit as it was written."""
        try:
            return self._read(self.path(unit))
        except (OSError, ValueError) as error:
            raise ValueError(f"{self.path(unit)} is damaged ({error}); delete this file and run the study again.") from error

    def _read(self, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return read_safetensors(path, self.layout)


class Library:
    """Representations of training images by their numbers: each is encoded once, whatever corpora and foils it is in."""

    def __init__(self, encoder: Encoder, data: LabelledImages, folder: Path) -> None:
        self.encoder = encoder
        self.data = data
        self.space = encoder.space
        self.path = folder / f"representations-{self.space[:16]}.safetensors"
        self.numbers = torch.zeros(0, dtype=torch.long)
        self.vectors = torch.zeros(0, 0)
        held = sound_or_aside(self.path, lambda path: read_safetensors(path, _REPRESENTATIONS))
        if held is not None:
            tensors, header = held
            if header["space"] != self.space or header["data"] != data.fingerprint:
                raise ValueError(f"{self.path} is of another encoder or other data; move it away.")
            self.numbers, self.vectors = tensors["numbers"], tensors["vectors"]

    def encode(self, wanted: np.ndarray) -> None:
        """Encode the images that are missing, a few thousand at a time, and keep each batch on disk."""
        missing = np.setdiff1d(wanted, self.numbers.numpy())
        with bar(len(missing), f"corpora and foils with {self.encoder.name}") as shown:
            for start in range(0, len(missing), 4096):
                part = missing[start : start + 4096]
                vectors = self.encoder.represent([self.data.images[number] for number in part], progress=False)
                self.vectors = torch.cat([self.vectors, vectors]) if len(self.numbers) else vectors
                self.numbers = torch.cat([self.numbers, torch.from_numpy(part)])
                tensors = {"numbers": self.numbers, "vectors": self.vectors}
                header = {"space": self.space, "data": self.data.fingerprint}
                write_safetensors(self.path, tensors, "representations", header)
                shown.update(len(part))

    def reference(self, numbers: np.ndarray, name: str) -> Reference:
        """Return the corpus or foil of these images."""
        self.encode(numbers)
        order = torch.argsort(self.numbers)
        places = order[torch.searchsorted(self.numbers[order], torch.from_numpy(np.asarray(numbers)))]
        return Reference.from_representations(self.vectors[places], name=name, space=self.space)
