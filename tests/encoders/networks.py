"""Small networks with normalisation, of which faster copies are made."""

from __future__ import annotations

from torch import nn


def norm(channels: int) -> nn.BatchNorm2d:
    """A normalisation that does something."""
    found = nn.BatchNorm2d(channels)
    for tensor in (found.weight.data, found.bias.data, found.running_mean, found.running_var):
        assert tensor is not None
        tensor.uniform_(0.5, 2.0)
    return found


def plain() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), norm(4), nn.ReLU(inplace=True), nn.Conv2d(4, 5, 3, bias=False), norm(5))


class Merging(nn.Conv2d):
    """A convolution that changes its weights, for good, when it is told to be in eval mode."""

    def train(self, mode: bool = True) -> Merging:
        self.weight.data += 1
        return super().train(mode)


def merging() -> nn.Module:
    return nn.Sequential(Merging(3, 4, 3), norm(4))
