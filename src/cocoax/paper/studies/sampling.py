"""Which explicands, corpora and foils a run of a study uses, drawn as in the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cocoax.data.labelled import LabelledImages
from cocoax.seeding import stream

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

    def __post_init__(self) -> None:
        for label, corpus in self.corpora.items():
            both = np.intersect1d(corpus, self.foils[label])
            if len(both):
                raise ValueError(
                    f"Corpus and foil of class {label} share {len(both)} images, such as number {both[0]}; "
                    "what is in both says nothing. Draw them apart."
                )


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
    if min(explicands, corpus, foil) < 1:
        raise ValueError(f"Explicands, corpus and foil must be at least 1. Got {explicands}, {corpus} and {foil} instead.")
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
