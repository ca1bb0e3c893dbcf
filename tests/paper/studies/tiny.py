"""A data set and an encoder so small that a study takes a second."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn

import cocoax
from cocoax.data.labelled import LabelledImages
from cocoax.paper.networks.resnet import ResNet
from cocoax.paper.studies.published import MEASURES, METHOD_TITLES, TARGET_TITLES
from cocoax.paper.studies.study import Options
from cocoax.paper.studies.tables import Records
from cocoax.store import read_safetensors, write_safetensors
from tests.conftest import SmallNet

CLASSES = ["blue", "green", "red"]
RUNS = (123, 456, 789)  # of made-up records
OPTIONS = Options(runs=2, explicands=2, corpus=4, foil=6, samples=20, grid=3, steps=3, curve_steps=4)


def coloured(number: int, seed: int, side: int = 12) -> LabelledImages:
    """``number`` images of each class: noise with a patch of the colour of the class, not in the order of the classes."""
    random = np.random.default_rng(seed)
    labels = random.permutation(np.repeat(np.arange(3), number))
    pixels = random.integers(0, 120, (3 * number, side, side, 3))
    for image, label in zip(pixels, labels, strict=True):
        top, left = random.integers(0, side - 5, 2)
        image[top : top + 5, left : left + 5, 2 - label] = 250
    return LabelledImages(pixels.astype(np.uint8), labels, list(CLASSES))


TRAIN, HELD_OUT = coloured(8, 0), coloured(4, 1)


def small_encoder(outputs: int = 3, name: str = "tiny", **options: Any) -> cocoax.Encoder:
    with torch.random.fork_rng():
        head = nn.Linear(8, outputs)
    with torch.no_grad():
        head.weight.copy_(torch.randn(head.weight.shape, generator=torch.Generator().manual_seed(5)))
        head.bias.zero_()
    return cocoax.Encoder(SmallNet().eval(), head=head.requires_grad_(False), name=name, **options)


def write_folders(folder: Path) -> Path:
    """The data as class folders of PNGs, with ``train/`` and ``val/``."""
    for split, data in (("train", TRAIN), ("val", HELD_OUT)):
        for number, (image, label) in enumerate(zip(data.images, data.labels, strict=True)):
            path = folder / split / CLASSES[label] / f"{number:03d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(path)
    return folder


def write_checkpoint(path: Path, trained: str = "classifier", classes: list[str] | None = CLASSES) -> Path:
    """A network as ``cocoax paper train`` leaves it, with a head if there are classes."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        network = ResNet((1, 1), (8, 8), (3, 1))
        weights = dict(network.state_dict())
        if classes is not None:
            weights |= {f"head.{name}": tensor for name, tensor in nn.Linear(8, len(classes)).state_dict().items()}
    header = {"architecture": "tiny", "trained": trained, "side": 12, "mean": [0.5] * 3, "std": [0.25] * 3}
    return write_safetensors(path, weights, "encoder", header | ({"classes": classes} if classes is not None else {}))


def encoded(folder: Path) -> list[int]:
    """The training images that a study needed."""
    (path,) = folder.glob("representations-*.safetensors")
    return sorted(read_safetensors(path, "representations")[0]["numbers"].tolist())


def made_up(study: str) -> Records:
    """Records with a different value in every place."""
    random = np.random.default_rng(0)
    if study == "main":
        keys = [
            {"similarity": similarity, "method": method, "target": target, "model": "trained"}
            for similarity, method, target in itertools.product(("cosine", "dot"), METHOD_TITLES, TARGET_TITLES)
        ]
    else:
        keys = [
            {"similarity": "cosine", "method": method, "target": "cocoa", "model": model}
            for method, model in itertools.product(METHOD_TITLES, ("trained", "randomized"))
        ]
    keys += [{"method": "random"}, *({"method": f"chance of {method}"} for method in METHOD_TITLES)]
    rows = [{"class_case": case, **key} for case in ("same", "different") for key in keys]
    units: list[Any] = []
    for run, explicand in itertools.product(RUNS, range(4)):
        curves = {
            metric: torch.from_numpy(random.normal(0.3, 0.1, (len(rows), 2, 5))) for metric in ("insertion", "deletion")
        }
        units.append((curves, {"run": run, "explicand": explicand, "rows": rows, "measures": list(MEASURES)}))
    return Records(units)


def cells(line: str, separator: str) -> list[str]:
    """The cells of a line of a table, in Markdown or LaTeX."""
    return [cell.strip() for cell in line.strip("| ").removesuffix(r"\\").split(separator)]
