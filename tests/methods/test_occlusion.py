"""Occlusion against Captum and against a slow version."""

from __future__ import annotations

from typing import Any

import captum.attr
import numpy as np
import pytest
import torch

import cocoax
from tests.conftest import SmallNet, images

Size = int | tuple[int, int]

# height, width, window, stride; the stride fits the image in the first ones only
GEOMETRIES: list[tuple[int, int, Size, Size]] = [
    (16, 16, 4, 4),
    (16, 16, 4, 2),
    (16, 16, 1, 1),
    (16, 16, 16, 16),
    (16, 16, 5, 3),
    (16, 16, 5, 5),
    (13, 22, (5, 3), (4, 2)),
    (9, 7, (9, 2), (1, 2)),
    (7, 31, 6, 4),
]


def pair(size: Size) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


def targets_of(encoder: cocoax.Encoder, height: int, width: int) -> list[cocoax.Target]:
    corpus = encoder.reference(images(3, height, width, seed=5))
    foil = encoder.reference(images(4, height, width, seed=6))
    return [cocoax.contrastive_corpus_similarity(corpus, foil), cocoax.similarity_to(corpus, "dot")]


@pytest.mark.parametrize(("height", "width", "window", "stride"), GEOMETRIES)
@pytest.mark.parametrize("baseline", [cocoax.Blur(), cocoax.Constant(0.3)])
def test_values__agree_with_captum(
    encoder: cocoax.Encoder, height: int, width: int, window: Size, stride: Size, baseline: cocoax.Baseline
) -> None:
    explicand = images(1, height, width)[0]
    targets = targets_of(encoder, height, width)

    ours = cocoax.Occlusion(window, stride, baseline=baseline).explain(encoder, explicand, targets)

    for result, target in zip(ours, targets, strict=True):
        occlusion = captum.attr.Occlusion(target.as_module(encoder))
        with torch.no_grad():
            theirs = occlusion.attribute(
                explicand[None],
                sliding_window_shapes=(3, *pair(window)),
                strides=(3, *pair(stride)),
                baselines=baseline(explicand)[None],
            )
        torch.testing.assert_close(result.values, theirs[0, 0].float(), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("height", "width", "window", "stride"), GEOMETRIES)
def test_values__slow_version(
    net: SmallNet, encoder: cocoax.Encoder, height: int, width: int, window: Size, stride: Size
) -> None:
    explicand = images(1, height, width)[0]
    baseline = cocoax.Blur(121, 20.0)(explicand)
    target = targets_of(encoder, height, width)[0]

    def score(image: torch.Tensor) -> float:
        with torch.no_grad():
            return float(target.score(net(image[None])))

    (tall, wide), (down, right) = pair(window), pair(stride)
    total, covered, drops = np.zeros((height, width)), np.zeros((height, width)), []
    top = 0
    while True:
        left = 0
        while True:
            occluded = explicand.clone()
            occluded[:, top : top + tall, left : left + wide] = baseline[:, top : top + tall, left : left + wide]
            drop = score(explicand) - score(occluded)
            drops.append(drop)
            for y in range(top, min(top + tall, height)):
                for x in range(left, min(left + wide, width)):
                    total[y, x] += drop
                    covered[y, x] += 1
            if left + wide >= width:
                break
            left += right
        if top + tall >= height:
            break
        top += down

    result = cocoax.Occlusion(window, stride).explain(encoder, explicand, target)

    np.testing.assert_allclose(result.values.numpy(), total / covered, atol=1e-5)
    assert result.features is not None
    np.testing.assert_allclose(result.features.numpy(), drops, atol=1e-5)
    assert result.standard_error is None
    assert result.neutral == 0


@pytest.mark.parametrize(
    ("height", "width", "window", "stride"), [(21, 14, (3, 2), (2, 1)), (16, 16, 3, 2), (5, 30, (1, 5), (1, 3))]
)
def test_defaults__a_seventh_of_the_image_and_half_of_that(
    encoder: cocoax.Encoder, height: int, width: int, window: Size, stride: Size
) -> None:
    explicand = images(1, height, width)[0]
    target = cocoax.representation_similarity()

    result = cocoax.Occlusion().explain(encoder, explicand, target)

    assert torch.equal(result.values, cocoax.Occlusion(window, stride).explain(encoder, explicand, target).values)


def test_stride__default_is_half_the_window(encoder: cocoax.Encoder) -> None:
    run = cocoax.Occlusion(window=(5, 4)).run(encoder, images(1)[0])

    assert sorted(set(run.masks.corners[:, 0].tolist())) == [0, 3, 6, 9, 12]
    assert sorted(set(run.masks.corners[:, 1].tolist())) == [0, 2, 4, 6, 8, 10, 12]


def test_values__where_the_encoder_looks() -> None:
    def upper_left(batch: torch.Tensor) -> torch.Tensor:
        return batch[:, :, :4, :4].flatten(1)

    explicand = torch.ones(3, 8, 8)
    method = cocoax.Occlusion(window=4, stride=4, baseline=cocoax.Constant(0.0))

    result = method.explain(cocoax.Encoder(upper_left), explicand, cocoax.representation_similarity("dot"))

    expected = torch.zeros(8, 8)
    expected[:4, :4] = 48
    torch.testing.assert_close(result.values, expected)
    assert (result.score, result.baseline_score) == (48, 0)


def test_extend__all_windows_are_there(net: SmallNet, encoder: cocoax.Encoder) -> None:
    run = cocoax.Occlusion(window=4, stride=4).run(encoder, images(1)[0])
    inputs = net.inputs

    with pytest.raises(ValueError, match="Occlusion has 16 windows and all of them are there; it cannot be extended"):
        run.extend(encoder, 1)
    assert net.inputs == inputs
    assert len(run) == 16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0}, "'window' parameter must be at least 1"),
        ({"window": (3, -1)}, "'window' parameter must be at least 1"),
        ({"window": 3, "stride": 0}, "'stride' parameter must be at least 1"),
        ({"window": 3, "stride": (1, -2)}, "'stride' parameter must be at least 1"),
        ({"window": 17}, "A window of 17 x 17 is larger than the image of 16 x 16 pixels"),
        ({"window": (2, 20)}, "A window of 2 x 20 is larger than the image of 16 x 16 pixels"),
        ({"window": 3, "stride": 4}, r"A stride of \(4, 4\) leaves gaps between windows of \(3, 3\)"),
        ({"window": (3, 5), "stride": (1, 6)}, r"A stride of \(1, 6\) leaves gaps between windows of \(3, 5\)"),
        ({"window": 3.0}, "'window' parameter"),
        ({"window": (3,)}, "'window' parameter"),
        ({"window": (3, 3, 3)}, "'window' parameter"),
        ({"window": 3, "stride": 1.5}, "'stride' parameter"),
    ],
)
def test_options__wrong(net: SmallNet, encoder: cocoax.Encoder, options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        cocoax.Occlusion(**options).run(encoder, images(1)[0])
    assert net.inputs == 0  # told before anything is encoded


def test_occlusion__more_windows_than_anybody_waits_for() -> None:
    with pytest.raises(ValueError, match=r"are 9000000 encoder calls on an image of 3000 x 3000 pixels, more than 1000000"):
        cocoax.Occlusion(window=1, stride=1).draw((3000, 3000))
