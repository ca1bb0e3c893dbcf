"""Small convolutional networks from a file: ``"smallnet:FILE"``."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

import cocoax
from cocoax.encoders import ENCODERS, Known
from cocoax.encoders.families.checkpoint import read_checkpoint


class SmallNet(nn.Module):
    """Pictures ``[n, 3, 32, 32]`` to representations ``[n, 16]``."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 5, stride=2)
        self.second = nn.Conv2d(8, 16, 5, stride=2)

    def forward(self, images: Tensor) -> Tensor:
        """Return the mean over positions."""
        return torch.relu(self.second(torch.relu(self.first(images)))).mean((2, 3))


def load_smallnet(file: str, *, layer: str | None = None, name: str | None = None) -> cocoax.Encoder:
    """Return the network whose weights are in this file, with its classifier as the head.

    Args:
        file: weights, as ``torch.save(model.state_dict(), file)`` or safetensors write them; those of the classifier are
            called ``head.weight`` and ``head.bias``.
        layer: take the representation from this submodule instead.
        name: shown in pictures; by default that of the file.

    """
    weights = read_checkpoint(file).tensors
    classifier = {key.removeprefix("head."): weights.pop(key) for key in list(weights) if key.startswith("head.")}
    with torch.random.fork_rng():  # modules draw their initial weights, which are replaced, from the global random state
        network = SmallNet()
        head = nn.Linear(16, len(classifier["bias"])) if classifier else None
    try:
        network.load_state_dict(weights)  # strict: nothing may be missing, or it would stay random
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise ValueError(f"{file} does not hold the weights of a SmallNet ({reason}).") from error
    if head is not None:
        head.load_state_dict(classifier)
    preprocess = cocoax.ImagePreprocess(resize=32, crop=32, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    return cocoax.Encoder(network.eval(), preprocess, layer, head=head, name=name or Path(file).stem)


ENCODERS["smallnet:"] = Known("small networks of mine, 16-d", "my_models:load_smallnet", takes="FILE")
