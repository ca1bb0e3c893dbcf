"""Recipes: how an encoder is trained, as published and small, with the augmentation of batches and the learning rate.

Crop, resize and flip are one affine map of the image plane, so one resampling does all three; brightness, contrast,
saturation, hue and greyscale are affine maps of colour, so one 3x3 matrix and an offset per image do all five.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import lr_scheduler

from cocoax.paper.networks.families import CIFAR10_MEAN, CIFAR10_STD, IMAGENET_MEAN, IMAGENET_STD

_GREY = torch.tensor([0.299, 0.587, 0.114])
# Red, green, blue to luma and two chroma axes; hue is the angle in the chroma plane.
_YIQ = torch.tensor([[0.299, 0.587, 0.114], [0.5959, -0.2746, -0.3213], [0.2115, -0.5227, 0.3112]])


@dataclass(frozen=True)
class Augmentation:
    """Random views of images.

    Args:
        size: side of the square that comes out.
        scale: the part of the image's area that a random crop takes, with an aspect ratio from 3/4 to 4/3, its sides cut to
            the image's; ``None`` takes all of it.
        flip: probability of mirroring left and right.
        vertical_flip: probability of mirroring top and bottom.
        rotation: largest angle in degrees, either way.
        jitter: strengths of brightness, contrast, saturation and hue.
        jitter_probability: of jittering colours at all.
        grey: probability of taking the colours away.
        mean: subtracted from pixels in [0, 1], for each channel.
        std: divides them afterwards.

    """

    size: int
    scale: tuple[float, float] | None = (0.2, 1.0)
    flip: float = 0.5
    vertical_flip: float = 0.0
    rotation: float = 0.0
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1)
    jitter_probability: float = 0.8
    grey: float = 0.2
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def __call__(self, images: Tensor, random: np.random.Generator) -> Tensor:
        """Return a random view of each uint8 image: ``[n, 3, size, size]`` of ``[n, 3, H, W]``."""
        pixels = images.float() / 255
        placement = self.placement(pixels.shape, random).to(pixels)
        grid = functional.affine_grid(placement, [len(pixels), 3, self.size, self.size], align_corners=False)
        # Rotated corners show the mirrored image rather than black, which would be a shape of its own.
        views = functional.grid_sample(pixels, grid, mode="bilinear", padding_mode="reflection", align_corners=False)
        matrix, contrast = (drawn.to(pixels) for drawn in self.colour(len(views), random))
        views = torch.einsum("nij,njhw->nihw", matrix, views)
        means = torch.einsum("i,nihw->n", _GREY.to(pixels), views)[:, None, None, None] / self.size**2
        views = (contrast[:, None, None, None] * (views - means) + means).clamp(0, 1)
        return normalised(views, self.mean, self.std)

    def placement(self, shape: torch.Size, random: np.random.Generator) -> Tensor:
        """Draw affine maps ``[n, 2, 3]`` from the view's coordinates in [-1, 1] to the image's: crop, flip and rotation."""
        number, (height, width) = shape[0], shape[2:]
        if self.scale is None:
            high, wide = np.ones(number), np.ones(number)
        else:
            area = random.uniform(*self.scale, number) * height * width
            ratio = np.exp(random.uniform(-math.log(4 / 3), math.log(4 / 3), number))
            wide = np.minimum(np.sqrt(area * ratio) / width, 1)
            high = np.minimum(np.sqrt(area / ratio) / height, 1)
        x = random.uniform(-1, 1, number) * (1 - wide)
        y = random.uniform(-1, 1, number) * (1 - high)
        wide = np.where(random.random(number) < self.flip, -wide, wide)
        if self.vertical_flip:  # recipes without it keep their random numbers
            high = np.where(random.random(number) < self.vertical_flip, -high, high)
        angle = np.deg2rad(random.uniform(-1, 1, number) * self.rotation)
        cosine, sine = np.cos(angle), np.sin(angle)
        rows = [[wide * cosine, -wide * sine, x], [high * sine, high * cosine, y]]
        return torch.from_numpy(np.array(rows)).permute(2, 0, 1).float()

    def colour(self, number: int, random: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Draw colour matrices ``[n, 3, 3]`` (brightness, saturation, hue, grey) and contrast factors ``[n]``."""
        brightness, contrast, saturation, hue = self.jitter
        on = random.random(number) < self.jitter_probability
        factors = [
            np.where(on, random.uniform(1 - min(most, 1), 1 + most, number), 1) for most in (brightness, contrast, saturation)
        ]
        bright, contrasted, saturated = (torch.from_numpy(factor).float() for factor in factors)
        angle = torch.from_numpy(np.where(on, random.uniform(-hue, hue, number), 0) * 2 * math.pi).float()
        saturated = saturated * torch.from_numpy(random.random(number) >= self.grey)
        # Saturation and hue scale and turn the chroma plane; brightness scales everything.
        turn = torch.zeros(number, 3, 3)
        turn[:, 0, 0] = 1
        turn[:, 1, 1] = turn[:, 2, 2] = saturated * angle.cos()
        turn[:, 2, 1] = saturated * angle.sin()
        turn[:, 1, 2] = -turn[:, 2, 1]
        matrix = torch.linalg.inv(_YIQ) @ turn @ _YIQ
        return bright[:, None, None] * matrix, contrasted


def normalised(pixels: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Return pixels ``[n, 3, H, W]`` in [0, 1] minus the mean of each channel, divided by its standard deviation."""
    centre, scale = (torch.tensor(values)[:, None, None].to(pixels) for values in (mean, std))
    return (pixels - centre) / scale


@dataclass(frozen=True)
class Recipe:
    """A training recipe: everything that the result depends on, besides the data.

    Args:
        kind: ``"simclr"``, ``"simsiam"`` or ``"classifier"``.
        architecture: one of ``cocoax.paper.networks.resnet.ARCHITECTURES``.
        augmentation: how views are made; its ``size`` is the side of what the network sees while it trains.
        side: of the images in training and evaluation, before augmentation.
        epochs: passes over the data.
        batch_size: images in a step; self-supervised methods make two views of each.
        optimizer: ``"sgd"``, ``"lars"`` or ``"adam"``.
        learning_rate: the highest.
        momentum: of SGD and LARS.
        weight_decay: as the optimizer has it.
        warmup: epochs of linear increase.
        schedule: ``"cosine"`` to zero, or ``"step"``: a tenth every ten epochs.
        temperature: of SimCLR's loss.
        projection: width of what the loss sees; the method's own if not given.
        seed: of the initial weights, of the order and of the augmentations.

    """

    kind: Literal["simclr", "simsiam", "classifier"]
    architecture: str
    augmentation: Augmentation
    side: int
    epochs: int
    batch_size: int
    learning_rate: float
    optimizer: Literal["sgd", "lars", "adam"] = "sgd"
    momentum: float = 0.9
    weight_decay: float = 5e-4
    warmup: float = 0
    schedule: Literal["cosine", "step"] = "cosine"
    temperature: float = 0.5
    projection: int | None = None
    seed: int = 0

    def plain(self) -> dict[str, Any]:
        """Return the recipe as JSON has it: with lists instead of tuples."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain


_CIFAR_VIEWS = Augmentation(32, (0.2, 1.0), mean=CIFAR10_MEAN, std=CIFAR10_STD)

# The published hyperparameters, and what two cores manage in two hours.
RECIPES: dict[str, Recipe] = {
    # Chen & He 2021, CIFAR-10: base rate .03 for 256 images, no blur.
    "simsiam": Recipe("simsiam", "cifar-resnet18", _CIFAR_VIEWS, 32, 800, 512, 0.06),
    # Chen et al. 2020, CIFAR-10 (appendix B.9): LARS, base rate 1 for 256 images, half-strength colour distortion, no blur.
    "simclr": Recipe(
        "simclr",
        "cifar-resnet18",
        replace(_CIFAR_VIEWS, scale=(0.08, 1.0)),
        32,
        1000,
        512,
        2.0,
        "lars",
        weight_decay=1e-6,
        warmup=10,
        temperature=0.5,
    ),
    "simclr-small": Recipe(
        "simclr", "resnet14-small", replace(_CIFAR_VIEWS, size=24), 32, 50, 128, 0.15, weight_decay=1e-4, temperature=0.2
    ),
    "simsiam-small": Recipe("simsiam", "resnet14-small", replace(_CIFAR_VIEWS, size=24), 32, 50, 128, 0.03, projection=512),
    # The paper's MURA classifier, on all training images: the fifth that the paper tuned the rate on is not left out.
    "classifier": Recipe(
        "classifier",
        "resnet18",
        Augmentation(
            224,
            None,
            vertical_flip=0.5,
            rotation=30.0,
            jitter=(0, 0, 0, 0),
            jitter_probability=0.0,
            grey=0.0,
            mean=IMAGENET_MEAN,
            std=IMAGENET_STD,
        ),
        224,
        30,
        256,
        1e-3,
        "adam",
        weight_decay=1e-3,
        schedule="step",
    ),
}


def recipe_of(kind: str, *, small: bool = False, **changes: Any) -> Recipe:
    """Return the published recipe of a kind of training, or the small one, with changes."""
    name = f"{kind}-small" if small else kind
    if name not in RECIPES:
        raise ValueError(f"There is no recipe {name!r}; there are {', '.join(RECIPES)}.")
    return replace(RECIPES[name], **changes)


def scheduler_of(recipe: Recipe, optimizer: torch.optim.Optimizer, steps_per_epoch: int) -> lr_scheduler.LRScheduler:
    """Return torch's schedule of the learning rate by steps: a linear warm-up, then a cosine to zero or tenths."""
    warmup = round(recipe.warmup * steps_per_epoch)
    if recipe.schedule == "step":
        main: lr_scheduler.LRScheduler = lr_scheduler.StepLR(optimizer, 10 * steps_per_epoch)
    else:
        main = lr_scheduler.CosineAnnealingLR(optimizer, max(1, recipe.epochs * steps_per_epoch - warmup))
    if warmup < 2:
        return main
    rising = lr_scheduler.LinearLR(optimizer, 1 / warmup, total_iters=warmup - 1)
    return lr_scheduler.SequentialLR(optimizer, [rising, main], [warmup])
