"""What tests of minimal sets and counterfactuals share: small encoders and sets of parts by brute force."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import cocoax
from cocoax.insight.subset_search import Subsets
from cocoax.masking import MaskedEncoder
from tests.conftest import SmallNet, images

COLUMNS = [f"c{number}" for number in range(8)]


def all_sets(parts: int) -> Tensor:
    """Return every set of parts, ``[2**parts, parts]``."""
    return ((torch.arange(2**parts)[:, None] >> torch.arange(parts)) & 1).to(torch.uint8)


def all_scores(run: cocoax.Run, encoder: cocoax.Encoder, target: cocoax.Target, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sizes and scores of all sets of kept parts."""
    sets = all_sets(int(labels.max()) + 1)
    game = MaskedEncoder(encoder, run.explicand, run.method.baseline, baseline_input=run.baseline, anchors=run.anchors)
    return sets.sum(1), target.score(torch.cat(list(game.encode(Subsets(labels, sets)))), run.anchors[0])


def subsets(parts: int, size: int) -> np.ndarray:
    """Return all sets of a size."""
    members = np.array(list(combinations(range(parts), size)), int).reshape(-1, size)
    sets = np.zeros((len(members), parts), np.uint8)
    for row, own in zip(sets, members, strict=True):
        row[own] = 1
    return sets


def pictures(seed: int = 1) -> tuple[cocoax.Encoder, Tensor, Tensor, cocoax.Target]:
    """Return an encoder, a picture, another one, and the target that tells the first from the second."""
    encoder = cocoax.Encoder(SmallNet().eval(), name="small")
    picture, other = images(2, seed=seed)
    corpus, foil = (encoder.reference([each], name=name) for each, name in ((picture, "this"), (other, "that")))
    return encoder, picture, other, cocoax.contrastive_corpus_similarity(corpus, foil)


def segmented(encoder: cocoax.Encoder, picture: Tensor) -> cocoax.Explicand:
    """Return a picture whose features are seven crooked segments; one of its corners belongs to none."""
    rows, columns = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
    labels = (2 * rows + columns + rows * columns // 9) // 11
    labels[:2, 13:] = -1
    return replace(encoder.explicand(picture), feature_ids=torch.unique(labels, return_inverse=True)[1] - 1)


class RowNet(nn.Module):
    """Rows ``[n, 8]`` to 4 dimensions, nonlinear."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        self.layer = nn.Linear(8, 4, bias=False)
        self.layer.weight = nn.Parameter(torch.randn(4, 8, generator=generator))

    def forward(self, rows: Tensor) -> Tensor:
        return torch.tanh(self.layer(rows))


def table() -> tuple[cocoax.Encoder, np.ndarray, np.ndarray, cocoax.Target]:
    """Return an encoder of rows, a row, other rows, and the target that tells them apart."""
    random = np.random.default_rng(1)
    own, others = random.normal(1, 0.5, (20, 8)), random.normal(-1, 0.5, (20, 8))
    with torch.random.fork_rng():
        net = RowNet().eval()
    encoder = cocoax.TabularEncoder(net, columns=COLUMNS, background=np.concatenate([own, others]), name="table")
    target = cocoax.contrastive_corpus_similarity(encoder.reference(own), encoder.reference(others))
    return encoder, own[0], others, target


class Words(nn.Module):
    """Texts as sums of vectors of their letters."""

    def forward(self, batch: Any) -> Tensor:
        return torch.cos(batch["input_ids"].float()[..., None] * torch.arange(1, 9)).sum(1)


class Letters:
    """A tokenizer whose tokens are letters."""

    pad, mask = 0, 1

    def __call__(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]

    def places(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        return self(text), [(index, index + 1) for index in range(len(text))]
