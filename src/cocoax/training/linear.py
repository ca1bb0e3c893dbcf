"""Linear evaluation of a frozen encoder, kept with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from cocoax.data.labelled import LabelledImages
from cocoax.encoders import load
from cocoax.evaluation import LinearProbe, accuracy
from cocoax.references import write_safetensors


def train_linear(
    encoder: str, train: LabelledImages, held_out: LabelledImages, out: str | Path, solver: str = "sgd", **options: Any
) -> float:
    """Fit a classifier on the encoder's representations and write both to one file; gives the held-out accuracy.

    ``encoder`` names one that comes from a safetensors file of ``cocoax train``, as ``"simclr:FILE"``.
    """
    source = Path(encoder.partition(":")[2])
    if source.suffix != ".safetensors" or not source.is_file():
        raise ValueError(
            f"A classifier is kept with an encoder that cocoax trained, as simclr:FILE.safetensors. Got {encoder!r}."
        )
    if Path(out).suffix != ".safetensors":
        raise ValueError(f"The classifier and its encoder go to one file; call it something.safetensors. Got {out}.")
    found = load(encoder)
    representations = found.represent(train.images)
    head = LinearProbe(solver, **options).fit(representations, train.labels, len(train.classes))  # type: ignore[arg-type]
    right = accuracy(head, found.represent(held_out.images), held_out.labels)
    with safe_open(source, framework="pt") as file:
        header = json.loads((file.metadata() or {}).get("cocoax", "{}"))
        weights = {name: file.get_tensor(name) for name in file.keys() if not name.startswith("head.")}  # noqa: SIM118
    half = any(tensor.dtype == torch.float16 for tensor in weights.values())
    for name, tensor in head.state_dict().items():
        weights[f"head.{name}"] = tensor.half() if half else tensor
    header.pop("kind", None)
    write_safetensors(out, weights, "encoder", {**header, "classes": train.classes, "linear accuracy": right})
    return right
