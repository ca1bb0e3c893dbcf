"""SimCLR's published TensorFlow checkpoints (Chen et al. 2020: ResNet-50 1x, 2x and 4x), converted without TensorFlow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cocoax.encoders.families.starter import imagenet_classes
from cocoax.paper.networks.tensor_bundle import TensorBundle
from cocoax.store import write_safetensors

ARCHITECTURE = "simclr-resnet50"
BLOCKS = (3, 4, 6, 3)
HEAD = "head_supervised/linear_layer/dense"
STATISTICS = {"weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance"}


def convert_simclr(checkpoint: str | Path, out: str | Path) -> Path:
    """Write a published SimCLR checkpoint (a folder, or the prefix of its files) as a file for ``load("simclr:OUT")``.

    The linear classifier becomes the head. What belongs to the optimizer is left out. ``out`` must not exist yet.
    """
    out = Path(out)
    if out.exists():
        raise FileExistsError(f"{out} exists already; delete it first, or choose another name.")
    if out.suffix != ".safetensors":
        raise ValueError(f"The output must be named *.safetensors. Got {out.name} instead.")
    bundle = TensorBundle(checkpoint)
    weights = dict(_weights(bundle))
    header: dict[str, object] = {"architecture": ARCHITECTURE, "trained": "simclr"}
    if f"{HEAD}/kernel" in bundle.entries:
        weights["head.weight"] = _tensor(bundle[f"{HEAD}/kernel"]).T
        weights["head.bias"] = _tensor(bundle[f"{HEAD}/bias"])
        if len(weights["head.bias"]) == len(imagenet_classes()):
            header["classes"] = imagenet_classes()
    broken = [name for name, tensor in weights.items() if not torch.isfinite(tensor).all()]
    if broken:
        raise ValueError(f"The weights {broken[0]!r} in {bundle.prefix} are not finite; the checkpoint is damaged.")
    return write_safetensors(out, weights, "encoder", header)


def layers() -> Iterator[tuple[str, str]]:
    """Convolutions and their batch normalisations in the order in which SimCLR's code makes them, by torchvision's names.

    The shortcut of a block comes before its convolutions.
    """
    yield "conv1", "bn1"
    for stage, blocks in enumerate(BLOCKS, start=1):
        for block in range(blocks):
            place = f"layer{stage}.{block}"
            if block == 0:
                yield f"{place}.downsample.0", f"{place}.downsample.1"
            for number in (1, 2, 3):
                yield f"{place}.conv{number}", f"{place}.bn{number}"


def _weights(bundle: TensorBundle) -> Iterator[tuple[str, Tensor]]:
    """Weights of the encoder by torchvision's names."""
    _check(bundle)
    for index, (convolution, normalisation) in enumerate(layers()):
        number = f"_{index}" if index else ""  # TensorFlow counts conv2d, conv2d_1, conv2d_2, …
        kernel = bundle[f"base_model/conv2d{number}/kernel"]  # [height, width, in, out]
        yield f"{convolution}.weight", _tensor(kernel.transpose(3, 2, 0, 1))
        for ours, theirs in STATISTICS.items():
            yield f"{normalisation}.{ours}", _tensor(bundle[f"base_model/batch_normalization{number}/{theirs}"])


def _check(bundle: TensorBundle) -> None:
    """Raise unless the checkpoint is of SimCLR's ResNet-50, of any width, by the shapes of all its convolutions."""
    kernels = {
        int(match[1] or 0): entry.shape
        for name, entry in bundle.entries.items()
        if (match := re.fullmatch(r"base_model/conv2d(?:_(\d+))?/kernel", name))
    }
    expected = dict(enumerate(_kernel_shapes(kernels.get(0, (64,))[-1])))
    if kernels == expected:
        return
    if not kernels:
        names = ", ".join(list(bundle.entries)[:3])
        actual = f"no variables base_model/conv2d…/kernel; the first are {names}"
    else:
        different = next(index for index in sorted({*kernels, *expected}) if kernels.get(index) != expected.get(index))
        shapes = f"{_shape(kernels.get(different))} where {_shape(expected.get(different))} is expected"
        actual = f"{len(kernels)} convolutions, of which number {different} has kernel {shapes}"
    raise ValueError(
        f"{bundle.prefix} does not fit. Expected SimCLR's ResNet-50 ({len(expected)} convolutions, no selective kernels); "
        f"found {actual}."
    )


def _kernel_shapes(width: int) -> Iterator[tuple[int, ...]]:
    """Shapes ``[height, width, in, out]`` of the convolutions, in the order of :func:`layers`; ``width`` is the stem's."""
    yield 7, 7, 3, width
    channels = width
    for stage, blocks in enumerate(BLOCKS):
        inner = width * 2**stage
        for block in range(blocks):
            if block == 0:
                yield 1, 1, channels, 4 * inner
            yield 1, 1, channels, inner
            yield 3, 3, inner, inner
            yield 1, 1, inner, 4 * inner
            channels = 4 * inner


def _shape(shape: tuple[int, ...] | None) -> str:
    return "none" if shape is None else str(list(shape))


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
