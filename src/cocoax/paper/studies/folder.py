"""Representations of the images that corpora and foils of a study are made of, kept on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from cocoax.data.labelled import LabelledImages
from cocoax.encoders import Encoder
from cocoax.progress import bar
from cocoax.references import Reference
from cocoax.store import Layout, load_or_quarantine, read_safetensors, write_safetensors

_REPRESENTATIONS = Layout("representations", {"numbers": "int n", "vectors": "n d"}, {"space": str, "data": str})


class Library:
    """Representations of training images by their numbers: each is encoded once, whatever corpora and foils it is in."""

    def __init__(self, encoder: Encoder, data: LabelledImages, folder: Path) -> None:
        self.encoder = encoder
        self.data = data
        self.space = encoder.space
        self.path = folder / f"representations-{self.space[:16]}.safetensors"
        self.numbers = torch.zeros(0, dtype=torch.long)
        self.vectors = torch.zeros(0, 0)
        held = load_or_quarantine(self.path, lambda path: read_safetensors(path, _REPRESENTATIONS))
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
