"""What tests of commands share: running them, and a small encoder of pictures and captions."""

from __future__ import annotations

import re
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from typer.testing import CliRunner

import cocoax
from cocoax.cli.main import app, main
from tests.conftest import SmallNet


def invoke(*arguments: str, **options: Any) -> Any:
    """Run a command as typer does; the result has its output and exit code."""
    return CliRunner().invoke(app, arguments, **options)


def rows_of(output: str) -> list[list[str]]:
    """Return the cells of every line of a table that was printed where no terminal was; at least two spaces part them."""
    return [re.split(r" {2,}", line) for line in output.splitlines()]


def interrupt_after(monkeypatch: pytest.MonkeyPatch, owner: type, method: str, calls: int) -> None:
    """Make the call after so many of them raise what Ctrl-C does."""
    original = getattr(owner, method)
    count = iter(range(calls))

    def call(*arguments: Any, **options: Any) -> Any:
        if next(count, None) is None:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    monkeypatch.setattr(owner, method, call)


def run_main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> SystemExit:
    """Run a command as the ``cocoax`` script does; return how it ended."""
    monkeypatch.setattr(sys, "argv", ["cocoax", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value


@cache
def load_starter() -> cocoax.Encoder:
    """Return the starter encoder, loaded once for all tests of commands."""
    return cocoax.load("starter")


def picture(seed: int = 0, side: int = 24) -> Image.Image:
    """Return a square picture of random pixels."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8))


class Words(nn.Module):
    """Bags of words, 8 dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(torch.randn(64, 8, generator=torch.Generator().manual_seed(9)))

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        mask = tokens["attention_mask"].unsqueeze(-1).float()
        mean: Tensor = (self.embedding(tokens["input_ids"]) * mask).sum(1) / mask.sum(1)
        return mean


def tokenize(text: str) -> list[int]:
    return [sum(map(ord, word)) % 64 for word in text.split()]


def two_towers() -> cocoax.Encoder:
    """Return a small image-and-text encoder that takes pictures of any size."""
    text = cocoax.TextEncoder(Words().eval(), tokenize, limit=12, name="words")
    preprocess = cocoax.ImagePreprocess(resize=18, crop=16)
    return cocoax.Encoder(SmallNet().eval(), preprocess, text=text, name="towers")
