"""Conversion of SimCLR's published TensorFlow checkpoints (Chen et al. 2020: ResNet-50 1x, 2x and 4x); needs TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocoax.encoders.families.starter import imagenet_classes
from cocoax.paper.networks.resnet import Block, ResNet
from cocoax.store import write_safetensors

ARCHITECTURE = "simclr-resnet50"
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
    variables = {name: tuple(shape) for name, shape in reader.get_variable_to_shape_map().items()}
    kernels = [name for name in variables if name.startswith("base_model/conv2d") and name.endswith("/kernel")]
    width = variables.get("base_model/conv2d/kernel", (64,))[-1]
    with torch.device("meta"):
        network = ResNet((3, 4, 6, 3), [width * 2**stage for stage in range(4)], bottleneck=True)
    expected = network.state_dict()
    weights: dict[str, Tensor] = {}
    layers = list(_layers(network))
    for index, (convolution, normalisation) in enumerate(layers):
        number = f"_{index}" if index else ""  # TensorFlow counts conv2d, conv2d_1, conv2d_2, …
        name, wanted = f"base_model/conv2d{number}/kernel", expected[f"{convolution}.weight"].permute(2, 3, 1, 0).shape
        if variables.get(name) != wanted or len(kernels) != len(layers):
            raise ValueError(
                f"{checkpoint} does not fit. Expected SimCLR's ResNet-50 ({len(layers)} convolutions, no selective kernels); "
                f"found {len(kernels)} convolutions, and {name} has shape {variables.get(name)}, expected {tuple(wanted)}."
            )
        weights[f"{convolution}.weight"] = _tensor(reader, name).permute(3, 2, 0, 1).contiguous()
        for ours, theirs in _STATISTICS.items():
            weights[f"{normalisation}.{ours}"] = _tensor(reader, f"base_model/batch_normalization{number}/{theirs}")
    header: dict[str, object] = {"architecture": ARCHITECTURE, "trained": "simclr"}
    if f"{_HEAD}/kernel" in variables:
        weights["head.weight"] = _tensor(reader, f"{_HEAD}/kernel").T.contiguous()
        weights["head.bias"] = _tensor(reader, f"{_HEAD}/bias")
        if len(weights["head.bias"]) == len(imagenet_classes()):
            header["classes"] = imagenet_classes()
    broken = [name for name, tensor in weights.items() if not torch.isfinite(tensor).all()]
    if broken:
        raise ValueError(f"The weights {broken[0]!r} in {checkpoint} are not finite; the checkpoint is damaged.")
    return write_safetensors(out, weights, "encoder", header)


def _layers(network: ResNet) -> Iterator[tuple[str, str]]:
    """Yield the names of each convolution and its batch normalisation, in the order in which SimCLR's code makes them.

    The shortcut of a block comes before its convolutions.
    """
    yield "conv1", "bn1"
    for place, block in network.named_modules():
        if isinstance(block, Block):
            if len(list(block.shortcut.children())):
                yield f"{place}.shortcut.0", f"{place}.shortcut.1"
            for number in range(1, block.layers + 1):
                yield f"{place}.conv{number}", f"{place}.bn{number}"


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


def _tensor(reader: Any, name: str) -> Tensor:
    return torch.from_numpy(np.array(reader.get_tensor(name), dtype=np.float32))
