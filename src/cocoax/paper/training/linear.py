"""Linear evaluation of a frozen encoder, kept with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cocoax.data.labelled import LabelledImages
from cocoax.encoders import load
from cocoax.encoders.families.checkpoint import read_checkpoint
from cocoax.evaluation import LinearProbe, accuracy
from cocoax.store import write_safetensors


def train_linear(
    encoder: str,
    train: LabelledImages,
    held_out: LabelledImages,
    out: str | Path,
    solver: str = "sgd",
    *,
    device: str | None = None,
    **options: Any,
) -> float:
    """Fit a classifier on the encoder's representations and write both to one file; return the held-out accuracy.

    ``encoder`` names one that comes from a checkpoint, as ``"simsiam:FILE"``; so does what is written. ``out`` must not exist
    yet. The encoder runs on ``device``, as for :func:`cocoax.load`; the classifier, which is small, is fitted on the CPU.
    """
    source = Path(encoder.partition(":")[2])
    if not source.is_file():
        raise ValueError(f"A classifier is kept with an encoder that comes from a file, as simsiam:FILE. Got {encoder!r}.")
    if Path(out).suffix != ".safetensors":
        raise ValueError(f"The classifier and its encoder go to one file; call it something.safetensors. Got {out}.")
    if Path(out).exists():
        raise FileExistsError(f"{out} exists already; delete it first, or choose another name.")
    probe = LinearProbe(solver, **options)  # type: ignore[arg-type]
    frozen = load(encoder, device=device)
    assert isinstance(frozen.module, nn.Module)
    head = probe.fit(frozen.represent(train.images), train.labels, len(train.classes))
    right = accuracy(head, frozen.represent(held_out.images), held_out.labels)
    weights = frozen.module.state_dict()
    kind = torch.float16 if _fits_half(weights) else torch.float32
    weights |= {f"head.{name}": tensor for name, tensor in head.state_dict().items()}
    weights = {
        name: tensor.to("cpu", kind if tensor.is_floating_point() else tensor.dtype) for name, tensor in weights.items()
    }
    # What the file says of itself stays, and nothing is added: how it is loaded depends on what it does not say, too.
    header = {name: value for name, value in read_checkpoint(source).metadata.items() if name != "kind"}
    write_safetensors(out, weights, "encoder", {**header, "classes": train.classes, "linear accuracy": right})
    return right


def _fits_half(weights: Mapping[str, Tensor]) -> bool:
    """Tell whether half precision loses nothing, because the weights come from a file in half precision."""
    return all(torch.equal(tensor, tensor.half().to(tensor)) for tensor in weights.values() if tensor.is_floating_point())
