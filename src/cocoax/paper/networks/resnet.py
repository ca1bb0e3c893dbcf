"""ResNets (He et al. 2016): for small images, with a small stem and no first pooling, and for ImageNet as in torchvision."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


class _PaddedShortcut(nn.Module):
    """A shortcut without weights ("option A"): every ``stride``-th pixel, with new channels of zeros, half on either side."""

    def __init__(self, new_channels: int, stride: int) -> None:
        super().__init__()
        self.before = new_channels // 2
        self.after = new_channels - self.before
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """``[n, channels, H, W] -> [n, channels + new_channels, H / stride, W / stride]``."""
        return functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.before, self.after))

    def extra_repr(self) -> str:
        """Return the padding and the stride."""
        return f"before={self.before}, after={self.after}, stride={self.stride}"


class Block(nn.Module):
    """Two 3x3 convolutions, or a ``bottleneck`` of 1x1, 3x3 and 1x1, and a shortcut.

    The stride sits in the (first) 3x3 convolution. A bottleneck has four times as many channels at its end. The shortcut is a
    1x1 convolution, or :class:`_PaddedShortcut`, where shapes change.
    """

    def __init__(
        self, channels_in: int, channels: int, stride: int, *, bottleneck: bool = False, padded: bool = False
    ) -> None:
        super().__init__()
        kernels = (1, 3, 1) if bottleneck else (3, 3)
        strides = (1, stride, 1) if bottleneck else (stride, 1)
        widths = (channels, channels, 4 * channels) if bottleneck else (channels, channels)
        self.layers = len(kernels)
        before = channels_in
        for number, (kernel, step, width) in enumerate(zip(kernels, strides, widths, strict=True), start=1):
            self.add_module(f"conv{number}", nn.Conv2d(before, width, kernel, step, kernel // 2, bias=False))
            self.add_module(f"bn{number}", nn.BatchNorm2d(width))
            before = width
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != before:
            if padded:
                self.shortcut = _PaddedShortcut(before - channels_in, stride)
            else:
                projection = nn.Conv2d(channels_in, before, 1, stride, bias=False)
                self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(before))

    def forward(self, x: Tensor) -> Tensor:
        """``[n, channels_in, H, W] -> [n, channels (times four), H / stride, W / stride]``."""
        out = x
        for number in range(1, self.layers + 1):
            out = self.get_submodule(f"bn{number}")(self.get_submodule(f"conv{number}")(out))
            out = torch.relu(out) if number < self.layers else out
        return torch.relu(out + self.shortcut(x))


class ResNet(nn.Module):
    """A ResNet; its output is the pooled last stage.

    Args:
        blocks: of each stage.
        widths: channels of each stage.
        stem: kernel size and stride of the first convolution. Max pooling follows one of 7x7, as for ImageNet; smaller ones
            are for images of about 32x32 pixels.
        bottleneck: whether blocks are bottlenecks.
        padded: whether shortcuts have no weights.
        tensorflow_pooling: places the windows of the max pooling as TensorFlow's ``SAME`` does, which for even sides is one
            pixel further to the right and down.

    """

    def __init__(
        self,
        blocks: Sequence[int] = (2, 2, 2, 2),
        widths: Sequence[int] = (64, 128, 256, 512),
        stem: tuple[int, int] = (7, 2),
        *,
        bottleneck: bool = False,
        padded: bool = False,
        tensorflow_pooling: bool = False,
    ) -> None:
        super().__init__()
        kernel, stride = stem
        self.large = kernel == 7
        self.tensorflow_pooling = tensorflow_pooling
        self.conv1 = nn.Conv2d(3, widths[0], kernel, stride, 3 if self.large else 1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        stages: list[nn.Module] = []
        channels = widths[0]
        for stage, (number, width) in enumerate(zip(blocks, widths, strict=True)):
            layers = []
            for index in range(number):
                stride = 2 if stage and index == 0 else 1
                layers.append(Block(channels, width, stride, bottleneck=bottleneck, padded=padded))
                channels = 4 * width if bottleneck else width
            stages.append(nn.Sequential(*layers))
        self.stages = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, x: Tensor) -> Tensor:
        """``[n, 3, H, W] -> [n, channels]``."""
        out = torch.relu(self.bn1(self.conv1(x)))
        if self.large and self.tensorflow_pooling:
            # SAME: as much padding as needed, the odd pixel at the end; nothing is below 0 here, so zeros never win.
            right, down = (1 + side % 2 for side in (out.shape[3], out.shape[2]))
            left, up = right // 2, down // 2
            out = functional.max_pool2d(functional.pad(out, (left, right - left, up, down - up)), 3, 2)
        elif self.large:
            out = functional.max_pool2d(out, 3, 2, 1)
        pooled: Tensor = self.pool(self.stages(out))
        return pooled.flatten(1)


def cifar_resnet18() -> ResNet:
    """ResNet-18 with 512 pooled features, as SimSiam and SimCLR use it on CIFAR-10."""
    return ResNet(stem=(3, 1))


def _small_resnet() -> ResNet:
    """Fourteen layers, 1.6 M parameters and 256 pooled features: small enough to train on a CPU in hours."""
    return ResNet((1, 2, 2, 1), (32, 64, 128, 256), (4, 2))


# Networks that training knows by name.
ARCHITECTURES: dict[str, Callable[[], ResNet]] = {
    "cifar-resnet18": cifar_resnet18,
    "resnet14-small": _small_resnet,
    "resnet18": ResNet,
}
