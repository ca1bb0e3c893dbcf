"""The base of all studies: options, draws of explicands, corpora and foils, and their representations."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from cocoax.data.labelled import LabelledImages
from cocoax.encoders import Encoder
from cocoax.masking import Blur
from cocoax.paper.studies.published import PaperTable, paper_tables
from cocoax.progress import bar
from cocoax.references import Reference
from cocoax.seeding import stream
from cocoax.spaces import same_space
from cocoax.store import Layout, load_or_quarantine, read_safetensors, write_safetensors
from cocoax.targets import (
    Target,
    contrastive_corpus_similarity,
    contrastive_similarity,
    corpus_similarity,
    representation_similarity,
)


@dataclass(frozen=True)
class Options:
    """The scale of a study; the defaults are the paper's.

    Args:
        runs: how often everything is drawn anew.
        explicands: per class and run.
        corpus: images in a corpus.
        foil: images in a foil.
        samples: masks of RISE.
        estimator: of RISE in the two figures that show maps, ``"paper"`` or ``"efficient"``; the tables have both.
        grid: cells of a mask; 4 for images of up to 64 pixels, otherwise 7, if not given.
        steps: of Integrated Gradients, and samples of GradientSHAP.
        curve_steps: of insertion and deletion.
        classes: numbers of the classes that take part; all of them if not given.

    """

    runs: int = 5
    explicands: int = 25
    corpus: int = 100
    foil: int = 1500
    samples: int = 5000
    estimator: Literal["paper", "efficient"] = "paper"
    grid: int | None = None
    steps: int = 50
    curve_steps: int = 50
    classes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        least = {"runs": 1, "explicands": 1, "corpus": 1, "foil": 1, "steps": 2, "curve_steps": 1}
        for name, number in least.items():
            if getattr(self, name) < number:
                raise ValueError(f"The '{name}' parameter must be at least {number}. Got {getattr(self, name)} instead.")


PRESETS = {"paper": Options(), "small": Options(runs=2, explicands=1, samples=1000, estimator="efficient")}


class Study(ABC):
    """A study of an encoder: makes one or more tables or figures and writes them into a folder.

    A new study is a subclass in a file of its own and a line in ``cocoax.paper.studies``, which says what it makes.

    Attributes:
        name: what the study is asked for by, and the name of its folder.
        paper: options of which the paper's preset has other values for this study.

    """

    name: ClassVar[str]
    paper: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, encoder: Encoder, folder: str | Path, options: Options) -> None:
        self.encoder = _as_published(encoder)
        self.folder = Path(folder)
        self.options = options

    @classmethod
    def tables(cls) -> list[PaperTable]:
        """Return the tables of the paper that this study makes."""
        return [table for table in paper_tables().values() if table.study == cls.name]

    @abstractmethod
    def write(self, progress: bool | None = None) -> list[Path]:
        """Run what was not run yet and write all tables and figures; return the files."""


class LabelledStudy(Study):
    """A study that draws explicands from held-out images with labels, and corpora and foils from training images."""

    def __init__(
        self, encoder: Encoder, train: LabelledImages, held_out: LabelledImages, folder: str | Path, options: Options
    ) -> None:
        super().__init__(encoder, folder, options)
        self.train = train
        self.held_out = held_out


def _as_published(encoder: Encoder) -> Encoder:
    """Return the encoder as the paper explains it: it sees the crop of a picture, and removed parts become a weak blur."""
    other = copy.copy(encoder.cropped())
    other.inputs = other.inputs.with_baseline(Blur())
    return other


def four_targets(corpus: Reference, foil: Reference, similarity: str) -> dict[str, Target]:
    """Return the four targets that the paper compares, by name."""
    return {
        "label_free": representation_similarity(similarity),
        "contrastive_label_free": contrastive_similarity(foil, similarity),
        "corpus": corpus_similarity(corpus, similarity),
        "cocoa": contrastive_corpus_similarity(corpus, foil, similarity),
    }


def grid_of(encoder: Encoder, image: Any, asked: int | None) -> int:
    """Return the cells of a mask: as asked for, or else the paper's choice for the size of the encoder's inputs."""
    if asked is not None:
        return asked
    return 4 if max(encoder.explicand(image).tensor.shape[1:]) <= 64 else 7


RUN_SEEDS = (123, 456, 789, 42, 91)  # the paper's five runs


@dataclass(frozen=True)
class DrawnExplicand:
    """An image to explain: its number in the held-out split, its own class, and another class to hold against it."""

    number: int
    own: int
    other: int


@dataclass(frozen=True, eq=False)
class Draw:
    """One run: explicands from the held-out split; for each class a corpus and a foil, as numbers of training images.

    Smaller corpora and foils are the first so many of these.
    """

    seed: int
    explicands: list[DrawnExplicand]
    corpora: dict[int, np.ndarray]
    foils: dict[int, np.ndarray]


def draw_run(
    train: LabelledImages,
    held_out: LabelledImages,
    *,
    classes: Sequence[int],
    explicands: int,
    corpus: int,
    foil: int,
    seed: int,
) -> Draw:
    """Draw the explicands, corpora and foils of a run.

    Args:
        train: where corpora and foils come from.
        held_out: where explicands come from.
        classes: numbers of the classes to take part, at least two.
        explicands: per class.
        corpus: images of the class in its corpus.
        foil: images in its foil, from all that is left of the training data: the corpus' own class is among them.
        seed: of this run.

    Every explicand serves twice: against the corpus of its own class, and against that of another class. Each class is the
    other one equally often.

    """
    if len(set(classes)) != len(classes) or len(classes) < 2:
        raise ValueError(f"A study needs at least two classes, each of them once. Got {list(classes)}.")
    if not 0 <= min(classes) <= max(classes) < len(train.classes):
        raise ValueError(f"The data have the classes 0 to {len(train.classes) - 1}. Got {list(classes)}.")
    chosen: list[list[int]] = []
    corpora, foils = {}, {}
    for label in classes:
        random = stream(seed, 0, label)
        chosen.append(draw_of(held_out, label, explicands, random, "explicands").tolist())
        corpora[label] = draw_of(train, label, corpus, random, "corpus images")
        foils[label] = draw_foil(train, foil, random, without=corpora[label])
    random = stream(seed, 1)
    steps = 1 + np.concatenate([random.permutation(len(classes) - 1) for _ in range(-(-explicands // (len(classes) - 1)))])
    listed = [
        DrawnExplicand(numbers[turn], classes[place], classes[(place + int(steps[turn])) % len(classes)])
        for turn in range(explicands)
        for place, numbers in enumerate(chosen)
    ]
    return Draw(seed, listed, corpora, foils)


def draw_of(data: LabelledImages, label: int, number: int, random: np.random.Generator, purpose: str) -> np.ndarray:
    """Draw images of a class; return their numbers. The ``purpose`` is named in the error if there are too few."""
    among = np.flatnonzero(data.labels == label)
    if len(among) < number:
        raise ValueError(
            f"The class {data.classes[label]!r} has {len(among)} images but {number} {purpose} were asked for; "
            "ask for fewer or leave the class out."
        )
    return random.permutation(among)[:number]


def draw_foil(
    data: LabelledImages, number: int, random: np.random.Generator, without: Sequence[int] | np.ndarray
) -> np.ndarray:
    """Draw images of any class, but none of those ``without``; return their numbers."""
    left = np.setdiff1d(np.arange(len(data)), without)
    if len(left) < number:
        raise ValueError(f"A foil of {number} images was asked for but only {len(left)} are left beside the corpus.")
    return random.permutation(left)[:number]


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
            if not same_space(header["space"], self.space) or header["data"] != data.fingerprint:
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
