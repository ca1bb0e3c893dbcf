"""An encoder that knows three colours, by sight and by name: small enough for tests, and its right answers are plain."""

from __future__ import annotations

import re
import threading

import torch
from PIL import Image
from torch import Tensor, nn

import cocoax
from cocoax.encoders.text import TextEncoder

WORDS = ("red", "green", "blue")


class Colours(nn.Module):
    """The mean colour of a picture, and a little of everything; counts what it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("anything", torch.full((3,), 0.05))
        self.inputs = 0
        self.inside = 0
        self.gate: threading.Semaphore | None = None  # a test that wants to look at a run under way lets batches in

    def forward(self, images: Tensor) -> Tensor:
        self.inside += 1
        if self.gate is not None:
            self.gate.acquire()
        self.inputs += len(images)
        means: Tensor = images.mean((2, 3)) + self.anything
        self.inside -= 1
        return means


class Names(nn.Module):
    """Each word's colour."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.cat([torch.ones(1, 3), torch.eye(3)]))
        self.inputs = 0

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        self.inputs += len(tokens["input_ids"])
        mask = tokens["attention_mask"].unsqueeze(-1)
        found: Tensor = (self.table[tokens["input_ids"]] * mask).sum(1) / mask.sum(1)
        return found


def tokenize(text: str) -> list[int]:
    return [WORDS.index(word) + 1 if word in WORDS else 0 for word in text.lower().split()]


class Spaces:
    """A tokenizer that says where its tokens are: words between spaces."""

    def __call__(self, text: str) -> list[int]:
        return tokenize(text)

    def places(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        return tokenize(text), [match.span() for match in re.finditer(r"\S+", text)]


def encoder() -> cocoax.Encoder:
    names = TextEncoder(Names(), Spaces(), limit=32, name="names")
    return cocoax.Encoder(Colours(), cocoax.ImagePreprocess(resize=32, crop=32), text=names, name="colours")


def flag(left: str = "red", right: str = "blue", size: tuple[int, int] = (48, 40)) -> Image.Image:
    """A picture whose left half has one colour and its right half another."""
    image = Image.new("RGB", size, left)
    image.paste(right, (size[0] // 2, 0, *size))
    return image
