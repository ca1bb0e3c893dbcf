"""``cocoax convert-simclr``: a published checkpoint becomes a file that can be loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cocoax.cli.terminal import print_plain

EXAMPLES = (
    "cocoax convert-simclr r50_1x_sk0/ simclr.safetensors",
    "cocoax convert-simclr checkpoints/model.ckpt-250228 simclr.safetensors",
)


def convert_checkpoint(
    checkpoint: Annotated[Path, typer.Argument(help="Folder of the TensorFlow checkpoint, or the prefix of its files.")],
    out: Annotated[Path, typer.Argument(help="File to write, *.safetensors.")],
) -> None:
    """Convert a published SimCLR checkpoint (ResNet-50, TensorFlow) with its classifier; needs TensorFlow."""
    from cocoax.paper.networks.simclr_converter import convert_simclr

    path = convert_simclr(checkpoint, out)
    print_plain(f"wrote {path}; load it with cocoax.load('simclr:{path}')")
