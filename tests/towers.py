"""A small image-and-text encoder, and pictures for it."""

from __future__ import annotations

import re

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

import cocoax
from cocoax.questions import question as sides
from tests.conftest import SmallNet


class Words(nn.Module):
    """Bags of words, 8 dimensions; counts the texts it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(torch.randn(64, 8, generator=torch.Generator().manual_seed(9)))
        self.inputs = 0

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        self.inputs += len(tokens["input_ids"])
        mask = tokens["attention_mask"].unsqueeze(-1).float()
        mean: Tensor = (self.embedding(tokens["input_ids"]) * mask).sum(1) / mask.sum(1)
        return mean


def tokenize(text: str) -> list[int]:
    return [sum(map(ord, word)) % 64 for word in text.split()]


class Spaces:
    """A tokenizer that says where its tokens are: words between spaces."""

    mask, pad = 1, 0

    def __call__(self, text: str) -> list[int]:
        return [sum(map(ord, word)) % 64 for word in text.split()]

    def places(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        return self(text), [match.span() for match in re.finditer(r"\S+", text)]


def two_towers() -> cocoax.Encoder:
    """Return a small image-and-text encoder that takes pictures of any size; no caption it has encoded is remembered."""
    sides._captions.clear()
    text = cocoax.TextEncoder(Words().eval(), tokenize, limit=12, name="words")
    preprocess = cocoax.ImagePreprocess(resize=18, crop=16)
    return cocoax.Encoder(SmallNet().eval(), preprocess, text=text, name="towers")


def picture(seed: int = 0, side: int = 24) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8))
