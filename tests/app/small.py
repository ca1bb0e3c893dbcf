"""Small encoders of sounds and of rows of a table."""

from __future__ import annotations

import torch
from torch import Tensor

import cocoax
from cocoax.inputs import Sounds


class Loudness(torch.nn.Module):
    """How loud a sound is, and how loud its steps are, which high sounds have more of."""

    def forward(self, sounds: Tensor) -> Tensor:
        steps = sounds.diff(dim=-1).abs().mean(-1)
        return torch.cat([sounds.abs().mean(-1), 20 * steps], 1) + 0.01


def sounds() -> cocoax.Encoder:
    return cocoax.Encoder(Loudness(), inputs=Sounds(4000, segments=8), name="loudness")


def rows(background: bool = True) -> cocoax.Encoder:
    given = torch.eye(3).repeat(4, 1) + torch.arange(12)[:, None] / 50
    with torch.random.fork_rng():
        inner = torch.nn.Linear(3, 2)
    columns = ["height", "<b>width</b>", "age"]
    return cocoax.TabularEncoder(inner, columns=columns, background=given if background else None, name="rows")
