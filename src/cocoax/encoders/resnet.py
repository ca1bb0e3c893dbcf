"""ResNets for small images (He et al. 2016, in the form used for CIFAR-10: a 3x3 stem, no first pooling)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, which is a 1x1 convolution where shapes change."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        """``[n, channels_in, H, W] -> [n, channels, H / stride, W / stride]``."""
        out = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class CifarResNet(nn.Module):
    """A ResNet for images of about 32x32 pixels; its output is the pooled last stage.

    ``stem`` is the kernel size and the stride of the first convolution.
    """

    def __init__(
        self,
        blocks: Sequence[int] = (2, 2, 2, 2),
        widths: Sequence[int] = (64, 128, 256, 512),
        stem: tuple[int, int] = (3, 1),
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], stem[0], stem[1], 1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        stages: list[nn.Module] = []
        channels = widths[0]
        for stage, (number, width) in enumerate(zip(blocks, widths, strict=True)):
            strides = [1 if stage == 0 else 2] + [1] * (number - 1)
            layers = []
            for stride in strides:
                layers.append(BasicBlock(channels, width, stride))
                channels = width
            stages.append(nn.Sequential(*layers))
        self.stages = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, x: Tensor) -> Tensor:
        """``[n, 3, H, W] -> [n, widths[-1]]``."""
        pooled: Tensor = self.pool(self.stages(torch.relu(self.bn1(self.conv1(x)))))
        return pooled.flatten(1)


def cifar_resnet18() -> CifarResNet:
    """ResNet-18 with 512 pooled features, as SimSiam and SimCLR use it on CIFAR-10."""
    return CifarResNet()


def small_resnet() -> CifarResNet:
    """Fourteen layers, 1.6 M parameters and 256 pooled features: small enough to train on a CPU in hours."""
    return CifarResNet((1, 2, 2, 1), (32, 64, 128, 256), (4, 2))


# Networks that training and loading know by name.
ARCHITECTURES: dict[str, Callable[[], nn.Module]] = {"cifar-resnet18": cifar_resnet18, "resnet14-small": small_resnet}
