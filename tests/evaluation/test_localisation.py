"""Localisation: each measure against its definition, written slowly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import cocoax
from cocoax.evaluation.localisation import best_iou, energy_inside, iou_at, mask_scores, pointing_game, seen_mask
from cocoax.inputs import Picture
from tests.data.tiny import random_mask


def random_map(seed: int, levels: int | None = None) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.normal(size=(12, 15)) if levels is None else random.integers(-levels, levels, (12, 15)).astype(float)


CASES = [(random_map(seed, levels), random_mask(seed, 12, 15)) for seed in range(4) for levels in (None, 3)]


@pytest.mark.parametrize(("values", "mask"), CASES)
@pytest.mark.parametrize("tolerance", [0.0, 1.5, 4.0])
def test_pointing_game__by_definition(values: np.ndarray, mask: np.ndarray, tolerance: float) -> None:
    inside = [(row, column) for row in range(12) for column in range(15) if mask[row, column]]
    hits = []
    for row in range(12):
        for column in range(15):
            if values[row, column] == values.max():
                nearest = min(((2 * (row - r)) ** 2 + (3 * (column - c)) ** 2) ** 0.5 for r, c in inside)
                hits.append(nearest <= tolerance)
    assert pointing_game(values, mask, tolerance, pixel=(2, 3)) == pytest.approx(sum(hits) / len(hits))


@pytest.mark.parametrize("measure", [pointing_game, energy_inside, iou_at, best_iou])
def test_measures__take_an_attribution_and_say_what_does_not_fit(measure: Any) -> None:
    values, mask = CASES[0]
    assert measure(cocoax.Attribution(torch.from_numpy(values), 1.0, 0.0), mask) == measure(values, mask)
    for wrong in (cocoax.Attribution(torch.ones(3), 1.0, 0.0), values[:, :3], values * np.nan, [None], "map"):
        with pytest.raises((TypeError, ValueError), match="map"):
            measure(wrong, mask)
    with pytest.raises(ValueError, match="mask must be boolean"):
        measure(values, mask.astype(float))


def test_pointing_game__constant_map_hits_by_chance() -> None:
    mask = random_mask(0, 12, 15)
    assert pointing_game(np.zeros((12, 15)), mask) == pytest.approx(mask.mean())


@pytest.mark.parametrize(("values", "mask"), CASES)
def test_energy_inside__by_definition(values: np.ndarray, mask: np.ndarray) -> None:
    inside = sum(max(value, 0.0) for value, on in zip(values.flat, mask.flat, strict=True) if on)
    assert energy_inside(values, mask) == pytest.approx(inside / sum(max(value, 0.0) for value in values.flat))


def test_energy_inside__no_heat_at_all() -> None:
    assert energy_inside(-np.ones((12, 15)), random_mask(0, 12, 15)) == 0


def iou(first: np.ndarray, second: np.ndarray) -> float:
    return float((first & second).sum() / (first | second).sum())


@pytest.mark.parametrize(("values", "mask"), CASES)
def test_iou__at_a_fraction_and_at_the_best_threshold(values: np.ndarray, mask: np.ndarray) -> None:
    for fraction in (0.2, 0.5, 1.0):
        assert iou_at(values, mask, fraction) == pytest.approx(iou(values >= fraction * values.max(), mask))
    assert best_iou(values, mask) == pytest.approx(max(iou(values >= threshold, mask) for threshold in np.unique(values)))


def test_iou__perfect_and_none() -> None:
    mask = random_mask(0, 12, 15)
    assert iou_at(mask.astype(float), mask) == best_iou(mask.astype(float), mask) == 1
    assert iou_at(-mask.astype(float), mask) == 0


def test_metrics__bad_input() -> None:
    values, mask = random_map(0), random_mask(0, 12, 15)
    with pytest.raises(ValueError, match="must have the same shape"):
        best_iou(values, mask.T)
    with pytest.raises(ValueError, match="at least one pixel set"):
        energy_inside(values, np.zeros((12, 15), bool))
    with pytest.raises(ValueError, match="'tolerance' parameter must be at least 0"):
        pointing_game(values, mask, -1)
    with pytest.raises(ValueError, match="'fraction' parameter must lie between 0 and 1"):
        iou_at(values, mask, 0)


def test_seen_mask__the_part_under_the_map() -> None:
    mask = random_mask(3, 40, 60)
    assert np.array_equal(seen_mask(mask, (0, 0, 1, 1), 40, 60), mask)
    assert np.array_equal(seen_mask(mask, (0.25, 0.5, 0.75, 1.0), 20, 30), mask[20:, 15:45])
    assert np.array_equal(seen_mask(mask, (0, 0, 1, 1), 80, 120), mask.repeat(2, 0).repeat(2, 1))


def test_seen_mask__padding_is_not_on_anything() -> None:
    seen = seen_mask(np.ones((10, 10), bool), (-0.5, 0.0, 1.5, 1.0), 10, 20)
    assert np.array_equal(seen.all(0), [False] * 5 + [True] * 10 + [False] * 5)


def test_mask_scores__relative_to_neutral_and_found() -> None:
    left, right = np.zeros((8, 8), bool), np.zeros((8, 8), bool)
    left[:, :4], right[:, 4:] = True, True
    values = torch.full((8, 8), 0.9)
    values[:, :2], values[:, 4:] = 1.5, 0.8
    attribution = cocoax.Attribution(values, 1.0, 0.0, neutral=0.9)
    scores = mask_scores(attribution, {"cat": left, "dog": right}, "cat", picture="p", target="corpus")
    assert scores is not None
    assert (scores.found, scores.pointing, scores.energy, scores.iou, scores.area) == (True, 1.0, 1.0, 0.5, 0.5)
    assert scores.best_iou == pytest.approx(1.0)  # everything above 0.8 is the left half
    other = mask_scores(attribution, {"cat": left, "dog": right}, "dog")
    assert other is not None
    assert (other.found, other.pointing, other.energy) == (False, 0.0, 0.0)
    alone = mask_scores(attribution, {"cat": left}, "cat")
    assert alone is not None
    assert alone.found is None


def test_mask_scores__tolerance_in_pixels_of_the_picture() -> None:
    """The strongest pixel of the map is 2 of its pixels, 8 of the picture's, away from the mask."""
    mask = np.zeros((32, 32), bool)
    mask[:, :4] = True
    values = torch.zeros(8, 8)
    values[0, 2] = 1
    attribution = cocoax.Attribution(values, 1.0, 0.0)
    for tolerance, hit in ((7.9, 0), (8.0, 1)):
        scores = mask_scores(attribution, {"cat": mask}, "cat", tolerance=tolerance)
        assert scores is not None
        assert scores.pointing == hit


def test_mask_scores__class_outside_of_what_was_seen() -> None:
    mask = np.zeros((32, 32), bool)
    mask[:, :4] = True
    attribution = cocoax.Attribution(torch.zeros(8, 8), 1.0, 0.0, display=Picture(box=(0.5, 0.0, 1.0, 1.0)))
    assert mask_scores(attribution, {"cat": mask}, "cat") is None
