"""An encoder, an input and two targets of every kind of input, and every method with few samples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import cocoax
from cocoax import TabularEncoder
from cocoax.encoders.families.sentence import load_hf_text
from cocoax.inputs import Inputs
from tests.conftest import SmallNet, images
from tests.kinds import Recordings, Series, recording_encoder, recordings
from tests.sounds import hum, listener
from tests.tiny import TEXTS, save_bert

TEXT = "The violinist parked her car."
TABLE = np.random.default_rng(1).normal(size=(7, 4)).astype(np.float32)
ROW = np.array([1.0, -2.0, 0.5, 3.0], dtype=np.float32)
KINDS = ("pixels", "words", "columns", "segments", "cells", "parts", "parts after a beginning", "steps")
REMOVAL: list[Any] = [
    cocoax.Rise(samples=40),
    cocoax.Rise(samples=40, estimator="paper"),
    cocoax.KernelShap(samples=100),
    cocoax.Occlusion(),
]
GRADIENTS: list[Any] = [
    cocoax.VanillaGradients(),
    cocoax.SmoothGrad(samples=4),
    cocoax.IntegratedGradients(steps=5),
    cocoax.GradientShap(samples=4),
]
METHODS: list[Any] = [
    *REMOVAL,
    *GRADIENTS,
    cocoax.RandomAttribution(),
    cocoax.Captum("IntegratedGradients", n_steps=5),
    cocoax.Captum("FeatureAblation"),
    cocoax.Captum("ShapleyValueSampling", n_samples=2),
]


class RowNet(nn.Module):
    """A nonlinear map from 4 columns to 5 dimensions; counts its inputs."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.first = nn.Parameter(torch.randn(4, 8, generator=generator))
        self.second = nn.Parameter(torch.randn(8, 5, generator=generator))
        self.inputs = 0

    def forward(self, rows: Tensor) -> Tensor:
        self.inputs += len(rows)
        return torch.tanh(rows @ self.first) @ self.second + 0.3


@dataclass(frozen=True)
class Setting:
    """An encoder, inputs of its kind (the first is explained), and the number of features of the first."""

    encoder: cocoax.Encoder
    inputs: list[Any]
    shape: tuple[int, ...]

    @property
    def input(self) -> Any:
        return self.inputs[0]

    @property
    def targets(self) -> list[cocoax.Target]:
        one, other = (self.encoder.reference(part, cache=False) for part in (self.inputs[1:3], self.inputs[3:]))
        return [cocoax.contrastive_corpus_similarity(one, other), cocoax.representation_similarity("dot")]


def setting(kind: str, folder: Path) -> Setting:
    """Return a kind of input; ``folder`` is where the text model is written."""
    if kind == "pixels":
        return Setting(cocoax.Encoder(SmallNet().eval()), list(images(5)), (16, 16))
    if kind == "words":
        encoder = load_hf_text(str(folder if (folder / "config.json").exists() else save_bert(folder)))
        return Setting(encoder, [TEXT, *TEXTS[1:], "red house"], (6,))
    if kind == "columns":
        return Setting(TabularEncoder(RowNet(), columns=list("abcd"), background=TABLE), [ROW, *TABLE], (4,))
    if kind in ("segments", "cells"):
        sounds = [hum(), hum(seed=1), hum(1.2, seed=2), hum(seed=5), hum(0.9, seed=6)]
        return Setting(listener(kind), sounds, (6 if kind == "segments" else 12,))
    own: dict[str, Inputs] = {"parts": Recordings(), "parts after a beginning": Recordings(fixed=3), "steps": Series()}
    return Setting(recording_encoder(own[kind]), list(recordings(6)), (10 if kind == "steps" else 6,))


def name_of(method: cocoax.Method) -> str:
    """Return what a test calls a method."""
    return repr(method)[:40]


def paper_targets(encoder: cocoax.Encoder, similarity: str = "cosine") -> list[cocoax.Target]:
    """Return the four targets of the paper."""
    corpus = encoder.reference(images(4, seed=1), name="corpus", keep_samples=True)
    foil = encoder.reference(images(5, seed=2), name="foil", keep_samples=True)
    return [
        cocoax.representation_similarity(similarity),
        cocoax.contrastive_similarity(foil, similarity),
        cocoax.corpus_similarity(corpus, similarity),
        cocoax.contrastive_corpus_similarity(corpus, foil, similarity),
    ]
