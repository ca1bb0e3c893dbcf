"""Conversion of SimCLR's published TensorFlow checkpoints (Chen et al. 2020: ResNet-50 1x, 2x and 4x); needs TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocoax.encoders.families.starter import imagenet_classes
from cocoax.store import write_safetensors

ARCHITECTURE = "simclr-resnet50"
_BLOCKS = (3, 4, 6, 3)
_HEAD = "head_supervised/linear_layer/dense"
_STATISTICS = {"weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance"}


def convert_simclr(checkpoint: str | Path, out: str | Path) -> Path:
    """Write a published SimCLR checkpoint (a folder, or the prefix of its files) as a file for ``load("simclr:OUT")``.

    The linear classifier becomes the head. What belongs to the optimizer is left out. ``out`` must not exist yet.
    """
    out = Path(out)
    if out.exists():
        raise FileExistsError(f"{out} exists already; delete it first, or choose another name.")
    if out.suffix != ".safetensors":
        raise ValueError(f"The output must be named *.safetensors. Got {out.name} instead.")
    reader = _reader(Path(checkpoint))
    shapes = {name: tuple(shape) for name, shape in reader.get_variable_to_shape_map().items()}
    _check(shapes, checkpoint)
    weights: dict[str, Tensor] = {}
    for number, convolution, normalisation, _ in _convolutions(1):
        kernel = _tensor(reader, f"base_model/conv2d{number}/kernel")  # [height, width, in, out]
        weights[f"{convolution}.weight"] = kernel.permute(3, 2, 0, 1).contiguous()
        for ours, theirs in _STATISTICS.items():
            weights[f"{normalisation}.{ours}"] = _tensor(reader, f"base_model/batch_normalization{number}/{theirs}")
    header: dict[str, object] = {"architecture": ARCHITECTURE, "trained": "simclr"}
    if f"{_HEAD}/kernel" in shapes:
        weights["head.weight"] = _tensor(reader, f"{_HEAD}/kernel").T.contiguous()
        weights["head.bias"] = _tensor(reader, f"{_HEAD}/bias")
        if len(weights["head.bias"]) == len(imagenet_classes()):
            header["classes"] = imagenet_classes()
    broken = [name for name, tensor in weights.items() if not torch.isfinite(tensor).all()]
    if broken:
        raise ValueError(f"The weights {broken[0]!r} in {checkpoint} are not finite; the checkpoint is damaged.")
    return write_safetensors(out, weights, "encoder", header)


def _reader(checkpoint: Path) -> Any:
    """Return TensorFlow's reader of a checkpoint; a folder may hold one checkpoint, or say which is the latest."""
    try:
        import tensorflow as tf
    except ImportError as error:
        raise ImportError(
            "TensorFlow's checkpoints are read by TensorFlow; install it with: pip install tensorflow."
        ) from error
    files = sorted(checkpoint.glob("*.index")) if checkpoint.is_dir() else [checkpoint]
    place = files[0].with_name(files[0].name.removesuffix(".index")) if len(files) == 1 else checkpoint
    try:
        return tf.train.load_checkpoint(str(place))
    except Exception as error:  # TensorFlow's errors have no base class of their own
        reason = str(error).strip().split("\n")[0]
        raise ValueError(f"{checkpoint} cannot be read as a TensorFlow checkpoint ({reason}).") from error


def _convolutions(width: int) -> Iterator[tuple[str, str, str, tuple[int, ...]]]:
    """Yield TensorFlow's number of each convolution, its name and its batch normalisation's in torchvision, and its shape.

    In the order in which SimCLR's code makes them: the shortcut of a block comes before its convolutions. Shapes are
    ``[height, width, in, out]``; ``width`` is that of the stem.
    """
    layers: list[tuple[str, str, tuple[int, ...]]] = [("conv1", "bn1", (7, 7, 3, width))]
    channels = width
    for stage, blocks in enumerate(_BLOCKS):
        inner = width * 2**stage
        for block in range(blocks):
            place = f"layer{stage + 1}.{block}"
            if block == 0:
                layers.append((f"{place}.downsample.0", f"{place}.downsample.1", (1, 1, channels, 4 * inner)))
            for number, shape in enumerate(
                ((1, 1, channels, inner), (3, 3, inner, inner), (1, 1, inner, 4 * inner)), start=1
            ):
                layers.append((f"{place}.conv{number}", f"{place}.bn{number}", shape))
            channels = 4 * inner
    for index, layer in enumerate(layers):
        yield (f"_{index}" if index else "", *layer)  # TensorFlow counts conv2d, conv2d_1, conv2d_2, …


def _check(shapes: dict[str, tuple[int, ...]], checkpoint: str | Path) -> None:
    """Raise unless the variables are those of SimCLR's ResNet-50, of any width, by the shapes of all convolutions."""
    found = {
        name: shape for name, shape in shapes.items() if name.startswith("base_model/conv2d") and name.endswith("/kernel")
    }
    width = found.get("base_model/conv2d/kernel", (64,))[-1]
    expected = {f"base_model/conv2d{number}/kernel": shape for number, _, _, shape in _convolutions(width)}
    if found == expected:
        return
    different = next(name for name in (*expected, *found) if found.get(name) != expected.get(name))
    raise ValueError(
        f"{checkpoint} does not fit. Expected SimCLR's ResNet-50 ({len(expected)} convolutions, no selective kernels); found "
        f"{len(found)} convolutions, and {different} has shape {found.get(different)} where {expected.get(different)} is "
        "expected."
    )


def _tensor(reader: Any, name: str) -> Tensor:
    return torch.from_numpy(np.array(reader.get_tensor(name), dtype=np.float32))
