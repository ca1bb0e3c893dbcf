"""Regions: where a map is strongest, in words and numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import cocoax
from cocoax.inputs import Picture
from cocoax.questions.answers import Region, top_regions


def attribution(values: Tensor, error: float | None = 0.1, **options: object) -> cocoax.Attribution:
    errors = None if error is None else torch.full(values.shape, error)
    return cocoax.Attribution(values, 0.5, 0.0, standard_error=errors, **options)  # type: ignore[arg-type]


def spots(*places: tuple[int, int, float], side: int = 96, size: int = 20) -> Tensor:
    values = torch.zeros(side, side)
    for row, column, value in places:
        values[row : row + size, column : column + size] = value
    return values


@pytest.mark.parametrize(
    ("row", "column", "place"),
    [
        (5, 5, "top left"),
        (5, 38, "top centre"),
        (5, 70, "top right"),
        (38, 5, "left"),
        (38, 38, "centre"),
        (38, 70, "right"),
        (70, 5, "bottom left"),
        (70, 38, "bottom centre"),
        (70, 70, "bottom right"),
    ],
)
def test_top_regions__place_in_words(row: int, column: int, place: str) -> None:
    (region,) = top_regions(attribution(spots((row, column, 1.0))))
    assert region.place == place
    assert region.share == pytest.approx(20 * 20 / 96**2, rel=0.15)
    left, top, right, bottom = (side * 96 for side in region.box)
    assert (left, top, right, bottom) == pytest.approx((column, row, column + 20, row + 20), abs=2)


def test_top_regions__what_fills_one_direction_has_no_side_in_it() -> None:
    values = torch.zeros(96, 96)
    values[:30] = 1
    assert [region.place for region in top_regions(attribution(values))] == ["top part"]
    assert [region.place for region in top_regions(attribution(values.T.contiguous()))] == ["left part"]
    assert [region.place for region in top_regions(attribution(torch.ones(96, 96)))] == ["most of the picture"]


def test_top_regions__what_reaches_far_but_covers_little_is_not_most_of_the_picture() -> None:
    values = torch.zeros(96, 96)
    values[44:52] = values[:, 44:52] = 1
    (region,) = top_regions(attribution(values))
    assert region.share < 0.5
    assert region.place == "across the picture"


def test_top_regions__strongest_first_and_those_that_lower_apart() -> None:
    values = spots((5, 5, 0.7), (70, 70, 1.0), (5, 70, -0.8))
    raising = top_regions(attribution(values))
    assert [region.place for region in raising] == ["bottom right", "top left"]
    assert [region.value for region in raising] == pytest.approx([1.0, 0.7], abs=0.12)
    (lowering,) = top_regions(attribution(values), lowering=True)
    assert (lowering.place, lowering.value) == ("top right", pytest.approx(-0.8, abs=0.1))
    assert len(top_regions(attribution(values), count=1)) == 1


def test_top_regions__relative_to_neutral() -> None:
    values = spots((5, 5, 0.2)) + 0.8
    (region,) = top_regions(attribution(values, neutral=0.8))
    assert (region.place, region.value) == ("top left", pytest.approx(0.2, abs=0.03))


def test_top_regions__none_where_nothing_raises() -> None:
    assert top_regions(attribution(torch.zeros(10, 10))) == []
    assert top_regions(attribution(-spots((5, 5, 1.0)) - 0.01)) == []


def test_top_regions__of_the_part_that_was_seen_in_the_whole_picture() -> None:
    """The map covers the right half of the picture only."""
    (region,) = top_regions(attribution(spots((5, 5, 1.0)), display=Picture(box=(0.5, 0.0, 1.0, 1.0))))
    assert region.place == "top centre"
    assert region.share == pytest.approx(20 * 20 / 96**2 / 2, rel=0.15)
    assert region.box[0] == pytest.approx(0.5 + 5 / 96 / 2, abs=0.02)


def test_top_regions__speckles_have_regions() -> None:
    noise = torch.randn(96, 96, generator=torch.Generator().manual_seed(0))
    values = noise + 3 * spots((5, 5, 1.0))
    assert top_regions(attribution(values))[0].place == "top left"


def test_top_regions__no_two_segments_have_one_name() -> None:
    labels = torch.zeros(96, 96, dtype=torch.int64)
    labels[36:48, 36:60], labels[48:60, 36:60] = 1, 2
    values = torch.tensor([0.1, 0.5, 0.7])
    segmented = replace(attribution(values[labels]), features=values, feature_ids=labels)
    assert [region.place for region in top_regions(segmented)] == ["centre 2", "centre", "most of the picture"]
    assert len(set(segmented.region_names)) == 3


def test_region__within_noise_or_not() -> None:
    assert not top_regions(attribution(spots((5, 5, 1.0)), error=0.3))[0].within_noise
    doubtful = top_regions(attribution(spots((5, 5, 1.0)), error=0.6))[0]
    assert doubtful.within_noise
    assert "within noise" in str(doubtful)
    assert not Region("centre", 0.1, (0, 0, 1, 1), 0.2, None).within_noise
    assert str(Region("centre", 0.12, (0, 0, 1, 1), 0.2, 0.01)) == "centre, 12% of the picture: +0.2 ± 0.01"


def test_region__error_of_a_mean_is_at_most_what_is_told(encoder: cocoax.Encoder) -> None:
    """Over many seeds, the mean of a fixed region scatters by no more than the mean of the errors of its pixels."""
    image = torch.randn(3, 16, 16, generator=torch.Generator().manual_seed(1))
    target = cocoax.representation_similarity()
    found = [cocoax.Rise(samples=60, grid=4, seed=seed).explain(encoder, image, target) for seed in range(60)]
    means = torch.stack([one.relative[:8, :8].mean() for one in found])
    told = torch.stack([one.standard_error[:8, :8].mean() for one in found]).mean()
    assert float(means.std()) < 1.15 * float(told)


def test_top_regions__bad_input() -> None:
    with pytest.raises(ValueError, match="'count' parameter must be at least 1"):
        top_regions(attribution(torch.ones(4, 4)), count=0)
    with pytest.raises(ValueError, match=r"\[H, W\]. Got shape \[4\]"):
        top_regions(attribution(torch.ones(4)))
