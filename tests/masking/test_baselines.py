"""Baselines against slow re-implementations of their definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

import cocoax
from cocoax.inputs.image import _to_tensor
from cocoax.masking import Baseline, Blur, Constant, Fixed, Mean, Noise
from tests.conftest import images


def gaussian(kernel_size: int, sigma: float) -> Any:
    """A normalised two-dimensional Gaussian kernel, entry by entry."""
    centre = kernel_size // 2
    kernel = np.zeros((kernel_size, kernel_size))
    for row in range(kernel_size):
        for column in range(kernel_size):
            kernel[row, column] = np.exp(-((row - centre) ** 2 + (column - centre) ** 2) / (2 * sigma**2))
    return kernel / kernel.sum()


def slow_blur(image: Tensor, kernel_size: int, sigma: float) -> Tensor:
    """Every pixel: the kernel laid over the image, which NumPy has reflected at its borders."""
    kernel = gaussian(kernel_size, sigma)
    radius = kernel_size // 2
    channels, height, width = image.shape
    blurred = np.zeros((channels, height, width))
    for channel in range(channels):
        padded = np.pad(image[channel].double().numpy(), radius, mode="reflect")
        for row in range(height):
            for column in range(width):
                around = padded[row : row + kernel_size, column : column + kernel_size]
                blurred[channel, row, column] = (around * kernel).sum()
    return torch.from_numpy(blurred).float()


def torch_blur(image: Tensor, kernel_size: int, sigma: float) -> Tensor:
    """Reflect padding and a convolution, which works for images larger than half the kernel."""
    kernel = torch.from_numpy(gaussian(kernel_size, sigma)).float()
    padded = F.pad(image[:, None], [kernel_size // 2] * 4, mode="reflect")
    return F.conv2d(padded, kernel[None, None])[:, 0]


# --- Blur -------------------------------------------------------------------------------------------------------------


def test_blur__defaults_are_those_of_the_paper() -> None:
    assert Blur() == Blur(kernel_size=21, sigma=5.0)


@pytest.mark.parametrize(("height", "width"), [(32, 32), (22, 47), (64, 23), (11, 11)])
def test_blur__equals_padding_and_convolution(height: int, width: int) -> None:
    image = images(1, height, width)[0]

    torch.testing.assert_close(Blur()(image), torch_blur(image, 21, 5.0), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("kernel_size", "sigma"), [(3, 0.8), (5, 10.0), (1, 1.0)])
def test_blur__other_kernels(kernel_size: int, sigma: float) -> None:
    image = images(1, 12, 17)[0]

    torch.testing.assert_close(Blur(kernel_size, sigma)(image), torch_blur(image, kernel_size, sigma), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("height", "width"), [(8, 8), (5, 30), (1, 12), (2, 3), (10, 10)])
def test_blur__image_smaller_than_the_kernel(height: int, width: int) -> None:
    image = images(1, height, width)[0]

    torch.testing.assert_close(Blur()(image), slow_blur(image, 21, 5.0), atol=1e-5, rtol=0)


@pytest.mark.parametrize("channels", [1, 4])
def test_blur__channels_do_not_mix(channels: int) -> None:
    image = images(1, 13, 16, channels)[0]

    blurred = Blur()(image)

    assert blurred.shape == image.shape
    for channel in range(channels):
        torch.testing.assert_close(blurred[channel], Blur()(image[channel : channel + 1])[0], atol=1e-6, rtol=0)


def test_blur__leaves_the_image_alone() -> None:
    image = images(1)[0]
    before = image.clone()

    Blur()(image)

    assert torch.equal(image, before)


@pytest.mark.parametrize("kernel_size", [20, 0, -3])
def test_blur__kernel_size_must_be_odd_and_positive(kernel_size: int) -> None:
    with pytest.raises(ValueError, match=f"'kernel_size' parameter must be odd and positive. Got {kernel_size} instead"):
        Blur(kernel_size)


@pytest.mark.parametrize("sigma", [0.0, -1.0, float("nan")])
def test_blur__sigma_must_be_positive(sigma: float) -> None:
    with pytest.raises(ValueError, match="'sigma' parameter must be above 0"):
        Blur(21, sigma)


# --- Constant and Mean ------------------------------------------------------------------------------------------------


def test_constant__one_value() -> None:
    image = images(1, 5, 7)[0]

    assert torch.equal(Constant(0.25)(image), torch.full((3, 5, 7), 0.25))
    assert torch.equal(Constant()(image), torch.zeros(3, 5, 7))
    assert torch.equal(Constant(2)(image), torch.full((3, 5, 7), 2.0))


def test_constant__one_value_per_channel() -> None:
    image = images(1, 5, 7, channels=4)[0]
    values = (0.5, -1.0, 2.0, 0.0)

    baseline = Constant(values)(image)

    assert baseline.shape == image.shape
    assert baseline.dtype == torch.float32
    for channel, value in enumerate(values):
        assert bool((baseline[channel] == value).all())


@pytest.mark.parametrize("values", [(), (0.1, 0.2), (0.1, 0.2, 0.3, 0.4)])
def test_constant__wrong_number_of_channels(values: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=f"one for each of the 3 channels. Got {len(values)} instead"):
        Constant(values)(images(1)[0])


def test_mean__mean_of_every_channel() -> None:
    image = images(1, 6, 9, channels=4)[0]

    baseline = Mean()(image)

    assert baseline.shape == image.shape
    for channel in range(4):
        mean = sum(float(value) for value in image[channel].flatten()) / (6 * 9)
        np.testing.assert_allclose(baseline[channel].numpy(), mean, atol=1e-6)


# --- Noise ------------------------------------------------------------------------------------------------------------


def test_noise__same_seed_same_noise() -> None:
    image = images(1)[0]

    assert torch.equal(Noise(seed=3)(image), Noise(seed=3)(image))
    assert not torch.equal(Noise(seed=3)(image), Noise(seed=4)(image))


def test_noise__global_random_numbers_do_not_matter() -> None:
    image = images(1)[0]
    before = Noise(seed=3)(image)
    state = np.random.get_state()
    np.random.random(7)

    with torch.random.fork_rng():
        torch.rand(5)
        after = Noise(seed=3)(image)

    np.random.set_state(state)
    assert torch.equal(before, after)


@pytest.mark.parametrize("std", [None, 0.2])
def test_noise__mean_and_standard_deviation_of_every_channel(std: float | None) -> None:
    side = 64
    image = images(1, side, side)[0] * torch.tensor([1.0, 3.0, 0.1]).view(3, 1, 1) + torch.tensor([0.0, 5.0, -2.0]).view(
        3, 1, 1
    )

    noise = Noise(std, seed=1)(image)

    for channel in range(3):
        wanted = float(image[channel].std()) if std is None else std
        # Of n Gaussian draws, the mean has standard error σ/√n, and the standard deviation σ/√(2n).
        z_mean = float(noise[channel].mean() - image[channel].mean()) / (wanted / side)
        z_std = float(noise[channel].std() - wanted) / (wanted / side / 2**0.5)
        assert abs(z_mean) < 4
        assert abs(z_std) < 4


# --- Fixed, and pictures as baselines ---------------------------------------------------------------------------------


def test_fixed__the_image_itself() -> None:
    given, image = images(2)

    assert torch.equal(Fixed(given)(image), given)


def test_fixed__wrong_shape() -> None:
    with pytest.raises(ValueError, match=r"baseline has shape \[3, 8, 8\] but the input has \[3, 16, 16\]"):
        Fixed(images(1, 8, 8)[0])(images(1)[0])


@pytest.fixture
def picture() -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.mark.parametrize("kind", ["picture", "array", "path"])
def test_picture_as_baseline__is_preprocessed_like_the_explicand(
    net: torch.nn.Module, picture: Image.Image, kind: str, tmp_path: Path
) -> None:
    preprocess = cocoax.ImagePreprocess(resize=18, crop=16, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
    encoder = cocoax.Encoder(net, preprocess).cropped()
    picture.save(tmp_path / "baseline.png")
    given = {"picture": picture, "array": np.asarray(picture), "path": tmp_path / "baseline.png"}[kind]

    run = cocoax.Occlusion(baseline=given).run(encoder, images(1)[0])

    assert torch.equal(run.baseline, preprocess(picture))


def test_tensor_as_baseline__is_taken_as_it_is(encoder: cocoax.Encoder) -> None:
    given, explicand = images(2)

    run = cocoax.Occlusion(baseline=given).run(encoder, explicand)

    assert torch.equal(run.baseline, given)


def test_picture_as_baseline__of_another_size(encoder: cocoax.Encoder, picture: Image.Image) -> None:
    run = cocoax.Occlusion(baseline=picture).run(encoder, images(1)[0])

    expected = torch.nn.functional.interpolate(_to_tensor(picture)[None], (16, 16), mode="bilinear")[0]
    torch.testing.assert_close(run.baseline, expected)  # it is stretched over the explicand


def test_baseline_of_your_own__takes_part(encoder: cocoax.Encoder) -> None:
    class Negative(Baseline):
        def __call__(self, explicand: Tensor) -> Tensor:
            return -explicand

    explicand = images(1)[0]

    run = cocoax.Occlusion(baseline=Negative()).run(encoder, explicand)

    assert torch.equal(run.baseline, -explicand)


# --- background ---------------------------------------------------------------------------------------------------------

ROWS = torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [5.0, 5.0, 5.0]])
ROW = torch.zeros(1, 3)


def test_background__mean_row() -> None:
    assert cocoax.Background(ROWS)(ROW).tolist() == [[3.0, 3.0, 3.0]]


def test_background__draws_are_distinct_rows_and_repeatable() -> None:
    drawn = cocoax.Background(ROWS, draws=2, seed=1)(ROW)
    assert drawn.shape == (2, 1, 3)
    assert all(any(torch.equal(row[0], one) for one in ROWS) for row in drawn)
    assert not torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn, cocoax.Background(ROWS, draws=2, seed=1)(ROW))
    assert torch.equal(cocoax.Background(ROWS, draws=9)(ROW)[:, 0], ROWS)


def test_background__bad_values() -> None:
    with pytest.raises(ValueError, match=r"background must be n >= 1 samples: \[n, m\] of a table.* Got \[0, 3\]"):
        cocoax.Background(ROWS[:0])
    with pytest.raises(ValueError, match=r"not finite"):
        cocoax.Background(ROWS / 0)
    with pytest.raises(ValueError, match=r"'draws' parameter must be at least 1"):
        cocoax.Background(ROWS, draws=0)
    with pytest.raises(ValueError, match=r"The background holds samples of shape \[3\] but the input has shape \[1, 2\]"):
        cocoax.Background(ROWS)(torch.zeros(1, 2))


def test_background__pictures_slow_version(encoder: cocoax.Encoder) -> None:
    samples, explicand, target = images(3, seed=5), images(1)[0], cocoax.representation_similarity("dot")
    result = cocoax.Occlusion(window=8, stride=8, baseline=cocoax.Background(samples, draws=9)).explain(
        encoder, explicand, target
    )
    own = encoder.represent(explicand[None])[0]
    for top, left in [(0, 0), (8, 8)]:
        drops = []
        for sample in samples:
            without = explicand.clone()
            without[:, top : top + 8, left : left + 8] = sample[:, top : top + 8, left : left + 8]
            drops.append(own @ own - encoder.represent(without[None])[0] @ own)
        assert float(result.values[top, left]) == pytest.approx(float(sum(drops)) / 3, abs=1e-4)


# --- several ------------------------------------------------------------------------------------------------------------


def test_several__is_the_mean_of_runs_with_each(encoder: cocoax.Encoder) -> None:
    baselines = (Blur(5, 2.0), Mean(), cocoax.Background(images(2, seed=5), draws=2))
    explicand, target = images(1)[0], cocoax.representation_similarity()
    together = cocoax.Rise(samples=40, grid=3, baseline=cocoax.Several(baselines)).run(encoder, explicand)
    assert together.baseline.shape == (4, 3, 16, 16)
    assert len(together.anchors) == 5
    one_by_one = [*baselines[:2], *(Fixed(sample) for sample in images(2, seed=5))]
    maps = [cocoax.Rise(samples=40, grid=3, baseline=each).explain(encoder, explicand, target) for each in one_by_one]
    result = together.explain(target)
    torch.testing.assert_close(result.values, torch.stack([each.values for each in maps]).mean(0), atol=1e-5, rtol=1e-4)
    assert result.baseline_score == pytest.approx(sum(each.baseline_score for each in maps) / 4, abs=1e-6)


def test_several__saved_runs_know_it(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    several = cocoax.Several((Blur(5, 2.0), Mean()))
    run = cocoax.Rise(samples=20, grid=3, baseline=several).run(encoder, images(1)[0])
    assert cocoax.Run.load(run.save(tmp_path / "run.safetensors")).method == run.method


@pytest.mark.parametrize("given", [(), ["blur"], (Blur(), None), "blur", 3])
def test_several__bad_values(given: Any) -> None:
    with pytest.raises(TypeError, match=r"The 'baselines' parameter must (list baselines, such as|be a list)"):
        cocoax.Several(given)


def test_several__is_for_pictures() -> None:
    with torch.random.fork_rng():
        table = cocoax.TabularEncoder(torch.nn.Linear(3, 2), columns=list("abc"), background=ROWS.numpy(), name="table")
    with pytest.raises(ValueError, match=r"Several is for images\. Columns take"):
        cocoax.Rise(samples=20, baseline=cocoax.Several((Mean(),))).run(table, ROWS[0].numpy())
