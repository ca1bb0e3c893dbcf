"""The encoders that are measured, and the photos and targets they are measured with."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from cocoax.data import photo
from cocoax.encoders import Encoder, ImagePreprocess, load
from cocoax.paper.networks.resnet import cifar_resnet18
from cocoax.targets import (
    Target,
    contrastive_corpus_similarity,
    contrastive_similarity,
    corpus_similarity,
    representation_similarity,
)

PHOTOS = ("coffee", "cat", "astronaut", "rocket", "motorbike")


@dataclass(frozen=True)
class Subject:
    """An encoder and how it is measured: its goal, and the cells and number of its masks."""

    name: str
    encoder: Encoder
    goal_overhead: float
    grid: int
    samples: int

    def targets(self, explicand: str = "coffee") -> list[Target]:
        """Return the paper's four targets for a photo: the corpus is another photo, the foil the rest of them."""
        corpus_name, *foil_names = (name for name in PHOTOS if name != explicand)
        corpus = self.encoder.reference([photo(corpus_name)], progress=False)
        foil = self.encoder.reference([photo(name) for name in foil_names], progress=False)
        return [
            representation_similarity(),
            contrastive_similarity(foil),
            corpus_similarity(corpus),
            contrastive_corpus_similarity(corpus, foil),
        ]


def subjects(quick: bool) -> list[Subject]:
    """Return the two encoders that are measured."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = cifar_resnet18().eval()
    small = Encoder(network, ImagePreprocess(resize=32, crop=32), name="ResNet-18, 32x32")
    large = load("efficientnet-lite0")
    large.name = "EfficientNet-Lite0, 224x224"
    return [
        Subject(small.name, small, 1.10, 4, 512 if quick else 2048),
        Subject(large.name, large, 1.05, 7, 200 if quick else 1000),
    ]
