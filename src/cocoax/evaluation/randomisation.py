"""Parameter randomisation: an explanation that does not change when the model forgets everything explains nothing."""

from __future__ import annotations

import copy
import zlib

import torch
from torch import nn

from cocoax.encoders import Encoder
from cocoax.seeding import check_seed, stream


def randomised(encoder: Encoder, seed: int = 0, last: int | None = None) -> Encoder:
    """Return the encoder with its parameters redrawn; the original is left alone.

    Each parameter tensor is drawn anew from a normal distribution with the tensor's own mean and standard deviation,
    truncated to its own minimum and maximum. Buffers (batch-norm statistics) stay, as in the paper.

    Args:
        encoder: whose ``module`` is an ``nn.Module``.
        seed: of the draws.
        last: only the last so many layers with parameters, in the order of registration: the cascading randomisation of
            Adebayo et al. (2018). All of them if not given.

    """
    check_seed(seed)
    owner = encoder.owner
    if owner is None:
        raise TypeError(f"The encoder {encoder.name!r} is a callable whose parameters cannot be seen; wrap an nn.Module.")
    layers = parametrised_layers(owner)
    if last is not None and not 1 <= last <= len(layers):
        raise ValueError(
            f"The 'last' parameter must lie between 1 and the number of layers, {len(layers)}. Got {last} instead."
        )
    chosen = set(layers if last is None else layers[-last:])
    changed = copy.deepcopy(owner)
    for name, layer in changed.named_modules():
        if name not in chosen:
            continue
        for kind, parameter in layer.named_parameters(recurse=False):
            # A stream of its own for each tensor: the last layers get the same values, however many are redrawn.
            random = stream(seed, zlib.crc32(f"{name}.{kind}".encode()))
            # Torch's generator looks at 32 bits of its seed only.
            _redraw(parameter, torch.Generator().manual_seed(int(random.integers(2**32))))
    return encoder.with_module(changed, f"{encoder.name}, {'all' if last is None else f'last {last}'} layers randomised")


def parametrised_layers(module: nn.Module) -> list[str]:
    """Return the names of the submodules that own parameters, first to last."""
    return [name for name, layer in module.named_modules() if next(layer.parameters(recurse=False), None) is not None]


@torch.no_grad()
def _redraw(parameter: nn.Parameter, generator: torch.Generator) -> None:
    values = parameter.double()
    mean, std = float(values.mean()), float(values.std(correction=0))
    if std > 0:  # a constant has nothing to be drawn from
        drawn = torch.empty(parameter.shape, dtype=torch.float64)
        nn.init.trunc_normal_(drawn, mean, std, float(values.min()), float(values.max()), generator=generator)
        parameter.copy_(drawn)
