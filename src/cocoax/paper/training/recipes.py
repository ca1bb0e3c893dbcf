"""Recipes: how an encoder is trained, as published and small, and the schedule of the learning rate."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from torch import Tensor

from cocoax.paper.networks.families import CIFAR10_MEAN, CIFAR10_STD, IMAGENET_MEAN, IMAGENET_STD
from cocoax.paper.training.augment import Augmentation, normalised
from cocoax.seeding import check_seed


@dataclass(frozen=True)
class Recipe:
    """How to train: everything that the result depends on, besides the data.

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

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch_size", 2), ("side", 4)):
            if getattr(self, name) < least:
                raise ValueError(f"The '{name}' parameter must be at least {least}. Got {getattr(self, name)} instead.")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ValueError(f"The 'learning_rate' parameter must be above 0. Got {self.learning_rate} instead.")
        for name, known in (
            ("kind", ("simclr", "simsiam", "classifier")),
            ("optimizer", ("sgd", "lars", "adam")),
            ("schedule", ("cosine", "step")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"The '{name}' parameter must be one of {', '.join(known)}. Got {getattr(self, name)!r} instead."
                )
        check_seed(self.seed)

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


def learning_rate(recipe: Recipe, step: int, steps_per_epoch: int) -> float:
    """Return the learning rate of a step."""
    epoch = step / steps_per_epoch
    if epoch < recipe.warmup:
        return recipe.learning_rate * min((step + 1) / (recipe.warmup * steps_per_epoch), 1)
    if recipe.schedule == "step":
        return float(recipe.learning_rate * 0.1 ** (epoch // 10))
    done = (epoch - recipe.warmup) / (recipe.epochs - recipe.warmup)
    return recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


def plain_view(recipe: Recipe) -> Callable[[Tensor], Tensor]:
    """Return a function from uint8 images to what the network takes when it is not trained: whole images, normalised."""
    return lambda images: normalised(images.float() / 255, recipe.augmentation.mean, recipe.augmentation.std)
