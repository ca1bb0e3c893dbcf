"""Recipes are the published ones; augmentations do what they announce; the learning rate follows its schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats
from torch import Tensor

from cocoax.paper.training.recipes import RECIPES, Augmentation, Recipe, scheduler_of
from tests.paper.training.tiny import RECIPE

PLAIN = Augmentation(8, None, flip=0, jitter_probability=0, grey=0)


MANY = torch.Size([4000, 3, 32, 32])


def pictures(number: int, height: int = 8, width: int = 8, seed: int = 0) -> Tensor:
    pixels = np.random.default_rng(seed).integers(0, 256, (number, 3, height, width), dtype=np.uint8)
    return torch.from_numpy(pixels)


def random(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@dataclass(frozen=True)
class Placed(Augmentation):
    """Crops that were chosen: (left, top, side, mirrored) for each image."""

    boxes: tuple[tuple[int, int, int, bool], ...] = ()

    def placement(self, shape: torch.Size, random: np.random.Generator) -> Tensor:
        height, width = shape[2:]
        maps = []
        for left, top, side, mirrored in self.boxes:
            wide, high = side / width, side / height
            x, y = (2 * left + side) / width - 1, (2 * top + side) / height - 1
            maps.append([[-wide if mirrored else wide, 0, x], [0, high, y]])
        return torch.tensor(maps)


class Highest:
    """Draws the highest number there is, every time."""

    def uniform(self, low: float, high: float, number: int) -> np.ndarray:
        return np.full(number, high)

    def random(self, number: int) -> np.ndarray:
        return np.full(number, 1 - 1e-9)


def test_augmentation__without_any_changes_nothing() -> None:
    images = pictures(3)
    torch.testing.assert_close(PLAIN(images, random()), images / 255, atol=1e-6, rtol=0)


def test_augmentation__normalises_each_channel() -> None:
    images = pictures(2)
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.25, 2.0)
    views = replace(PLAIN, mean=mean, std=std)(images, random()).numpy()
    for channel in range(3):
        expected = (images[:, channel].numpy() / 255 - mean[channel]) / std[channel]
        np.testing.assert_allclose(views[:, channel], expected, atol=1e-5)


def test_augmentation__crops_and_flips_like_pil_at_whole_pixels() -> None:
    boxes = ((0, 0, 4, False), (3, 2, 4, False), (6, 4, 4, True), (0, 1, 4, True))
    images = pictures(len(boxes), height=8, width=10)
    views = Placed(4, flip=0, jitter_probability=0, grey=0, boxes=boxes)(images, random()).numpy()
    for image, view, (left, top, side, mirrored) in zip(images, views, boxes, strict=True):
        picture = Image.fromarray(image.permute(1, 2, 0).numpy()).crop((left, top, left + side, top + side))
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if mirrored else picture
        np.testing.assert_allclose(view.transpose(1, 2, 0), np.asarray(picture) / 255, atol=1e-6)


def test_augmentation__enlarges_like_pil() -> None:
    images = pictures(2)
    views = replace(PLAIN, size=20)(images, random()).numpy()
    for image, view in zip(images.numpy(), views, strict=True):
        for channel, found in zip(image, view, strict=True):
            resized = Image.fromarray(channel.astype(np.float32) / 255).resize((20, 20), Image.Resampling.BILINEAR)
            np.testing.assert_allclose(found, np.asarray(resized), atol=1e-5)


def test_augmentation__turns_the_image() -> None:
    images = pictures(2)
    views = replace(PLAIN, rotation=90)(images, Highest())  # type: ignore[arg-type]
    torch.testing.assert_close(views, torch.rot90(images, dims=(2, 3)) / 255, atol=1e-5, rtol=0)


def test_augmentation__mirrors_top_and_bottom_as_often_as_announced() -> None:
    images = pictures(3)
    views = replace(PLAIN, vertical_flip=1.0)(images, random())
    torch.testing.assert_close(views, images.flip(2) / 255, atol=1e-6, rtol=0)
    maps = replace(PLAIN, vertical_flip=0.3).placement(MANY, random()).numpy()
    assert abs(float((maps[:, 1, 1] < 0).mean()) - 0.3) < 0.03  # four standard errors
    assert (maps[:, 0, 0] > 0).all()


def test_augmentation__turned_corners_show_the_image() -> None:
    white = torch.full((20, 3, 8, 8), 255, dtype=torch.uint8)
    torch.testing.assert_close(replace(PLAIN, rotation=45)(white, random()), torch.ones(20, 3, 8, 8), atol=1e-5, rtol=0)


def test_placement__takes_areas_and_ratios_as_announced() -> None:
    maps = Augmentation(24, (0.2, 0.5), flip=0.3).placement(MANY, random()).double().numpy()
    wide, high = np.abs(maps[:, 0, 0]), maps[:, 1, 1]
    assert stats.kstest(wide * high, stats.uniform(0.2, 0.3).cdf).pvalue > 0.01
    edge = math.log(4 / 3)
    assert stats.kstest(np.log(wide / high), stats.uniform(-edge, 2 * edge).cdf).pvalue > 0.01
    for place, side in ((maps[:, 0, 2], wide), (maps[:, 1, 2], high)):  # anywhere in the image, and nowhere outside
        assert stats.kstest(place / (1 - side), stats.uniform(-1, 2).cdf).pvalue > 0.01
    assert stats.binomtest(int((maps[:, 0, 0] < 0).sum()), len(maps), 0.3).pvalue > 0.01
    assert np.all(maps[:, [0, 1], [1, 0]] == 0)  # not turned


def test_placement__stays_within_the_image_and_the_ratios() -> None:
    maps = Augmentation(24, (0.2, 1.0)).placement(MANY, random()).double().numpy()
    wide, high = np.abs(maps[:, 0, 0]), maps[:, 1, 1]
    assert np.all(np.abs(maps[:, 0, 2]) + wide <= 1 + 1e-6)
    assert np.all(np.abs(maps[:, 1, 2]) + high <= 1 + 1e-6)
    assert 0.2 - 1e-6 <= (wide * high).min() < 0.21
    assert (wide * high).max() > 0.97
    assert np.all(np.abs(np.log(wide / high)) <= math.log(4 / 3) + 1e-6)


def slow_colours(image: np.ndarray, bright: float, contrast: float, saturation: float, hue: float) -> np.ndarray:
    """Pixel by pixel in luma and chroma, as analogue television had them."""
    to_yiq = np.array([[0.299, 0.587, 0.114], [0.5959, -0.2746, -0.3213], [0.2115, -0.5227, 0.3112]])
    changed = np.zeros(image.shape)
    for row in range(image.shape[1]):
        for column in range(image.shape[2]):
            y, i, q = to_yiq @ (image[:, row, column] / 255 * bright)
            chroma = complex(i, q) * saturation * np.exp(2j * np.pi * hue)
            changed[:, row, column] = np.linalg.solve(to_yiq, [y, chroma.real, chroma.imag])
    luma = np.mean([to_yiq[0] @ pixel for pixel in changed.reshape(3, -1).T])
    return np.clip(luma + contrast * (changed - luma), 0, 1)


def test_colour__equals_slow_version() -> None:
    images = pictures(30, 4, 4)
    augmentation = replace(PLAIN, size=4, jitter=(0.4, 0.3, 0.8, 0.1), jitter_probability=0.8, grey=0.2)
    views = augmentation(images, random(5)).numpy()
    again = random(5)
    augmentation.placement(images.shape, again)  # draws first
    on = again.random(30) < 0.8
    factors = [again.uniform(1 - most, 1 + most, 30) for most in (0.4, 0.3, 0.8)]
    hues, grey = again.uniform(-0.1, 0.1, 30), again.random(30) < 0.2
    assert 0 < grey.sum() < 30
    assert 0 < on.sum() < 30
    for number, (image, view) in enumerate(zip(images.numpy(), views, strict=True)):
        bright, contrast, saturation = (float(factor[number]) if on[number] else 1.0 for factor in factors)
        saturation = 0.0 if grey[number] else saturation
        expected = slow_colours(image, bright, contrast, saturation, hues[number] if on[number] else 0.0)
        np.testing.assert_allclose(view, expected, atol=1e-5)


def test_colour__strengths_and_rates_are_as_announced() -> None:
    matrices, contrasts = Augmentation(8, jitter=(0.4, 0.3, 0, 0), grey=0.2).colour(4000, random())
    on = contrasts != 1
    assert stats.binomtest(int(on.sum()), 4000, 0.8).pvalue > 0.01
    assert stats.kstest(contrasts[on].numpy(), stats.uniform(0.7, 0.6).cdf).pvalue > 0.01
    white = matrices.sum(2)  # what becomes of a white pixel
    torch.testing.assert_close(white, white[:, :1].expand(-1, 3), atol=1e-5, rtol=0)  # stays without colour
    assert stats.kstest(white[on, 0].numpy(), stats.uniform(0.6, 0.8).cdf).pvalue > 0.01
    torch.testing.assert_close(white[~on], torch.ones_like(white[~on]), atol=1e-5, rtol=0)
    grey = (matrices[:, 0] - matrices[:, 1]).abs().amax(1) < 1e-4  # red and green out alike, whatever comes in
    assert stats.binomtest(int(grey.sum()), 4000, 0.2).pvalue > 0.01


def test_augmentation__each_image_has_its_own_and_the_seed_decides() -> None:
    images = pictures(1).expand(6, -1, -1, -1)
    augmentation = Augmentation(8)
    views = augmentation(images, random(1))
    assert torch.equal(views, augmentation(images, random(1)))
    assert not torch.equal(views, augmentation(images, random(2)))
    assert len({tuple(view.flatten().tolist()) for view in views}) == 6


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
