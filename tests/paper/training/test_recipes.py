"""Recipes are the published ones, and refuse what makes no sense; the schedule of the learning rate."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from cocoax.paper.training.recipes import RECIPES, Recipe, scheduler_of
from tests.paper.training.tiny import RECIPE


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("epochs", 0, "'epochs' parameter must be at least 1. Got 0"),
        ("batch_size", 1, "'batch_size' parameter must be at least 2. Got 1"),
        ("learning_rate", math.nan, "'learning_rate' parameter must be above 0. Got nan"),
        ("learning_rate", 0.0, "'learning_rate' parameter must be above 0. Got 0.0"),
        ("kind", "byol", "'kind' parameter must be one of simclr, simsiam, classifier. Got 'byol'"),
        ("optimizer", "adamw", "'optimizer' parameter must be one of sgd, lars, adam. Got 'adamw'"),
        ("schedule", "linear", "'schedule' parameter must be one of cosine, step. Got 'linear'"),
        ("seed", -1, "'seed' parameter must be an integer of at least 0. Got -1"),
    ],
)
def test_recipe__refuses_what_makes_no_sense(name: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(RECIPE, **{name: value})


def test_recipes__simsiam_is_the_published_one() -> None:
    recipe = RECIPES["simsiam"]
    assert (recipe.architecture, recipe.epochs, recipe.batch_size, recipe.weight_decay) == ("cifar-resnet18", 800, 512, 5e-4)
    assert recipe.learning_rate == pytest.approx(0.03 * 512 / 256)
    assert (recipe.optimizer, recipe.momentum, recipe.schedule, recipe.warmup) == ("sgd", 0.9, "cosine", 0)
    views = recipe.augmentation
    assert (views.size, views.scale, views.flip, views.grey) == (32, (0.2, 1.0), 0.5, 0.2)
    assert (views.jitter, views.jitter_probability) == ((0.4, 0.4, 0.4, 0.1), 0.8)


def test_recipes__simclr_is_the_published_one() -> None:
    recipe = RECIPES["simclr"]
    assert (recipe.architecture, recipe.epochs, recipe.batch_size, recipe.weight_decay) == ("cifar-resnet18", 1000, 512, 1e-6)
    assert recipe.learning_rate == pytest.approx(1.0 * 512 / 256)
    assert (recipe.optimizer, recipe.schedule, recipe.warmup, recipe.temperature) == ("lars", "cosine", 10, 0.5)
    strength = 0.5
    assert recipe.augmentation.jitter == pytest.approx((0.8 * strength, 0.8 * strength, 0.8 * strength, 0.2 * strength))
    assert recipe.augmentation.scale == (0.08, 1.0)


def test_recipes__classifier_is_the_papers_for_mura() -> None:
    recipe = RECIPES["classifier"]
    assert (recipe.architecture, recipe.side, recipe.batch_size, recipe.optimizer) == ("resnet18", 224, 256, "adam")
    assert (recipe.learning_rate, recipe.schedule, recipe.weight_decay) == (1e-3, "step", 1e-3)
    views = recipe.augmentation
    assert (views.size, views.scale, views.flip, views.vertical_flip, views.rotation) == (224, None, 0.5, 0.5, 30)
    assert (views.jitter_probability, views.grey) == (0, 0)
    assert (views.mean, views.std) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def rates_of(recipe: Recipe, steps: int, steps_per_epoch: int) -> list[float]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], recipe.learning_rate)
    scheduler, rates = scheduler_of(recipe, optimizer, steps_per_epoch), []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize("warmup", [0, 0.5, 2, 4, 9])
def test_scheduler__warm_up_and_cosine(warmup: float) -> None:
    rates = rates_of(replace(RECIPE, epochs=4, learning_rate=2.0, warmup=warmup), 24, 6)
    first = round(6 * warmup)
    rising = [2 * (step + 1) / first for step in range(min(first, 24))]
    falling = [1 + math.cos(math.pi * step / (24 - first)) for step in range(24 - first)]
    assert rates == pytest.approx([*rising, *falling])


def test_scheduler__tenths() -> None:
    rates = rates_of(replace(RECIPE, epochs=30, learning_rate=1e-3, schedule="step"), 210, 7)
    assert rates == pytest.approx([1e-3] * 70 + [1e-4] * 70 + [1e-5] * 70)
