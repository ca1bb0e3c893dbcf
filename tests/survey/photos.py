"""A small data set of pictures: bright left halves are dawns, bright right halves dusks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

import cocoax
from cocoax.survey import Index
from cocoax.survey.storage import shard_files

SIDE = 16
METHOD = cocoax.Rise(samples=60, grid=4, baseline=cocoax.Constant(0.0))


class Halves(nn.Module):
    """Mean colours of the left and the right half, and their products: not linear, so that masks matter."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(3.0), requires_grad=False)

    def forward(self, images: Tensor) -> Tensor:
        left, right = (half.mean((2, 3)) for half in images.chunk(2, 3))
        return torch.cat([left, right, torch.tanh(self.scale * left * right), torch.ones_like(left[:, :1])], 1)


def encoder(module: nn.Module | None = None) -> cocoax.Encoder:
    return cocoax.Encoder(
        (module or Halves()).eval(),
        cocoax.ImagePreprocess(resize=SIDE, crop=SIDE, mean=(0, 0, 0), std=(1, 1, 1)),
        name="halves",
    ).cropped()


def pixels(kind: str, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    image = generator.integers(0, 60, (SIDE, SIDE, 3))
    half = slice(0, SIDE // 2) if kind == "dawn" else slice(SIDE // 2, SIDE)
    image[:, half] += generator.integers(100, 190, 3)
    return image.astype(np.uint8)


def write(folder: Path, count: int = 5) -> Path:
    """Write ``count`` pictures of each kind into a folder for each."""
    for kind in ("dawn", "dusk"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            Image.fromarray(pixels(kind, number + 100 * (kind == "dusk"))).save(folder / kind / f"{number}.png")
    return folder


def dawn_rather_than_dusk(index: Index) -> cocoax.Target:
    return cocoax.contrastive_corpus_similarity(index.reference({"label": "dawn"}), index.reference({"label": "dusk"}))


@contextmanager
def watching(hook: Callable[[Any, Any], None]) -> Iterator[None]:
    """Call a hook before every module runs, without touching any: a module with a hook is another encoder."""
    handle = register_module_forward_pre_hook(hook)
    yield
    handle.remove()


def contents(index: Path) -> dict[str, bytes]:
    """Return the shards of an index, by name."""
    return {path.name: path.read_bytes() for path in shard_files(index)}
