"""What every study is: a name and the files it writes; and the options they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from cocoax.data.labelled import LabelledImages
from cocoax.encoders import Encoder
from cocoax.paper.studies.published import PaperTable, paper_tables
from cocoax.references import Reference
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
        self.encoder = encoder
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
