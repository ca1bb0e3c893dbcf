"""Encode masked photos under several designs of masks, for ``variance_compare.py``.

    python benchmarks/variance_encode.py FOLDER [--weights resnet20.th]

Writes one file per encoder, photo and design with the masks and the representations. The second encoder is a CIFAR ResNet
with trained weights (``--weights``, a state dict with 16/32/64 channels), or EfficientNet-Lite0 at 96x96.
"""

from __future__ import annotations

import argparse
import math
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import scipy.linalg
import scipy.stats.qmc
import torch
from torch import Tensor, nn

from cocoax import Blur, Encoder, load
from cocoax.data import photo
from cocoax.inputs.image import ImagePreprocess
from cocoax.masking import MaskedEncoder
from cocoax.masking.masks import GridMasks, MaskGeometry
from cocoax.progress import bar

PHOTOS = ("coffee", "cat", "rocket", "astronaut")
SIZE = 256  # masks of one replication of a design
DESIGNS = ("iid", "complements", "stratified", "hadamard", "lattice", "complements + lattice")


class CifarResNet(nn.Module):
    """A ResNet for 32x32 images with 16, 32 and 64 channels and parameter-free shortcuts; 64 pooled features."""

    def __init__(self, state: dict[str, Tensor]) -> None:
        super().__init__()
        blocks = len({name.split(".")[1] for name in state if name.startswith("layer1.")})
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        widths = (16, 16, 32, 64)
        for stage in (1, 2, 3):
            parts = [_Block(widths[stage - 1] if index == 0 else widths[stage], widths[stage]) for index in range(blocks)]
            setattr(self, f"layer{stage}", nn.Sequential(*parts))
        self.load_state_dict({name: tensor for name, tensor in state.items() if not name.startswith("linear")})

    def forward(self, images: Tensor) -> Tensor:
        """``[n, 3, 32, 32] -> [n, 64]``."""
        hidden = self.bn1(self.conv1(images)).relu()
        for stage in (1, 2, 3):
            hidden = getattr(self, f"layer{stage}")(hidden)
        return hidden.mean((2, 3))


class _Block(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.stride = after // before
        self.conv1, self.bn1 = nn.Conv2d(before, after, 3, self.stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.bn2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)

    def forward(self, hidden: Tensor) -> Tensor:
        """The same shape, or half the size and twice the channels."""
        output = self.bn2(self.conv2(self.bn1(self.conv1(hidden)).relu()))
        if self.stride > 1:
            more = output.shape[1] - hidden.shape[1]
            hidden = nn.functional.pad(hidden[:, :, ::2, ::2], (0, 0, 0, 0, more // 2, more // 2))
        return (output + hidden).relu()


def encoders(weights: Path | None) -> list[tuple[str, Encoder, int]]:
    """Name, encoder and grid of both."""
    large = load("efficientnet-lite0")
    if weights is None:
        small = Encoder(large.module, ImagePreprocess(resize=110, crop=96, mean=(127 / 255,) * 3, std=(128 / 255,) * 3))
        return [("efficientnet-96", small, 5), ("efficientnet-224", large, 7)]
    state = torch.load(weights, map_location="cpu", weights_only=True)
    state = {name.removeprefix("module."): tensor for name, tensor in state.get("state_dict", state).items()}
    preprocess = ImagePreprocess(resize=32, crop=32, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    small = Encoder(CifarResNet(state).eval(), preprocess, name="cifar-resnet")
    return [("cifar-resnet", small, 4), ("efficientnet-224", large, 7)]


def design(name: str, side: int, grid: int, count: int, seed: int) -> GridMasks:
    """``count`` masks of one replication."""
    random = np.random.default_rng([seed, DESIGNS.index(name)])
    geometry = MaskGeometry(side, side, grid, grid)
    cells = grid * grid
    bits = random.random((count, cells)) < 0.5
    shifts = random.integers(0, geometry.cell, (count, 2))
    if name.startswith("complements"):  # each mask with its complement, at the same shift
        bits[1::2], shifts[1::2] = ~bits[0::2], shifts[0::2]
    if name == "stratified":  # in blocks of 16, each cell is kept 8 times
        block = np.repeat([True, False], 8)
        bits = np.concatenate([np.stack([random.permutation(block) for _ in range(cells)], 1) for _ in range(count // 16)])
    if name == "hadamard":  # in blocks, all pairs of cells balanced, and with their complements all triples
        order = 2 ** math.ceil(math.log2(cells + 1))
        signs = scipy.linalg.hadamard(order)[:, 1:] > 0
        bits = np.empty((0, cells), bool)
        while len(bits) < count:
            columns = signs[:, random.permutation(order - 1)[:cells]] ^ (random.random(cells) < 0.5)
            columns = columns[random.permutation(order)]
            bits = np.concatenate([bits, np.stack([columns, ~columns], 1).reshape(-1, cells)])
        bits = bits[:count]
        shifts[1::2] = shifts[0::2]
    if name.endswith("lattice"):  # shifts spread evenly over the cell
        number = count // 2 if name.startswith("complements") else count
        points = scipy.stats.qmc.Sobol(2, seed=random).random(number)
        spread = np.floor(points * geometry.cell).astype(int)
        shifts = np.repeat(spread, count // number, 0)
    return GridMasks(
        geometry,
        torch.from_numpy(bits.reshape(-1, grid, grid).astype(np.uint8)),
        torch.from_numpy(shifts.astype(np.int16)),
        0.5,
    )


def main() -> None:
    """Encode what is missing in the folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--replications", type=int, default=8, help="of each design; twice as many of independent masks")
    parser.add_argument("--only", default="*", help="files to write, as a pattern")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, encoder, grid in encoders(options.weights):
        represented = {one: encoder.represent([photo(one)], progress=False)[0] for one in PHOTOS}
        torch.save(represented, options.folder / f"{name}.pt")
        for kind in DESIGNS:
            for one in PHOTOS[:3]:
                path = options.folder / f"{name}.{one}.{kind}.pt"
                if path.exists() or not fnmatch(path.name, options.only):
                    continue
                explicand = encoder.explicand(photo(one))
                game = MaskedEncoder(encoder, explicand, Blur())
                replications = options.replications * (2 if kind == "iid" else 1)
                sets = [design(kind, explicand.shape[0], grid, SIZE, seed) for seed in range(replications)]
                parts = []
                for masks in sets:
                    with bar(SIZE, path.stem, False) as shown:
                        parts += game.encode(masks, 0, None, shown)
                bits, shifts = (torch.cat([getattr(masks, part) for masks in sets]) for part in ("bits", "shifts"))
                torch.save({"bits": bits, "shifts": shifts, "representations": torch.cat(parts)}, path)
                print(path.name, flush=True)


if __name__ == "__main__":
    main()
